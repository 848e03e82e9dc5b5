//! What an acquirer promises, what it keeps of it, and the timings.

use std::time::Duration;

use unavez_core::recovery::Promise;
use unavez_core::timing::Timings;

use crate::acquirer::Standing;

/// How far the clock moves at once.
pub(crate) const STEP: Duration = Duration::from_secs(30);

/// V, as declared.
pub(crate) const V: Duration = STEP;

/// The protocol's own timings.
pub(crate) fn timings() -> Timings {
    Timings::default()
}

/// One acquirer, and the bounds of the exploration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) repeats: Repeats,
    pub(crate) delays: Delays,
    pub(crate) index: Index,
    /// What may become of a create.
    pub(crate) standings: &'static [Standing],
    /// How long, from the first send, the acquirer remembers: it deduplicates and can be asked.
    pub(crate) memory: Duration,
    /// What it declares of that.
    pub(crate) resend_window: Option<Duration>,
    pub(crate) operator: Operator,
    /// How many steps the clock makes.
    pub(crate) steps: u32,
}

/// What the acquirer does with a second create under one operation id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// Answers with the first result, a decline included. The network may then duplicate creates as well.
    Deduplicated,
    /// Executes it too; a decline leaves no trace that a lookup would find. Nothing survives a network that duplicates
    /// creates here, so it does not.
    Executed,
}

/// Whether V is the bound that it is declared to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delays {
    /// A create arrives within V of its send or never, and is seen by lookups from then on.
    Kept,
    /// A create arrives, and is seen, at any time while the acquirer remembers the first send.
    Broken,
}

/// Whether lookups go on showing what they have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    Steady,
    /// A pending payment may vanish from lookups once its sighting is stored.
    Forgetful,
}

/// Whether somebody settles by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Absent,
    Present,
}

const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

/// Executes whatever it gets, and declines without a trace. Only asking first stands between a repeat and a second
/// execution.
pub(crate) const EXECUTES_ALL: Setting = Setting {
    repeats: Repeats::Executed,
    delays: Delays::Kept,
    index: Index::Steady,
    standings: &[Standing::Approved, Standing::Declined],
    memory: FOR_EVER,
    resend_window: Some(FOR_EVER),
    operator: Operator::Absent,
    steps: 6,
};

/// Deduplicates, under a network that duplicates.
pub(crate) const DEDUPLICATES: Setting = Setting { repeats: Repeats::Deduplicated, ..EXECUTES_ALL };

/// Decides later, and its lookups may lose what they have shown.
pub(crate) const FORGETFUL: Setting =
    Setting { standings: &[Standing::Pending], index: Index::Forgetful, ..EXECUTES_ALL };

/// Forgets, deduplication and lookups alike, and says when.
pub(crate) const SHORT_MEMORY: Setting = EXECUTES_ALL.with_memory(Duration::from_secs(150));

/// Deduplicates and forgets, and nothing it says of V is true: only deduplication is left.
pub(crate) const LATE: Setting =
    Setting { repeats: Repeats::Deduplicated, delays: Delays::Broken, ..SHORT_MEMORY };

/// Declares no window: nothing may be sent twice. It declines nothing, so that a refusal is the operator's.
pub(crate) const NEVER_AGAIN: Setting =
    Setting { resend_window: None, standings: &[Standing::Approved], ..EXECUTES_ALL };

impl Setting {
    pub(crate) const fn with_operator(self) -> Self {
        Self { operator: Operator::Present, ..self }
    }

    pub(crate) const fn with_memory(self, memory: Duration) -> Self {
        Self { memory, resend_window: Some(memory), ..self }
    }

    pub(crate) const fn with_steps(self, steps: u32) -> Self {
        Self { steps, ..self }
    }

    pub(crate) fn promise(&self) -> Promise {
        Promise { visibility_delay: V, resend_window: self.resend_window }
    }
}
