//! Header fields as a text column: one `name: value` a line, readable with any tool of the database, and exact for every byte.
//!
//! Bytes other than printable ASCII, and the backslash, stand as `\xNN`; in names the colon too.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use unavez_core::answer::{Headers, header_name};

/// Writes the fields in their order, repeats included.
pub(crate) fn write(headers: &Headers) -> String {
    let length = headers.iter().map(|(name, value)| name.len() + value.len() + 3).sum();
    let mut text = String::with_capacity(length);
    for (name, value) in headers {
        push(&mut text, name.as_bytes(), |byte| is_plain(byte) && byte != b':');
        text.push_str(": ");
        push(&mut text, value, is_plain);
        text.push('\n');
    }
    text
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'\\'
}

fn push(text: &mut String, bytes: &[u8], stands_as_it_is: fn(u8) -> bool) {
    match std::str::from_utf8(bytes) {
        Ok(plain) if bytes.iter().copied().all(stands_as_it_is) => text.push_str(plain),
        _ => bytes.iter().for_each(|byte| push_byte(text, *byte, stands_as_it_is)),
    }
}

fn push_byte(text: &mut String, byte: u8, stands_as_it_is: fn(u8) -> bool) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    if stands_as_it_is(byte) {
        return text.push(char::from(byte));
    }
    text.push_str("\\x");
    text.push(char::from(HEX[usize::from(byte >> 4)]));
    text.push(char::from(HEX[usize::from(byte & 15)]));
}

/// Reads what [`write`] wrote.
pub(crate) fn read(text: &str) -> Result<Headers, NotALine> {
    text.split_terminator('\n').map(|line| field(line).ok_or_else(|| NotALine(line.to_owned()))).collect()
}

fn field(line: &str) -> Option<(Cow<'static, str>, Bytes)> {
    let (name, value) = line.split_once(": ")?;
    let name = String::from_utf8(unescaped(name)?).ok()?;
    Some((header_name(&name), unescaped(value)?.into()))
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once("\\x") {
        bytes.extend_from_slice(plain.as_bytes());
        let digits = escaped.get(..2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &escaped[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

/// A stored line that is not `name: value`.
#[derive(Debug)]
pub(crate) struct NotALine(String);

impl fmt::Display for NotALine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The line may hold a secret, its length does not.
        write!(f, "a header line of {} bytes is not `name: value`", self.0.len())
    }
}

impl std::error::Error for NotALine {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_readable_lines() {
        let headers: Headers = vec![
            ("content-type".into(), Bytes::from_static(b"application/json; charset=utf-8")),
            ("link".into(), Bytes::from_static(b"</a>; rel=\"x\"")),
            ("link".into(), Bytes::from_static(b"c:\\b \xff\n")),
        ];
        let text = "content-type: application/json; charset=utf-8\nlink: </a>; rel=\"x\"\nlink: c:\\x5cb \\xff\\x0a\n";
        assert_eq!(write(&headers), text);
        assert_eq!(read(text).unwrap(), headers);
    }

    #[test]
    fn damaged_lines_are_refused() {
        for text in ["x", "x:y", "x: \\x1", "x: \\xzz"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn p18_every_field_reads_back(fields in prop::collection::vec((".*", prop::collection::vec(any::<u8>(), 0..40)), 0..6)) {
            let headers: Headers = fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
            prop_assert_eq!(read(&write(&headers)).unwrap(), headers);
        }
    }
}
