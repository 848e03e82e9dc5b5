//! Reconciliation: the acquirer's list against the charges and the ledger here.
//!
//! 1. Nothing is changed, on either side. What does not agree is reported; a person decides.
//! 2. What is known here is looked for anywhere in the books, and not only since the time that is asked about: clocks
//!    differ, and the list is asked for from somewhat earlier.
//! 3. What is under way is not missed: whatever was claimed within the visibility delay and some patience is left out.
//! 4. A list need not be one timeline, and an entry that stands in it twice is one entry: what executed an operation is
//!    told apart by the acquirer's own names.

mod compare;
mod source;

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use unavez_core::identity::OperationId;
use unavez_core::time::Time;
use unavez_store::StoreError;
use unavez_store::sqlite::Viewer;

use self::compare::Comparison;
pub use self::source::Source;
use crate::acquirer::{Account, CannotSay, ListPage, Listed, Reason, Standing};
use crate::books::{OperationHistory, SameOrder, Unbooked, reckoning};
use crate::money::Currency;

/// How far two clocks may differ.
const CLOCKS_APART: Duration = Duration::from_secs(600);

/// How long an operation may take to be settled before it is called unsettled, above the visibility delay.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// From when on.
    pub since: Time,
    /// The present, on the reader's clock.
    pub now: Time,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whose list was compared. `None`: the ledger has no other.
    pub account: Option<Account>,
    /// Entries of the list that were compared.
    pub compared: u64,
    /// Entries that carry no operation id of ours: made by others, or by hand. Not compared.
    pub without_id: u64,
    /// What does not agree.
    pub findings: Vec<Finding>,
}

/// One thing that does not agree.
#[derive(Clone, Debug)]
pub enum Finding {
    /// The acquirer has an operation with an id of our form, and the books have none.
    OnlyThere(Listed),
    /// It took effect by the books, and the acquirer does not list it.
    OnlyHere(Box<OperationHistory>),
    /// The acquirer executed one operation several times.
    Doubled {
        /// Which.
        operation: Box<OperationHistory>,
        /// The acquirer's names for its executions.
        references: Vec<Box<str>>,
    },
    /// Both know it, and not as the same.
    Differs {
        /// Which.
        operation: Box<OperationHistory>,
        /// In what.
        differences: Vec<Difference>,
        /// The acquirer's entry.
        entry: Box<Listed>,
    },
    /// The acquirer has decided, and the books have not heard of it for long.
    Unsettled {
        /// Which.
        operation: Box<OperationHistory>,
        /// How it stands there.
        there: Standing,
    },
    /// More or less was paid back at the acquirer than the books say; it names no ids of refunds.
    PaidBack {
        /// Of which payment.
        payment: OperationId,
        /// In which currency.
        currency: Currency,
        /// Minor units by the books.
        here: i64,
        /// Minor units there.
        there: i64,
    },
    /// A charge does not agree with its ledger entries or its operations.
    Unbooked(Unbooked),
    /// One order and one amount under several keys.
    SameOrder(SameOrder),
}

/// In what the two sides differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// `amount`, `currency`, …
    pub what: &'static str,
    /// By the books.
    pub here: String,
    /// At the acquirer.
    pub there: String,
}

/// Why nothing is reported.
#[derive(Clone, Debug)]
pub enum Stopped {
    /// The acquirer's list could not be read to its end.
    Acquirer(CannotSay),
    /// The books could not be read.
    Books(StoreError),
}

/// More pages than a comparison is meant for: a million entries.
const PAGES_MAX: usize = 10_000;

/// So many pages in a row without an entry are no list. An adapter may have left out all of a page.
const EMPTY_PAGES_MAX: usize = 1_000;

/// A way through a list that ends, whatever the acquirer says.
#[derive(Default)]
struct Walk {
    seen: HashSet<Box<str>>,
    empty: usize,
}

impl Walk {
    fn goes_on(&mut self, page: &ListPage) -> Result<(), String> {
        let Some(next) = &page.next else { return Ok(()) };
        self.empty = if page.items.is_empty() { self.empty + 1 } else { 0 };
        if self.empty >= EMPTY_PAGES_MAX {
            return Err(format!(
                "its list has {EMPTY_PAGES_MAX} pages in a row without an entry, and goes on"
            ));
        }
        if self.seen.len() >= PAGES_MAX {
            return Err(format!("its list has more than {PAGES_MAX} pages: compare a shorter stretch"));
        }
        if !self.seen.insert(next.clone()) {
            return Err("its list leads back to itself".to_owned());
        }
        Ok(())
    }
}

/// Compares everything since a time. `progress` hears how many entries of the list were compared so far.
///
/// # Errors
/// [`Stopped`]: a comparison with half a list would report the other half as missing.
pub async fn reconcile(
    viewer: &Viewer,
    source: Option<&Source>,
    stretch: Stretch,
    mut progress: impl FnMut(u64),
) -> Result<Report, Stopped> {
    let mut report = Report { account: None, compared: 0, without_id: 0, findings: Vec::new() };
    if let Some(source) = source {
        let mut comparison = Comparison::new(viewer, source, stretch);
        let since = stretch.since.minus(CLOCKS_APART);
        let mut walk = Walk::default();
        let mut after: Option<Box<str>> = None;
        loop {
            let page = source.page(since, stretch.now, after.as_deref()).await.map_err(Stopped::Acquirer)?;
            walk.goes_on(&page).map_err(|why| Stopped::Acquirer(CannotSay(Reason(why.into()))))?;
            comparison.take(page.items)?;
            progress(comparison.compared());
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        comparison.end(&mut report)?;
    }
    let books = viewer.read(|connection| {
        let unbooked = reckoning::unbooked(connection, stretch.since)?;
        let same_order = reckoning::same_order(connection, stretch.since)?;
        Ok(unbooked
            .into_iter()
            .map(Finding::Unbooked)
            .chain(same_order.into_iter().map(Finding::SameOrder))
            .collect())
    });
    let books: Vec<Finding> = books.map_err(Stopped::Books)?;
    report.findings.extend(books);
    Ok(report)
}

impl Finding {
    /// A word for scripts.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::OnlyThere(_) => "only_there",
            Self::OnlyHere(_) => "only_here",
            Self::Doubled { .. } => "doubled",
            Self::Differs { .. } => "differs",
            Self::Unsettled { .. } => "unsettled",
            Self::PaidBack { .. } => "paid_back",
            Self::Unbooked(_) => "unbooked",
            Self::SameOrder(_) => "same_order",
        }
    }
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Books(error)
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquirer(cannot_say) => write!(f, "the acquirer's list cannot be read: {cannot_say}"),
            Self::Books(error) => write!(f, "the books cannot be read: {error}"),
        }
    }
}

impl std::error::Error for Stopped {}
