//! P29: derived keys are equal for equal operations, and for no others.
#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use unavez_core::derive::{DeriveError, derive};
use unavez_core::key::{KEY_LENGTH_MAX, Key};

#[track_caller]
fn check(kind: &str, parts: &[&str], expected: &str) {
    assert_eq!(derive(kind, parts).unwrap().as_str(), expected);
}

#[test]
fn c33_the_key_says_what_the_operation_is() {
    check("charge", &["o-1001"], "charge:o-1001");
    check("refund", &["o-1001"], "refund:o-1001");
    check("charge", &["2026", "07"], "charge:2026:07");
    check("charge", &["a:b"], "charge:a%3Ab");
    check("charge", &["50% off, \"now\"~"], "charge:50%25%20off%2C%20%22now%22%7E");
    check("charge", &["caf\u{e9}\n"], "charge:caf%C3%A9%0A");
    assert_ne!(derive("charge", &["o-1001"]), derive("refund", &["o-1001"]));
}

#[test]
fn c88_an_occurrence_makes_a_new_operation() {
    let cancel = |cycle| derive("cancel", &["sub-7", cycle]).unwrap();
    let keys = [cancel("1"), derive("resume", &["sub-7", "1"]).unwrap(), cancel("2")];
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
    assert_eq!(cancel("1"), keys[0]);
}

#[test]
fn p29_a_long_subject_ends_with_a_hash() {
    let fits = "x".repeat(KEY_LENGTH_MAX - "charge:".len());
    check("charge", &[&fits], &format!("charge:{fits}"));
    let long = fits + "x";
    let expected = format!(
        "charge:{}~{}",
        &long[..183],
        "434db868660bc6ef1a430b60979614a94b7aab7429453f2aa66ac82ead4f2c66"
    );
    check("charge", &[&long], &expected);
    assert_eq!(expected.len(), KEY_LENGTH_MAX);
    assert_ne!(derive("charge", &[&(long.clone() + "1")]), derive("charge", &[&(long + "2")]));
}

#[test]
fn p29_a_key_for_nothing_in_particular_is_refused() {
    assert_eq!(derive("", &["o-1"]), Err(DeriveError::EmptyKind));
    assert_eq!(derive("charge", &[]), Err(DeriveError::NoParts));
    assert_eq!(derive("charge", &["o-1", ""]), Err(DeriveError::EmptyPart { index: 1 }));
}

/// Texts that try to pass for each other's separators, escapes and hashes.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[a:%~ 3A]{1,3}",
        1 => ".{1,8}",
        1 => "[a:]{120,130}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(5_000) })]

    #[test]
    fn c33_derived_keys_are_injective(
        one in prop::collection::vec(part(), 2..5),
        other in prop::collection::vec(part(), 2..5),
        mixed in 0..3_usize,
    ) {
        // Half of the pairs share all but one piece, or only move a boundary.
        let other = match mixed {
            0 => other,
            1 => [&one[..one.len() - 1], &other[..1]].concat(),
            _ => vec![one[0].clone(), one[1..].join(":")],
        };
        let [one_key, other_key] = [&one, &other].map(|pieces| {
            let parts: Vec<_> = pieces[1..].iter().map(String::as_str).collect();
            derive(&pieces[0], &parts).unwrap()
        });
        prop_assert_eq!(one_key == other_key, one == other, "{:?} {:?}", one, other);
    }

    /// A derived key can be sent bare, in any header of any SDK.
    #[test]
    fn p29_a_derived_key_stands_bare_in_a_header(kind in part(), part in part()) {
        let key = derive(&kind, &[&part]).unwrap();
        let read = Key::parse_header_values([key.as_str().as_bytes()]).unwrap();
        prop_assert_eq!(read, Some(key));
    }
}
