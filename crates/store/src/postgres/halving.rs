//! One statement for many items: tried again where it lost against another, and halved where it was refused, until the
//! guilty item stands alone. One bad byte must not fail its neighbours.

use super::error::Failure;

/// How often a statement that lost against others is sent again at once.
const TRIES_MAX: u32 = 10;

/// Something that runs many items as one statement, in a transaction of its own.
pub(super) trait Batch {
    type Item: Sync;
    type Done: Send;

    /// One result for each item, in their order.
    fn run(&self, items: &[Self::Item]) -> impl Future<Output = Result<Vec<Self::Done>, Failure>> + Send;
}

/// Runs the items, each with a result of its own.
pub(super) async fn run_halved<B: Batch>(batch: &B, items: &[B::Item]) -> Vec<Result<B::Done, Failure>> {
    let mut results = Vec::with_capacity(items.len());
    // What is still to be run, the next part on top.
    let mut parts = vec![items];
    while let Some(part) = parts.pop().filter(|part| !part.is_empty()) {
        match run_tried(batch, part).await {
            Ok(done) => results.extend(done.into_iter().map(Ok)),
            Err(Failure::Refused(refusal)) if part.len() > 1 && !refusal.is_about_all() => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
            Err(failure) => results.extend(part.iter().map(|_| Err(failure.clone()))),
        }
    }
    results
}

async fn run_tried<B: Batch>(batch: &B, items: &[B::Item]) -> Result<Vec<B::Done>, Failure> {
    let mut tries = 1;
    loop {
        match batch.run(items).await {
            Err(Failure::Refused(refusal)) if refusal.is_transient() && tries < TRIES_MAX => tries += 1,
            ended => return ended,
        }
    }
}
