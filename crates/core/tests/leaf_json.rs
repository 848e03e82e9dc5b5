//! P5: the canonical form is equal exactly for equal values, and ambiguous texts are refused.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, Instant};

use unavez_core::json::{Ambiguous, DEPTH_MAX, Fields, NotCanonical, canonical, canonical_of};

fn form(text: impl AsRef<[u8]>) -> Result<String, NotCanonical> {
    canonical(text.as_ref()).map(|form| String::from_utf8(form.as_bytes().to_vec()).unwrap())
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(form(text).unwrap(), expected, "{text}");
}

#[track_caller]
fn check_ambiguous(text: impl AsRef<[u8]>, expected: &str) {
    match form(&text) {
        Err(NotCanonical::Ambiguous(ambiguous)) => assert_eq!(ambiguous.to_string(), expected),
        other => panic!("{:?}: {other:?}", String::from_utf8_lossy(text.as_ref())),
    }
}

#[test]
fn p5_spelling_does_not_matter() {
    check(" { \"b\" : [ 1 , 2 ] ,\n\t\"a\" : null }\r\n", r#"{"a":null,"b":[1,2]}"#);
    check(r#"{"\u0061":"\u0062\u00e9\/\ud83d\ude00"}"#, "{\"a\":\"b\u{e9}/\u{1f600}\"}");
    check(r#""\"\\\b\f\n\r\t\u0000\u001F""#, r#""\"\\\u0008\u000c\u000a\u000d\u0009\u0000\u001f""#);
    check("\"\u{7f}\u{2028}\"", "\"\u{7f}\u{2028}\"");
    check("true", "true");
    check(" [] ", "[]");
    check("{}", "{}");
    check("[{},[],false]", "[{},[],false]");
}

#[test]
fn p5_members_sort_by_the_bytes_of_their_unescaped_names() {
    check(r#"{"b":1,"a":2,"":3,"aa":4}"#, r#"{"":3,"a":2,"aa":4,"b":1}"#);
    // As spelled, `\"` would stand behind `#`; as UTF-16, U+FFFD would stand behind U+1F600.
    check(r##"{"#":1,"\"":2}"##, r##"{"\"":2,"#":1}"##);
    check(r#"{" ":1,"\u001f":2,"\n":3}"#, r#"{"\u000a":3,"\u001f":2," ":1}"#);
    check("{\"\u{1f600}\":1,\"\u{fffd}\":2}", "{\"\u{fffd}\":2,\"\u{1f600}\":1}");
    check(r#"{"z":{"b":1,"a":2},"a":[{"d":1,"c":2}]}"#, r#"{"a":[{"c":2,"d":1}],"z":{"a":2,"b":1}}"#);
}

#[test]
fn p5_numbers_are_exact_decimals() {
    for text in ["1", "1.0", "1e0", "1E+00", "10e-1", "0.1e1", "0.01e+2", "1.000e-0"] {
        check(text, "1");
    }
    for text in ["0", "-0", "0.0", "-0.000", "0e7", "-0e-7", "0e99999999999999999999"] {
        check(text, "0");
    }
    check("2500", "25e2");
    check("-2500.00", "-25e2");
    check("0.0250", "25e-3");
    check("100.001", "100001e-3");
    check("9007199254740992", "9007199254740992");
    check("9007199254740993", "9007199254740993");
    check("9007199254740993.0", "9007199254740993");
    check("0.1", "1e-1");
    check("0.1000000000000000055511151231257827", "1000000000000000055511151231257827e-34");
}

/// The seam between exponents that are added as integers and those that are added digit by digit.
#[test]
fn p5_exponents_of_any_size_are_added_exactly() {
    check("1e99999999999999999", "1e99999999999999999");
    check("10e99999999999999999", "1e100000000000000000");
    check("1e100000000000000000", "1e100000000000000000");
    check("0.1e100000000000000001", "1e100000000000000000");
    check("0.1e100000000000000000", "1e99999999999999999");
    check("1000e999999999999999999", "1e1000000000000000002");
    check("0.001e1000000000000000002", "1e999999999999999999");
    check("10e-100000000000000000", "1e-99999999999999999");
    check("0.1e-99999999999999999", "1e-100000000000000000");
    check("0.01e-999999999999999999", "1e-1000000000000000001");
    check("1e0000000000000000000000000000012", "1e12");
    check("1e-0000000000000000000000000000000", "1");
    let nines = "9".repeat(5_000);
    check(&format!("10e{nines}"), &format!("1e1{}", "0".repeat(5_000)));
    check(&format!("0.1e1{}", "0".repeat(5_000)), &format!("1e{nines}"));
}

/// C104: a size nobody can expand costs what its text costs.
#[test]
fn c104_a_huge_exponent_is_compared_and_not_expanded() {
    check("1e999999999", "1e999999999");
    check("1000000000e999999990", "1e999999999");
    check("[1e999999999,-1E-999999999]", "[1e999999999,-1e-999999999]");
    assert_ne!(form("1e999999999").unwrap(), form("1e999999998").unwrap());
    let form = form("1e999999999").unwrap();
    assert!(form.len() < 20, "{form}");
}

/// C31: what is another request stays another text.
#[test]
fn c31_values_that_differ_have_forms_that_differ() {
    for (one, other) in [
        (r#"{"a":1}"#, r#"{"a":1,"note":null}"#),
        ("[1,2]", "[2,1]"),
        ("[1]", "1"),
        ("1", r#""1""#),
        ("null", r#""null""#),
        ("{}", "[]"),
        ("[[]]", "[]"),
        ("1", "-1"),
        ("9007199254740993", "9007199254740992"),
        (r#"{"a":"b,c"}"#, r#"{"a":"b","c":""}"#),
        (r#""\\n""#, r#""\n""#),
        (r#""a""#, r#""A""#),
        ("\"\u{e9}\"", "\"e\u{301}\""),
    ] {
        assert_ne!(form(one).unwrap(), form(other).unwrap(), "{one} and {other}");
    }
}

#[test]
fn c31_a_name_that_stands_twice_is_ambiguous() {
    let amount = "member \"amount\" stands twice in one object";
    check_ambiguous(r#"{"amount":2500,"amount":9900}"#, amount);
    check_ambiguous(r#"{"amount":2500,"amount":2500}"#, amount);
    check_ambiguous(r#"{"amount":2500,"x":1,"\u0061mount":9900}"#, amount);
    check_ambiguous(r#"{"a":[{"b":{"amount":1,"z":0,"amount":1}}]}"#, amount);
    check_ambiguous(r#"{"":1,"":2}"#, "member \"\" stands twice in one object");
    check_ambiguous(r#"{"\"":1,"\u0022":2}"#, r#"member "\"" stands twice in one object"#);
    check(r#"{"a":{"x":1},"b":{"x":1}}"#, r#"{"a":{"x":1},"b":{"x":1}}"#);
    let long = "n".repeat(100_000);
    let expected = format!("member {:?} stands twice in one object", "n".repeat(64));
    check_ambiguous(format!("{{\"{long}\":1,\"{long}\":2}}"), &expected);
}

#[test]
fn c104_depth_64_is_read_and_65_is_ambiguous() {
    let nest = |open: &str, close: &str, depth: usize| open.repeat(depth) + "1" + &close.repeat(depth);
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let text = nest(open, close, DEPTH_MAX);
        check(&text, &text);
        check_ambiguous(nest(open, close, DEPTH_MAX + 1), "body is nested deeper than 64 levels");
        check_ambiguous(nest(open, close, 100_000), "body is nested deeper than 64 levels");
    }
    check_ambiguous("[".repeat(100_000), "body is nested deeper than 64 levels");
}

#[test]
fn p5_half_a_surrogate_pair_is_ambiguous() {
    for text in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\ud800\udc00""#,
        r#""\ud800\u0041""#,
        r#""\ud800x""#,
        r#""\udc00\ud800""#,
        r#""\udc00\udc00""#,
        r#""\ud800\ue000""#,
        r#"{"\ud800":1}"#,
        r#"["\uDBFF\\uDC00"]"#,
    ] {
        check_ambiguous(text, "a string has half a surrogate pair");
    }
}

/// C104: a text that is no JSON is not ambiguous either; its bytes are the fingerprint's.
#[test]
fn c104_what_is_no_json_is_unparsable() {
    for text in [
        "",
        " ",
        "{",
        "}",
        "[",
        "]",
        "{]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "{\"a\" 1}",
        "'a'",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\\u12\"",
        "\"\t\"",
        "\"\n\"",
        "tru",
        "truee",
        "True",
        "nul",
        "NaN",
        "Infinity",
        "-",
        "+1",
        "01",
        "-01",
        "1.",
        ".1",
        "1.e1",
        "1e",
        "1e+",
        "1e1.0",
        "0x1",
        "1_0",
        "1 1",
        "[] []",
        "\u{feff}1",
        "\u{a0}1",
        "\u{b}1",
        "/**/1",
        "{\"a\":1,\"a\":2",
        "{\"a\":1,\"a\":2}}",
        "[\"\\ud800\"",
    ] {
        assert_eq!(form(text), Err(NotCanonical::Unparsable), "{text:?}");
    }
    for bytes in [&b"\"\xff\""[..], b"\"\xc3\x28\"", b"\xef\xbb\xbf1", b"\"\xed\xa0\x80\"", b"1\0"] {
        assert_eq!(form(bytes), Err(NotCanonical::Unparsable), "{bytes:?}");
    }
}

#[test]
fn p5_members_are_given_with_their_forms() {
    let form = canonical(br#" {"b":[1.0],"a\n":{"y":1,"x":2},"c":"z"} "#).unwrap();
    let members: Vec<_> = form
        .members()
        .map(|(name, value)| (std::str::from_utf8(name).unwrap(), std::str::from_utf8(value).unwrap()))
        .collect();
    assert_eq!(members, [("a\\u000a", r#"{"x":2,"y":1}"#), ("b", "[1]"), ("c", "\"z\"")]);
    for text in ["[{\"a\":1}]", "\"a\"", "{}"] {
        assert_eq!(canonical(text.as_bytes()).unwrap().members().len(), 0, "{text}");
    }
    assert!(canonical(b" {}").unwrap().is_object());
    assert!(!canonical(b"[]").unwrap().is_object());
}

#[test]
fn p5_fields_are_chosen_by_json_pointer() {
    let text = r#"{"z":1,"a":{"b":[10,{"c":2,"d":3}],"e/f":4,"g~h":5},"\"q\"":6}"#;
    let check = |fields: Result<Fields, _>, expected: &str| {
        let form = canonical_of(text.as_bytes(), &fields.unwrap()).unwrap();
        assert_eq!(std::str::from_utf8(form.as_bytes()).unwrap(), expected);
        for (name, value) in form.members() {
            let member = [b"\"", name, b"\":", value].concat();
            assert!(form.as_bytes().windows(member.len()).any(|window| window == member), "{expected}");
        }
    };
    check(Fields::except([""]), "");
    check(Fields::only([""]), r#"{"\"q\"":6,"a":{"b":[1e1,{"c":2,"d":3}],"e/f":4,"g~h":5},"z":1}"#);
    check(
        Fields::except(["/z", "/a/b/1/c", "/a/e~1f", "/nowhere/1"]),
        r#"{"\"q\"":6,"a":{"b":[1e1,{"d":3}],"g~h":5}}"#,
    );
    check(
        Fields::except(["/a/b/0", "/a/b/01", "/a/b/-"]),
        r#"{"\"q\"":6,"a":{"b":[{"c":2,"d":3}],"e/f":4,"g~h":5},"z":1}"#,
    );
    check(Fields::except(["/\"q\"", "/a"]), r#"{"z":1}"#);
    check(Fields::only(["/z", "/a/b/1/d", "/a/g~0h"]), r#"{"a":{"b":[{"d":3}],"g~h":5},"z":1}"#);
    check(Fields::only(["/a/b"]), r#"{"a":{"b":[1e1,{"c":2,"d":3}]}}"#);
    check(Fields::only(["/z/deeper"]), "{}");
    check(Fields::only([]), "{}");
    check(Fields::except([]), r#"{"\"q\"":6,"a":{"b":[1e1,{"c":2,"d":3}],"e/f":4,"g~h":5},"z":1}"#);
}

/// The operation reads the fields we leave out.
#[test]
fn p5_what_is_left_out_must_be_unambiguous_too() {
    for text in [r#"{"a":{"x":1,"x":2}}"#, r#"{"a":1,"a":2}"#, r#"{"a":"\ud800"}"#] {
        for fields in [Fields::except(["/a"]), Fields::only(["/b"])] {
            let read = canonical_of(text.as_bytes(), &fields.unwrap());
            assert!(matches!(read, Err(NotCanonical::Ambiguous(_))), "{text}");
        }
    }
}

#[test]
fn p5_malformed_pointers_are_refused() {
    for pointer in ["a", "a/b", "/a~", "/~2", "/a~/b"] {
        let error = Fields::only([pointer]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{pointer:?} is no JSON pointer")), "{error}");
    }
}

/// 256 KiB of whatever is worst. An algorithm of the wrong kind takes minutes or gigabytes for one of them;
/// ours takes a fraction of a second for all.
#[test]
fn c104_hostile_texts_are_read_in_one_pass() {
    const SIZE: usize = 256 * 1024;
    let started = Instant::now();
    let list =
        |item: &dyn Fn(usize) -> String, count: usize| (0..count).map(item).collect::<Vec<_>>().join(",");
    let same_names = format!("{{{}}}", list(&|_| "\"a\":1".into(), SIZE / 6));
    check_ambiguous(same_names, "member \"a\" stands twice in one object");
    let falling = format!("{{{}}}", list(&|at| format!("\"{:06}\":1", 999_999 - at), SIZE / 11));
    assert!(form(falling).is_ok());
    let long_prefixes =
        format!("{{{}}}", list(&|at| format!("\"{}{at}\":1", "\\u0001".repeat(500)), SIZE / 3_010));
    assert!(form(long_prefixes).is_ok());
    let nested = (0..63)
        .fold(format!("[{}]", "1,".repeat(SIZE / 2) + "1"), |text, _| format!("{{\"b\":{text},\"a\":1}}"));
    assert!(form(nested).is_ok());
    assert!(form(format!("\"{}\"", "\\n".repeat(SIZE / 2))).is_ok());
    assert!(form("9".repeat(SIZE)).is_ok());
    assert!(form(format!("0.{}1", "0".repeat(SIZE))).is_ok());
    assert!(form(format!("1e{}", "9".repeat(SIZE))).is_ok());
    assert!(form(format!("[{}1]", "1e99999999999999999999,".repeat(SIZE / 23))).is_ok());
    assert_eq!(form("\"\\".repeat(SIZE)), Err(NotCanonical::Unparsable));
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn p5_ambiguities_name_the_member() {
    let duplicate = Ambiguous::DuplicateMember("amount".into());
    assert_eq!(duplicate.member(), Some("amount"));
    assert_eq!(Ambiguous::TooDeep.member(), None);
}
