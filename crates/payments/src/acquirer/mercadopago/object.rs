//! Mercado Pago's objects, as far as they are read. Members beyond these come and go and are none of our business; what
//! an answer need not have may be missing or null.

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Payment {
    pub(super) id: u64,
    pub(super) status: String,
    pub(super) status_detail: Option<String>,
    pub(super) transaction_amount: Box<RawValue>,
    pub(super) currency_id: String,
    pub(super) external_reference: Option<String>,
    pub(super) date_created: String,
    pub(super) captured: Option<bool>,
    pub(super) metadata: Option<Metadata>,
    pub(super) refunds: Option<Vec<Refund>>,
    /// Codes and addresses by which a customer pays.
    pub(super) point_of_interaction: Option<Box<RawValue>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Metadata {
    pub(super) unavez_tenant: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Refund {
    pub(super) id: u64,
    pub(super) payment_id: u64,
    pub(super) amount: Box<RawValue>,
    pub(super) status: String,
    pub(super) date_created: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Search {
    pub(super) paging: Paging,
    pub(super) results: Vec<Payment>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Paging {
    pub(super) total: usize,
}

/// The body of an error.
#[derive(Debug, Deserialize)]
pub(super) struct Failure {
    /// The HTTP status once more.
    pub(super) status: u16,
    pub(super) cause: Option<Vec<Cause>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Cause {
    code: CauseCode,
}

/// They come as numbers and as texts.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum CauseCode {
    Number(u32),
    Text(String),
}

impl Cause {
    pub(super) fn code(&self) -> Option<u32> {
        match &self.code {
            CauseCode::Number(code) => Some(*code),
            CauseCode::Text(code) => code.parse().ok(),
        }
    }
}
