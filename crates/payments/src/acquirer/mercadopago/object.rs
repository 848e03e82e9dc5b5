//! Mercado Pago's objects, as far as they are read. Members beyond these come and go and are none of our business.

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
    #[serde(default)]
    pub(super) captured: bool,
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) refunds: Vec<Refund>,
    /// Codes and addresses by which a customer pays.
    #[serde(default)]
    pub(super) point_of_interaction: Option<Box<RawValue>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Metadata {
    #[serde(default)]
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
    #[serde(default)]
    pub(super) cause: Vec<Cause>,
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
