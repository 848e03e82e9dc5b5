//! Finding what looks like a card number, so that it is refused before it can be stored, logged or echoed.
//!
//! A card number is 13 to 19 digits that begin as a card scheme's numbers do, have one of its lengths and pass the Luhn
//! check; written together, or in groups with up to two spaces, dashes, dots or underlines between them; anywhere in a
//! text, with whatever before and behind. The scheme's ranges keep time stamps and most counters out; hexadecimal ids
//! (UUIDs, digests), in which enough digits in a row come about by chance, are passed over. A bare number of 16 digits
//! that begins with 4 and passes Luhn is taken for what it looks like.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

const DIGITS_MIN: usize = 13;
const DIGITS_MAX: usize = 19;

/// Whether `text` has a card number in it.
#[must_use]
pub fn is_in_text(text: &str) -> bool {
    is_in_bytes(text.as_bytes())
}

/// Whether any string, member name or number of a JSON text has a card number in it, however it is escaped. A text
/// that is not JSON is searched as it stands.
#[must_use]
pub fn is_in_json(body: &[u8]) -> bool {
    // Quotes, commas and brackets end a run of digits, so the raw bytes show all that is not escaped.
    is_in_bytes(body) || (body.contains(&b'\\') && is_in_escapes(body))
}

fn is_in_bytes(bytes: &[u8]) -> bool {
    let mut at = 0;
    while let Some(start) = next_digit(bytes, at) {
        if starts_card(&bytes[start..]) && !is_in_hexadecimal_id(bytes, start) {
            return true;
        }
        at = start + digits(&bytes[start..]);
    }
    false
}

/// The next digit at or after `from`.
fn next_digit(bytes: &[u8], from: usize) -> Option<usize> {
    bytes.get(from..)?.iter().position(u8::is_ascii_digit).map(|offset| from + offset)
}

/// How many digits stand at the beginning.
fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Whether the groups of digits at the beginning make a card number, ending with any of them.
fn starts_card(bytes: &[u8]) -> bool {
    let mut number = [0_u8; DIGITS_MAX];
    let mut length = 0;
    let mut rest = bytes;
    loop {
        let group = digits(rest);
        if group == 0 || length + group > DIGITS_MAX {
            return false;
        }
        number[length..length + group].copy_from_slice(&rest[..group]);
        length += group;
        if length >= DIGITS_MIN && is_of_a_scheme(&number[..length]) && passes_luhn(&number[..length]) {
            return true;
        }
        rest = &rest[group..];
        rest = &rest[separators(rest)..];
    }
}

/// How many bytes the separators at the beginning take: at most two of them.
fn separators(bytes: &[u8]) -> usize {
    let first = separator(bytes);
    first + if first > 0 { separator(&bytes[first..]) } else { 0 }
}

fn separator(bytes: &[u8]) -> usize {
    match bytes {
        [b' ' | b'-' | b'.' | b'_', ..] => 1,
        // U+00A0, no-break space.
        [0xC2, 0xA0, ..] => 2,
        // U+2010 to U+2015, the dashes, and U+202F, the narrow no-break space.
        [0xE2, 0x80, 0x90..=0x95 | 0xAF, ..] => 3,
        _ => 0,
    }
}

/// Whether a number of this beginning and length can be of a card scheme.
fn is_of_a_scheme(number: &[u8]) -> bool {
    let prefix = number[..4].iter().fold(0_u16, |prefix, digit| prefix * 10 + u16::from(digit - b'0'));
    match prefix {
        4000..=4999 => matches!(number.len(), 13 | 16 | 19),
        2221..=2720 | 5100..=5599 => number.len() == 16,
        3400..=3499 | 3700..=3799 => number.len() == 15,
        3000..=3059 | 3095 | 3600..=3699 | 3800..=3999 => (14..=19).contains(&number.len()),
        3528..=3589 => (16..=19).contains(&number.len()),
        5000..=5099 | 5600..=5899 | 6000..=6999 => true,
        _ => false,
    }
}

/// Whether the digit at `at` belongs to a UUID or a digest: hexadecimal digits, letters among them, too many for a card.
fn is_in_hexadecimal_id(bytes: &[u8], at: usize) -> bool {
    const LETTERS_AND_DIGITS_MIN: usize = 24;
    let belongs = |byte: &&u8| byte.is_ascii_hexdigit() || **byte == b'-';
    let before = bytes[..at].iter().rev().take_while(belongs);
    let after = bytes[at..].iter().take_while(belongs);
    let token = before.chain(after).filter(|byte| **byte != b'-');
    let (count, letters) = token.fold((0, 0), |(count, letters), byte| {
        (count + 1, letters + usize::from(byte.is_ascii_alphabetic()))
    });
    letters > 0 && count >= LETTERS_AND_DIGITS_MIN
}

fn passes_luhn(run: &[u8]) -> bool {
    let digits = run.iter().rev().filter(|byte| byte.is_ascii_digit()).map(|byte| u32::from(byte - b'0'));
    let sum: u32 = digits
        .enumerate()
        .map(|(place, digit)| match (place % 2, digit * 2) {
            (0, _) => digit,
            (_, doubled @ ..=9) => doubled,
            (_, doubled) => doubled - 9,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_in_escapes(body: &[u8]) -> bool {
    let mut json = serde_json::Deserializer::from_slice(body);
    let mut hunt = Hunt { found: false };
    // What stands before a fault in the text has been searched; the fault itself is somebody else's to report.
    let _ = json.deserialize_any(&mut hunt);
    hunt.found
}

/// Walks a JSON value without building it.
struct Hunt {
    found: bool,
}

impl<'de> Visitor<'de> for &mut Hunt {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.found |= is_in_text(text);
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Seed(self))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<Cow<'_, str>>()? {
            self.found |= is_in_text(&name);
            if self.found {
                members.next_value::<IgnoredAny>()?;
            } else {
                members.next_value_seed(Seed(self))?;
            }
        }
        Ok(())
    }
}

struct Seed<'a>(&'a mut Hunt);

impl<'de> serde::de::DeserializeSeed<'de> for Seed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test numbers of the card schemes; no such card exists.
    const CARDS: [&str; 7] = [
        "4111111111111111",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "378282246310005",
        "3782 822463 10005",
        "4222222222222",
        "6304000000000000000",
    ];

    #[test]
    fn numbers_of_cards_are_found_in_any_spelling_and_place() {
        for card in CARDS {
            for text in [
                card.to_owned(),
                format!("pay with {card}, please"),
                format!("{{\"metadata\":{{\"note\":\"{card}\"}}}}"),
                format!("{{\"{card}\":1}}"),
                format!("[[\"{card}\"]]"),
            ] {
                assert!(is_in_json(text.as_bytes()), "{text}");
            }
        }
        assert!(is_in_json(b"{\"card\":4111111111111111}"));
        assert!(is_in_json(b"{\"card\":4111111111111111.0}"));
    }

    #[test]
    fn neighbours_and_unusual_separators_hide_nothing() {
        for text in [
            "4111111111111111 737",
            "INV-4111111111111111",
            "4111111111111111-INV",
            "INV-4111-1111-1111-1111",
            "1-4111111111111111",
            "12 4111111111111111 12",
            "4111.1111.1111.1111",
            "4111_1111_1111_1111",
            "4111  1111  1111  1111",
            "4111\u{a0}1111\u{a0}1111\u{a0}1111",
            "4111\u{2013}1111\u{2013}1111\u{2013}1111",
            "_4111111111111111",
            "x4111111111111111y",
        ] {
            assert!(is_in_text(text), "{text}");
        }
    }

    #[test]
    fn escapes_hide_nothing() {
        let escaped: String =
            "4111111111111111".chars().map(|digit| format!("\\u{:04x}", u32::from(digit))).collect();
        assert!(is_in_json(format!("{{\"a\":[{{\"b\":\"{escaped}\"}}]}}").as_bytes()));
        assert!(is_in_json(format!("{{\"{escaped}\":null}}").as_bytes()));
        assert!(is_in_json(br#"{"a":"\"4111\u00201111\u00201111\u00201111\""}"#));
    }

    #[test]
    fn other_numbers_pass() {
        for text in [
            "",
            "4111111111111112",
            "411111111111",
            "41111111111111111111111",
            "1733000000005",
            "1733000000000002",
            "0000000000000",
            "4111   1111   1111   1111",
            "4111,1111,1111,1111",
            "da39a3ee5e6b4b0d4111111111111111890afd80709",
            "8e039780-4111-1111-1111-11111111f932",
            "{\"amount\":999999999999,\"order_id\":\"2026-11-30\"}",
            "[4111,1111,1111,1111]",
        ] {
            assert!(!is_in_json(text.as_bytes()), "{text}");
        }
    }
}
