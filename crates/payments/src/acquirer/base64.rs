//! Base64 with the standard alphabet and padding (RFC 4648, section 4): what webhook secrets and signatures are
//! written in.
//!
//! One value has one spelling: a decoder that took others would take altered signatures for the same.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes bytes.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for at in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// Reads the one spelling of some bytes; `None` for anything else.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let bits: Option<Vec<u8>> = digits.bytes().map(value_of).collect();
    let bytes: Vec<u8> = bits?.chunks(4).flat_map(join).collect();
    // Padding, spare bits and length are judged at once: by writing it again.
    (encode(&bytes) == text).then_some(bytes)
}

fn value_of(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// The bytes of up to four digits; bits that fill no byte are dropped.
fn join(digits: &[u8]) -> impl Iterator<Item = u8> + use<> {
    let bits =
        digits.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit)) << (6 * (4 - digits.len()));
    let [_, bytes @ ..] = bits.to_be_bytes();
    bytes.into_iter().take(digits.len() * 6 / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 4648, section 10, and the two digits that are not letters.
    const PAIRS: [(&[u8], &str); 8] = [
        (b"", ""),
        (b"f", "Zg=="),
        (b"fo", "Zm8="),
        (b"foo", "Zm9v"),
        (b"foob", "Zm9vYg=="),
        (b"fooba", "Zm9vYmE="),
        (b"foobar", "Zm9vYmFy"),
        (&[0xFB, 0xFF, 0xBF], "+/+/"),
    ];

    #[test]
    fn bytes_and_text_belong_together() {
        for (bytes, text) in PAIRS {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in ["Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Z", "=", "Zm9v\n", "Zm 9", "Zm-_", "Zg==Zg=="] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }
}
