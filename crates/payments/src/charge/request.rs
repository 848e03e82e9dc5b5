//! The body of `POST /v1/charges`, parsed into types that cannot be wrong.
//!
//! 1. Members are read once, from the raw text: no tree is built, and an amount's token is seen as it was sent.
//! 2. What is not named here is refused, `null` included: a misspelt `"captrue": false` must not charge at once.
//! 3. A [`Fault`] names the member, the shape seen and the limit. It never repeats a value.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::card;
use crate::acquirer::Kind;
use crate::money::{AMOUNT_MAX, Amount, Currency};

/// Longest order id, in characters.
pub const ORDER_ID_LENGTH_MAX: usize = 128;
/// Most members of `metadata`.
pub const METADATA_MEMBERS_MAX: usize = 20;
/// Longest name and longest value of a member of `metadata`, in characters.
pub const METADATA_LENGTH_MAX: usize = 500;

/// What a caller wants charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargeRequest {
    /// The caller's order.
    pub order_id: OrderId,
    /// How much.
    pub amount: Amount,
    /// In which currency.
    pub currency: Currency,
    /// With what; `None`: the caller did not say.
    pub payment_method: Option<PaymentMethod>,
    /// Whether the money moves at once.
    pub capture: Capture,
    /// What the caller attached.
    pub metadata: Metadata,
}

/// 1 to 128 printable characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderId(Box<str>);

/// What pays: a token of the acquirer's, 1 to 255 characters of printable ASCII without space. What it means, the acquirer
/// says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentMethod(Box<str>);

/// The tokens that the ledger knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TestToken {
    /// `tok_approve`: always approved.
    #[default]
    Approve,
    /// `tok_decline`: always declined.
    Decline,
}

/// Whether the money moves at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capture {
    /// With the charge.
    #[default]
    AtOnce,
    /// Later, by a capture of its own.
    Later,
}

/// Up to 20 strings of up to 500 characters, in the order they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata(Vec<(Box<str>, Box<str>)>);

/// What is wrong with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The member at fault; empty for the body as a whole.
    pub member: Box<str>,
    /// A fragment that names the member, the shape seen and the limit.
    pub detail: Box<str>,
}

impl ChargeRequest {
    /// Reads a body. No bytes at all are `{}`.
    ///
    /// # Errors
    /// The first [`Fault`] in the order of the text; then the first member that is missing.
    pub fn parse(body: &[u8]) -> Result<Self, Fault> {
        let mut draft = Draft::default();
        read_members(body, |name, value| draft.set(name, value))?;
        draft.complete()
    }

    /// How much a body asks for, and nothing else of it. `None` where that cannot be read.
    #[must_use]
    pub fn worth(body: &[u8]) -> Option<(Amount, Currency)> {
        let Worth { amount, currency } = serde_json::from_slice(body).ok()?;
        Some((parse_amount(amount.get()).ok()?, parse_currency(currency.get()).ok()?))
    }
}

#[derive(Deserialize)]
struct Worth<'a> {
    #[serde(borrow)]
    amount: &'a RawValue,
    #[serde(borrow)]
    currency: &'a RawValue,
}

/// Reads the amount of a step in a charge's life: `{"amount": …}`, or `{}` for all there is. A void has no amount.
///
/// # Errors
/// As [`ChargeRequest::parse`].
pub(crate) fn parse_step(step: Kind, body: &[u8]) -> Result<Option<Amount>, Fault> {
    let mut amount = None;
    read_members(body, |name, value| match name {
        "amount" if step != Kind::Void => once(&mut amount, name, parse_amount(value.get())?),
        _ => {
            let allowed = if step == Kind::Void { "is none" } else { "is amount" };
            Err(Fault::of(
                shown(name),
                format_args!("is not a member of a {}, allowed {allowed}", step.as_str()),
            ))
        }
    })?;
    Ok(amount)
}

/// Reads a body that is one object, or nothing at all.
fn read_members(body: &[u8], member: impl FnMut(&str, &RawValue) -> Result<(), Fault>) -> Result<(), Fault> {
    if card::is_in_json(body) {
        return Err(Fault::of_body("has what looks like a full card number, send a payment method token"));
    }
    let text = match std::str::from_utf8(body) {
        Ok("") => "{}",
        Ok(text) => text,
        Err(error) => {
            return Err(Fault::of_body(format!("is not UTF-8 from byte {}", error.valid_up_to())));
        }
    };
    if let Some(shape @ ("null" | "a boolean" | "a number" | "a string" | "an array")) = shape_of(text) {
        return Err(Fault::of_body(format!("is {shape}, allowed is an object")));
    }
    let mut members = Members { member, fault: None };
    let mut json = serde_json::Deserializer::from_str(text);
    let read = json.deserialize_map(&mut members).and_then(|()| json.end());
    match (read, members.fault) {
        (Err(error), _) => Err(Fault::of_body(NotJson(&error))),
        (Ok(()), Some(fault)) => Err(fault),
        (Ok(()), None) => Ok(()),
    }
}

impl OrderId {
    /// Checks an order id.
    ///
    /// # Errors
    /// What it breaks, as a fragment.
    pub fn parse(text: &str) -> Result<Self, String> {
        const LIMIT: &str = "allowed are 1 to 128 printable characters";
        // Counted only where the bytes leave a doubt: a character takes at least one.
        if text.len() > ORDER_ID_LENGTH_MAX {
            let length = text.chars().count();
            if length > ORDER_ID_LENGTH_MAX {
                return Err(format!("has {length} characters, {LIMIT}"));
            }
        }
        if text.is_empty() {
            return Err(format!("is empty, {LIMIT}"));
        }
        match text.chars().position(|it| !is_printable(it)) {
            Some(at) => Err(format!("has a character that cannot be printed at position {at}, {LIMIT}")),
            None => Ok(Self(text.into())),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Neither a control character nor one that only changes how others look: two order ids that read the same on a
/// screen must be the same.
fn is_printable(character: char) -> bool {
    !character.is_control()
        && !matches!(character,
            '\u{00AD}' | '\u{061C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}'
            | '\u{FFFE}' | '\u{FFFF}' | '\u{E0000}'..='\u{E0FFF}')
}

impl PaymentMethod {
    /// Checks a token's form.
    #[must_use]
    pub fn parse(token: &str) -> Option<Self> {
        let fits = (1..=255).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(token.into()))
    }

    /// The token.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TestToken {
    /// The token.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "tok_approve",
            Self::Decline => "tok_decline",
        }
    }

    /// The token of a request to the ledger; without one it is approved.
    ///
    /// # Errors
    /// A token that the ledger does not know.
    pub fn of(request: &ChargeRequest) -> Result<Self, Fault> {
        let Some(method) = &request.payment_method else { return Ok(Self::default()) };
        [Self::Approve, Self::Decline].into_iter().find(|it| it.as_str() == method.as_str()).ok_or_else(
            || {
                Fault::of(
                    "payment_method",
                    "is a token that the ledger does not know, allowed is tok_approve or tok_decline",
                )
            },
        )
    }
}

impl Metadata {
    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The JSON object that is stored and told; `None` for none.
    #[must_use]
    pub fn to_json(&self) -> Option<Box<str>> {
        if self.0.is_empty() {
            return None;
        }
        let mut json = String::from("{");
        for (at, (name, value)) in self.iter().enumerate() {
            json.push_str(if at == 0 { "" } else { "," });
            json.push_str(&serde_json::Value::from(name).to_string());
            json.push(':');
            json.push_str(&serde_json::Value::from(value).to_string());
        }
        json.push('}');
        Some(json.into())
    }
}

impl Fault {
    pub(crate) fn of(member: impl Into<Box<str>>, detail: impl fmt::Display) -> Self {
        let member = member.into();
        let detail = format!("{member} {detail}").into();
        Self { member, detail }
    }

    fn of_body(detail: impl fmt::Display) -> Self {
        Self { member: "".into(), detail: format!("body {detail}").into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Fault {}

/// What has been read so far.
#[derive(Default)]
struct Draft {
    order_id: Option<OrderId>,
    amount: Option<Amount>,
    currency: Option<Currency>,
    payment_method: Option<PaymentMethod>,
    capture: Option<Capture>,
    metadata: Option<Metadata>,
}

impl Draft {
    fn complete(self) -> Result<ChargeRequest, Fault> {
        let missing =
            |member: &str, what: &str| Fault::of(member, format_args!("is missing, required is {what}"));
        Ok(ChargeRequest {
            order_id: self.order_id.ok_or_else(|| missing("order_id", "a string of 1 to 128 characters"))?,
            amount: self.amount.ok_or_else(|| missing("amount", "a whole number of minor units"))?,
            currency: self.currency.ok_or_else(|| missing("currency", "an ISO 4217 code such as \"EUR\""))?,
            payment_method: self.payment_method,
            capture: self.capture.unwrap_or_default(),
            metadata: self.metadata.unwrap_or_default(),
        })
    }

    fn set(&mut self, name: &str, value: &RawValue) -> Result<(), Fault> {
        let token = value.get();
        match name {
            "order_id" => once(&mut self.order_id, name, parse_order_id(token)?),
            "amount" => once(&mut self.amount, name, parse_amount(token)?),
            "currency" => once(&mut self.currency, name, parse_currency(token)?),
            "payment_method" => once(&mut self.payment_method, name, parse_payment_method(token)?),
            "capture" => once(&mut self.capture, name, parse_capture(token)?),
            "metadata" => once(&mut self.metadata, name, parse_metadata(token)?),
            _ => Err(Fault::of(
                shown(name),
                "is not a member of a charge, \
                allowed are order_id, amount, currency, payment_method, capture and metadata",
            )),
        }
    }
}

fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), Fault> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Fault::of(name, "stands twice, allowed is once")),
    }
}

fn parse_order_id(token: &str) -> Result<OrderId, Fault> {
    let text = text_of("order_id", token, "a string of 1 to 128 printable characters")?;
    OrderId::parse(&text).map_err(|why| Fault::of("order_id", why))
}

fn parse_amount(token: &str) -> Result<Amount, Fault> {
    let allowed = format_args!("allowed are whole numbers from 1 to {AMOUNT_MAX}, in minor units");
    match shape_of(token) {
        Some("a number") => {
            Amount::parse_token(token).map_err(|why| Fault::of("amount", format_args!("{why}, {allowed}")))
        }
        shape => Err(Fault::of("amount", format_args!("is {}, {allowed}", shape.unwrap_or("nothing")))),
    }
}

fn parse_currency(token: &str) -> Result<Currency, Fault> {
    const ALLOWED: &str = "an upper-case ISO 4217 code such as \"EUR\"";
    let code = text_of("currency", token, ALLOWED)?;
    Currency::parse(&code).ok_or_else(|| {
        Fault::of(
            "currency",
            format_args!(
                "is a string of {} characters that is no code, allowed is {ALLOWED}",
                code.chars().count()
            ),
        )
    })
}

fn parse_payment_method(token: &str) -> Result<PaymentMethod, Fault> {
    const ALLOWED: &str =
        "a token of 1 to 255 characters of printable ASCII without space, such as tok_approve";
    let name = text_of("payment_method", token, ALLOWED)?;
    PaymentMethod::parse(&name).ok_or_else(|| {
        let length = name.chars().count();
        Fault::of(
            "payment_method",
            format_args!("is a string of {length} characters that is no token, allowed is {ALLOWED}"),
        )
    })
}

fn parse_capture(token: &str) -> Result<Capture, Fault> {
    match token {
        "true" => Ok(Capture::AtOnce),
        "false" => Ok(Capture::Later),
        _ => Err(mistaken("capture", token, "true or false")),
    }
}

fn parse_metadata(token: &str) -> Result<Metadata, Fault> {
    if !token.starts_with('{') {
        return Err(mistaken("metadata", token, "an object of at most 20 strings"));
    }
    let mut members = MetadataMembers { members: Vec::new(), fault: None };
    let read = serde_json::Deserializer::from_str(token).deserialize_map(&mut members);
    match (read, members.fault) {
        (Err(error), _) => Err(Fault::of("metadata", NotJson(&error))),
        (Ok(()), Some(fault)) => Err(fault),
        (Ok(()), None) => Ok(Metadata(members.members)),
    }
}

/// The text of a string token.
fn text_of<'a>(member: &str, token: &'a str, allowed: &str) -> Result<Cow<'a, str>, Fault> {
    if !token.starts_with('"') {
        return Err(mistaken(member, token, allowed));
    }
    match token[1..token.len() - 1].contains('\\') {
        false => Ok(Cow::Borrowed(&token[1..token.len() - 1])),
        true => {
            serde_json::from_str(token).map(Cow::Owned).map_err(|error| Fault::of(member, NotJson(&error)))
        }
    }
}

fn mistaken(member: &str, token: &str, allowed: &str) -> Fault {
    Fault::of(member, format_args!("is {}, allowed is {allowed}", shape_of(token).unwrap_or("nothing")))
}

/// What kind of value a JSON text begins.
fn shape_of(text: &str) -> Option<&'static str> {
    let first = text.bytes().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))?;
    Some(match first {
        b'{' => "an object",
        b'[' => "an array",
        b'"' => "a string",
        b't' | b'f' => "a boolean",
        b'n' => "null",
        b'-' | b'0'..=b'9' => "a number",
        _ => return None,
    })
}

/// A name of the caller's, short enough for a sentence.
fn shown(name: &str) -> String {
    const SHOWN_MAX: usize = 40;
    let plain = |it: char| if is_printable(it) { it } else { '\u{FFFD}' };
    let mut shown: String = name.chars().take(SHOWN_MAX).map(plain).collect();
    if name.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Where a text stops being JSON. The library's own words may repeat values, so only the place is told.
struct NotJson<'a>(&'a serde_json::Error);

impl fmt::Display for NotJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is not JSON from line {} column {}", self.0.line(), self.0.column())
    }
}

/// Reads the members of the body. After the first fault the rest is only checked for being JSON.
struct Members<F> {
    member: F,
    fault: Option<Fault>,
}

impl<'de, F: FnMut(&str, &RawValue) -> Result<(), Fault>> Visitor<'de> for &mut Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key_seed(Text)? {
            let value: &RawValue = members.next_value()?;
            if self.fault.is_none() {
                self.fault = (self.member)(&name, value).err();
            }
        }
        Ok(())
    }
}

struct MetadataMembers {
    members: Vec<(Box<str>, Box<str>)>,
    fault: Option<Fault>,
}

impl MetadataMembers {
    fn add(&mut self, name: &str, value: &RawValue) -> Result<(), Fault> {
        let member = || format!("metadata.{}", shown(name));
        if self.members.len() == METADATA_MEMBERS_MAX {
            return Err(Fault::of(
                "metadata",
                format_args!("has more than {METADATA_MEMBERS_MAX} members, limit {METADATA_MEMBERS_MAX}"),
            ));
        }
        if let Some(length) = too_long(name) {
            return Err(Fault::of(
                "metadata",
                format_args!("has a name of {length} characters, limit {METADATA_LENGTH_MAX}"),
            ));
        }
        if self.members.iter().any(|(other, _)| **other == *name) {
            return Err(Fault::of(member(), "stands twice, allowed is once"));
        }
        let token = value.get();
        let text = if token.starts_with('"') {
            text_of("metadata", token, "")?
        } else {
            return Err(mistaken(&member(), token, "a string of at most 500 characters"));
        };
        if let Some(length) = too_long(&text) {
            return Err(Fault::of(
                member(),
                format_args!("has {length} characters, limit {METADATA_LENGTH_MAX}"),
            ));
        }
        self.members.push((name.into(), text.into()));
        Ok(())
    }
}

/// The length in characters, if it is over the limit.
fn too_long(text: &str) -> Option<usize> {
    let length = if text.len() > METADATA_LENGTH_MAX { text.chars().count() } else { 0 };
    (length > METADATA_LENGTH_MAX).then_some(length)
}

impl<'de> Visitor<'de> for &mut MetadataMembers {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key_seed(Text)? {
            let value: &RawValue = members.next_value()?;
            if self.fault.is_none() {
                self.fault = self.add(&name, value).err();
            }
        }
        Ok(())
    }
}

/// A string that borrows from the input where nothing is escaped.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, text: D) -> Result<Cow<'de, str>, D::Error> {
        text.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &str) {
        let seen = match ChargeRequest::parse(body.as_bytes()) {
            Ok(request) => format!("{request:?}"),
            Err(fault) => format!("{}: {}", fault.member, fault.detail),
        };
        assert_eq!(seen, expected, "{body}");
    }

    fn with(member: &str) -> String {
        format!(r#"{{"order_id":"o-1","amount":500,"currency":"EUR",{member}}}"#)
    }

    #[test]
    fn a_plain_body_reads() {
        let request =
            ChargeRequest::parse(br#"{"amount":2500,"currency":"EUR","order_id":"o-1001"}"#).unwrap();
        assert_eq!(request.order_id.as_str(), "o-1001");
        assert_eq!(request.amount.minor_units(), 2500);
        assert_eq!(request.currency.code(), "EUR");
        assert_eq!(request.payment_method, None);
        assert_eq!(TestToken::of(&request), Ok(TestToken::Approve));
        assert_eq!(request.capture, Capture::AtOnce);
        assert_eq!(request.metadata.to_json(), None);
    }

    #[test]
    fn every_member_reads() {
        let body =
            with(r#""payment_method":"tok_decline","capture":false,"metadata":{"a\"":"\u00e9","b":""}"#);
        let request = ChargeRequest::parse(body.as_bytes()).unwrap();
        assert_eq!(TestToken::of(&request), Ok(TestToken::Decline));
        assert_eq!(request.capture, Capture::Later);
        assert_eq!(request.metadata.to_json().as_deref(), Some(r#"{"a\"":"é","b":""}"#));
    }

    #[test]
    fn the_body_as_a_whole() {
        check("", "order_id: order_id is missing, required is a string of 1 to 128 characters");
        check("[]", ": body is an array, allowed is an object");
        check("null", ": body is null, allowed is an object");
        check("5", ": body is a number, allowed is an object");
        check("{", ": body is not JSON from line 1 column 1");
        check("{} {}", ": body is not JSON from line 1 column 4");
        check("nonsense", ": body is null, allowed is an object");
        assert_eq!(
            &*ChargeRequest::parse(b"{\"a\":\"\xff\"}").unwrap_err().detail,
            "body is not UTF-8 from byte 6"
        );
    }

    #[test]
    fn faults_name_member_shape_and_limit() {
        let amount = "allowed are whole numbers from 1 to 999999999999, in minor units";
        for (member, expected) in [
            (r#""amount":1"#, "amount: amount stands twice, allowed is once".to_owned()),
            (r#""note":1"#, "note: note is not a member of a charge, allowed are order_id, amount, currency, payment_method, capture and metadata".to_owned()),
            (r#""capture":null"#, "capture: capture is null, allowed is true or false".to_owned()),
            (r#""capture":"true""#, "capture: capture is a string, allowed is true or false".to_owned()),
            (r#""payment_method":"tok pending""#, "payment_method: payment_method is a string of 11 characters that is no token, allowed is a token of 1 to 255 characters of printable ASCII without space, such as tok_approve".to_owned()),
            (r#""metadata":[]"#, "metadata: metadata is an array, allowed is an object of at most 20 strings".to_owned()),
            (r#""metadata":{"a":1}"#, "metadata.a: metadata.a is a number, allowed is a string of at most 500 characters".to_owned()),
            (r#""metadata":{"a":"","a":""}"#, "metadata.a: metadata.a stands twice, allowed is once".to_owned()),
        ] {
            check(&with(member), &expected);
        }
        for (token, shape) in [
            ("5.0", "is a number with a fraction or an exponent"),
            ("1e3", "is a number with a fraction or an exponent"),
            ("\"5\"", "is a string"),
            ("0", "is zero"),
            ("-0", "is negative"),
            ("9223372036854775808", "is a number of 19 digits"),
            ("null", "is null"),
            ("{}", "is an object"),
        ] {
            check(&format!(r#"{{"amount":{token}}}"#), &format!("amount: amount {shape}, {amount}"));
        }
        check(
            r#"{"currency":"eur"}"#,
            "currency: currency is a string of 3 characters that is no code, allowed is an upper-case ISO 4217 code such as \"EUR\"",
        );
        check(r#"{"order_id":""}"#, "order_id: order_id is empty, allowed are 1 to 128 printable characters");
        check(
            &format!(r#"{{"order_id":"{}"}}"#, "é".repeat(129)),
            "order_id: order_id has 129 characters, allowed are 1 to 128 printable characters",
        );
        check(
            r#"{"order_id":"a\u0000"}"#,
            "order_id: order_id has a character that cannot be printed at position 1, allowed are 1 to 128 printable characters",
        );
        check(
            r#"{"order_id":"a","amount":1}"#,
            "currency: currency is missing, required is an ISO 4217 code such as \"EUR\"",
        );
    }

    #[test]
    fn limits_are_inclusive() {
        assert!(OrderId::parse(&"é".repeat(128)).is_ok());
        let members = |count: usize| {
            (0..count).map(|at| format!("\"m{at}\":\"{}\"", "x".repeat(500))).collect::<Vec<_>>().join(",")
        };
        assert!(ChargeRequest::parse(with(&format!("\"metadata\":{{{}}}", members(20))).as_bytes()).is_ok());
        check(
            &with(&format!("\"metadata\":{{{}}}", members(21))),
            "metadata: metadata has more than 20 members, limit 20",
        );
        check(
            &with(&format!("\"metadata\":{{\"a\":\"{}\"}}", "x".repeat(501))),
            "metadata.a: metadata.a has 501 characters, limit 500",
        );
    }

    #[test]
    fn card_numbers_are_refused_without_being_repeated() {
        for body in [
            with(r#""metadata":{"note":"4111 1111 1111 1111"}"#),
            with(r#""4111111111111111":1"#),
            with(r#""card":"\u0034111111111111111""#),
            r#"{"order_id":"4111111111111111"}"#.to_owned(),
            "4111111111111111".to_owned(),
        ] {
            check(&body, ": body has what looks like a full card number, send a payment method token");
        }
    }
}
