//! Which key the operation goes by.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use unavez_client::{Key, derive};

use super::CallArgs;
use crate::exit::Failure;

/// `charge:order_id`: a word, and the members of the body whose values follow it in the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyOf {
    word: String,
    members: Vec<String>,
}

impl KeyOf {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected a word and members of the body, such as charge:order_id";
        let mut parts = text.split(':').map(str::to_owned);
        let word = parts.next().filter(|word| !word.is_empty()).ok_or(EXPECTED)?;
        let members: Vec<String> = parts.collect();
        if members.is_empty() || members.iter().any(String::is_empty) {
            return Err(EXPECTED.to_owned());
        }
        Ok(Self { word, members })
    }

    /// The key for this body.
    fn of(&self, body: &[u8]) -> Result<Key, Failure> {
        let no_object = |_| Failure::usage("--key-of reads a JSON object, and the body is none");
        let object: BTreeMap<String, &RawValue> = serde_json::from_slice(body).map_err(no_object)?;
        let values: Result<Vec<String>, Failure> =
            self.members.iter().map(|member| value(&object, member)).collect();
        let values = values?;
        let parts: Vec<&str> = values.iter().map(String::as_str).collect();
        derive(&self.word, &parts).map_err(|error| Failure::usage(format!("no key can be made: {error}")))
    }
}

/// A text, or a whole number as it is written. Anything else does not name an operation.
fn value(object: &BTreeMap<String, &RawValue>, member: &str) -> Result<String, Failure> {
    let raw = object.get(member);
    let raw =
        raw.ok_or_else(|| Failure::usage(format!("the body has no member `{member}` for the key")))?.get();
    if let Ok(text) = serde_json::from_str::<String>(raw) {
        return Ok(text);
    }
    if raw.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(raw.to_owned());
    }
    Err(Failure::usage(format!(
        "the body's member `{member}` is neither text nor a whole number, so it names no key"
    )))
}

/// The key that was asked for; `None`: none was.
pub(super) fn chosen(args: &CallArgs, body: Option<&[u8]>) -> Result<Option<Key>, Failure> {
    match (&args.key, &args.key_of, args.no_key) {
        (None, None, false) if args.again => Err(Failure::usage(
            "--again asks for the key of the earlier call: give it with --key or --key-of",
        )),
        (None, None, _) => Ok(None),
        (Some(key), None, false) => Ok(Some(key.clone())),
        (None, Some(key_of), false) => key_of.of(body.unwrap_or_default()).map(Some),
        _ => Err(Failure::usage("of --key, --key-of and --no-key one at most can be meant")),
    }
}

/// For clap's `value_parser`.
pub(super) fn parse(text: &str) -> Result<Key, String> {
    Key::parse_path(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(key_of: &str, body: &str) -> Result<String, String> {
        let key = KeyOf::parse(key_of)?.of(body.as_bytes()).map_err(|failure| failure.to_string())?;
        Ok(key.as_str().to_owned())
    }

    #[test]
    fn c33_a_key_is_made_of_the_members_that_name_the_operation() {
        let body = r#"{"order_id":"o-1001","cycle":2,"at":"2026-12-01T04:00:00Z"}"#;
        assert_eq!(key("charge:order_id", body).as_deref(), Ok("charge:o-1001"));
        assert_eq!(key("cancel:order_id:cycle", body).as_deref(), Ok("cancel:o-1001:2"));
        let later = body.replace("04:00", "05:00");
        assert_eq!(key("charge:order_id", &later), key("charge:order_id", body));
        assert_ne!(key("refund:order_id", body), key("charge:order_id", body));
    }

    #[test]
    fn what_names_no_operation_makes_no_key() {
        for (key_of, body, why) in [
            ("charge", "{}", "expected a word"),
            ("charge:", "{}", "expected a word"),
            (":order_id", "{}", "expected a word"),
            ("charge:order_id", "{}", "no member `order_id`"),
            ("charge:order_id", "[]", "the body is none"),
            ("charge:order_id", r#"{"order_id":null}"#, "neither text nor a whole number"),
            ("charge:order_id", r#"{"order_id":1.5}"#, "neither text nor a whole number"),
            ("charge:order_id", r#"{"order_id":""}"#, "part 0 of the key is empty"),
        ] {
            let refused = key(key_of, body).expect_err(body);
            assert!(refused.contains(why), "{key_of} {body}: {refused}");
        }
    }
}
