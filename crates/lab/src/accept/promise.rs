//! The promises by name, and how many charges each allows.

/// What is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    RetriesSameKey,
    DistinctOperations,
    ConcurrentRace,
    SameKeyOtherBody,
    RepeatInProgress,
    AfterRestart,
    AfterKill,
    TwoTenants,
    LostOwner,
    LateOwner,
}

impl Promise {
    /// All of them, in the order in which they are told.
    pub(crate) const ALL: [Self; 10] = [
        Self::RetriesSameKey,
        Self::DistinctOperations,
        Self::ConcurrentRace,
        Self::SameKeyOtherBody,
        Self::RepeatInProgress,
        Self::AfterRestart,
        Self::AfterKill,
        Self::TwoTenants,
        Self::LostOwner,
        Self::LateOwner,
    ];

    /// Those that the lesson server can be asked to keep.
    pub(crate) fn on_the_lesson_server() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|&promise| promise != Self::AfterKill)
    }

    /// The name on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RetriesSameKey => "retries-same-key",
            Self::DistinctOperations => "distinct-operations",
            Self::ConcurrentRace => "concurrent-race",
            Self::SameKeyOtherBody => "same-key-other-body",
            Self::RepeatInProgress => "repeat-in-progress",
            Self::AfterRestart => "after-restart",
            Self::AfterKill => "after-kill",
            Self::TwoTenants => "two-tenants",
            Self::LostOwner => "lost-owner",
            Self::LateOwner => "late-owner",
        }
    }

    /// The promise of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|promise| promise.name() == name)
    }

    /// How many charges the ledger must show afterwards.
    pub(crate) fn expected_charges(self) -> u64 {
        match self {
            Self::DistinctOperations | Self::TwoTenants => 2,
            _ => 1,
        }
    }
}
