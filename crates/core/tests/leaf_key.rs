//! P1: what is a key, in both spellings, and what is none.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashSet;

use proptest::prelude::*;
use sfv::Parser;
use unavez_core::key::{KEY_LENGTH_MAX, Key, KeyError};

fn read(line: impl AsRef<[u8]>) -> Result<Key, KeyError> {
    Key::parse_header_values([line.as_ref()]).map(|key| key.expect("there is a line"))
}

#[track_caller]
fn check_reads(line: &str, expected: &str) {
    assert_eq!(read(line).unwrap().as_str(), expected, "{line:?}");
}

#[track_caller]
fn check_refused(line: impl AsRef<[u8]>, expected: &str) {
    let error = read(line.as_ref()).unwrap_err();
    assert_eq!(error.to_string(), expected, "{:?}", String::from_utf8_lossy(line.as_ref()));
}

#[test]
fn p1_both_spellings_of_a_value_are_one_key() {
    check_reads("o-1001", "o-1001");
    check_reads("\"o-1001\"", "o-1001");
    check_reads(" \to-1001\t ", "o-1001");
    check_reads(" \"o-1001\" ", "o-1001");
    check_reads(r#""a \"quoted\" \\ key""#, r#"a "quoted" \ key"#);
    check_reads("\"a, b\"", "a, b");
    check_reads(r"back\slash", r"back\slash");
    check_reads("a;b=c", "a;b=c");
    check_reads("it's'", "it's'");
}

#[test]
fn p1_parameters_of_a_quoted_key_are_ignored() {
    for parameters in [
        "",
        ";a",
        "; a",
        ";a;b",
        ";*x",
        ";a=1",
        ";a=-12.345",
        ";a=tok/en",
        ";a=*t",
        ";a=\"s\\\"\"",
        ";a=?1",
        ";a=:aGk=:",
        ";a=:aGk:",
        ";a=::",
        ";a=@-1",
        ";a=%\"f%c3%bc\"",
        ";a=1;a=2",
        ";a.b-c_d*=1",
    ] {
        check_reads(&format!("\"k\"{parameters}"), "k");
    }
}

#[test]
fn p1_malformed_parameters_are_refused() {
    for parameters in [
        ";",
        "; ",
        ";A",
        ";1",
        ";a=",
        ";a= 1",
        ";a=1.",
        ";a=1.1234",
        ";a=1234567890123.1",
        ";a=-",
        ";a=?2",
        ";a=1234567890123456",
        ";a=\"",
        ";a=:a:",
        ";a=:a",
        ";a=@",
        ";a=@1.5",
        ";a=%x",
        ";a=%\"%FC\"",
        ";a=%\"%ff\"",
        ";a=%\"",
        ";a=(1)",
        ";a=\u{e9}",
    ] {
        let error = read(format!("\"k\"{parameters}")).unwrap_err();
        assert!(
            matches!(error, KeyError::Parameter { .. } | KeyError::Trailing { .. }),
            "{parameters}: {error}"
        );
    }
}

#[test]
fn p1_malformed_keys_say_what_is_wrong() {
    check_refused("", "key is blank");
    check_refused("  \t ", "key is blank");
    check_refused("\"\"", "key is blank");
    check_refused("\"   \"", "key is blank");
    check_refused("a b", "unquoted key has ' ' at byte 1");
    check_refused("a,b", "unquoted key has ',' at byte 1");
    check_refused(" K1, K1", "unquoted key has ',' at byte 3");
    check_refused("a\"b\"", "unquoted key has '\"' at byte 1");
    check_refused("a\tb", "key has 0x09 at byte 1, allowed is printable ASCII");
    check_refused("a\0", "key has 0x00 at byte 1, allowed is printable ASCII");
    check_refused("caf\u{e9}", "key has 0xC3 at byte 3, allowed is printable ASCII");
    check_refused([b'a', 0xFF], "key has 0xFF at byte 1, allowed is printable ASCII");
    check_refused("\"caf\u{e9}\"", "key has 0xC3 at byte 4, allowed is printable ASCII");
    check_refused("\"open", "quoted key has no closing quote");
    check_refused("\"", "quoted key has no closing quote");
    check_refused("\"open\\\"", "quoted key has no closing quote");
    check_refused("\"a\\n\"", "quoted key escapes something else than `\"` or `\\` at byte 2");
    check_refused("\"a\", \"b\"", "quoted key is followed by something else than parameters at byte 3");
    check_refused("\"a\"b", "quoted key is followed by something else than parameters at byte 3");
    check_refused("\"a\";B", "quoted key has a malformed parameter at byte 4");
}

#[test]
fn p1_two_header_lines_are_refused_even_if_equal() {
    for lines in [[&b"K1"[..], b"K1"], [b"K1", b"K2"], [b"K1", b""]] {
        assert_eq!(Key::parse_header_values(lines), Err(KeyError::Repeated));
    }
    assert_eq!(Key::parse_header_values([]), Ok(None));
}

/// C38: the limit is exact on every way in, and a longer key is refused whole: never cut, so never equal to
/// another one.
#[test]
fn c38_keys_of_any_length() {
    for length in [1, KEY_LENGTH_MAX] {
        let text = "k".repeat(length);
        check_reads(&text, &text);
        check_reads(&format!("\"{text}\""), &text);
        assert_eq!(Key::parse_path(&text).unwrap().as_str(), text);
    }
    for length in [256, 300, 8_000, 70_000] {
        let text = "k".repeat(length);
        for error in [
            read(&text).unwrap_err(),
            read(format!("\"{text}\"")).unwrap_err(),
            Key::parse_path(&text).unwrap_err(),
        ] {
            assert_eq!(error.to_string(), format!("key has {length} characters, limit 255"));
        }
    }
    let (one, other) = ("k".repeat(254) + "1", "k".repeat(254) + "2");
    assert_ne!(read(one).unwrap(), read(other).unwrap());
    for end in ["1", "2"] {
        assert_eq!(read("k".repeat(299) + end), Err(KeyError::TooLong { length: 300 }));
    }
}

/// A quoted key is as long as its value, not as its spelling.
#[test]
fn c38_escapes_do_not_count() {
    let value = "\\".repeat(KEY_LENGTH_MAX);
    check_reads(&format!("\"{}\"", value.replace('\\', "\\\\")), &value);
}

#[test]
fn p1_case_and_ordinary_words_make_keys_of_their_own() {
    let texts = ["null", "undefined", "NULL", "Undefined", "0", "true"];
    let keys: HashSet<Key> = texts.iter().map(|text| read(text).unwrap()).collect();
    assert_eq!(keys.len(), texts.len());
}

#[test]
fn p22_a_path_value_is_literal() {
    for text in ["a b", "a,b", "\"quoted\"", "a\\b", " edge "] {
        assert_eq!(Key::parse_path(text).unwrap().as_str(), text);
    }
    for text in ["", " ", "\t", "a\nb", "caf\u{e9}"] {
        assert!(Key::parse_path(text).is_err(), "{text:?}");
    }
}

/// P23: the hash is SHA-256's first 12 hex digits, and nothing else shows the key.
#[test]
fn p23_only_the_hash_of_a_key_is_printed() {
    let key = read("o-1001").unwrap();
    assert_eq!(key.log_hash().to_string(), "7466d4670b96");
    assert_eq!(format!("{key:?}"), "Key(#7466d4670b96)");
    for line in ["secret\u{e9}", "\"secret", "secret secret", "\"secret\\n\""] {
        let error = read(line).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }
}

/// Bytes that lead the parsers into their corners far more often than random ones.
fn header_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => prop::sample::select(&b"\"\\;= ,ab1A*%:?@-._\x7f\t"[..]).prop_map(|byte| vec![byte]),
        1 => (b'\x0E'..).prop_map(|byte| vec![byte]),
        2 => prop::sample::select(vec!["\"k\"", ";a=1", ";a=?0", ";a=:aGk=:", ";a=@12", ";a=%\"%c3%a9\"", ";b=1.5"])
            .prop_map(|text| text.as_bytes().to_vec()),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) })]

    /// Every quoted line reads as the published parser of RFC 9651 reads it.
    #[test]
    fn p1_quoted_keys_agree_with_sfv(rest in header_like()) {
        let line = [b"\"", rest.as_slice()].concat();
        let expected = Parser::new(line.trim_ascii())
            .parse::<sfv::Item>()
            .ok()
            .and_then(|item| Some(item.bare_item.as_string()?.as_str().to_owned()))
            .filter(|value| value.contains(|character| character != ' '));
        let read = read(&line).ok().map(|key| key.as_str().to_owned());
        prop_assert_eq!(read, expected);
    }

    /// Any value reads back from its String spelling, and from its bare one where it has one.
    #[test]
    fn p1_every_value_reads_back(value in "[ -~]{0,40}[!-~][ -~]{0,40}") {
        let quoted = format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""));
        let key = read(quoted).unwrap();
        prop_assert_eq!(key.as_str(), &value);
        prop_assert_eq!(Key::parse_path(&value), Ok(key));
        match read(&value) {
            Ok(key) if !value.starts_with('"') => prop_assert_eq!(key.as_str(), value.trim()),
            Ok(_) => {}
            Err(_) => prop_assert!(value.contains([' ', ',', '"'])),
        }
    }

    #[test]
    fn p1_no_bytes_panic(line in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(key) = read(&line) {
            prop_assert!((1..=KEY_LENGTH_MAX).contains(&key.as_str().len()));
            prop_assert!(key.as_str().bytes().all(|byte| (0x20..=0x7E).contains(&byte)));
        }
    }
}
