//! The public suite, run against the sandbox's adapter both ways.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::HeaderMap;
use tokio::net::TcpListener;
use unavez_core::identity::OperationId;
use unavez_core::time::Time;
use unavez_payments::acquirer::conformance::{Rig, Wanted};
use unavez_payments::acquirer::sandbox::{
    Behaviour, Courier, Deliveries, Letter, PENDING, SandboxAcquirer, SandboxService, Terms,
};
use unavez_payments::acquirer::signature::Secrets;
use unavez_payments::acquirer::{Acquirer, BoxFuture, Reason};
use unavez_payments::server;
use unavez_store::clock::Clock as _;

use crate::support::Bench;

/// How long what was executed stays unseen.
const VISIBILITY_DELAY: Duration = Duration::from_millis(500);

struct SandboxRig {
    bench: Bench,
    acquirer: SandboxAcquirer,
    deliveries: Deliveries,
    letters: Arc<Letters>,
}

#[derive(Default)]
struct Letters(Mutex<Vec<Letter>>);

impl Courier for Letters {
    fn deliver<'a>(&'a self, letter: &'a Letter) -> BoxFuture<'a, Result<(), Reason>> {
        self.0.lock().unwrap().push(letter.clone());
        Box::pin(std::future::ready(Ok(())))
    }
}

impl SandboxRig {
    fn new(acquirer: impl FnOnce(&Bench, Secrets) -> SandboxAcquirer) -> Self {
        let bench = Bench::new(Behaviour { visibility_delay: VISIBILITY_DELAY, ..Behaviour::default() });
        let secrets = Secrets::random();
        let letters = Arc::new(Letters::default());
        let courier: Arc<dyn Courier> = Arc::clone(&letters) as _;
        let deliveries = Deliveries::new(bench.sandbox.clone(), secrets.clone(), courier);
        let acquirer = acquirer(&bench, secrets);
        Self { bench, acquirer, deliveries, letters }
    }
}

impl Rig for SandboxRig {
    fn acquirer(&self) -> &dyn Acquirer {
        &self.acquirer
    }

    fn method(&self, wanted: Wanted) -> Option<Box<str>> {
        Some(match wanted {
            Wanted::Approved => "tok_approve".into(),
            Wanted::Declined => "tok_decline".into(),
            Wanted::Pending => "tok_pending".into(),
        })
    }

    fn executed(&self, operation: OperationId) -> BoxFuture<'_, u64> {
        Box::pin(async move {
            let counts = self.bench.sandbox.executed().await.unwrap();
            counts.into_iter().find(|(id, _)| *id == operation).map_or(0, |(_, count)| count)
        })
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        self.bench.clock.advance(PENDING + VISIBILITY_DELAY);
        Box::pin(async {
            self.deliveries.deliver_due().await.unwrap();
        })
    }

    fn now(&self) -> Time {
        self.bench.clock.now()
    }

    fn pass_a_second(&self) -> BoxFuture<'_, ()> {
        self.bench.clock.advance(Duration::from_secs(1));
        Box::pin(std::future::ready(()))
    }

    fn event(&self, operation: OperationId) -> BoxFuture<'_, Option<(HeaderMap, Vec<u8>)>> {
        let letters = self.letters.0.lock().unwrap();
        let id = operation.to_string();
        let about = |letter: &&Letter| String::from_utf8_lossy(&letter.body).contains(&id);
        let letter = letters.iter().find(about).expect("a decision is told");
        Box::pin(std::future::ready(Some((letter.headers.clone(), letter.body.to_vec()))))
    }
}

async fn in_process() -> SandboxRig {
    SandboxRig::new(|bench, secrets| SandboxAcquirer::in_process(&bench.sandbox, secrets))
}

async fn over_http() -> SandboxRig {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    SandboxRig::new(|bench, secrets| {
        let service = SandboxService::new(bench.sandbox.clone());
        tokio::spawn(server::serve(listener, service, server::Limits::default(), std::future::pending()));
        SandboxAcquirer::over_http(base.parse().unwrap(), Terms::default(), secrets).unwrap()
    })
}

fn at(base: &str) -> Arc<dyn Acquirer> {
    let secrets = Secrets::random();
    Arc::new(SandboxAcquirer::over_http(base.parse().unwrap(), Terms::default(), secrets).unwrap())
}

mod sandbox_in_process {
    unavez_payments::acquirer_conformance!(super::in_process());
}

mod sandbox_over_http {
    unavez_payments::acquirer_conformance!(super::over_http());
}

mod sandbox_on_a_bad_line {
    unavez_payments::acquirer_http_conformance!(super::at, "tok_approve");
}
