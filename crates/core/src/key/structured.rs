//! The String item of RFC 9651 and whatever parameters may follow it.
//!
//! Parameters are ignored, but only well-formed ones: a header we half understand is not a key. Written here
//! because the published parser needs std; the tests compare with it.

use alloc::{string::String, vec::Vec};

use super::{KeyError, is_printable};

/// The value of the String item that begins with the quote at `start` and fills the line.
pub(super) fn string_item(line: &[u8], start: usize) -> Result<String, KeyError> {
    let mut cursor = Cursor { line, at: start };
    let value = cursor.string()?;
    cursor.parameters()?;
    match cursor.peek() {
        Some(_) => Err(KeyError::Trailing { position: cursor.at }),
        None => Ok(value),
    }
}

struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn next_if(&mut self, allowed: impl FnOnce(u8) -> bool) -> Option<u8> {
        let byte = self.peek().filter(|&byte| allowed(byte))?;
        self.at += 1;
        Some(byte)
    }

    /// How many bytes in a row are allowed; stands behind them.
    fn count_while(&mut self, allowed: impl Fn(u8) -> bool) -> usize {
        let start = self.at;
        while self.next_if(&allowed).is_some() {}
        self.at - start
    }

    fn malformed(&self) -> KeyError {
        KeyError::Parameter { position: self.at }
    }

    fn expect(&mut self, allowed: impl FnOnce(u8) -> bool) -> Result<u8, KeyError> {
        self.next_if(allowed).ok_or(self.malformed())
    }

    /// RFC 9651, 4.2.5; stands on the opening quote.
    fn string(&mut self) -> Result<String, KeyError> {
        self.at += 1;
        let mut value = String::new();
        loop {
            let position = self.at;
            match self.next().ok_or(KeyError::Unbalanced)? {
                b'"' => return Ok(value),
                b'\\' => match self.next().ok_or(KeyError::Unbalanced)? {
                    escaped @ (b'"' | b'\\') => value.push(char::from(escaped)),
                    _ => return Err(KeyError::Escape { position }),
                },
                byte if is_printable(byte) => value.push(char::from(byte)),
                byte => return Err(KeyError::Character { position, byte }),
            }
        }
    }

    /// RFC 9651, 4.2.3.2.
    fn parameters(&mut self) -> Result<(), KeyError> {
        while self.next_if(|byte| byte == b';').is_some() {
            self.count_while(|byte| byte == b' ');
            self.expect(|byte| byte.is_ascii_lowercase() || byte == b'*')?;
            self.count_while(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
            });
            if self.next_if(|byte| byte == b'=').is_some() {
                self.bare_item()?;
            }
        }
        Ok(())
    }

    /// RFC 9651, 4.2.3.1.
    fn bare_item(&mut self) -> Result<(), KeyError> {
        match self.peek().ok_or(self.malformed())? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string().map(drop).map_err(|_| self.malformed()),
            b':' => self.byte_sequence(),
            b'?' => {
                self.at += 1;
                self.expect(|byte| matches!(byte, b'0' | b'1')).map(drop)
            }
            b'@' => {
                self.at += 1;
                self.integer(15).map(drop)
            }
            b'%' => self.display_string(),
            byte if byte.is_ascii_alphabetic() || byte == b'*' => {
                self.count_while(is_token);
                Ok(())
            }
            _ => Err(self.malformed()),
        }
    }

    /// RFC 9651, 4.2.4: an integer has at most 15 digits, a decimal 12 before and 3 behind its point.
    fn number(&mut self) -> Result<(), KeyError> {
        let digits = self.integer(15)?;
        if self.next_if(|byte| byte == b'.').is_none() {
            return Ok(());
        }
        let fraction = self.count_while(|byte| byte.is_ascii_digit());
        if digits > 12 || !(1..=3).contains(&fraction) {
            return Err(self.malformed());
        }
        Ok(())
    }

    fn integer(&mut self, digits_max: usize) -> Result<usize, KeyError> {
        self.next_if(|byte| byte == b'-');
        let digits = self.count_while(|byte| byte.is_ascii_digit());
        if !(1..=digits_max).contains(&digits) {
            return Err(self.malformed());
        }
        Ok(digits)
    }

    /// RFC 9651, 4.2.7: padding may be missing, but one digit over is no byte.
    fn byte_sequence(&mut self) -> Result<(), KeyError> {
        self.at += 1;
        let digits = self.count_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'));
        let padding = self.count_while(|byte| byte == b'=');
        let whole = match digits % 4 {
            0 => padding == 0,
            1 => false,
            over => padding == 0 || over + padding == 4,
        };
        if !whole {
            return Err(self.malformed());
        }
        self.expect(|byte| byte == b':').map(drop)
    }

    /// RFC 9651, 4.2.10: percent-encoded UTF-8 in quotes.
    fn display_string(&mut self) -> Result<(), KeyError> {
        self.at += 1;
        self.expect(|byte| byte == b'"')?;
        let mut text = Vec::new();
        loop {
            match self.expect(is_printable)? {
                b'"' => break,
                b'%' => text.push(self.hex_digit()? << 4 | self.hex_digit()?),
                byte => text.push(byte),
            }
        }
        core::str::from_utf8(&text).map(drop).map_err(|_| self.malformed())
    }

    fn hex_digit(&mut self) -> Result<u8, KeyError> {
        match self.expect(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))? {
            digit @ b'0'..=b'9' => Ok(digit - b'0'),
            digit => Ok(digit - b'a' + 10),
        }
    }
}

/// RFC 9651, 4.2.6: `tchar` of RFC 9110, colon and slash.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}
