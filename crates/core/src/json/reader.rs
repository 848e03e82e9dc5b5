//! One pass over a JSON text (RFC 8259) that writes the canonical form as it reads.
//!
//! An ambiguity is noted and reading goes on: only a text that is JSON to its end can be ambiguous. Nesting
//! is the exception. Reading stops there, so the recursion is never deeper than [`DEPTH_MAX`], and what
//! stands behind is not judged.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::fields::{Choice, Fields};
use super::number::Number;
use super::{Ambiguous, Canonical, DEPTH_MAX, Member, NotCanonical, hex_value, unescaped};

pub(super) fn read(text: &[u8], fields: &Fields) -> Result<Canonical, NotCanonical> {
    if core::str::from_utf8(text).is_err() {
        return Err(NotCanonical::Unparsable);
    }
    let mut reader = Reader {
        text,
        at: 0,
        out: Vec::with_capacity(text.len() + 16),
        members: Vec::with_capacity(16),
        scratch: Vec::new(),
        ambiguity: None,
    };
    reader.skip_space();
    let written = reader.value(0, fields.root())?;
    reader.skip_space();
    reader.finish(written)
}

/// A string as the canonical form spells it, without its quotes.
pub(super) fn spell(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    text.chars().for_each(|character| write_character(character, &mut out));
    out
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
    /// The members read so far of every object still open, outermost first.
    members: Vec<Member>,
    /// Where an object's members are put in order; kept for the next one.
    scratch: Vec<u8>,
    /// The first one met. Reading goes on, since a text that is no JSON is not ambiguous.
    ambiguity: Option<Ambiguous>,
}

/// Whether a value belongs to the chosen fields. If not, what was written of it is to be taken back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Chosen,
    NotChosen,
}

type Read<T> = Result<T, NotCanonical>;

impl<'a> Reader<'a> {
    fn finish(mut self, written: Written) -> Read<Canonical> {
        if self.at != self.text.len() {
            return Err(NotCanonical::Unparsable);
        }
        if let Some(ambiguity) = self.ambiguity {
            return Err(NotCanonical::Ambiguous(ambiguity));
        }
        if written == Written::NotChosen {
            self.out.clear();
            self.members.clear();
        }
        self.members.retain(|member| member.chosen);
        Ok(Canonical { text: self.out, members: self.members })
    }

    /// Reads one value; `depth` counts the arrays and objects around it.
    fn value(&mut self, depth: usize, choice: Choice<'_>) -> Read<Written> {
        let written = match choice {
            Choice::Nothing => Written::NotChosen,
            _ => Written::Chosen,
        };
        match self.peek() {
            Some(b'{') => self.object(depth + 1, choice).map(|()| written),
            Some(b'[') => self.array(depth + 1, choice).map(|()| written),
            other => {
                self.scalar(other)?;
                // A pointer into a scalar leads nowhere.
                Ok(if matches!(choice, Choice::OnlyIn(_)) { Written::NotChosen } else { written })
            }
        }
    }

    fn scalar(&mut self, first: Option<u8>) -> Read<()> {
        match first {
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            _ => Err(NotCanonical::Unparsable),
        }
    }

    fn word(&mut self, word: &[u8]) -> Read<()> {
        if !self.text[self.at..].starts_with(word) {
            return Err(NotCanonical::Unparsable);
        }
        self.at += word.len();
        self.out.extend_from_slice(word);
        Ok(())
    }

    fn array(&mut self, depth: usize, choice: Choice<'_>) -> Read<()> {
        self.open(depth, b'[')?;
        let start = self.out.len();
        if self.close(b']') {
            return Ok(());
        }
        for index in 0.. {
            let end = self.out.len();
            if end > start {
                self.out.push(b',');
            }
            if self.value(depth, choice.of_element(index))? == Written::NotChosen {
                self.out.truncate(end);
            }
            self.skip_space();
            if self.close(b']') {
                break;
            }
            self.next_item()?;
        }
        Ok(())
    }

    fn object(&mut self, depth: usize, choice: Choice<'_>) -> Read<()> {
        self.open(depth, b'{')?;
        let start = self.out.len();
        let first = self.members.len();
        let mut canonical = true;
        if self.close(b'}') {
            return Ok(());
        }
        loop {
            if self.out.len() > start {
                self.out.push(b',');
            }
            let member = self.member(depth, choice)?;
            canonical &= member.chosen && self.stands_last(first, &member);
            self.members.push(member);
            self.skip_space();
            if self.peek() == Some(b'}') {
                break;
            }
            self.next_item()?;
        }
        if !canonical {
            self.put_in_order(start, first);
        }
        if depth > 1 {
            self.members.truncate(first);
        }
        self.close(b'}');
        Ok(())
    }

    fn member(&mut self, depth: usize, choice: Choice<'_>) -> Read<Member> {
        if self.peek() != Some(b'"') {
            return Err(NotCanonical::Unparsable);
        }
        let start = self.out.len();
        let escaped = self.string()?;
        let name_end = self.out.len();
        self.skip_space();
        self.expect(b':')?;
        self.out.push(b':');
        self.skip_space();
        let choice = choice.of_member(&self.out[start + 1..name_end - 1]);
        let chosen = self.value(depth, choice)? == Written::Chosen;
        Ok(Member { start, name_end, end: self.out.len(), escaped, chosen })
    }

    /// Whether the name sorts behind those before it, if those are in order.
    fn stands_last(&self, first: usize, member: &Member) -> bool {
        self.members[first..].last().is_none_or(|last| compare_names(&self.out, last, member).is_lt())
    }

    /// Sorts the members of the object that is being read, notes a name that stands twice, and takes out what
    /// is not chosen. `start` is where its first member stands in the form, `first` in the list of members.
    fn put_in_order(&mut self, start: usize, first: usize) {
        let members = &mut self.members[first..];
        members.sort_unstable_by(|one, other| compare_names(&self.out, one, other));
        let twice = members.windows(2).find(|pair| compare_names(&self.out, &pair[0], &pair[1]).is_eq());
        if let Some(pair) = twice {
            self.ambiguity.get_or_insert_with(|| Ambiguous::duplicate(&self.out[pair[0].name()]));
        }
        self.scratch.clear();
        for member in members.iter_mut().filter(|member| member.chosen) {
            if !self.scratch.is_empty() {
                self.scratch.push(b',');
            }
            let moved = member.moved_to(start + self.scratch.len());
            self.scratch.extend_from_slice(&self.out[member.whole()]);
            *member = moved;
        }
        self.out.truncate(start);
        self.out.extend_from_slice(&self.scratch);
    }

    /// Reads a string; true if the form spells it with escapes.
    fn string(&mut self) -> Read<bool> {
        self.at += 1;
        self.out.push(b'"');
        let mut escaped = false;
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.iter().position(|&byte| byte < b' ' || byte == b'"' || byte == b'\\');
            let plain = plain.ok_or(NotCanonical::Unparsable)?;
            self.out.extend_from_slice(&rest[..plain]);
            self.at += plain + 1;
            match rest[plain] {
                b'"' => break,
                b'\\' => escaped |= self.escape()?,
                _ => return Err(NotCanonical::Unparsable),
            }
        }
        self.out.push(b'"');
        Ok(escaped)
    }

    /// Reads what follows a backslash; true if the form needs an escape for it as well.
    fn escape(&mut self) -> Read<bool> {
        let character = match self.next()? {
            byte @ (b'"' | b'\\' | b'/') => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => self.code_point()?,
            _ => return Err(NotCanonical::Unparsable),
        };
        write_character(character, &mut self.out);
        Ok(needs_escape(character))
    }

    /// Reads the digits of `\u`, and the second half of a surrogate pair with its `\u`.
    fn code_point(&mut self) -> Read<char> {
        let unit = self.hex_unit()?;
        if let Some(character) = char::from_u32(unit) {
            return Ok(character);
        }
        if unit < 0xDC00 && self.text[self.at..].starts_with(b"\\u") {
            self.at += 2;
            let low = self.hex_unit()?;
            if (0xDC00..0xE000).contains(&low) {
                let point = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                return Ok(char::from_u32(point).expect("surrogate pairs name the code points above U+FFFF"));
            }
        }
        self.ambiguity.get_or_insert(Ambiguous::LoneSurrogate);
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex_unit(&mut self) -> Read<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            unit = unit << 4 | u32::from(hex_value(self.next()?).ok_or(NotCanonical::Unparsable)?);
        }
        Ok(unit)
    }

    fn number(&mut self) -> Read<()> {
        let negative = self.next_if(|byte| byte == b'-').is_some();
        let integer = if self.peek() == Some(b'0') { self.take(1) } else { self.digits()? };
        let fraction = match self.next_if(|byte| byte == b'.') {
            Some(_) => self.digits()?,
            None => &[],
        };
        let mut exponent_negative = false;
        let exponent: &[u8] = match self.next_if(|byte| matches!(byte, b'e' | b'E')) {
            Some(_) => {
                exponent_negative = self.next_if(|byte| matches!(byte, b'+' | b'-')) == Some(b'-');
                self.digits()?
            }
            None => &[],
        };
        Number { negative, integer, fraction, exponent_negative, exponent }.write_to(&mut self.out);
        Ok(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Read<&'a [u8]> {
        let count = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(NotCanonical::Unparsable);
        }
        Ok(self.take(count))
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let taken = &self.text[self.at..self.at + count];
        self.at += count;
        taken
    }

    fn open(&mut self, depth: usize, bracket: u8) -> Read<()> {
        if depth > DEPTH_MAX {
            return Err(NotCanonical::Ambiguous(Ambiguous::TooDeep));
        }
        self.at += 1;
        self.out.push(bracket);
        self.skip_space();
        Ok(())
    }

    /// Reads and writes the bracket if it is next.
    fn close(&mut self, bracket: u8) -> bool {
        let closes = self.next_if(|byte| byte == bracket).is_some();
        if closes {
            self.out.push(bracket);
        }
        closes
    }

    fn next_item(&mut self) -> Read<()> {
        self.expect(b',')?;
        self.skip_space();
        Ok(())
    }

    fn expect(&mut self, expected: u8) -> Read<()> {
        self.next_if(|byte| byte == expected).map(drop).ok_or(NotCanonical::Unparsable)
    }

    fn skip_space(&mut self) {
        while self.next_if(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).is_some() {}
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Read<u8> {
        self.next_if(|_| true).ok_or(NotCanonical::Unparsable)
    }

    fn next_if(&mut self, allowed: impl FnOnce(u8) -> bool) -> Option<u8> {
        let byte = self.peek().filter(|&byte| allowed(byte))?;
        self.at += 1;
        Some(byte)
    }
}

/// Names in the order of their unescaped UTF-8 bytes.
fn compare_names(out: &[u8], one: &Member, other: &Member) -> Ordering {
    let (one_name, other_name) = (&out[one.name()], &out[other.name()]);
    if one.escaped || other.escaped {
        return unescaped(one_name).cmp(unescaped(other_name));
    }
    one_name.cmp(other_name)
}

fn needs_escape(character: char) -> bool {
    matches!(character, '"' | '\\' | '\0'..='\u{1F}')
}

fn write_character(character: char, out: &mut Vec<u8>) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\0'..='\u{1F}' => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            let code = character as usize;
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[DIGITS[code >> 4], DIGITS[code & 0xF]]);
        }
        _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}
