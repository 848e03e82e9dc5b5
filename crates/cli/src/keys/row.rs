//! A key as `list`, `show` and `trace` print it.

use serde::Serialize;
use unavez_core::answer::{Answer, Content};
use unavez_core::record::{Record, State};
use unavez_core::time::Time;
use unavez_payments::books::{OperationHistory, Reason};
use unavez_payments::money::Currency;

use crate::output::{Room, described};
use crate::time;

/// One key; the names are those of `GET /v1/idempotency-keys/{key}`.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(super) tenant: String,
    pub(super) key: String,
    state: &'static str,
    expired: bool,
    pub(crate) outcome: Option<&'static str>,
    pub(crate) status: Option<u16>,
    attempts: u32,
    pub(super) created_at: String,
    finished_at: Option<String>,
    expires_at: Option<String>,
    pub(super) resource_id: Option<String>,
    pub(super) operation_id: String,
    /// Bytes of the stored body; null where it is not kept, sealed, or not there yet.
    body_bytes: Option<usize>,
    /// What was found about the operation that does not fit and needs a person, oldest first.
    findings: Vec<&'static str>,
    /// How long it has been open; null where the outcome is known.
    pub(super) age_seconds: Option<u64>,
    /// What may have moved; null where the outcome is known.
    pub(super) at_risk: Option<AtRisk>,
}

/// Money of which it is not known whether it moved.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AtRisk {
    /// Minor units.
    pub(super) amount: i128,
    pub(super) currency: &'static str,
    /// `25.00`.
    #[serde(skip)]
    pub(super) shown: String,
}

impl AtRisk {
    pub(super) fn of(currency: Currency, amount: i128) -> Self {
        Self { amount, currency: currency.code(), shown: currency.format(amount) }
    }
}

impl Row {
    pub(crate) fn new(record: &Record, now: Time) -> Self {
        let mut row = Self {
            tenant: record.tenant.as_str().to_owned(),
            key: record.key.as_str().to_owned(),
            state: record.state.name(),
            expired: false,
            outcome: None,
            status: None,
            attempts: record.attempts,
            created_at: time::rfc3339(record.created_at),
            finished_at: None,
            expires_at: None,
            resource_id: None,
            operation_id: record.id.operation_id().to_string(),
            body_bytes: None,
            findings: Vec::new(),
            age_seconds: None,
            at_risk: None,
        };
        if !matches!(record.state, State::Finished { .. }) {
            row.age_seconds = Some(now.since(record.created_at).as_secs());
        }
        if let State::Finished { at, expires_at, conclusion, answer, resource } = &record.state {
            row.expired = *expires_at <= now;
            row.outcome = Some(conclusion.as_str());
            row.status = Some(answer.status);
            row.finished_at = Some(time::rfc3339(*at));
            row.expires_at = Some(time::rfc3339(*expires_at));
            row.resource_id = resource.as_deref().map(str::to_owned);
            row.body_bytes = body_bytes(answer);
        }
        row
    }

    /// With what was found about its operation.
    pub(crate) fn with_history(mut self, history: Option<&OperationHistory>) -> Self {
        let anomalies = history.into_iter().flat_map(|history| &history.anomalies);
        self.findings = anomalies.map(|found| found.reason.as_str()).collect();
        self
    }

    /// Whether it waits for a person: nothing else will settle it.
    pub(crate) fn is_held(&self) -> bool {
        self.age_seconds.is_some() && self.findings.contains(&Reason::Held.as_str())
    }

    pub(crate) fn state_word(&self) -> String {
        match self.state {
            _ if self.expired => "expired".to_owned(),
            state if self.is_held() => format!("{state}, held"),
            state => state.to_owned(),
        }
    }
}

fn body_bytes(answer: &Answer) -> Option<usize> {
    match &answer.content {
        Content::Kept { body, .. } => Some(body.len()),
        Content::NotKept { .. } | Content::Sealed { .. } => None,
    }
}

pub(crate) fn page(row: &Row, room: Room) -> String {
    let unknown = || "-".to_owned();
    let findings = row.findings.join(", ");
    let lines = [
        ["key", &row.key],
        ["tenant", &row.tenant],
        ["state", &row.state_word()],
        ["outcome", row.outcome.unwrap_or("-")],
        ["stored answer", &row.status.map_or_else(unknown, |status| format!("HTTP {status}"))],
        ["stored body", &row.body_bytes.map_or_else(unknown, |bytes| format!("{bytes} bytes"))],
        ["resource", row.resource_id.as_deref().unwrap_or("-")],
        ["attempts", &row.attempts.to_string()],
        ["claimed", &row.created_at],
        ["finished", row.finished_at.as_deref().unwrap_or("-")],
        ["repeated until", row.expires_at.as_deref().unwrap_or("-")],
        ["operation", &row.operation_id],
        ["findings", if findings.is_empty() { "-" } else { &findings }],
    ];
    described(&lines.map(|line| line.map(str::to_owned)), room).trim_end().to_owned()
}
