//! What every store does with a call once it holds the current record: pure functions, so that two stores cannot
//! differ in them.

use std::collections::HashMap;

use unavez_core::identity::{RecordId, Tenant};
use unavez_core::record::{Change, Exposure, Fence, IllegalTransition, Next, Record, State};
use unavez_core::time::Time;

use crate::StoreError;

/// What a swap comes to.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it lives for a match, and most swaps keep a record")]
pub(crate) enum Verdict {
    /// The fence does not match: nothing is written.
    Conflict,
    /// The record in its new form takes the place of what was there, if anything was.
    Keep(Record),
    /// The record goes.
    Delete,
}

/// Why a change is refused although its fence may match.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Illegal(IllegalTransition),
    Collision(RecordId),
}

impl From<Refusal> for StoreError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Illegal(illegal) => Self::Illegal(illegal),
            Refusal::Collision(id) => Self::Collision(id),
        }
    }
}

/// Compares the fence, then asks core's table (P8, P11).
pub(crate) fn judge(
    id: RecordId,
    current: Option<&Record>,
    expected: Option<Fence>,
    change: Change,
    now: Time,
) -> Result<Verdict, Refusal> {
    if let (Some(current), Change::Claim(claim)) = (current, &change)
        && (current.tenant != claim.tenant || current.key != claim.key)
    {
        return Err(Refusal::Collision(id));
    }
    if current.map(|record| record.fence) != expected {
        return Ok(Verdict::Conflict);
    }
    match (current, change) {
        (None, Change::Claim(claim)) => Ok(Verdict::Keep(Record::claimed(id, claim, now))),
        (None, change) => Err(Refusal::Illegal(IllegalTransition {
            state: "absent",
            change: change.name(),
            why: "only a claim creates a record",
        })),
        (Some(record), change) => match record.apply(change, now).map_err(Refusal::Illegal)? {
            Next::Keep(next) => Ok(Verdict::Keep(next)),
            Next::Delete => Ok(Verdict::Delete),
        },
    }
}

/// From when on a record's outcome should be asked about (P16): unknown ones, and lost attempts that may have sent
/// something.
pub(crate) fn due_at(record: &Record) -> Option<Time> {
    match record.state {
        State::Unknown { next_ask_at, .. } => Some(next_ask_at),
        State::InProgress { deadline } if record.exposure == Exposure::MayBeSent => deadline,
        State::InProgress { .. } | State::Finished { .. } | State::Abandoned { .. } => None,
    }
}

/// Picks at most `limit` of what is due: every tenant's oldest before any tenant's second oldest, and the older before
/// the younger (P16). One tenant with a million open records delays nobody else's.
pub(crate) fn pick_fairly(mut due: Vec<(Time, Tenant, RecordId)>, limit: usize) -> Vec<RecordId> {
    due.sort_unstable_by_key(|(at, _, id)| (*at, *id));
    let mut taken_of: HashMap<Tenant, usize> = HashMap::new();
    let mut ranked: Vec<(usize, Time, RecordId)> = due
        .into_iter()
        .map(|(at, tenant, id)| {
            let taken = taken_of.entry(tenant).or_default();
            *taken += 1;
            (*taken, at, id)
        })
        .collect();
    ranked.sort_unstable();
    ranked.truncate(limit);
    ranked.into_iter().map(|(_, _, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p16_a_tenant_with_many_due_records_does_not_displace_another() {
        let loud = Tenant::parse("loud").unwrap();
        let quiet = Tenant::parse("quiet").unwrap();
        let id = |byte| RecordId::from_bytes([byte; 16]);
        let mut due: Vec<_> = (0..50).map(|n| (Time::from_micros(n.into()), loud.clone(), id(n))).collect();
        due.push((Time::from_micros(1000), quiet, id(200)));
        assert_eq!(pick_fairly(due, 3), [id(0), id(200), id(1)]);
    }
}
