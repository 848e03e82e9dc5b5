//! P5, P6, P23: what makes a request another request, and how it is named.
#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use unavez_core::fingerprint::{
    Ambiguous, DecodeError, Differs, Fields, Fingerprint, FingerprintKeys, NotComparable, RequestParts, Rules,
};
use unavez_core::seal::SealKeys;

const B1: &[u8] = br#"{"amount":2500,"currency":"EUR","order_id":"o-1001"}"#;

fn charge(body: &[u8]) -> RequestParts<'_> {
    RequestParts {
        method: "POST",
        path: "/v1/charges",
        query: None,
        content_type: Some("application/json"),
        content_encoding: None,
        body,
    }
}

fn fingerprint(request: &RequestParts<'_>) -> Fingerprint {
    Fingerprint::of(request, &Rules::default()).unwrap()
}

fn keys(file: &str) -> FingerprintKeys {
    SealKeys::parse(file).unwrap().fingerprint_keys()
}

fn key_line(id: &str, digit: &str) -> String {
    format!("{id} {}\n", digit.repeat(64))
}

/// What a repeat that differs is told, with plain and with keyed digests alike; nothing is an honest repeat.
#[track_caller]
fn check(stored: &RequestParts<'_>, new: &RequestParts<'_>, expected: &[&str]) {
    for keys in [FingerprintKeys::default(), keys(&key_line("k", "1"))] {
        let rules = Rules { keys, ..Rules::default() };
        let [stored, new] = [stored, new].map(|request| Fingerprint::of(request, &rules).unwrap());
        assert_eq!(stored.matches(&new), expected.is_empty());
        assert_eq!(Fingerprint::differs(&stored, &new), expected);
        assert_eq!(Fingerprint::differs(&new, &stored), expected);
    }
}

/// The stored digests of old records depend on every byte of the input. Computed apart from this code, with
/// Python's hashlib and hmac:
///
/// ```text
/// f = lambda s: len(s).to_bytes(8, "big") + s                  # framed
/// o = lambda s: b"\0" if s is None else b"\1" + f(s)            # optional
/// # h is SHA-256, or HMAC-SHA-256 with a key that is HMAC-SHA-256(file's key, "unavez/fingerprint-key/v1")
/// body = bytes([is_json]) + f(canonical_or_raw)
/// digest = h(f(b"unavez/fingerprint/v1") + f(method) + f(path) + o(query) + o(essence) + o(encoding) + body)
/// short = lambda name, value: h(b"part" + f(name) + value)[:8]
/// came = f(method) + f(path) + o(query) + o(content_type) + o(content_encoding) + f(raw_body)
/// verbatim = h(f(b"unavez/verbatim/v1") + came)[:16]
/// stored = bytes([1, 1, len(key_id)]) + key_id + digest + verbatim
/// stored += short(b":method", method) + short(b":path", path) + short(b":query", o(query))
/// stored += short(b":type", o(essence) + o(encoding))
/// stored += bytes([len(members)]) + b"".join(bytes([len(n)]) + n + short(n, v) for n, v in members)
/// # or, where the body is no object: b"\xff" + short(b"", body)
/// ```
#[test]
fn p5_digests_are_golden() {
    let hex = |fingerprint: Fingerprint| -> String {
        fingerprint.encode().iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let raw = RequestParts {
        query: Some("a=1"),
        content_type: None,
        content_encoding: Some("GZIP"),
        ..charge(b"x")
    };
    assert_eq!(
        hex(fingerprint(&charge(B1))),
        "010100eb394de62e4551b0d2b7f4fe3e3011d9b02b8691b90cb84d07dcc832a42a89236d9c176e120f667fd4b0813befd09ac48b4f54f29ec71dc9b39f4dcd72322cb61cc0cfaf41e8cb74ecc7a71ce95e87130306616d6f756e74d50020bf728815060863757272656e6379123e697fbe1cde08086f726465725f6964bb354d7e71df39c7"
    );
    assert_eq!(
        hex(fingerprint(&raw)),
        "010100e25fd6c3e0e12f5825032d53c5977a05baf1950c3d9b1aec2342abfd905ccca75c6f051885b73f502c45c807512c86b68b4f54f29ec71dc9b39f4dcd72322cb63e1fd6beed2ddb215193d803909a0997ff3e82caa78dac160f"
    );
    let rules = Rules { keys: keys(&key_line("k-1", "1")), ..Rules::default() };
    assert_eq!(
        hex(Fingerprint::of(&charge(B1), &rules).unwrap()),
        "0101036b2d31b5d73f85415acc730193a09bb88eeacef6bd09cef9984d11b694c28b47be314ad8d674cab036abd3f857a4fbbc2ce9248ef6d769729fc93f1bfaf985c465e518b2d1ce25098c1ce6fd9dcb4739c8130d0306616d6f756e74abdc423d383ea9720863757272656e63795d6c2e40c500a5b1086f726465725f69648417631fef31cb47"
    );
}

#[test]
fn c31_a_body_spelled_differently_is_the_same_request() {
    for body in [
        r#"{"order_id":"o-1001","currency":"EUR","amount":2500}"#,
        "{ \"amount\" : 2500 ,\n \"currency\" : \"EUR\", \"order_id\" : \"o-1001\" }\n",
        r#"{"amount":2.5e3,"currency":"\u0045UR","order_id":"o\u002d1001"}"#,
    ] {
        check(&charge(B1), &charge(body.as_bytes()), &[]);
    }
}

#[test]
fn c31_another_value_is_another_request() {
    check(&charge(B1), &charge(br#"{"amount":9900,"currency":"EUR","order_id":"o-1001"}"#), &["amount"]);
    check(
        &charge(B1),
        &charge(br#"{"amount":2500,"currency":"EUR","order_id":"o-1001","note":null}"#),
        &["note"],
    );
    check(&charge(br#"{"lines":[1,2]}"#), &charge(br#"{"lines":[2,1]}"#), &["lines"]);
    check(&charge(br#"{"a":9007199254740993}"#), &charge(br#"{"a":9007199254740992}"#), &["a"]);
    check(&charge(br#"{"a":{"b":1}}"#), &charge(br#"{"a":{"b":2}}"#), &["a"]);
    check(&charge(br#"{"a":1,"b":2,"c":3}"#), &charge(br#"{"c":4,"d":5}"#), &["a", "b", "c", "d"]);
    check(&charge(br#"{"a":1,"b":2}"#), &charge(br#"{"a":2,"b":1}"#), &["a", "b"]);
    check(&charge(b"{}"), &charge(b"[]"), &[":body"]);
    check(&charge(b"[1]"), &charge(b"[2]"), &[":body"]);
    check(&charge(b"{}"), &charge(b""), &[":body"]);
}

#[test]
fn c31_an_ambiguous_body_has_no_fingerprint() {
    let of = |body: &str| Fingerprint::of(&charge(body.as_bytes()), &Rules::default());
    assert_eq!(of(r#"{"amount":2500,"amount":9900}"#), Err(Ambiguous::DuplicateMember("amount".into())));
    assert_eq!(of(&"[".repeat(65)), Err(Ambiguous::TooDeep));
    assert_eq!(of(r#"["\ud800"]"#), Err(Ambiguous::LoneSurrogate));
}

#[test]
fn c35_another_path_method_or_query_is_another_request() {
    let first = charge(B1);
    check(&first, &RequestParts { path: "/v1/charges/ch_1/refunds", ..first }, &[":path"]);
    check(&first, &RequestParts { path: "/v1/charges/", ..first }, &[":path"]);
    check(&first, &RequestParts { path: "/v1/Charges", ..first }, &[":path"]);
    check(&first, &RequestParts { method: "PATCH", ..first }, &[":method"]);
    check(&first, &RequestParts { query: Some("a=1"), ..first }, &[":query"]);
    check(&first, &RequestParts { query: Some(""), ..first }, &[":query"]);
    let (one, other) = (Some("a=1&b=2"), Some("b=2&a=1"));
    check(&RequestParts { query: one, ..first }, &RequestParts { query: other, ..first }, &[":query"]);
    let all = RequestParts {
        method: "PUT",
        path: "/x",
        query: Some("y"),
        content_type: None,
        content_encoding: None,
        body: br#"{"amount":1}"#,
    };
    check(&first, &all, &[":method", ":path", ":query", ":type", ":body"]);
}

#[test]
fn p5_only_the_essence_of_the_content_type_counts() {
    let first = charge(B1);
    let of_type = |content_type| RequestParts { content_type, ..first };
    for content_type in ["application/json; charset=utf-8", "Application/JSON", " application/json ;v=1"] {
        check(&first, &of_type(Some(content_type)), &[]);
    }
    check(&first, &of_type(Some("application/merge-patch+json")), &[":type"]);
    check(&of_type(None), &of_type(Some("")), &[":type"]);
    let respelled: &[u8] = br#"{"order_id":"o-1001","currency":"EUR","amount":25e2}"#;
    for content_type in [Some("application/vnd.api+json"), Some("application/json")] {
        check(&of_type(content_type), &RequestParts { body: respelled, ..of_type(content_type) }, &[]);
    }
    for content_type in [None, Some("text/plain"), Some("application/jsonp"), Some("application/json-seq")] {
        check(&of_type(content_type), &RequestParts { body: respelled, ..of_type(content_type) }, &[":body"]);
    }
}

/// C104: another encoding is another request, whatever its bytes decode to; coded bytes are not read as JSON.
#[test]
fn c104_another_content_encoding_is_another_request() {
    let first = charge(B1);
    let coded = |encoding, body| RequestParts { content_encoding: Some(encoding), body, ..first };
    check(&first, &coded("gzip", B1), &[":type", ":body"]);
    check(&coded("gzip", B1), &coded("GZip ", B1), &[]);
    check(&coded("gzip", B1), &coded("br", B1), &[":type"]);
    check(&coded("gzip", b"{\"a\":1}"), &coded("gzip", b"{\"a\": 1}"), &[":body"]);
    check(&coded("identity", b"{\"a\":1}"), &coded("identity", b"{\"a\": 1}"), &[]);
    let twice = coded("gzip", br#"{"a":1,"a":2}"#);
    check(&twice, &twice, &[]);
}

#[test]
fn c104_json_that_does_not_parse_counts_by_its_bytes() {
    check(&charge(b"{\"a\":1"), &charge(b"{\"a\":1"), &[]);
    check(&charge(b"{\"a\":1"), &charge(b"{\"a\": 1"), &[":body"]);
    check(&charge(b"{\"a\":1,\"a\":2"), &charge(b"{\"a\":1,\"a\":2"), &[]);
    check(&charge(&[0xC3, 0x28]), &charge(&[0xC3, 0x29]), &[":body"]);
    check(&charge(b"1e999999999"), &charge(b"10e999999998"), &[]);
}

/// Bytes cannot pass for the canonical form of a body, nor the other way round.
#[test]
fn p5_raw_and_canonical_bodies_are_apart() {
    let fields = || Fields::except([""]).unwrap();
    let rules = Rules { fields: fields(), ..Rules::default() };
    let of = |body| Fingerprint::of(&charge(body), &rules).unwrap();
    assert!(of(b"{}").matches(&of(b"[1]")));
    assert!(!of(b"{}").matches(&of(b"")));
}

#[test]
fn p5_left_out_fields_do_not_count() {
    let rules = Rules { fields: Fields::except(["/sent_at", "/meta/trace"]).unwrap(), ..Rules::default() };
    let of = |body: &str| Fingerprint::of(&charge(body.as_bytes()), &rules).unwrap();
    let first = of(r#"{"amount":1,"sent_at":10,"meta":{"trace":"x","shop":1}}"#);
    assert!(first.matches(&of(r#"{"amount":1,"sent_at":11,"meta":{"trace":"y","shop":1}}"#)));
    assert!(first.matches(&of(r#"{"amount":1,"meta":{"shop":1}}"#)));
    let other = of(r#"{"amount":2,"sent_at":11,"meta":{"trace":"y","shop":2}}"#);
    assert_eq!(Fingerprint::differs(&first, &other), ["amount", "meta"]);
}

#[test]
fn p6_names_of_members_are_shown_plainly() {
    let check_names =
        |body: &str, expected: &[&str]| check(&charge(b"{}"), &charge(body.as_bytes()), expected);
    check_names(r#"{"b":1,"a":1,"\u0063\n":1}"#, &["a", "b", "c\n"]);
    check_names(r#"{":path":1,"":1}"#, &["", "::path"]);
}

#[test]
fn p6_many_or_long_names_are_one_body() {
    let object = |members: usize, value: usize| {
        let members: Vec<_> = (0..members).map(|at| format!("\"m{at:02}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    };
    let twenty: Vec<_> = (0..20).map(|at| format!("m{at:02}")).collect();
    let twenty: Vec<_> = twenty.iter().map(String::as_str).collect();
    check(&charge(object(32, 1).as_bytes()), &charge(object(32, 2).as_bytes()), &twenty);
    check(&charge(object(33, 1).as_bytes()), &charge(object(33, 2).as_bytes()), &[":body"]);
    check(&charge(object(33, 1).as_bytes()), &charge(object(32, 1).as_bytes()), &[":body"]);
    let long = format!("{{\"{}\":1}}", "n".repeat(65));
    check(&charge(b"{}"), &charge(long.as_bytes()), &[":body"]);
    let size = fingerprint(&charge(object(30_000, 1).as_bytes())).encode().len();
    assert!(size < 100, "{size}");
}

/// P5: a repeat byte for byte is known without its JSON being read; one that is spelled differently is the same request,
/// and has to be read.
#[test]
fn p5_a_repeat_is_verbatim_only_byte_for_byte() {
    let request = RequestParts { query: Some("a=1"), content_encoding: Some("identity"), ..charge(B1) };
    let others = [
        RequestParts { method: "PATCH", ..request },
        RequestParts { path: "/v1/charge", ..request },
        RequestParts { query: Some("a=2"), ..request },
        RequestParts { query: None, ..request },
        RequestParts { content_type: Some("application/json;charset=utf-8"), ..request },
        RequestParts { content_type: None, ..request },
        RequestParts { content_encoding: Some("IDENTITY"), ..request },
        RequestParts { content_encoding: None, ..request },
        RequestParts { body: br#"{"amount":2500,"currency":"EUR","order_id":"o-1001"} "#, ..request },
        RequestParts { body: b"", ..request },
    ];
    for keys in [FingerprintKeys::default(), keys(&key_line("k", "1"))] {
        let rules = Rules { keys, ..Rules::default() };
        let stored = Fingerprint::of(&request, &rules).unwrap();
        assert!(stored.is_verbatim(&request, &rules));
        for other in &others {
            assert!(!stored.is_verbatim(other, &rules), "{other:?}");
        }
    }
}

/// P23: what was stored under another key says nothing, unless that key is still there.
#[test]
fn p23_verbatim_repeats_are_told_by_the_key_of_their_record() {
    let (old, new) = (key_line("2025", "a"), key_line("2026", "b"));
    let request = charge(B1);
    let before = Rules { keys: keys(&old), ..Rules::default() };
    let stored = Fingerprint::of(&request, &before).unwrap();
    let after = Rules { keys: keys(&(new.clone() + &old)), ..Rules::default() };
    assert!(stored.is_verbatim(&request, &after));
    for without in [Rules { keys: keys(&new), ..Rules::default() }, Rules::default()] {
        assert!(!stored.is_verbatim(&request, &without));
    }
    assert!(!fingerprint(&request).is_verbatim(&charge(b"{}"), &after));
}

/// P23: a mismatch is still a mismatch, but nothing is kept to explain it.
#[test]
fn p23_differs_can_be_switched_off() {
    let off = Rules { differs: Differs::Off, ..Rules::default() };
    let [stored, new] = [B1, b"{}"].map(|body| Fingerprint::of(&charge(body), &off).unwrap());
    assert!(!stored.matches(&new));
    assert!(Fingerprint::differs(&stored, &new).is_empty());
    assert_eq!(stored.encode().len(), 3 + 32 + 16);
    let named = fingerprint(&charge(b"{}"));
    assert!(new.matches(&named));
    assert!(Fingerprint::differs(&stored, &named).is_empty());
}

/// P23: with a key, no digest of a part can be tried without it.
#[test]
fn p23_keyed_fingerprints_share_no_digest_with_plain_ones() {
    let rules = Rules { keys: keys(&key_line("k", "1")), ..Rules::default() };
    let keyed = Fingerprint::of(&charge(B1), &rules).unwrap().encode();
    let plain = fingerprint(&charge(B1)).encode();
    let (keyed, plain) = (&keyed[4..], &plain[3..]);
    assert_eq!(keyed.len(), plain.len());
    let names = ["amount", "currency", "order_id"].map(|name| {
        let find =
            |bytes: &[u8]| bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap();
        assert_eq!(find(keyed), find(plain));
        find(plain)..find(plain) + name.len()
    });
    for at in
        (0..plain.len() - 8).filter(|at| !names.iter().any(|name| name.start < at + 8 && *at < name.end))
    {
        assert_ne!(keyed[at..at + 8], plain[at..at + 8], "at {at}");
    }
    assert!(!format!("{rules:?}").contains("1111"), "{rules:?}");
}

/// P23: after a rotation an old record is compared under its own key.
#[test]
fn p23_rotation_keeps_old_records_comparable() {
    let (old, new) = (key_line("2025", "a"), key_line("2026", "b"));
    let before = Rules { keys: keys(&old), ..Rules::default() };
    let after = Rules { keys: keys(&(new.clone() + &old)), ..Rules::default() };
    let without = Rules { keys: keys(&new), ..Rules::default() };
    let request = charge(B1);
    let stored = Fingerprint::of(&request, &before).unwrap();

    let today = Fingerprint::of(&request, &after).unwrap();
    assert_eq!(today.key_id().unwrap().as_str(), "2026");
    assert!(!today.comparable(&stored));
    assert!(!today.matches(&stored));
    assert!(Fingerprint::differs(&stored, &today).is_empty());

    let alike = Fingerprint::like(&stored, &request, &after).unwrap();
    assert!(alike.matches(&stored));
    let edited = Fingerprint::like(&stored, &charge(br#"{"amount":1}"#), &after).unwrap();
    assert_eq!(Fingerprint::differs(&stored, &edited), ["amount", "currency", "order_id"]);

    let id = stored.key_id().unwrap().clone();
    assert_eq!(Fingerprint::like(&stored, &request, &without), Err(NotComparable::UnknownKey(id)));
    let plain = fingerprint(&request);
    assert!(Fingerprint::like(&plain, &request, &without).unwrap().matches(&plain));
}

/// P5: an old record is compared by its own version, and never by a wrong one.
#[test]
fn p5_an_unknown_algorithm_is_refused_by_name() {
    let request = charge(B1);
    let rules = Rules::default();
    assert_eq!(Fingerprint::of_version(1, None, &request, &rules).unwrap(), fingerprint(&request));
    let mut bytes = fingerprint(&request).encode();
    bytes[1] = 2;
    let newer = Fingerprint::decode(&bytes).unwrap();
    assert_eq!(newer.algorithm(), 2);
    assert!(!newer.matches(&fingerprint(&request)));
    let error = Fingerprint::like(&newer, &request, &rules).unwrap_err();
    assert_eq!(error.to_string(), "fingerprint has algorithm 2, known is 1");
}

#[test]
fn p5_the_stored_form_reads_back_and_nothing_else_does() {
    let keyed = Rules { keys: keys(&key_line("2026-11", "1")), ..Rules::default() };
    for rules in [keyed, Rules { differs: Differs::Off, ..Rules::default() }, Rules::default()] {
        for body in [B1, b"{}", b"[]", b"not json", b""] {
            let fingerprint = Fingerprint::of(&charge(body), &rules).unwrap();
            let bytes = fingerprint.encode();
            assert_eq!(Fingerprint::decode(&bytes), Ok(fingerprint));
            let without_parts = 3 + usize::from(bytes[2]) + 32 + 16;
            for end in (0..bytes.len()).filter(|end| *end != without_parts) {
                assert_eq!(
                    Fingerprint::decode(&bytes[..end]),
                    Err(DecodeError::Damaged),
                    "{end} of {}",
                    bytes.len()
                );
            }
            assert_eq!(Fingerprint::decode(&[&bytes[..], b"x"].concat()), Err(DecodeError::Damaged));
        }
    }
    assert_eq!(Fingerprint::decode(&[2, 1, 0]), Err(DecodeError::UnknownVersion(2)));
}

/// C33: two bodies of one operation that differ in volatile fields only have one key if it is derived, and
/// fingerprints that know the fields agree as well.
#[test]
fn c33_a_derived_key_and_its_fingerprint_ignore_volatile_fields() {
    let rules = Rules { fields: Fields::except(["/sent_at"]).unwrap(), ..Rules::default() };
    let attempts = [r#"{"order_id":"o-1001","sent_at":1}"#, r#"{"order_id":"o-1001","sent_at":2}"#];
    let [first, second] = attempts.map(|body| {
        let order: serde_json::Value = serde_json::from_str(body).unwrap();
        let key = unavez_core::derive::derive("charge", &[order["order_id"].as_str().unwrap()]).unwrap();
        (key, Fingerprint::of(&charge(body.as_bytes()), &rules).unwrap())
    });
    assert_eq!(first.0, second.0);
    assert!(first.1.matches(&second.1));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn p5_no_request_and_no_stored_bytes_panic(
        texts in prop::collection::vec(".{0,12}", 5),
        body in prop::collection::vec(any::<u8>(), 0..80),
        stored in prop::collection::vec(any::<u8>(), 0..160),
        json in any::<bool>(),
    ) {
        let request = RequestParts {
            method: &texts[0],
            path: &texts[1],
            query: Some(&texts[2]),
            content_type: if json { Some("application/json") } else { Some(&texts[3]) },
            content_encoding: if json { None } else { Some(&texts[4]) },
            body: &body,
        };
        if let Ok(fingerprint) = Fingerprint::of(&request, &Rules::default()) {
            prop_assert_eq!(Fingerprint::decode(&fingerprint.encode()), Ok(fingerprint));
        }
        let prefixed = [&[1, 1, 0][..], &stored].concat();
        for bytes in [stored, prefixed] {
            if let Ok(fingerprint) = Fingerprint::decode(&bytes) {
                prop_assert_eq!(fingerprint.encode(), bytes);
            }
        }
    }
}
