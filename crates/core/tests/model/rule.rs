//! The rules that can be taken away, one at a time.

/// A rule whose absence must be seen. The model breaks it around core: what core is fed, or what is done with its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// P16: what may have been sent is asked about before it is sent again.
    AskFirst,
    /// P16: "not found" counts only after the latest send plus V.
    VisibilityDelay,
    /// P16: the moment of the question counts, not that of the answer.
    QuestionTime,
    /// P16: a takeover names the version that was read before asking.
    NamedTakeover,
    /// P16: every send of an operation carries the same id.
    OneOperationId,
    /// P16: a further send needs the acquirer's memory of the first.
    Window,
    /// P16: the whole length of the next attempt must fit into that memory, however early the last one ended.
    WholeAttempt,
    /// P16: what was sighted once is never sent again.
    Sightings,
    /// P16: only the acquirer and account that were sent to can say "not found".
    SameAccount,
    /// P16, P27: a refusal settles a single attempt, or one that nothing can follow.
    RefusalOfOneAttempt,
    /// P15: a later attempt releases nothing.
    NoLateRelease,
    /// P15: what left whole is not released, whatever its status.
    NoReleaseOfSent,
    /// P13: nothing is sent after the attempt's deadline.
    SendDeadline,
    /// P11: a finish names the fence of its own attempt.
    FencedFinish,
    /// P17: a refusal is told only once it is stored.
    StoredRefusal,
    /// P27: an event never changes a final state.
    FinalStays,
    /// P6: the same key with another request is refused.
    Fingerprint,
    /// P9: an owner counts as lost after the operation timeout.
    LostOwners,
    /// Steps with money: settling by hand needs an attempt older than timeout + V.
    AgeByHand,
    /// Steps with money: "failed" needs a "not found" that proves something.
    ProofByHand,
}

impl Rule {
    /// Whether a writer without this rule may change a record whose version it does not know.
    pub(crate) const fn is_of_fences(self) -> bool {
        matches!(self, Self::NamedTakeover | Self::FencedFinish)
    }
}
