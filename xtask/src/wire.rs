//! As much HTTP/1.1 as the chores speak: messages whose length is stated, whole.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longer than any answer takes that still comes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The acquirer's statistics have some 45 bytes for each operation; five million of them still fit.
const BODY_BYTES_MAX: usize = 256 << 20;

/// A request or an answer: its first line, its header lines, its body. Kept as it was on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) first_line: String,
    headers: Vec<String>,
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// Reads one; `None` at the end of the connection.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut first_line = String::new();
        if from.read_line(&mut first_line)? == 0 {
            return Ok(None);
        }
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            if from.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if line == "\r\n" {
                break;
            }
            headers.push(line.trim_end().to_owned());
        }
        let mut message = Self { first_line: first_line.trim_end().to_owned(), headers, body: Vec::new() };
        let length = message.body_length()?;
        message.body.resize(length, 0);
        from.read_exact(&mut message.body)?;
        Ok(Some(message))
    }

    fn body_length(&self) -> io::Result<usize> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if self.header("transfer-encoding").is_some() {
            return Err(invalid("a message of unstated length"));
        }
        let length = self.header("content-length").map_or(Ok(0), str::parse);
        length
            .ok()
            .filter(|length| *length <= BODY_BYTES_MAX)
            .ok_or_else(|| invalid("content-length is none that is taken"))
    }

    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut bytes = format!("{}\r\n", self.first_line).into_bytes();
        for header in &self.headers {
            bytes.extend_from_slice(header.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        to.write_all(&bytes)?;
        to.flush()
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// Of an answer.
    pub(crate) fn status(&self) -> u16 {
        self.first_line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// The body as JSON; null if it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// In a few words.
    pub(crate) fn shown(&self) -> String {
        format!("{} {}", self.status(), String::from_utf8_lossy(&self.body))
    }
}

/// Asks for something over a connection of its own.
pub(crate) fn get(address: SocketAddr, path: &str) -> io::Result<Message> {
    exchange(address, &request(address, "GET", path, &[], b""))
}

/// Posts a JSON body under a key.
pub(crate) fn post(address: SocketAddr, path: &str, key: &str, body: &str) -> io::Result<Message> {
    let key = format!("idempotency-key: {key}");
    let headers = ["content-type: application/json", &key];
    exchange(address, &request(address, "POST", path, &headers, body.as_bytes()))
}

fn request(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Message {
    let length = format!("content-length: {}", body.len());
    let host = format!("host: {address}");
    let own = [host.as_str(), &length, "connection: close"];
    Message {
        first_line: format!("{method} {path} HTTP/1.1"),
        headers: own.into_iter().chain(headers.iter().copied()).map(str::to_owned).collect(),
        body: body.to_vec(),
    }
}

/// Sends a message over a connection of its own, and reads the answer.
pub(crate) fn exchange(address: SocketAddr, request: &Message) -> io::Result<Message> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    request.write(&mut stream)?;
    Message::read(&mut BufReader::new(stream))?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_whole_and_written_as_it_was() {
        let text = b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\nX-A: b\r\n\r\n{ } rest";
        let mut reader = BufReader::new(&text[..]);
        let message = Message::read(&mut reader).unwrap().unwrap();
        assert_eq!((message.status(), message.header("x-a")), (201, Some("b")));
        assert_eq!(message.body, b"{ } ");
        let mut written = Vec::new();
        message.write(&mut written).unwrap();
        assert_eq!(written, &text[..text.len() - 4]);
    }

    #[test]
    fn half_a_message_is_none() {
        let read = |text: &str| Message::read(&mut BufReader::new(text.as_bytes()));
        assert!(read("").unwrap().is_none());
        assert!(read("GET / HTTP/1.1\r\n").is_err());
        assert!(read("GET / HTTP/1.1\r\ncontent-length: 5\r\n\r\nabc").is_err());
        assert!(read("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }
}
