//! What may be told about a key (P22).

use unavez_core::answer::Conclusion;
use unavez_core::identity::OperationId;
use unavez_core::key::Key;
use unavez_core::record::{Record, State};
use unavez_core::time::Time;

use super::Reason;

/// What the owner of a key may know of its record (P22).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyStatus {
    /// The key.
    pub key: Key,
    /// The state's name on the wire.
    pub state: &'static str,
    /// What became of the operation, once that is known.
    pub outcome: Option<Conclusion>,
    /// Attempts started so far.
    pub attempts: u32,
    /// When the key was claimed.
    pub created_at: Time,
    /// When the outcome became known.
    pub finished_at: Option<Time>,
    /// When the answer stops being repeated.
    pub expires_at: Option<Time>,
    /// HTTP status of the first answer.
    pub status: Option<u16>,
    /// What the operation made.
    pub resource_id: Option<Box<str>>,
    /// The operation's name at outside systems.
    pub operation_id: OperationId,
    /// What was found about the operation that does not fit and needs a person: the reasons, oldest first (P27).
    pub findings: Vec<Reason>,
}

impl KeyStatus {
    pub(super) fn of(record: &Record) -> Self {
        let mut status = Self {
            key: record.key.clone(),
            state: record.state.name(),
            outcome: None,
            attempts: record.attempts,
            created_at: record.created_at,
            finished_at: None,
            expires_at: None,
            status: None,
            resource_id: None,
            operation_id: record.id.operation_id(),
            findings: Vec::new(),
        };
        if let State::Finished { at, expires_at, conclusion, answer, resource } = &record.state {
            status.outcome = Some(*conclusion);
            status.finished_at = Some(*at);
            status.expires_at = Some(*expires_at);
            status.status = Some(answer.status);
            status.resource_id = resource.clone();
        }
        status
    }
}
