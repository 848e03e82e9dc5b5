//! What `backup` and `restore` share: they are followed, ended by a signal, and tell what a copy holds.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use unavez_payments::books::Holdings;
use unavez_payments::money::Currency;
use unavez_store::sqlite::{Contents, CopyError, Progress, Watch};

use crate::exit::Failure;
use crate::number::counted;
use crate::serve::{Stop, signals_failed, store_failure};
use crate::time;

/// Does work that copies a database, beside a bar on a terminal. Ctrl-C and SIGTERM end it, and it leaves nothing half.
pub(crate) fn follow<T: Send + 'static>(
    work: impl FnOnce(&Watch) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::unavailable(format!("the runtime cannot start: {error}")))?;
    runtime.block_on(async {
        let mut signals = Stop::listen().map_err(signals_failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let watch = Watch { stop: Arc::clone(&stop), report: Box::new(bar()) };
        let mut working = tokio::task::spawn_blocking(move || work(&watch));
        let done = tokio::select! {
            done = &mut working => done,
            () = signals.asked() => {
                stop.store(true, Ordering::Relaxed);
                working.await
            }
        };
        done.map_err(|error| Failure::unavailable(format!("the copying broke off: {error}")))?
    })
}

/// A bar that is drawn on terminals only.
fn bar() -> impl Fn(Progress) + Send {
    let bar = ProgressBar::new(0);
    let style =
        ProgressStyle::with_template("{msg:<10} {bar:32.cyan/dim} {bytes:>10}/{total_bytes} {elapsed:.dim}")
            .expect("the template is a constant that parses")
            .progress_chars("━━─");
    bar.set_style(style);
    move |progress| match progress {
        Progress::Reading => bar.set_message("reading"),
        Progress::Copying { done_bytes, total_bytes } => {
            bar.set_message("copying");
            bar.set_length(total_bytes);
            bar.set_position(done_bytes);
        }
        Progress::Checking => bar.set_message("checking"),
    }
}

/// What a copy holds, for scripts.
#[derive(Serialize)]
pub(crate) struct Held {
    pub(crate) realm: String,
    /// Whatever was committed later is not in the copy.
    pub(crate) as_of: String,
    pub(crate) bytes: u64,
    pub(crate) rows: BTreeMap<String, u64>,
    pub(crate) currencies: Vec<Sum>,
    /// Rows that belong to rows which are not there.
    pub(crate) astray: u64,
    /// Every currency is balanced, and nothing is astray.
    pub(crate) sound: bool,
}

/// One currency of all tenants, in minor units.
#[derive(Serialize)]
pub(crate) struct Sum {
    currency: String,
    charges: u64,
    captured: i128,
    refunded: i128,
    balanced: bool,
}

impl Sum {
    /// In the currency's own units.
    fn shown(&self, minor_units: i128) -> String {
        Currency::parse(&self.currency)
            .map_or_else(|| minor_units.to_string(), |currency| currency.format(minor_units))
    }
}

impl Held {
    pub(crate) fn of(contents: &Contents, holdings: &Holdings) -> Self {
        let currencies = holdings.currencies.iter().map(|it| Sum {
            currency: it.currency.code().to_owned(),
            charges: it.charges,
            captured: it.captured,
            refunded: it.refunded,
            balanced: it.balanced,
        });
        Self {
            realm: contents.realm.as_str().to_owned(),
            as_of: time::rfc3339(contents.as_of),
            bytes: contents.bytes,
            rows: contents.rows.iter().cloned().collect(),
            currencies: currencies.collect(),
            astray: holdings.astray,
            sound: holdings.are_sound(),
        }
    }

    /// A line of counts, and one for each currency.
    pub(crate) fn lines(&self) -> String {
        let rows = |table: &str| self.rows.get(table).copied().unwrap_or_default();
        let mut text = format!(
            "  {}, {}, {}",
            counted(rows("charges"), "charge", "charges"),
            counted(rows("ledger_entries"), "ledger entry", "ledger entries"),
            counted(rows("idempotency_records"), "key", "keys")
        );
        for sum in &self.currencies {
            let balanced = if sum.balanced { "balanced" } else { "NOT BALANCED" };
            text.push_str(&format!(
                "\n  {}: {} captured {} and refunded {}, {balanced}",
                sum.currency,
                counted(sum.charges, "charge", "charges"),
                sum.shown(sum.captured),
                sum.shown(sum.refunded)
            ));
        }
        if self.astray > 0 {
            text.push_str(&format!("\n  {} rows BELONG TO ROWS THAT ARE NOT THERE", self.astray));
        }
        text
    }
}

/// Why there is no copy, for a person.
pub(crate) fn copy_failure(error: &CopyError) -> Failure {
    let message = error.to_string();
    match error {
        CopyError::Exists { .. } => Failure::usage(message).with_help("name a file that is not there yet"),
        CopyError::Busy { .. } => Failure::unavailable(message),
        CopyError::Interrupted => Failure::interrupted(message),
        CopyError::Differs { .. } => Failure::check_failed(message),
        CopyError::File(error) => store_failure(error),
    }
}

/// A path as people read it.
pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}
