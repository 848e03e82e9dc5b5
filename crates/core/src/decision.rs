//! What to do with a repeat: one table from (record, request, now) to a verdict.
//!
//! The order is P7's: 422 before 409 before replay. The table is total: every state has a row for every kind of
//! effect, and nothing here waits, stores or sends.

use core::time::Duration;

use alloc::string::String;
use alloc::vec::Vec;

use crate::answer::Conclusion;
use crate::fingerprint::Fingerprint;
use crate::outcome::{Effect, OnLost, is_contained};
use crate::record::{Cause, Fence, Record, State};
use crate::time::Time;

/// The request that met a record, as far as the decision needs it.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Digest of this request, made by the same algorithm and sealing key as the record's.
    pub fingerprint: &'a Fingerprint,
    /// How the route takes effect.
    pub effect: Effect,
    /// How long an abandoned outcome is held first: the response TTL, from the end of the attempt (P14).
    pub response_ttl: Duration,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Answer from the record (P18).
    Replay,
    /// 422: the key belongs to another request (P6). Names what differs, never values.
    RefuseReused(Vec<String>),
    /// 409 `operation-in-progress`: an attempt runs (P10).
    RefuseInProgress,
    /// 409 `outcome-pending`: asked too recently (P16).
    RefusePending,
    /// 409 `outcome-unknown`: held (P14).
    RefuseUnknown,
    /// 409 `outcome-unknown` for good: a tombstone (P14).
    RefuseAbandoned,
    /// The record's promise is over: claim the key anew, naming this fence.
    ClaimExpired(Fence),
    /// The attempt is lost and left no trace outside: run again under a new attempt, naming this fence.
    TakeOver(Fence),
    /// Ask the outside system before anything runs (P16).
    Ask(Fence),
    /// The attempt is lost and cannot be asked about: note that, then refuse as unknown.
    MarkUnknown(Fence),
    /// Held longer than the response TTL: turn it into a tombstone, then refuse.
    Abandon(Fence),
    /// No readable deadline: stamp one, then refuse as in progress (P9).
    StampDeadline(Fence),
}

/// Decides what becomes of a request whose key has a record. Pure; the caller performs what is returned.
pub fn decide(record: &Record, incoming: &Incoming<'_>, now: Time) -> Decision {
    if record.is_expired(now) {
        return Decision::ClaimExpired(record.fence);
    }
    // A cancellation is no operation, so no request can equal it: it answers whatever comes under its key (P22).
    if matches!(record.state, State::Finished { conclusion: Conclusion::Cancelled, .. }) {
        return Decision::Replay;
    }
    if !record.fingerprint.matches(incoming.fingerprint) {
        return Decision::RefuseReused(Fingerprint::differs(&record.fingerprint, incoming.fingerprint));
    }
    match &record.state {
        State::Finished { .. } => Decision::Replay,
        State::Abandoned { .. } => Decision::RefuseAbandoned,
        State::InProgress { deadline: None } => Decision::StampDeadline(record.fence),
        State::InProgress { .. } if !record.is_lost(now) => Decision::RefuseInProgress,
        State::InProgress { .. } => lost(record, incoming, now, Seen::NotYetMarked),
        State::Unknown { cause: Cause::Pending, next_ask_at, .. } if now < *next_ask_at => {
            Decision::RefusePending
        }
        State::Unknown { cause: Cause::Pending, .. } if incoming.effect != Effect::Recoverable => {
            Decision::RefusePending
        }
        State::Unknown { .. } => lost(record, incoming, now, Seen::Marked),
    }
}

/// Whether the record already says that its outcome is unknown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    NotYetMarked,
    Marked,
}

/// Decides about an attempt that ended without an outcome.
fn lost(record: &Record, incoming: &Incoming<'_>, now: Time, seen: Seen) -> Decision {
    if is_contained(record, incoming.effect) {
        return Decision::TakeOver(record.fence);
    }
    match incoming.effect {
        Effect::Recoverable => Decision::Ask(record.fence),
        Effect::Opaque(OnLost::Rerun) => Decision::TakeOver(record.fence),
        Effect::Transactional | Effect::Opaque(OnLost::Hold) => match seen {
            Seen::NotYetMarked => Decision::MarkUnknown(record.fence),
            Seen::Marked if record.latest_send_at.plus(incoming.response_ttl) <= now => {
                Decision::Abandon(record.fence)
            }
            Seen::Marked => Decision::RefuseUnknown,
        },
    }
}
