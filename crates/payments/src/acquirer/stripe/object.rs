//! Stripe's objects, as far as they are read. Members beyond these come and go and are none of our business.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::compose::OPERATION_ID;

pub(super) type Metadata = BTreeMap<String, String>;

/// Something of a list.
pub(super) trait Object: DeserializeOwned + Send {
    /// Stripe's own name for it.
    fn id(&self) -> &str;

    fn metadata(&self) -> &Metadata;

    /// When it was made: seconds since 1970.
    fn created(&self) -> i64;

    /// Our name for what made it.
    fn operation_id(&self) -> Option<&String> {
        self.metadata().get(OPERATION_ID)
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct PaymentIntent {
    pub(super) id: String,
    #[expect(dead_code, reason = "that it says what it is makes it one")]
    object: PaymentIntentWord,
    pub(super) amount: i64,
    pub(super) amount_received: i64,
    pub(super) currency: String,
    pub(super) status: String,
    pub(super) capture_method: String,
    pub(super) created: i64,
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) cancellation_reason: Option<String>,
    #[serde(default)]
    pub(super) last_payment_error: Option<Fault>,
    #[serde(default)]
    pub(super) next_action: Option<Box<RawValue>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Refund {
    pub(super) id: String,
    #[expect(dead_code, reason = "that it says what it is makes it one")]
    object: RefundWord,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) status: String,
    pub(super) created: i64,
    pub(super) payment_intent: Option<String>,
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) failure_reason: Option<String>,
}

/// `payment_intent`, and nothing else: objects of other kinds mean something else by the same members.
#[derive(Clone, Copy, Debug, Deserialize)]
enum PaymentIntentWord {
    #[serde(rename = "payment_intent")]
    PaymentIntent,
}

/// `refund`.
#[derive(Clone, Copy, Debug, Deserialize)]
enum RefundWord {
    #[serde(rename = "refund")]
    Refund,
}

/// One page of a list, newest first.
#[derive(Debug, Deserialize)]
pub(super) struct Page<T> {
    #[expect(dead_code, reason = "that it says what it is makes it one")]
    object: ListWord,
    pub(super) data: Vec<T>,
    pub(super) has_more: bool,
}

/// `list`.
#[derive(Clone, Copy, Debug, Deserialize)]
enum ListWord {
    #[serde(rename = "list")]
    List,
}

/// The body of an error.
#[derive(Debug, Deserialize)]
pub(super) struct Failure {
    pub(super) error: Fault,
}

/// What went wrong.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Fault {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) code: Option<String>,
    #[serde(default)]
    pub(super) decline_code: Option<String>,
    /// How the payment stands after it.
    #[serde(default)]
    pub(super) payment_intent: Option<Box<PaymentIntent>>,
}

impl Fault {
    /// The most telling word for it.
    pub(super) fn word(&self) -> &str {
        self.decline_code.as_deref().or(self.code.as_deref()).unwrap_or(&self.kind)
    }
}

impl Object for PaymentIntent {
    fn id(&self) -> &str {
        &self.id
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn created(&self) -> i64 {
        self.created
    }
}

impl Object for Refund {
    fn id(&self) -> &str {
        &self.id
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn created(&self) -> i64 {
        self.created
    }
}
