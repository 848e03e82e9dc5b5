//! Ids in lower-case hex. Every answer holds several, and the formatting machinery takes as long for one as the rest of
//! the document.

/// The 32 digits of an id.
pub(crate) struct Hex([u8; 32]);

impl Hex {
    pub(crate) fn of(bytes: &[u8; 16]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; 32];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 0xF)];
        }
        Self(digits)
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hex digits are ASCII")
    }
}

#[cfg(test)]
mod tests {
    use unavez_core::identity::RecordId;

    use super::*;

    #[test]
    fn the_digits_are_those_of_core() {
        let bytes = *b"\0\x01\x09\x0a\x10\x7f\x80\x99\xa0\xab\xcd\xef\xf0\xfe\xff\x5c";
        assert_eq!(Hex::of(&bytes).as_str(), RecordId::from_bytes(bytes).to_string());
    }
}
