//! P23: sealed answers open for their owner only, and the keys for it come from a file.
#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use unavez_core::identity::{Realm, Tenant};
use unavez_core::key::Key;
use unavez_core::seal::{OpenError, Owner, SealKeyId, SealKeys, Sealed};

const ANSWER: &[u8] = br#"{"id":"ch_1","status":"captured"}"#;
const NONCE: [u8; 24] = *b"24 bytes, not so random.";

struct Names {
    realm: Realm,
    tenant: Tenant,
    key: Key,
}

impl Names {
    fn new(realm: &str, tenant: &str, key: &str) -> Self {
        Self {
            realm: Realm::parse(realm).unwrap(),
            tenant: Tenant::parse(tenant).unwrap(),
            key: Key::parse_path(key).unwrap(),
        }
    }

    fn owner(&self) -> Owner<'_> {
        Owner { realm: &self.realm, tenant: &self.tenant, key: &self.key }
    }
}

fn line(id: &str, digit: &str) -> String {
    format!("{id} {}\n", digit.repeat(64))
}

fn keys(file: &str) -> SealKeys {
    SealKeys::parse(file).unwrap()
}

#[test]
fn p23_what_is_sealed_opens_again() {
    let names = Names::new("r", "t", "k");
    let keys = keys(&line("k-1", "5"));
    for plain in [ANSWER, b"", &[0; 100_000]] {
        let sealed = keys.seal(NONCE, names.owner(), plain);
        let read = Sealed::decode(&sealed.encode()).unwrap();
        assert_eq!(read, sealed);
        assert_eq!(read.key_id().as_str(), "k-1");
        assert_eq!(keys.open(names.owner(), &read).unwrap(), plain);
    }
}

/// Computed apart from this code, with Python's hmac and an XChaCha20-Poly1305 written after
/// draft-irtf-cfrg-xchacha: a database sealed by an older version must open with every later one.
#[test]
fn p23_the_sealed_form_is_golden() {
    let names = Names::new("shop-eu", "default", "o-1001");
    let sealed = keys(&line("k-1", "5")).seal(NONCE, names.owner(), b"{}");
    let hex: String = sealed.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "01036b2d3132342062797465732c206e6f7420736f2072616e646f6d2efe1b98828ad4dd0f416328abedf12969fd57"
    );
}

#[test]
fn c60_a_row_copied_to_another_owner_does_not_open() {
    let keys = keys(&line("k", "5"));
    let sealed = keys.seal(NONCE, Names::new("r", "t", "k").owner(), ANSWER);
    for other in [
        Names::new("r", "other", "k"),
        Names::new("other", "t", "k"),
        Names::new("r", "t", "other"),
        Names::new("r", "tk", "k"),
        Names::new("rt", "k", "t"),
    ] {
        assert_eq!(keys.open(other.owner(), &sealed), Err(OpenError::Refused), "{:?}", other.owner());
    }
}

#[test]
fn c60_nothing_of_the_answer_or_the_keys_is_in_clear() {
    let keys = keys(&line("k", "5"));
    let names = Names::new("r", "t", "secret-key");
    let sealed = keys.seal(NONCE, names.owner(), ANSWER);
    let stored = sealed.encode();
    assert!(!ANSWER.windows(4).any(|piece| stored.windows(4).any(|window| window == piece)));
    let printed = format!("{keys:?} {sealed:?} {:?}", names.owner());
    for secret in ["captured", "5555", "85, 85", "secret-key"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}

#[test]
fn p23_one_changed_byte_does_not_open() {
    let keys = keys(&line("k", "5"));
    let names = Names::new("r", "t", "k");
    let bytes = keys.seal(NONCE, names.owner(), ANSWER).encode();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let opened = Sealed::decode(&changed).and_then(|sealed| keys.open(names.owner(), &sealed));
        assert!(opened.is_err(), "byte {at}");
    }
    for end in 0..bytes.len() {
        let opened = Sealed::decode(&bytes[..end]).and_then(|sealed| keys.open(names.owner(), &sealed));
        assert!(opened.is_err(), "{end} bytes");
    }
}

#[test]
fn p23_a_rotated_key_still_opens_and_a_removed_one_is_named() {
    let (old, new) = (line("2025", "a"), line("2026", "b"));
    let names = Names::new("r", "t", "k");
    let sealed = keys(&old).seal(NONCE, names.owner(), ANSWER);

    let rotated = keys(&(new.clone() + &old));
    assert_eq!(rotated.current_id().as_str(), "2026");
    assert_eq!(rotated.open(names.owner(), &sealed).unwrap(), ANSWER);
    assert_eq!(rotated.seal(NONCE, names.owner(), ANSWER).key_id().as_str(), "2026");

    let error = keys(&new).open(names.owner(), &sealed).unwrap_err();
    assert_eq!(error.to_string(), "sealing key `2025` is not in the key file");
    let other_secret = keys(&line("2025", "c")).open(names.owner(), &sealed);
    assert_eq!(other_secret, Err(OpenError::Refused));
}

#[test]
fn p23_a_newer_stored_form_is_named() {
    let error = Sealed::decode(&[9, 1, b'k']).unwrap_err();
    assert_eq!(error.to_string(), "sealed answer has version 9, known is 1");
}

#[test]
fn p23_a_key_file_may_have_comments() {
    let file = format!("# rotated yearly\n\n  2026\t  {}  \r\n2025 {}", "aB".repeat(32), "0".repeat(64));
    assert_eq!(format!("{:?}", keys(&file)), r#"[SealKeyId("2026"), SealKeyId("2025")]"#);
}

#[test]
fn p23_a_wrong_key_file_names_the_line_and_not_the_key() {
    let check = |file: &str, expected: &str| {
        let error = SealKeys::parse(file).unwrap_err();
        assert_eq!(error.to_string(), expected, "{file}");
        assert!(!format!("{error:?}").contains("abab"));
    };
    let good = line("k", "a");
    check("", "sealing key file has no key");
    check("# nothing\n", "sealing key file has no key");
    check(&"ab".repeat(32), "line 1 is not an id, a space and a key");
    check(&format!("{good}#\nx {}", "ab".repeat(31)), "key in line 3 is not 64 hex digits");
    check(&format!("x {}", "ab".repeat(33)), "key in line 1 is not 64 hex digits");
    check(&format!("x {}g", "ab".repeat(31) + "a"), "key in line 1 is not 64 hex digits");
    check(&format!("x {}", "\u{e9}".repeat(32)), "key in line 1 is not 64 hex digits");
    check(&format!("x {} {}", "ab".repeat(16), "ab".repeat(16)), "key in line 1 is not 64 hex digits");
    check(&line("k/1", "a"), "id in line 1 is not 1 to 32 letters, digits, `.`, `_` or `-`");
    check(&line(&"k".repeat(33), "a"), "id in line 1 is not 1 to 32 letters, digits, `.`, `_` or `-`");
    check(&(good.clone() + &good), "id in line 2 stands in an earlier line");
    assert!(SealKeyId::parse("").is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn p23_no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), file in ".{0,80}") {
        let keys = keys(&line("k", "5"));
        let prefixed = [&[1, 1, b'k'][..], &bytes].concat();
        for bytes in [bytes, prefixed] {
            if let Ok(sealed) = Sealed::decode(&bytes) {
                prop_assert_eq!(sealed.encode(), bytes);
                prop_assert!(keys.open(Names::new("r", "t", "k").owner(), &sealed).is_err());
            }
        }
        let _ = SealKeys::parse(&file);
    }
}

#[test]
fn p23_a_check_value_is_made_by_its_key_alone() {
    let both = keys(&format!("{}{}", line("k-1", "5"), line("k-2", "6")));
    let renamed = keys(&line("k-9", "5"));
    let values: Vec<_> = both.check_values().map(|(id, value)| (id.as_str(), *value)).collect();
    assert_eq!((values[0].0, values[1].0), ("k-1", "k-2"));
    assert_ne!(values[0].1, values[1].1);
    let (_, same) = renamed.check_values().next().unwrap();
    assert_eq!(*same, values[0].1, "the id is no part of it");
    assert_ne!(*same, [0x55; 32], "nor is it the key");
}
