//! What goes over the wire, member by member in the order of the contract.
//!
//! A charge is told many thousand times a second, so it is written by hand; all else by serde. The structs with
//! `ToSchema` are what the OpenAPI document is made of.

use std::fmt::Write as _;

use bytes::Bytes;
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde::Serialize;
use serde_json::value::RawValue;
use unavez_core::time::Time;
use utoipa::ToSchema;

use crate::books::operations::Operation;
use crate::books::{CurrencySummary, Entry, KeyStatus, OperationStanding};
use crate::charge::{Charge, ChargeId};
use crate::hex::Hex;

/// RFC 3339 with microseconds in UTC: `2026-11-30T17:54:28.123456Z`.
pub(crate) fn rfc3339(time: Time) -> String {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
    // Times beyond the calendar's end come from an expiry that saturated; its end says as much.
    let stamp = Timestamp::from_microsecond(time.as_micros()).unwrap_or(Timestamp::MAX);
    PRINTER.timestamp_to_string(&stamp)
}

/// The document of a charge.
pub(crate) fn charge_json(charge: &Charge) -> String {
    let mut json = UntimedCharge::of(charge).at(charge.created_at, charge.suspected_duplicate_of);
    if let Some(next_action) = &charge.next_action {
        json.pop();
        for part in [",\"next_action\":", next_action, "}"] {
            json.push_str(part);
        }
    }
    json
}

/// The document of a refund.
pub(crate) fn refund_json(operation: &Operation) -> String {
    let status = match operation.standing {
        OperationStanding::Done => RefundStatus::Succeeded,
        OperationStanding::Declined | OperationStanding::Released => RefundStatus::Failed,
        OperationStanding::Open | OperationStanding::Unknown | OperationStanding::Pending => {
            RefundStatus::Pending
        }
    };
    to_json(&RefundDocument {
        id: operation.refund_id().to_string(),
        object: "refund",
        charge_id: operation.charge_id.to_string(),
        amount: operation.amount.minor_units(),
        currency: operation.currency.code(),
        status,
        operation_id: operation.id.operation_id().to_string(),
        created_at: rfc3339(operation.created_at),
    })
}

/// The document of a charge up to its time, which stands last: all that can be written before the charge is claimed.
pub(crate) struct UntimedCharge(String);

impl UntimedCharge {
    pub(crate) fn of(charge: &Charge) -> Self {
        let operation = Hex::of(charge.id.operation_id().record_id().as_bytes());
        let operation = operation.as_str();
        let mut json = String::with_capacity(512);
        for part in ["{\"id\":\"ch_", operation, "\",\"object\":\"charge\",\"order_id\":"] {
            json.push_str(part);
        }
        push_text(&mut json, &charge.order_id);
        write!(
            json,
            ",\"amount\":{},\"currency\":\"{}\",\"status\":\"{}\",\"amount_captured\":{},\"amount_refunded\":{}",
            charge.amount.minor_units(),
            charge.currency.code(),
            charge.status.as_str(),
            charge.amount_captured,
            charge.amount_refunded
        )
        .expect("writing to a String cannot fail");
        let metadata = charge.metadata.as_deref().unwrap_or("{}");
        for part in [",\"operation_id\":\"op_", operation, "\",\"metadata\":", metadata, ",\"created_at\":\""]
        {
            json.push_str(part);
        }
        Self(json)
    }

    pub(crate) fn at(&self, created_at: Time, suspected_duplicate_of: Option<ChargeId>) -> String {
        let mut json = String::with_capacity(self.0.len() + 100);
        json.push_str(&self.0);
        json.push_str(&rfc3339(created_at));
        if let Some(first) = suspected_duplicate_of {
            json.push_str("\",\"suspected_duplicate_of\":\"");
            json.push_str(&first.to_string());
        }
        json.push_str("\"}");
        json
    }
}

/// Most texts need no escapes, and then none are looked for twice.
fn push_text(json: &mut String, text: &str) {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        json.push('"');
        json.push_str(text);
        json.push('"');
    } else {
        json.push_str(&serde_json::Value::from(text).to_string());
    }
}

/// A page of a list, whose items are documents already.
pub(crate) fn list_json(items: impl Iterator<Item = String>, next: Option<String>) -> Bytes {
    let items: Vec<String> = items.collect();
    let next = next.map_or_else(|| "null".to_owned(), |id| serde_json::Value::from(id).to_string());
    Bytes::from(format!("{{\"data\":[{}],\"next\":{next}}}", items.join(",")))
}

pub(crate) fn to_json(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("documents have text keys and no failing members")
}

/// A charge.
#[derive(Serialize, ToSchema)]
#[schema(as = Charge)]
#[cfg_attr(test, derive(serde::Deserialize, PartialEq, Debug), serde(deny_unknown_fields))]
pub(crate) struct ChargeDocument {
    /// `ch_` and 32 hex digits.
    #[schema(example = "ch_71dbf60ddff57a65e876c0875e809934")]
    id: String,
    #[schema(inline)]
    object: ChargeObject,
    #[schema(example = "o-1001", min_length = 1, max_length = 128)]
    order_id: String,
    /// Minor units.
    #[schema(example = 2500, minimum = 1, maximum = 999_999_999_999_i64)]
    amount: i64,
    /// ISO 4217.
    #[schema(example = "EUR")]
    currency: String,
    status: ChargeStatus,
    /// Minor units moved so far.
    amount_captured: i64,
    /// Minor units moved back so far.
    amount_refunded: i64,
    /// `op_` and 32 hex digits: the operation's name at outside systems.
    #[schema(example = "op_71dbf60ddff57a65e876c0875e809934")]
    operation_id: String,
    metadata: std::collections::BTreeMap<String, String>,
    /// RFC 3339, UTC.
    #[schema(format = DateTime)]
    created_at: String,
    /// Where one was suspected: an earlier charge of the same order under another key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, serde(default))]
    suspected_duplicate_of: Option<String>,
    /// While the acquirer has not decided, and where it says so: what the customer has to do.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, serde(default))]
    next_action: Option<serde_json::Value>,
}

/// A refund.
#[derive(Serialize, ToSchema)]
#[schema(as = Refund)]
pub(crate) struct RefundDocument {
    /// `re_`, the charge's 32 hex digits, `_` and a number.
    #[schema(example = "re_71dbf60ddff57a65e876c0875e809934_1")]
    id: String,
    /// Always `refund`.
    object: &'static str,
    charge_id: String,
    /// Minor units.
    amount: i64,
    /// ISO 4217.
    currency: &'static str,
    status: RefundStatus,
    /// `op_` and 32 hex digits: the refund's own name at outside systems.
    operation_id: String,
    /// RFC 3339, UTC.
    #[schema(format = DateTime)]
    created_at: String,
}

/// Where a refund stands.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RefundStatus {
    Pending,
    Succeeded,
    Failed,
}

/// Always `charge`.
#[derive(Serialize, ToSchema)]
#[cfg_attr(not(test), expect(dead_code, reason = "describes a word that is written by hand"))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(serde::Deserialize, PartialEq, Debug))]
pub(crate) enum ChargeObject {
    Charge,
}

/// Where a charge stands.
#[derive(Serialize, ToSchema)]
#[cfg_attr(not(test), expect(dead_code, reason = "describes words that are written by hand"))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(serde::Deserialize, PartialEq, Debug))]
pub(crate) enum ChargeStatus {
    Created,
    Pending,
    Authorized,
    Captured,
    Declined,
    Voided,
}

/// One page of charges, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChargeList {
    data: Vec<ChargeDocument>,
    /// What `after` takes for the next page; null on the last one.
    next: Option<String>,
}

/// A line of the ledger: `debit` pays `amount` to `credit`.
#[derive(Serialize, ToSchema)]
#[schema(as = Entry)]
pub(crate) struct EntryDocument {
    /// `le_`, the charge's 32 hex digits, `_` and a number.
    #[schema(example = "le_71dbf60ddff57a65e876c0875e809934_1")]
    id: String,
    charge_id: String,
    /// `capture` or `refund`.
    kind: &'static str,
    /// `customer` or `merchant`.
    debit: &'static str,
    /// `customer` or `merchant`.
    credit: &'static str,
    /// Minor units.
    amount: i64,
    currency: &'static str,
    /// RFC 3339, UTC.
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<&Entry> for EntryDocument {
    fn from(entry: &Entry) -> Self {
        Self {
            id: entry.id.to_string(),
            charge_id: entry.id.charge.to_string(),
            kind: entry.kind.as_str(),
            debit: entry.debit.as_str(),
            credit: entry.credit.as_str(),
            amount: entry.amount.minor_units(),
            currency: entry.currency.code(),
            created_at: rfc3339(entry.created_at),
        }
    }
}

/// One page of entries, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct EntryList {
    data: Vec<EntryDocument>,
    /// What `after` takes for the next page; null on the last one.
    next: Option<String>,
}

/// The sums of the caller's ledger.
#[derive(Serialize, ToSchema)]
pub(crate) struct Summary {
    currencies: Vec<SummaryOfCurrency>,
}

/// One currency of the ledger.
#[derive(Serialize, ToSchema)]
pub(crate) struct SummaryOfCurrency {
    currency: &'static str,
    /// Charges whose money moved.
    charges: u64,
    /// Minor units.
    #[schema(value_type = u64)]
    captured: Box<RawValue>,
    /// Minor units.
    #[schema(value_type = u64)]
    refunded: Box<RawValue>,
    /// Whether entries and charges, each summed up by itself, say the same.
    balanced: bool,
}

impl Summary {
    pub(crate) fn of(currencies: &[CurrencySummary]) -> Self {
        Self { currencies: currencies.iter().map(SummaryOfCurrency::of).collect() }
    }
}

impl SummaryOfCurrency {
    fn of(summary: &CurrencySummary) -> Self {
        Self {
            currency: summary.currency.code(),
            charges: summary.charges,
            captured: whole_number(summary.captured),
            refunded: whole_number(summary.refunded),
            balanced: summary.balanced,
        }
    }
}

/// Sums may leave 64 bits, and serde's own numbers do not.
fn whole_number(sum: i128) -> Box<RawValue> {
    RawValue::from_string(sum.to_string()).expect("digits are JSON")
}

/// What is known about a key.
#[derive(Serialize, ToSchema)]
#[schema(as = KeyStatus)]
pub(crate) struct KeyDocument<'a> {
    key: &'a str,
    /// `in_progress`, `pending`, `unknown`, `finished` or `abandoned`.
    state: &'static str,
    /// `approved`, `declined`, `refused` or `cancelled`; null while it is not known.
    outcome: Option<&'static str>,
    /// Attempts started so far.
    attempts: u32,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    finished_at: Option<String>,
    /// Until when the answer is repeated.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// HTTP status of the first answer.
    status: Option<u16>,
    resource_id: Option<&'a str>,
    operation_id: String,
    /// What was found about the operation that does not fit and needs a person, such as `contradiction`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<&'static str>,
}

impl<'a> From<&'a KeyStatus> for KeyDocument<'a> {
    fn from(status: &'a KeyStatus) -> Self {
        Self {
            key: status.key.as_str(),
            state: status.state,
            outcome: status.outcome.map(|outcome| outcome.as_str()),
            attempts: status.attempts,
            created_at: rfc3339(status.created_at),
            finished_at: status.finished_at.map(rfc3339),
            expires_at: status.expires_at.map(rfc3339),
            status: status.status,
            resource_id: status.resource_id.as_deref(),
            operation_id: status.operation_id.to_string(),
            findings: status.findings.iter().map(|reason| reason.as_str()).collect(),
        }
    }
}

/// What became of a key that was to be cancelled.
#[derive(Serialize, ToSchema)]
pub(crate) struct Cancelled<'a> {
    pub(crate) key: &'a str,
    /// Always `finished`.
    pub(crate) state: &'static str,
    /// `cancelled`: no request with this key ran, and none ever will. Anything else: it was finished before.
    pub(crate) outcome: &'static str,
}

/// That the process answers, and what it is.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health<'a> {
    /// Always `ok`.
    pub(crate) status: &'static str,
    /// Where money moves: `ledger` and `sandbox` move none outside.
    pub(crate) acquirer: &'a str,
    pub(crate) version: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::{ChargeId, Status};
    use crate::money::{Amount, Currency};

    fn charge(order_id: &str, metadata: Option<&str>) -> Charge {
        Charge {
            id: ChargeId::parse("ch_71dbf60ddff57a65e876c0875e809934").unwrap(),
            order_id: order_id.into(),
            amount: Amount::of_minor_units(2500).unwrap(),
            currency: Currency::parse("EUR").unwrap(),
            status: Status::Captured,
            amount_captured: 2500,
            amount_refunded: 0,
            metadata: metadata.map(Into::into),
            suspected_duplicate_of: None,
            next_action: None,
            created_at: Time::from_micros(1_795_000_000_000_001),
        }
    }

    #[test]
    fn a_charge_is_told_as_the_contract_says() {
        assert_eq!(
            charge_json(&charge("o-1001", None)),
            "{\"id\":\"ch_71dbf60ddff57a65e876c0875e809934\",\"object\":\"charge\",\"order_id\":\"o-1001\",\
             \"amount\":2500,\"currency\":\"EUR\",\"status\":\"captured\",\"amount_captured\":2500,\
             \"amount_refunded\":0,\"operation_id\":\"op_71dbf60ddff57a65e876c0875e809934\",\"metadata\":{},\
             \"created_at\":\"2026-11-18T11:06:40.000001Z\"}"
        );
    }

    #[test]
    fn the_document_is_the_one_of_the_schema() {
        for (order_id, metadata) in [("o", None), ("a\"b\\c\u{7f}é", Some("{\"k\":\"v\"}"))] {
            let json = charge_json(&charge(order_id, metadata));
            let document: ChargeDocument = serde_json::from_str(&json).unwrap();
            assert_eq!(document.order_id, order_id);
            assert_eq!(document.object, ChargeObject::Charge);
            assert_eq!(document.status, ChargeStatus::Captured);
            assert_eq!(document.metadata.len(), usize::from(metadata.is_some()));
            assert_eq!(to_json(&document), json);
        }
    }

    #[test]
    fn what_few_charges_have_stands_behind_the_time() {
        let mut charge = charge("o", None);
        charge.suspected_duplicate_of = ChargeId::parse("ch_71dbf60ddff57a65e876c0875e809935");
        charge.next_action = Some("{\"type\":\"redirect\"}".into());
        let json = charge_json(&charge);
        assert!(
            json.ends_with(
                "\"created_at\":\"2026-11-18T11:06:40.000001Z\",\
                 \"suspected_duplicate_of\":\"ch_71dbf60ddff57a65e876c0875e809935\",\
                 \"next_action\":{\"type\":\"redirect\"}}"
            ),
            "{json}"
        );
        assert_eq!(to_json(&serde_json::from_str::<ChargeDocument>(&json).unwrap()), json);
    }

    #[test]
    fn sums_beyond_64_bits_are_told_digit_by_digit() {
        let currency = Currency::parse("EUR").unwrap();
        let captured = i128::from(i64::MAX) * 10;
        let summary = [CurrencySummary { currency, charges: 1, captured, refunded: 0, balanced: true }];
        assert_eq!(
            to_json(&Summary::of(&summary)),
            "{\"currencies\":[{\"currency\":\"EUR\",\"charges\":1,\"captured\":92233720368547758070,\
             \"refunded\":0,\"balanced\":true}]}"
        );
    }

    #[test]
    fn times_have_six_digits_and_an_end() {
        assert_eq!(rfc3339(Time::from_micros(0)), "1970-01-01T00:00:00.000000Z");
        assert_eq!(rfc3339(Time::MAX), "9999-12-30T22:00:00.999999Z");
    }
}
