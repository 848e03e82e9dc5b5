//! The promises by name, and how many charges each allows.

use crate::Mutation;

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
    OutcomeLost,
    PendingThenWebhook,
    DeclinedIsReplayed,
    ZombieReclaimedOnce,
    LateArrival,
}

impl Promise {
    /// All of them, in the order in which they are told.
    pub(crate) const ALL: [Self; 15] = [
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
        Self::OutcomeLost,
        Self::PendingThenWebhook,
        Self::DeclinedIsReplayed,
        Self::ZombieReclaimedOnce,
        Self::LateArrival,
    ];

    /// Those that the lesson server can be asked to keep without this piece.
    pub(crate) fn on_the_lesson_server(mutation: Option<Mutation>) -> impl Iterator<Item = Self> {
        let stays_inside = mutation.is_some_and(|mutation| !mutation.is_about_the_outside());
        let is_asked = move |promise: &Self| {
            *promise != Self::AfterKill && !(stays_inside && promise.is_about_the_outside())
        };
        Self::ALL.into_iter().filter(is_asked)
    }

    /// Whether the charge is made by an acquirer outside.
    pub(crate) fn is_about_the_outside(self) -> bool {
        matches!(
            self,
            Self::OutcomeLost
                | Self::PendingThenWebhook
                | Self::DeclinedIsReplayed
                | Self::ZombieReclaimedOnce
                | Self::LateArrival
        )
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
            Self::OutcomeLost => "outcome-lost",
            Self::PendingThenWebhook => "pending-then-webhook",
            Self::DeclinedIsReplayed => "declined-is-replayed",
            Self::ZombieReclaimedOnce => "zombie-reclaimed-once",
            Self::LateArrival => "late-arrival",
        }
    }

    /// The rules of the protocol that it is about.
    pub(crate) fn rules(self) -> &'static [u8] {
        match self {
            Self::RetriesSameKey => &[18, 29],
            Self::DistinctOperations => &[29],
            Self::ConcurrentRace | Self::AfterKill => &[8],
            Self::SameKeyOtherBody => &[5, 6],
            Self::RepeatInProgress => &[10],
            Self::AfterRestart => &[9, 18],
            Self::TwoTenants => &[4],
            Self::LostOwner | Self::LateOwner => &[11],
            Self::OutcomeLost | Self::LateArrival => &[16],
            Self::PendingThenWebhook => &[25, 26],
            Self::DeclinedIsReplayed => &[18],
            Self::ZombieReclaimedOnce => &[11, 16],
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
