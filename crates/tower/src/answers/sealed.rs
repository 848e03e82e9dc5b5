//! The plain text inside a sealed answer. Its first byte is the version.
//!
//! Version 1: kind (0 kept, 1 not kept), number of headers, each header's name and value, then the body or the reason.
//! Numbers are 32-bit big-endian; texts stand behind their length.

use bytes::{Buf, BufMut, Bytes};
use unavez_core::answer::{Content, Headers, NotKept, header_name};
use unavez_core::seal::{OpenError, Owner, SealKeys, Sealed};

const VERSION: u8 = 1;
const KEPT: u8 = 0;
const NOT_KEPT: u8 = 1;

pub(super) fn encode(content: &Content) -> Vec<u8> {
    let (kind, headers, tail): (u8, &Headers, &[u8]) = match content {
        Content::Kept { headers, body } => (KEPT, headers, body),
        Content::NotKept { headers, why } => (NOT_KEPT, headers, why.as_str().as_bytes()),
        Content::Sealed { .. } => {
            unreachable!("only `answers::keep` and `keep_without_body` make what is sealed")
        }
    };
    let mut out = vec![VERSION, kind];
    put_length(&mut out, headers.len());
    for (name, value) in headers {
        put(&mut out, name.as_bytes());
        put(&mut out, value);
    }
    put(&mut out, tail);
    out
}

fn put(out: &mut Vec<u8>, text: &[u8]) {
    put_length(out, text.len());
    out.extend_from_slice(text);
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    out.put_u32(u32::try_from(length).expect("answers are capped far below 4 GiB"));
}

pub(super) fn open(bytes: &Bytes, keys: Option<&SealKeys>, owner: Owner<'_>) -> Result<Content, OpenError> {
    let sealed = Sealed::decode(bytes)?;
    let Some(keys) = keys else {
        return Err(OpenError::UnknownKey(sealed.key_id().clone()));
    };
    decode(Bytes::from(keys.open(owner, &sealed)?)).ok_or(OpenError::Refused)
}

fn decode(mut plain: Bytes) -> Option<Content> {
    if plain.try_get_u8().ok()? != VERSION {
        return None;
    }
    let kind = plain.try_get_u8().ok()?;
    let count = plain.try_get_u32().ok()?;
    let mut headers = Headers::new();
    for _ in 0..count {
        let name = header_name(std::str::from_utf8(&take(&mut plain)?).ok()?);
        headers.push((name, take(&mut plain)?));
    }
    let tail = take(&mut plain)?;
    match kind {
        _ if !plain.is_empty() => None,
        KEPT => Some(Content::Kept { headers, body: tail }),
        NOT_KEPT => {
            Some(Content::NotKept { headers, why: NotKept::parse(std::str::from_utf8(&tail).ok()?)? })
        }
        _ => None,
    }
}

fn take(from: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(from.try_get_u32().ok()?).ok()?;
    (length <= from.len()).then(|| from.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers() -> Headers {
        vec![("location".into(), Bytes::from_static(b"/o/1")), ("x-raw".into(), Bytes::from_static(b"\xff"))]
    }

    #[test]
    fn p23_what_is_sealed_reads_back() {
        for content in [
            Content::Kept { headers: headers(), body: Bytes::from_static(b"\0\xff\xfe\n") },
            Content::Kept { headers: Vec::new(), body: Bytes::new() },
            Content::NotKept { headers: headers(), why: NotKept::Streamed },
        ] {
            assert_eq!(decode(Bytes::from(encode(&content))), Some(content));
        }
    }

    #[test]
    fn p23_a_damaged_text_is_no_answer() {
        let whole = encode(&Content::Kept { headers: headers(), body: Bytes::from_static(b"body") });
        for length in 0..whole.len() {
            assert_eq!(decode(Bytes::copy_from_slice(&whole[..length])), None, "cut at {length}");
        }
        let longer = [&whole[..], b"x"].concat();
        assert_eq!(decode(Bytes::from(longer)), None);
    }
}
