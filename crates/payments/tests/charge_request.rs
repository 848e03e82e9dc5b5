//! The parser of charges against an independent, slow checker.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

use proptest::prelude::*;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use unavez_payments::charge::ChargeRequest;
use unavez_payments::money::Currency;

/// An object with all its members, repeated ones included, and their texts.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> serde::Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        json.deserialize_map(All)
    }
}

/// Whether the contract allows a body: every rule spelled out on a tree, without a thought for speed.
fn is_allowed(body: &str) -> bool {
    let body = if body.is_empty() { "{}" } else { body };
    let Ok(Members(members)) = serde_json::from_str(body) else { return false };
    let tree = |text: &RawValue| serde_json::from_str::<Value>(text.get()).expect("JSON within JSON");
    let known = ["order_id", "amount", "currency", "payment_method", "capture", "metadata"];
    let once_and = |name: &str, required: bool, rule: &dyn Fn(&RawValue) -> bool| match members
        .iter()
        .filter(|(other, _)| other == name)
        .collect::<Vec<_>>()[..]
    {
        [] => !required,
        [(_, text)] => rule(text),
        _ => false,
    };
    members.iter().all(|(name, _)| known.contains(&name.as_str()))
        && once_and("order_id", true, &|text| {
            tree(text).as_str().is_some_and(|text| {
                (1..=128).contains(&text.chars().count())
                    && text
                        .chars()
                        .all(|it| !it.is_control() && !"\u{ad}\u{200b}\u{202e}\u{feff}".contains(it))
            })
        })
        && once_and("amount", true, &|text| {
            tree(text).as_u64().is_some_and(|amount| (1..=999_999_999_999).contains(&amount))
        })
        && once_and("currency", true, &|text| {
            tree(text).as_str().is_some_and(|code| Currency::all().any(|currency| currency.code() == code))
        })
        && once_and("payment_method", false, &|text| {
            let is_token = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
            tree(text).as_str().is_some_and(|text| text.len() <= 255 && is_token(text))
        })
        && once_and("capture", false, &|text| tree(text).is_boolean())
        && once_and("metadata", false, &|text| is_metadata(text.get()))
        && !members.iter().any(|(name, text)| has_card(name) || value_has_card(&tree(text)))
}

fn is_metadata(text: &str) -> bool {
    let Ok(Members(entries)) = serde_json::from_str(text) else { return false };
    let names: std::collections::HashSet<_> = entries.iter().map(|(name, _)| name).collect();
    let short = |text: &str| text.chars().count() <= 500;
    names.len() == entries.len()
        && entries.len() <= 20
        && entries.iter().all(|(name, text)| {
            let value = serde_json::from_str::<Value>(text.get()).expect("JSON within JSON");
            short(name) && value.as_str().is_some_and(short)
        })
}

fn value_has_card(value: &Value) -> bool {
    match value {
        Value::String(text) => has_card(text),
        Value::Array(items) => items.iter().any(value_has_card),
        Value::Object(members) => members.iter().any(|(name, value)| has_card(name) || value_has_card(value)),
        Value::Number(number) => has_card(&number.to_string()),
        _ => false,
    }
}

/// Every piece of the text that could be a card number, tried one by one.
fn has_card(text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    (0..text.len()).any(|start| {
        (start + 1..=text.len()).any(|end| {
            let piece = &text[start..end];
            let digits: Vec<u32> = piece.iter().filter_map(|it| it.to_digit(10)).collect();
            let whole_groups = piece[0].is_ascii_digit()
                && piece[piece.len() - 1].is_ascii_digit()
                && !start.checked_sub(1).is_some_and(|before| text[before].is_ascii_digit())
                && !text.get(end).is_some_and(char::is_ascii_digit);
            let near = piece.windows(3).all(|three| three.iter().any(char::is_ascii_digit));
            whole_groups
                && near
                && piece.iter().all(|it| it.is_ascii_digit() || separates(*it))
                && of_a_scheme(&digits)
                && luhn(&digits)
                && !stands_in_hexadecimal(&text, start)
        })
    })
}

fn separates(it: char) -> bool {
    " -._\u{a0}\u{202f}".contains(it) || ('\u{2010}'..='\u{2015}').contains(&it)
}

/// What the schemes' numbers begin with, from and to, and how many digits they may have.
const SCHEMES: [(&str, &str, &[usize]); 13] = [
    ("4", "4", &[13, 16, 19]),
    ("2221", "2720", &[16]),
    ("51", "55", &[16]),
    ("34", "34", &[15]),
    ("37", "37", &[15]),
    ("300", "305", &[14, 15, 16, 17, 18, 19]),
    ("3095", "3095", &[14, 15, 16, 17, 18, 19]),
    ("36", "36", &[14, 15, 16, 17, 18, 19]),
    ("38", "39", &[14, 15, 16, 17, 18, 19]),
    ("3528", "3589", &[16, 17, 18, 19]),
    ("50", "50", &[13, 14, 15, 16, 17, 18, 19]),
    ("56", "58", &[13, 14, 15, 16, 17, 18, 19]),
    ("6", "6", &[13, 14, 15, 16, 17, 18, 19]),
];

fn of_a_scheme(digits: &[u32]) -> bool {
    let written: String = digits.iter().map(u32::to_string).collect();
    SCHEMES.iter().any(|(from, to, lengths)| {
        let beginning = written.get(..from.len());
        beginning.is_some_and(|it| (*from..=*to).contains(&it)) && lengths.contains(&digits.len())
    })
}

/// Whether the digit at `at` is one of a UUID or a digest: 24 hexadecimal digits or more, dashes aside, not all decimal.
fn stands_in_hexadecimal(text: &[char], at: usize) -> bool {
    let belongs = |it: &char| it.is_ascii_hexdigit() || *it == '-';
    let start = text[..at].iter().rposition(|it| !belongs(it)).map_or(0, |other| other + 1);
    let token: String = text[start..].iter().take_while(|it| belongs(it)).filter(|it| **it != '-').collect();
    token.len() >= 24 && token.contains(|it: char| it.is_ascii_alphabetic())
}

fn luhn(digits: &[u32]) -> bool {
    let mut sum = 0;
    for (at, digit) in digits.iter().rev().enumerate() {
        let weighed = if at % 2 == 0 { *digit } else { digit * 2 };
        sum += weighed / 10 + weighed % 10;
    }
    sum % 10 == 0
}

fn token() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        4 => "[ -~]{0,12}",
        1 => "[a-zé\u{1F600}\u{0}\n\u{200b}\u{202e}]{0,8}",
        1 => "[a-z]{120,135}",
        1 => "[a-z]{495,505}",
        1 => "[0-9]{13,19}",
        1 => "[23456][0-9]{3}([ ._-]{0,3}[0-9]{3,6}){2,4}",
        1 => "[0-9a-f-]{0,20}[0-9]{13,16}[a-f-]{0,4}",
        1 => Just("4111 1111 1111 1111".to_owned()),
        2 => prop::sample::select(vec!["EUR", "JPY", "eur", "ZZZ", "tok_approve", "tok_decline", "tok_lost"]).prop_map(str::to_owned),
    ]
    .prop_map(|text| Value::from(text).to_string());
    let number = prop_oneof![
        "[1-9][0-9]{0,13}",
        "-?0",
        "-[1-9]",
        "[0-9]\\.[0-9]",
        "[1-9]e[1-3]",
        Just("999999999999".to_owned()),
        Just("1000000000000".to_owned()),
        Just("9223372036854775808".to_owned()),
    ];
    let leaf = prop_oneof![
        text,
        number,
        prop::sample::select(vec!["null", "true", "false", "[]", "{}"]).prop_map(str::to_owned)
    ];
    leaf.prop_recursive(2, 30, 22, |inner| {
        prop::collection::vec(("[a-c]{0,2}|[a-z]{499,502}", inner), 0..22)
            .prop_map(|members| object(&members))
    })
}

fn object(members: &[(String, String)]) -> String {
    let members: Vec<_> =
        members.iter().map(|(name, token)| format!("{}:{token}", Value::from(name.as_str()))).collect();
    format!("{{{}}}", members.join(","))
}

/// Mostly right bodies with something wrong here and there; random ones would all fail in the first byte.
fn body() -> impl Strategy<Value = String> {
    let or_other =
        |weight: u32, right: BoxedStrategy<String>| prop_oneof![weight => right, 1 => token()].boxed();
    let order_id = or_other(6, "[a-z0-9-]{1,8}".prop_map(|text| Value::from(text).to_string()).boxed());
    let amount = or_other(6, "[1-9][0-9]{0,11}".boxed());
    let currency = or_other(6, Just("\"EUR\"".to_owned()).boxed());
    let method = or_other(
        2,
        prop::sample::select(vec!["\"tok_approve\"", "\"tok_decline\""]).prop_map(str::to_owned).boxed(),
    );
    let capture = or_other(2, prop::sample::select(vec!["true", "false"]).prop_map(str::to_owned).boxed());
    let metadata = prop::collection::vec(("[a-z]{1,3}", "\"[a-z ]{0,9}\""), 0..22).prop_map(|members| {
        let mut members = members;
        members.sort();
        members.dedup_by(|one, other| one.0 == other.0);
        object(&members)
    });
    let metadata = or_other(2, metadata.boxed());
    let member = |name: &'static str, token: BoxedStrategy<String>, present: f64| {
        prop::option::weighted(present, token)
            .prop_map(move |token| token.map(|token| (name.to_owned(), token)))
    };
    let members = (
        member("order_id", order_id, 0.95),
        member("amount", amount, 0.95),
        member("currency", currency, 0.95),
        member("payment_method", method, 0.4),
        member("capture", capture, 0.4),
        member("metadata", metadata, 0.4),
        prop::option::weighted(0.05, ("order_id|capture|note|[0-9]{16}", token())),
    );
    members
        .prop_map(|(a, b, c, d, e, f, g)| [a, b, c, d, e, f, g].into_iter().flatten().collect::<Vec<_>>())
        .prop_shuffle()
        .prop_map(|members| object(&members))
}

/// Every character of every string as an escape.
fn escaped(body: &str) -> String {
    let mut inside = false;
    let mut last = ' ';
    body.chars()
        .map(|it| {
            inside ^= it == '"' && last != '\\';
            last = if last == '\\' { ' ' } else { it };
            if inside && it.is_ascii_alphanumeric() && !body.contains('\\') {
                format!("\\u{:04x}", u32::from(it))
            } else {
                it.to_string()
            }
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_body_is_accepted_if_and_only_if_the_contract_allows_it(body in body()) {
        let parsed = ChargeRequest::parse(body.as_bytes());
        prop_assert_eq!(parsed.is_ok(), is_allowed(&body), "{} {:?}", body, parsed);
        let escaped = escaped(&body);
        prop_assert_eq!(ChargeRequest::parse(escaped.as_bytes()), parsed, "{}", escaped);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..200_usize, body in body()) {
        let _ = ChargeRequest::parse(&bytes);
        let cut = cut.min(body.len());
        let _ = ChargeRequest::parse(&body.as_bytes()[..cut]);
        let spliced = [&body.as_bytes()[..cut], &bytes, &body.as_bytes()[cut..]].concat();
        if let Ok(text) = std::str::from_utf8(&spliced) {
            prop_assert_eq!(ChargeRequest::parse(&spliced).is_ok(), is_allowed(text), "{}", text);
        }
    }
}
