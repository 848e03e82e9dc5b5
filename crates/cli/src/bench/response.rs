//! Reads HTTP/1.1 responses off a stream, however the stream is cut into reads.
//!
//! The parser keeps no more than a load generator needs: status, whether the answer is marked as a replay, whether
//! the connection ends with it. Bodies are counted, not kept. A head that arrives whole is parsed in place; only one
//! that is split over reads is copied.
//!
//! It is strict where leniency would hide a server's fault: two framings, a bad length or chunk, and bytes behind the
//! end of a response (nothing is pipelined) are errors.

use std::fmt;

/// More than any sane server sends in front of a body.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What a complete response says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Response {
    /// The status code.
    pub(super) status: u16,
    /// It carries `Idempotent-Replayed: true`.
    pub(super) replayed: bool,
    /// The connection cannot be used again.
    pub(super) closes: bool,
}

/// Why bytes are not a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The state of one connection's reading side.
#[derive(Debug, Default)]
pub(super) struct Parser {
    stage: Stage,
    /// The beginning of a head that is not there in whole.
    head: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    Head,
    Body(Response, Body),
}

#[derive(Clone, Copy, Debug)]
enum Body {
    /// This many bytes are still to come.
    Length(u64),
    Chunked(Chunk),
    /// Everything until the server closes.
    UntilClose,
}

/// Where in a chunked body the next byte stands.
#[derive(Clone, Copy, Debug)]
enum Chunk {
    Size { digits: u8, size: u64 },
    Extension { size: u64 },
    SizeLineFeed { size: u64 },
    Data { left: u64 },
    DataReturn,
    DataLineFeed,
    TrailerStart,
    Trailer,
    TrailerLineFeed,
    LastLineFeed,
    End,
}

impl Parser {
    /// Takes the next bytes of the stream; answers with the response they complete, if they do.
    pub(super) fn feed(&mut self, mut input: &[u8]) -> Result<Option<Response>, Malformed> {
        loop {
            match self.stage {
                Stage::Head => match self.take_head(input)? {
                    None => return Ok(None),
                    Some((head, consumed)) => {
                        input = &input[consumed..];
                        self.stage = head.stage();
                    }
                },
                Stage::Body(response, body) => {
                    let (body, consumed) = body.advance(input)?;
                    input = &input[consumed..];
                    if !body.is_over() {
                        self.stage = Stage::Body(response, body);
                        return Ok(None);
                    }
                    self.stage = Stage::Head;
                    if !input.is_empty() {
                        return Err(Malformed("bytes behind the end of a response"));
                    }
                    return Ok(Some(response));
                }
            }
        }
    }

    /// The server closed: a response without a length is complete now, any other is cut off.
    pub(super) fn end_of_stream(&mut self) -> Option<Response> {
        match std::mem::take(&mut self.stage) {
            Stage::Body(response, Body::UntilClose) => Some(response),
            _ => None,
        }
    }

    /// Parses the head if `input` completes it; answers with how much of `input` belongs to it.
    fn take_head(&mut self, input: &[u8]) -> Result<Option<(Head, usize)>, Malformed> {
        if self.head.is_empty()
            && let Some(end) = end_of_head(input, 0)
        {
            return Ok(Some((Head::parse(&input[..end])?, end)));
        }
        let known = self.head.len();
        self.head.extend_from_slice(input);
        let parsed = match end_of_head(&self.head, known.saturating_sub(3)) {
            Some(end) => Some((Head::parse(&self.head[..end])?, end - known)),
            None if self.head.len() > HEAD_BYTES_MAX => return Err(Malformed("a head longer than 64 KiB")),
            None => None,
        };
        if parsed.is_some() {
            self.head.clear();
        }
        Ok(parsed)
    }
}

/// The index behind the empty line, searched from `from` on.
fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += bytes.get(at..)?.iter().position(|&byte| byte == b'\n')? + 1;
        if bytes[..at].ends_with(b"\r\n\r\n") {
            return Some(at);
        }
    }
}

struct Head {
    response: Response,
    framing: Framing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Unstated,
    Length(u64),
    Chunked,
}

impl Head {
    fn parse(head: &[u8]) -> Result<Self, Malformed> {
        let mut lines =
            head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let (status, version_closes) = status_line(lines.next().unwrap_or_default())?;
        let mut response = Response { status, replayed: false, closes: version_closes };
        let mut framing = Framing::Unstated;
        for line in lines.filter(|line| !line.is_empty()) {
            let colon = line
                .iter()
                .position(|&byte| byte == b':')
                .ok_or(Malformed("a header line without a colon"))?;
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            // Most names are told apart by their length before a byte of them is compared.
            match name.len() {
                14 if name.eq_ignore_ascii_case(b"content-length") => {
                    framing = framing.and(length(value)?)?
                }
                17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                    framing = framing.and(transfer(value)?)?
                }
                19 if name.eq_ignore_ascii_case(b"idempotent-replayed") => {
                    response.replayed = value == b"true"
                }
                10 if name.eq_ignore_ascii_case(b"connection") => match value {
                    value if value.eq_ignore_ascii_case(b"close") => response.closes = true,
                    value if value.eq_ignore_ascii_case(b"keep-alive") => response.closes = false,
                    _ => {}
                },
                _ => {}
            }
        }
        Ok(Self { response, framing })
    }

    /// What follows the head (RFC 9112, 6.3).
    fn stage(self) -> Stage {
        let mut response = self.response;
        match (response.status, self.framing) {
            // An interim response has no body, and the real one follows it.
            (100..=199, _) => Stage::Head,
            (204 | 304, _) => Stage::Body(response, Body::Length(0)),
            (_, Framing::Length(length)) => Stage::Body(response, Body::Length(length)),
            (_, Framing::Chunked) => Stage::Body(response, Body::Chunked(Chunk::Size { digits: 0, size: 0 })),
            (_, Framing::Unstated) => {
                response.closes = true;
                Stage::Body(response, Body::UntilClose)
            }
        }
    }
}

impl Framing {
    fn and(self, other: Self) -> Result<Self, Malformed> {
        if self == Self::Unstated || self == other {
            Ok(other)
        } else {
            Err(Malformed("two framings in one head"))
        }
    }
}

/// The status, and whether this version closes unless it says otherwise.
fn status_line(line: &[u8]) -> Result<(u16, bool), Malformed> {
    let (closes, rest) = match line {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1', b' ', rest @ ..] => (false, rest),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0', b' ', rest @ ..] => (true, rest),
        _ => return Err(Malformed("no HTTP/1 status line")),
    };
    match rest {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9']
        | [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b' ', ..] => {
            let digit = |byte: u8| u16::from(byte - b'0');
            Ok((digit(*a) * 100 + digit(*b) * 10 + digit(*c), closes))
        }
        _ => Err(Malformed("no status code of three digits")),
    }
}

fn length(value: &[u8]) -> Result<Framing, Malformed> {
    const REFUSED: Malformed = Malformed("a Content-Length that is no number");
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(REFUSED);
    }
    let digits = str::from_utf8(value).map_err(|_| REFUSED)?;
    digits.parse().map(Framing::Length).map_err(|_| REFUSED)
}

fn transfer(value: &[u8]) -> Result<Framing, Malformed> {
    if value.eq_ignore_ascii_case(b"chunked") {
        Ok(Framing::Chunked)
    } else {
        Err(Malformed("a Transfer-Encoding other than chunked"))
    }
}

impl Body {
    fn is_over(self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunk::End))
    }

    /// Goes on over `input`; answers with the new state and how much of `input` belonged to the body.
    fn advance(self, input: &[u8]) -> Result<(Self, usize), Malformed> {
        match self {
            Self::UntilClose => Ok((self, input.len())),
            Self::Length(left) => {
                let (left, taken) = take(left, input.len());
                Ok((Self::Length(left), taken))
            }
            Self::Chunked(mut chunk) => {
                let mut at = 0;
                while at < input.len() && !matches!(chunk, Chunk::End) {
                    let taken;
                    (chunk, taken) = chunk.advance(&input[at..])?;
                    at += taken;
                }
                Ok((Self::Chunked(chunk), at))
            }
        }
    }
}

impl Chunk {
    /// Takes one byte, or as many as the chunk's data has.
    fn advance(self, input: &[u8]) -> Result<(Self, usize), Malformed> {
        if let Self::Data { left } = self {
            let (left, taken) = take(left, input.len());
            return Ok((if left == 0 { Self::DataReturn } else { Self::Data { left } }, taken));
        }
        Ok((self.step(input[0])?, 1))
    }

    fn step(self, byte: u8) -> Result<Self, Malformed> {
        match (self, byte) {
            (Self::Size { digits: 16, .. }, byte) if byte.is_ascii_hexdigit() => {
                Err(Malformed("a chunk size above 2^64"))
            }
            (Self::Size { digits, size }, byte) if byte.is_ascii_hexdigit() => {
                let digit = match byte {
                    b'0'..=b'9' => byte - b'0',
                    _ => (byte | 0x20) - b'a' + 10,
                };
                Ok(Self::Size { digits: digits + 1, size: size << 4 | u64::from(digit) })
            }
            (Self::Size { digits: 0, .. }, _) => Err(Malformed("a chunk without a size")),
            (Self::Size { size, .. }, b';' | b' ' | b'\t') => Ok(Self::Extension { size }),
            (Self::Size { size, .. } | Self::Extension { size }, b'\r') => Ok(Self::SizeLineFeed { size }),
            (Self::Extension { size }, byte) if byte != b'\n' => Ok(Self::Extension { size }),
            (Self::SizeLineFeed { size: 0 }, b'\n') => Ok(Self::TrailerStart),
            (Self::SizeLineFeed { size }, b'\n') => Ok(Self::Data { left: size }),
            (Self::DataReturn, b'\r') => Ok(Self::DataLineFeed),
            (Self::DataLineFeed, b'\n') => Ok(Self::Size { digits: 0, size: 0 }),
            (Self::TrailerStart, b'\r') => Ok(Self::LastLineFeed),
            (Self::TrailerStart | Self::Trailer, byte) if byte != b'\r' && byte != b'\n' => Ok(Self::Trailer),
            (Self::Trailer, b'\r') => Ok(Self::TrailerLineFeed),
            (Self::TrailerLineFeed, b'\n') => Ok(Self::TrailerStart),
            (Self::LastLineFeed, b'\n') => Ok(Self::End),
            _ => Err(Malformed("a chunk line that does not end as it should")),
        }
    }
}

/// Takes up to `left` of `available` bytes; answers with what is left to take, and how many were.
fn take(left: u64, available: usize) -> (u64, usize) {
    match usize::try_from(left) {
        Ok(left) if left <= available => (0, left),
        _ => (left - available as u64, available),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATED: &[u8] = b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n{\"id\":\"ch_1\"}";
    const REPLAY: &[u8] =
        b"HTTP/1.1 201 Created\r\nIdempotent-Replayed: true\r\nContent-Length:2\r\nConnection: close\r\n\r\n{}";
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;name=value\r\nhello\r\n1A\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nTrailer: x\r\n\r\n";
    const INTERIM: &[u8] =
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 402 Payment Required\r\ncontent-length: 0\r\n\r\n";
    const EMPTY: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

    fn response(status: u16) -> Response {
        Response { status, replayed: false, closes: false }
    }

    fn complete() -> [(&'static [u8], Response); 5] {
        [
            (CREATED, response(201)),
            (REPLAY, Response { status: 201, replayed: true, closes: true }),
            (CHUNKED, response(200)),
            (INTERIM, response(402)),
            (EMPTY, response(204)),
        ]
    }

    #[test]
    fn whole_responses_are_read_at_once() {
        for (bytes, expected) in complete() {
            assert_eq!(Parser::default().feed(bytes), Ok(Some(expected)));
        }
    }

    #[test]
    fn a_response_cut_into_two_reads_at_any_byte_is_the_same_response() {
        for (bytes, expected) in complete() {
            for cut in 1..bytes.len() {
                let mut parser = Parser::default();
                assert_eq!(parser.feed(&bytes[..cut]), Ok(None), "before the cut at {cut}");
                assert_eq!(parser.feed(&bytes[cut..]), Ok(Some(expected)), "behind the cut at {cut}");
            }
        }
    }

    #[test]
    fn a_response_that_arrives_byte_by_byte_is_the_same_response() {
        for (bytes, expected) in complete() {
            let mut parser = Parser::default();
            let (last, before) = bytes.split_last().expect("responses are not empty");
            for byte in before {
                assert_eq!(parser.feed(&[*byte]), Ok(None));
            }
            assert_eq!(parser.feed(&[*last]), Ok(Some(expected)));
        }
    }

    #[test]
    fn one_parser_reads_response_after_response() {
        let mut parser = Parser::default();
        for (bytes, expected) in complete() {
            assert_eq!(parser.feed(bytes), Ok(Some(expected)));
        }
    }

    #[test]
    fn without_a_length_the_body_ends_with_the_stream() {
        let mut parser = Parser::default();
        assert_eq!(parser.feed(b"HTTP/1.1 200 OK\r\n\r\nany"), Ok(None));
        assert_eq!(parser.feed(b"thing"), Ok(None));
        assert_eq!(parser.end_of_stream(), Some(Response { closes: true, ..response(200) }));
    }

    #[test]
    fn a_stream_that_ends_inside_a_response_gives_none() {
        for (bytes, _) in complete() {
            for cut in 0..bytes.len() {
                let mut parser = Parser::default();
                assert_eq!(parser.feed(&bytes[..cut]), Ok(None));
                assert_eq!(parser.end_of_stream(), None);
            }
        }
    }

    #[test]
    fn http_1_0_closes_unless_it_says_otherwise() {
        let closing = b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(Parser::default().feed(closing), Ok(Some(Response { closes: true, ..response(200) })));
        let keeping = b"HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(Parser::default().feed(keeping), Ok(Some(response(200))));
    }

    #[test]
    fn what_is_no_response_is_refused() {
        let head_too_long = [b"HTTP/1.1 200 OK\r\nx: ".as_slice(), &vec![b'a'; HEAD_BYTES_MAX]].concat();
        let cases: [(&[u8], &str); 14] = [
            (b"HTTP/2 200\r\n\r\n", "no HTTP/1 status line"),
            (b"SSH-2.0-OpenSSH\r\n\r\n", "no HTTP/1 status line"),
            (b"HTTP/1.1 20 OK\r\n\r\n", "three digits"),
            (b"HTTP/1.1 2000 OK\r\n\r\n", "three digits"),
            (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "without a colon"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "no number"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\n", "no number"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n", "no number"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", "two framings"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", "two framings"),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n", "other than chunked"),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n", "without a size"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab", "behind the end"),
            (&head_too_long, "64 KiB"),
        ];
        for (bytes, reason) in cases {
            let refused = Parser::default().feed(bytes).expect_err(reason);
            assert!(refused.to_string().contains(reason), "{refused}");
        }
    }

    #[test]
    fn chunks_that_do_not_end_as_they_should_are_refused() {
        const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        for body in
            [b"1\nx".as_slice(), b"1\r\nxy", b"1\r\nx\ry", b"1;\n", b"0\r\n\n", b"11111111111111111\r\n"]
        {
            assert!(Parser::default().feed(&[HEAD, body].concat()).is_err(), "{body:?}");
        }
    }
}
