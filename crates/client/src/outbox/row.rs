//! Between an operation and its row. A row is believed only with its digest.

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method, Response, Uri};
use rusqlite::Row;
use sha2::{Digest as _, Sha256};
use unavez_core::key::Key;
use unavez_core::retry::Received;
use unavez_core::time::Time;

use crate::operation::{Operation, OperationParts};

/// The columns that an operation is made of, as they stand in a row.
pub(super) struct Content {
    pub(super) key: String,
    pub(super) method: String,
    pub(super) url: String,
    pub(super) host: String,
    pub(super) headers: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) created_at: Time,
}

/// Why a row is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tampered;

impl Tampered {
    pub(super) const REASON: &'static str =
        "the stored operation is not what was put: it was edited, or the disk has damaged it";
}

impl Content {
    pub(super) fn of(operation: &Operation, key: &Key, created_at: Time) -> Self {
        let parts = operation.parts();
        Self {
            key: key.as_str().to_owned(),
            method: parts.method.to_string(),
            url: parts.url.to_string(),
            host: host(&parts.url),
            headers: write_headers(&parts.headers),
            body: parts.body.to_vec(),
            created_at,
        }
    }

    /// From the columns of `take_find.sql`.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: row.get("key")?,
            method: row.get("method")?,
            url: row.get("url")?,
            host: row.get("host")?,
            headers: row.get("headers")?,
            body: row.get("body")?,
            created_at: Time::from_micros(row.get("created_at_us")?),
        })
    }

    /// Each part is hashed with its length before it, so that no two rows are hashed alike. It keeps no secret: it finds
    /// accidents and edits by hand, not somebody who computes it anew.
    pub(super) fn digest(&self, tenant: &str) -> [u8; 32] {
        let created_at = self.created_at.as_micros().to_be_bytes();
        let texts = [tenant, &self.key, &self.method, &self.url, &self.host].map(str::as_bytes);
        let mut hash = Sha256::new();
        for part in texts.into_iter().chain([&self.headers[..], &self.body, &created_at]) {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    /// The operation, if the row is what was put. `age` is its own.
    pub(super) fn restore(
        self,
        tenant: &str,
        digest: &[u8],
        received: Received,
        made_at: Time,
    ) -> Result<Operation, Tampered> {
        if self.digest(tenant)[..] != *digest {
            return Err(Tampered);
        }
        let parts = OperationParts {
            method: Method::from_bytes(self.method.as_bytes()).map_err(|_| Tampered)?,
            url: self.url.parse().map_err(|_| Tampered)?,
            headers: read_headers(&self.headers).ok_or(Tampered)?,
            body: self.body.into(),
            key: Some(Key::parse_path(&self.key).map_err(|_| Tampered)?),
            created_at: made_at,
            received,
        };
        Operation::from_parts(parts).map_err(|_| Tampered)
    }
}

/// With its port, as the client's own hosts are told apart.
fn host(url: &Uri) -> String {
    url.authority().map_or_else(String::new, ToString::to_string)
}

/// One line each, as HTTP/1.1 writes them; a value can hold no line end.
pub(super) fn write_headers(headers: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    lines
}

pub(super) fn read_headers(mut lines: &[u8]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    while !lines.is_empty() {
        let end = lines.windows(2).position(|pair| pair == b"\r\n")?;
        let colon = lines[..end].windows(2).position(|pair| pair == b": ")?;
        let name = HeaderName::from_bytes(&lines[..colon]).ok()?;
        headers.append(name, HeaderValue::from_bytes(&lines[colon + 2..end]).ok()?);
        lines = &lines[end + 2..];
    }
    Some(headers)
}

/// A stored answer. `None`: its row is not what was stored.
pub(super) fn read_answer(status: u16, headers: &[u8], body: Vec<u8>) -> Option<Response<Bytes>> {
    let mut answer = Response::builder().status(status).body(Bytes::from(body)).ok()?;
    *answer.headers_mut() = read_headers(headers)?;
    Some(answer)
}

pub(super) const fn received(column: i64) -> Received {
    if column == 0 { Received::No } else { Received::Perhaps }
}

pub(super) const fn received_column(received: Received) -> i64 {
    match received {
        Received::No => 0,
        Received::Perhaps => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content() -> Content {
        let key = Key::parse_path("charge:o-1").unwrap();
        let operation = Operation::post("https://pay.test:8443/v1/charges")
            .unwrap()
            .with_json(r#"{"amount":5}"#)
            .add_header(HeaderName::from_static("x-note"), HeaderValue::from_bytes(b"caf\xe9: x").unwrap());
        Content::of(&operation, &key, Time::from_micros(7))
    }

    #[test]
    fn p29_an_operation_comes_back_as_it_was() {
        let digest = content().digest("shop");
        let made_at = Time::from_micros(9);
        let parts = content().restore("shop", &digest, Received::Perhaps, made_at).unwrap().into_parts();
        assert_eq!((parts.method, parts.url.to_string()), (Method::POST, content().url));
        assert_eq!(parts.url.authority().unwrap().as_str(), content().host);
        assert_eq!(write_headers(&parts.headers), content().headers);
        assert_eq!(parts.headers["x-note"].as_bytes(), b"caf\xe9: x");
        assert_eq!((&parts.body[..], parts.key.unwrap().as_str()), (&br#"{"amount":5}"#[..], "charge:o-1"));
        assert_eq!((parts.created_at, parts.received), (made_at, Received::Perhaps));
    }

    #[test]
    fn p29_no_column_can_be_edited_unseen() {
        let digest = content().digest("shop");
        let edits: [fn(&mut Content); 7] = [
            |row| row.key.push('1'),
            |row| row.method = "PUT".to_owned(),
            |row| row.url = row.url.replace("v1", "v2"),
            |row| row.host.push('0'),
            |row| row.headers.clear(),
            |row| row.body.extend_from_slice(b" "),
            |row| row.created_at = Time::from_micros(8),
        ];
        for edit in edits {
            let mut row = content();
            edit(&mut row);
            let restored = row.restore("shop", &digest, Received::No, Time::MIN);
            assert_eq!(restored.map(|_| ()), Err(Tampered));
        }
        assert!(content().restore("other", &digest, Received::No, Time::MIN).is_err());
        assert!(content().restore("shop", &digest, Received::No, Time::MIN).is_ok());
    }

    #[test]
    fn what_is_no_header_block_is_refused() {
        assert_eq!(read_headers(b""), Some(HeaderMap::new()));
        for lines in [&b"a"[..], b"a: b", b"a\r\n", b"a b: c\r\n", b": c\r\n"] {
            assert_eq!(read_headers(lines), None, "{lines:?}");
        }
    }
}
