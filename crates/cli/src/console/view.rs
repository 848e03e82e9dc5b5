//! What the pages show: values of the service turned into words, and the templates that hold them.

use askama::Template;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use unavez_core::answer::Conclusion;
use unavez_core::time::Time;
use unavez_payments::books::{
    CurrencySummary, Entry, KeyStatus, OperationHistory, OperationStanding, Reason,
};
use unavez_payments::charge::{Charge, Status};
use unavez_payments::money::Currency;

use super::operations::{FindingRow, OperationRow};

/// What every page has around it.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// The page's name in the navigation; none of them is marked otherwise.
    pub(super) place: &'static str,
    /// What stands in the search field.
    pub(super) query: String,
    pub(super) tenant: String,
    pub(super) realm: String,
    pub(super) now: Moment,
    /// Whether there is a session that can be ended.
    pub(super) signed_in: bool,
}

impl Frame {
    fn at(&self, place: &str) -> bool {
        self.place == place
    }
}

/// A point in time, three ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// RFC 3339, for machines and for whoever hovers.
    pub(super) exact: String,
    /// To the second, for people.
    pub(super) clock: String,
    /// Seen from now.
    pub(super) ago: String,
}

impl Moment {
    pub(super) fn new(time: Time, now: Time) -> Self {
        let clock = match jiff::Timestamp::from_microsecond(time.as_micros()) {
            Ok(timestamp) => timestamp.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
            Err(_) => "beyond the year 9999".to_owned(),
        };
        Self { exact: crate::time::rfc3339(time), clock, ago: ago(time, now) }
    }
}

/// `3 min ago`, `in 23 h`.
fn ago(time: Time, now: Time) -> String {
    let (past, future) = (now.since(time), time.since(now));
    match (past.as_secs(), future.as_secs()) {
        (0, 0) => "now".to_owned(),
        (_, 0) => format!("{} ago", crate::time::length(past)),
        _ => format!("in {}", crate::time::length(future)),
    }
}

/// An amount for people: `12,345.67` for 1234567 minor units of EUR.
pub(super) fn money(currency: Currency, minor_units: impl Into<i128>) -> String {
    let plain = currency.format(minor_units.into());
    let (whole, fraction) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let (sign, digits) = whole.split_at(whole.find(|c: char| c.is_ascii_digit()).unwrap_or(0));
    let mut grouped = String::with_capacity(plain.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{fraction}")
}

/// A word with a colour that says how it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pill {
    pub(super) word: &'static str,
    tone: &'static str,
}

impl Pill {
    /// How a charge stands, and what a person wants to know beside it.
    fn of_charge(charge: &Charge, payment: Option<&OperationHistory>) -> Vec<Self> {
        let stands = match (charge.status, payment) {
            (Status::Captured, _) if charge.amount_refunded == charge.amount_captured => {
                Self { word: "refunded", tone: "quiet" }
            }
            (Status::Captured, _) if charge.amount_refunded > 0 => {
                Self { word: "partly refunded", tone: "good" }
            }
            (Status::Created | Status::Pending, Some(payment)) => Self::of_payment(payment),
            (status, _) => Self::of_status(status),
        };
        let suspected = Self { word: "suspected duplicate", tone: "wait" };
        [stands].into_iter().chain(charge.suspected_duplicate_of.map(|_| suspected)).collect()
    }

    /// An operation that is not decided; `held` comes before what it waits for.
    fn of_payment(history: &OperationHistory) -> Self {
        let is_held = history.anomalies.iter().any(|it| it.reason == Reason::Held);
        match history.standing {
            standing if is_held && !standing.is_decided() => Self { word: "held", tone: "bad" },
            standing => Self::of_standing(standing),
        }
    }

    pub(super) fn of_operation(history: &OperationHistory) -> Self {
        Self::of_payment(history)
    }

    pub(super) fn of_status(status: Status) -> Self {
        let tone = match status {
            Status::Captured | Status::Authorized => "good",
            Status::Created => "run",
            Status::Pending => "wait",
            Status::Declined | Status::Voided => "quiet",
        };
        Self { word: status.as_str(), tone }
    }

    /// For a key: what became of it colours `finished`, and what waits for a person is said before its state.
    fn of_key(key: &KeyStatus) -> Self {
        let is_open = key.outcome.is_none();
        let (word, tone) = match key.state {
            _ if is_open && key.findings.contains(&Reason::Held) => ("held", "bad"),
            "finished" if key.outcome.is_some_and(|outcome| !outcome.is_positive()) => ("finished", "quiet"),
            "finished" => ("finished", "good"),
            "in_progress" => ("in progress", "run"),
            "pending" => ("pending", "wait"),
            other => (other, "bad"),
        };
        Self { word, tone }
    }

    pub(super) fn of_outcome(outcome: Conclusion) -> Self {
        let tone = match outcome {
            Conclusion::Approved => "good",
            Conclusion::Declined | Conclusion::Refused | Conclusion::Cancelled => "quiet",
        };
        Self { word: outcome.as_str(), tone }
    }

    pub(super) fn of_standing(standing: OperationStanding) -> Self {
        let tone = match standing {
            OperationStanding::Done => "good",
            OperationStanding::Open => "run",
            OperationStanding::Pending => "wait",
            OperationStanding::Unknown => "bad",
            OperationStanding::Declined | OperationStanding::Released => "quiet",
        };
        Self { word: standing.as_str(), tone }
    }

    fn of_balance(balanced: bool) -> Self {
        if balanced {
            Self { word: "balanced", tone: "good" }
        } else {
            Self { word: "not balanced", tone: "bad" }
        }
    }
}

/// One charge in a list.
#[derive(Clone, Debug)]
pub(super) struct ChargeRow {
    id: String,
    order_id: String,
    amount: String,
    currency: &'static str,
    pills: Vec<Pill>,
    created: Moment,
}

impl ChargeRow {
    /// `payment`: its operation outside, where that says more than the charge.
    pub(super) fn new(charge: &Charge, payment: Option<&OperationHistory>, now: Time) -> Self {
        Self {
            id: charge.id.to_string(),
            order_id: charge.order_id.to_string(),
            amount: money(charge.currency, charge.amount.minor_units()),
            currency: charge.currency.code(),
            pills: Pill::of_charge(charge, payment),
            created: Moment::new(charge.created_at, now),
        }
    }
}

/// One key in a list.
#[derive(Clone, Debug)]
pub(super) struct KeyRow {
    key: String,
    href: String,
    state: Pill,
    summary: String,
    created: Moment,
}

impl KeyRow {
    pub(super) fn new(key: &KeyStatus, now: Time) -> Self {
        Self {
            key: key.key.as_str().to_owned(),
            href: key_href(key.key.as_str()),
            state: Pill::of_key(key),
            summary: summary(key),
            created: Moment::new(key.created_at, now),
        }
    }
}

/// `approved, HTTP 201`, `2 attempts`.
fn summary(key: &KeyStatus) -> String {
    let mut parts = Vec::new();
    parts.extend(key.outcome.map(|outcome| outcome.as_str().to_owned()));
    parts.extend(key.status.map(|status| format!("HTTP {status}")));
    if key.attempts > 1 || parts.is_empty() {
        let plural = if key.attempts == 1 { "" } else { "s" };
        parts.push(format!("{} attempt{plural}", key.attempts));
    }
    parts.join(", ")
}

/// The ledger of one currency.
#[derive(Clone, Debug)]
pub(super) struct LedgerTile {
    currency: &'static str,
    captured: String,
    refunded: Option<String>,
    charges: String,
    balanced: Pill,
}

impl LedgerTile {
    pub(super) fn new(sum: &CurrencySummary) -> Self {
        let plural = if sum.charges == 1 { "" } else { "s" };
        Self {
            currency: sum.currency.code(),
            captured: money(sum.currency, sum.captured),
            refunded: (sum.refunded != 0).then(|| money(sum.currency, sum.refunded)),
            charges: format!("{} charge{plural}", sum.charges),
            balanced: Pill::of_balance(sum.balanced),
        }
    }
}

/// One line of the ledger.
#[derive(Clone, Debug)]
pub(super) struct EntryRow {
    id: String,
    kind: &'static str,
    debit: &'static str,
    credit: &'static str,
    amount: String,
    created: Moment,
}

impl EntryRow {
    pub(super) fn new(entry: &Entry, now: Time) -> Self {
        Self {
            id: entry.id.to_string(),
            kind: entry.kind.as_str(),
            debit: entry.debit.as_str(),
            credit: entry.credit.as_str(),
            amount: money(entry.currency, entry.amount.minor_units()),
            created: Moment::new(entry.created_at, now),
        }
    }
}

/// One choice above a list.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) word: &'static str,
    pub(super) href: String,
    pub(super) chosen: bool,
}

/// What a key's state means for whoever repeats it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meaning {
    headline: &'static str,
    detail: &'static str,
}

impl Meaning {
    pub(super) fn of_key(key: &KeyStatus) -> Self {
        match key.state {
            "unknown" | "pending" if key.findings.contains(&Reason::Held) => Self {
                headline: "Held for a person",
                detail: "Money may have moved, and nothing will settle it by itself: a repeat is answered 409 outcome-unknown, \
                         a new key may charge twice. Look it up at the acquirer under the operation's id, then settle it:",
            },
            "finished" => Self {
                headline: "A repeat gets the stored answer",
                detail: "Same status, same body, marked Idempotent-Replayed. Nothing runs again.",
            },
            "in_progress" => Self {
                headline: "An attempt is running",
                detail: "A repeat is answered 409 operation-in-progress until it ends. If its owner is lost, the key is found \
                         out about when the operation timeout is over.",
            },
            "pending" => Self {
                headline: "The outside system has not decided",
                detail: "A repeat is answered 409 outcome-pending. It is settled by a webhook or by the next question.",
            },
            "unknown" => Self {
                headline: "Nobody knows yet what became of it",
                detail: "Money may have moved. A repeat with the same key is safe, a new key is not.",
            },
            "abandoned" => Self {
                headline: "Held for an operator",
                detail: "It could not be found out what became of it, and nobody may run it again until it is settled by hand.",
            },
            _ => Self { headline: "A state of a newer version", detail: "This console does not know it." },
        }
    }
}

/// Something a key made.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) id: String,
    pub(super) href: String,
}

/// The charge that a key made or changed.
#[derive(Clone, Debug)]
pub(super) struct KeyCharge {
    pub(super) id: String,
    pub(super) order_id: String,
    pub(super) order_href: String,
    pub(super) kind: &'static str,
    pub(super) amount: String,
    pub(super) currency: &'static str,
}

#[derive(Template)]
#[template(path = "console/overview.html")]
pub(super) struct Overview {
    pub(super) frame: Frame,
    /// Where the API is, for the example.
    pub(super) base: String,
    pub(super) ledger: Vec<LedgerTile>,
    /// What is not decided, oldest first.
    pub(super) open: Vec<OperationRow>,
    /// What was found that does not fit, newest first.
    pub(super) findings: Vec<FindingRow>,
    pub(super) charges: Vec<ChargeRow>,
    pub(super) keys: Vec<KeyRow>,
}

#[derive(Template)]
#[template(path = "console/charges.html")]
pub(super) struct Charges {
    pub(super) frame: Frame,
    pub(super) filters: Vec<Filter>,
    pub(super) charges: Vec<ChargeRow>,
    pub(super) next: Option<String>,
}

#[derive(Template)]
#[template(path = "console/keys.html")]
pub(super) struct Keys {
    pub(super) frame: Frame,
    pub(super) keys: Vec<KeyRow>,
    pub(super) next: Option<String>,
}

#[derive(Template)]
#[template(path = "console/charge.html")]
pub(super) struct OneCharge {
    pub(super) frame: Frame,
    pub(super) charge: ChargeRow,
    pub(super) order_href: String,
    pub(super) captured: String,
    pub(super) refunded: String,
    pub(super) key: Option<KeyRow>,
    pub(super) operation_id: String,
    pub(super) metadata: Vec<(String, String)>,
    pub(super) entries: Vec<EntryRow>,
    /// What it means if there are none.
    pub(super) nothing_booked: String,
    pub(super) operations: Vec<OperationRow>,
}

#[derive(Template)]
#[template(path = "console/key.html")]
pub(super) struct OneKey {
    pub(super) frame: Frame,
    pub(super) key: KeyRow,
    pub(super) meaning: Meaning,
    pub(super) outcome: Option<Pill>,
    pub(super) status: Option<u16>,
    pub(super) resource: Option<Resource>,
    /// What a person types for one that is held.
    pub(super) commands: Vec<String>,
    pub(super) charge: Option<KeyCharge>,
    /// What the acquirer said last, and when.
    pub(super) last_question: Option<(String, Moment)>,
    pub(super) attempts: u32,
    pub(super) finished: Option<Moment>,
    pub(super) expires: Option<Moment>,
    pub(super) operation_id: String,
}

#[derive(Template)]
#[template(path = "console/found.html")]
pub(super) struct Found {
    pub(super) frame: Frame,
    pub(super) headline: String,
    pub(super) keys: Vec<KeyRow>,
    pub(super) charges: Vec<ChargeRow>,
    pub(super) next: Option<String>,
}

#[derive(Template)]
#[template(path = "console/message.html")]
pub(super) struct Message {
    pub(super) frame: Frame,
    pub(super) headline: &'static str,
    pub(super) detail: String,
}

#[derive(Template)]
#[template(path = "console/login.html")]
pub(super) struct Login {
    pub(super) refusal: Option<&'static str>,
    /// Where to go afterwards.
    pub(super) next: String,
}

/// Everything but what RFC 3986 calls unreserved.
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A value as part of a query.
pub(super) fn in_query(value: &str) -> String {
    utf8_percent_encode(value, IN_QUERY).to_string()
}

/// The page of a key. The key stands in the query: a path segment cannot hold every key (`..`).
pub(super) fn key_href(key: &str) -> String {
    format!("/console/key?key={}", in_query(key))
}

/// Members of a charge's metadata, for a page.
pub(super) fn metadata(json: Option<&str>) -> Vec<(String, String)> {
    let members: Option<serde_json::Map<String, serde_json::Value>> =
        json.and_then(|json| serde_json::from_str(json).ok());
    let text = |value: serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    members.unwrap_or_default().into_iter().map(|(name, value)| (name, text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn times_are_told_in_the_largest_whole_unit() {
        for (seconds, expected) in [
            (0, "now"),
            (-59, "59 s ago"),
            (-60, "1 min ago"),
            (-3_600, "1 h ago"),
            (-172_799, "47 h ago"),
            (-172_800, "2 days ago"),
            (86_400, "in 24 h"),
        ] {
            assert_eq!(ago(at(1_000_000 + seconds), at(1_000_000)), expected);
        }
        assert_eq!(Moment::new(at(0), at(60)).clock, "1970-01-01 00:00:00 UTC");
    }

    #[test]
    fn amounts_are_grouped_for_reading() {
        for (code, minor_units, expected) in [
            ("EUR", 0, "0.00"),
            ("EUR", 99_999, "999.99"),
            ("EUR", 100_000, "1,000.00"),
            ("EUR", -123_456_789, "-1,234,567.89"),
            ("JPY", 553_193, "553,193"),
            ("KWD", 1, "0.001"),
        ] {
            let currency = Currency::parse(code).expect("a currency");
            assert_eq!(money(currency, minor_units), expected);
        }
    }

    #[test]
    fn any_key_survives_the_way_through_a_link() {
        for key in ["..", "a/b?c=d&e#f", "\"quoted key\"", "%2e", "+"] {
            let href = key_href(key);
            let query = href.split_once("?key=").expect("a query").1;
            assert!(
                query.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte)),
                "{href}"
            );
            let back = percent_encoding::percent_decode_str(query).decode_utf8().expect("UTF-8");
            assert_eq!(back, key);
        }
    }

    #[test]
    fn what_callers_name_is_escaped_in_pages() {
        let frame = Frame {
            place: "",
            query: "\"><script>alert(1)</script>".to_owned(),
            tenant: "<b>t</b>".to_owned(),
            realm: "r".to_owned(),
            now: Moment::new(at(0), at(0)),
            signed_in: false,
        };
        let page =
            Message { frame, headline: "h", detail: "<img src=x>".to_owned() }.render().expect("renders");
        assert!(
            !page.contains("<script") && !page.contains("<b>t") && !page.contains("<img src=x"),
            "{page}"
        );
    }

    #[test]
    fn metadata_is_shown_member_by_member() {
        let shown = metadata(Some(r#"{"cart":"7","note":"a \"b\""}"#));
        assert_eq!(shown, [("cart".into(), "7".into()), ("note".into(), "a \"b\"".into())]);
        assert!(metadata(None).is_empty());
    }
}
