//! What happens, told to whoever counts it.

use unavez_core::identity::OperationId;
use unavez_core::problem::Code;
use unavez_core::record::Cause;
use unavez_core::recovery::Held;

/// Hears about every event of an engine. Called on the request's own path: count, and return.
pub trait Observer: Send + Sync + 'static {
    /// Something happened.
    fn on_event(&self, event: &Event<'_>);
}

/// Something that happened. `route` is the name given with [`Door::with_route`](crate::door::Door::with_route).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A request with a key got its answer.
    Answered {
        /// Which route.
        route: &'a str,
        /// What kind of answer.
        how: Answered,
    },
    /// An attempt started: the operation runs.
    Executed {
        /// Which route.
        route: &'a str,
    },
    /// A late owner's write was refused (P11).
    FenceRefused {
        /// The refused change.
        change: &'static str,
    },
    /// An outcome that its owner knew could not be written before the attempt was over (P17).
    FinishLost {
        /// Whose outcome.
        operation_id: OperationId,
    },
    /// An attempt ended and nobody knows how (P14).
    OutcomeUnknown {
        /// Cut off or pending.
        cause: Cause,
    },
    /// The outside system was asked (P16).
    Recovered {
        /// `settled`, `pending`, `send-again`, `cannot-say` or `held`.
        verdict: &'static str,
    },
    /// An operation that a person must look at: nothing will settle it by itself (P16).
    Alarmed {
        /// Which one.
        operation_id: OperationId,
        /// Why.
        held: Held,
    },
    /// A transactional handler answered a success that it never committed: 500 (P14).
    NeverCommitted {
        /// Which route.
        route: &'a str,
    },
}

/// What kind of answer a request got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The operation's own, by the attempt that this request ran.
    First,
    /// From a stored or recovered outcome; nothing was run.
    Replayed,
    /// A refusal of the engine.
    Problem(Code),
}

impl Answered {
    /// The word for a metric's label: `first`, `replayed`, or the problem's code.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Replayed => "replayed",
            Self::Problem(code) => code.as_str(),
        }
    }
}

/// Listens to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn on_event(&self, _: &Event<'_>) {}
}
