//! From an operation to the request that is sent on every attempt.
//!
//! It is composed once for a call, and every attempt sends a copy: what an attempt sends cannot differ from what the
//! one before it sent.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::value::RawValue;
use unavez_core::key::Key;

use crate::operation::Operation;
use crate::preset::{KeyPlace, Preset};
use crate::unfit::Unfit;

/// A request that can be sent any number of times.
pub(crate) struct Composed {
    method: Method,
    url: Uri,
    headers: HeaderMap,
    body: Bytes,
}

impl Composed {
    /// The operation as this client sends it to this kind of server.
    pub(crate) fn of(operation: &Operation, preset: &Preset, always: &HeaderMap) -> Result<Self, Unfit> {
        let parts = operation.parts();
        let mut composed = Self {
            method: parts.method.clone(),
            url: parts.url.clone(),
            headers: joined(&parts.headers, always),
            body: parts.body.clone(),
        };
        if let Some(key) = operation.key() {
            composed.put_key(key, preset)?;
        }
        Ok(composed)
    }

    /// A question about the operation's key, with the same credentials; `None`: the server cannot be asked.
    pub(crate) fn question(operation: &Operation, preset: &Preset, always: &HeaderMap) -> Option<Self> {
        let url = key_status_url(operation, preset)?;
        let mut headers = always.clone();
        if let Some(own) = operation.parts().headers.get(AUTHORIZATION) {
            headers.insert(AUTHORIZATION, own.clone());
        }
        Some(Self { method: Method::GET, url, headers, body: Bytes::new() })
    }

    /// One copy to send.
    pub(crate) fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.url.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }

    fn put_key(&mut self, key: &Key, preset: &Preset) -> Result<(), Unfit> {
        let length = key.as_str().len();
        if length > preset.key_length_max {
            return Err(Unfit::KeyTooLong { length, limit: preset.key_length_max });
        }
        match &preset.key {
            KeyPlace::Bare(name) => self.put_header(name, bare(key)?.into()),
            KeyPlace::BareOrString(name) => {
                let value = bare(key).map_or_else(|_| string(key).into(), Cow::from);
                self.put_header(name, value)
            }
            KeyPlace::String(name) => self.put_header(name, string(key).into()),
            KeyPlace::Member(member) => {
                self.body = with_member(&self.body, member, key)?;
                Ok(())
            }
        }
    }

    fn put_header(&mut self, name: &HeaderName, value: Cow<'_, str>) -> Result<(), Unfit> {
        let value = HeaderValue::from_str(&value).expect("a key is printable ASCII");
        match self.headers.insert(name.clone(), value) {
            None => Ok(()),
            Some(_) => Err(Unfit::KeyTwice { place: name.to_string() }),
        }
    }
}

/// Where the server says what became of the operation's key.
pub(crate) fn key_status_url(operation: &Operation, preset: &Preset) -> Option<Uri> {
    let (key, below) = (operation.key()?, preset.key_status?);
    let path = format!("{below}{}", utf8_percent_encode(key.as_str(), NON_ALPHANUMERIC));
    let mut parts = operation.url().clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    Uri::from_parts(parts).ok()
}

/// The operation's headers, and of the client's those it does not have itself.
fn joined(own: &HeaderMap, always: &HeaderMap) -> HeaderMap {
    // Room for the key, or adding it would grow the map at once.
    let mut headers = HeaderMap::with_capacity(own.len() + always.len() + 1);
    headers.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
    for (name, value) in always.iter().filter(|(name, _)| !own.contains_key(*name)) {
        headers.append(name.clone(), value.clone());
    }
    headers
}

fn bare(key: &Key) -> Result<&str, Unfit> {
    match key.as_str().chars().find(|character| matches!(character, ' ' | ',' | '"')) {
        Some(character) => Err(Unfit::KeyCharacter { character }),
        None => Ok(key.as_str()),
    }
}

/// A String of RFC 9651.
fn string(key: &Key) -> String {
    let mut string = String::with_capacity(key.as_str().len() + 2);
    string.push('"');
    for character in key.as_str().chars() {
        if matches!(character, '"' | '\\') {
            string.push('\\');
        }
        string.push(character);
    }
    string.push('"');
    string
}

/// The body with the key as its first member. All other bytes stay as they are.
fn with_member(body: &Bytes, member: &'static str, key: &Key) -> Result<Bytes, Unfit> {
    let no_object = || Unfit::NoJsonObject { member };
    let members: Vec<String> = member_names(body).ok_or_else(no_object)?;
    if members.iter().any(|name| name == member) {
        return Err(Unfit::KeyTwice { place: member.to_owned() });
    }
    let start = body.iter().position(|&byte| byte == b'{').ok_or_else(no_object)? + 1;
    let value = serde_json::to_string(key.as_str()).expect("text is JSON");
    let comma = if members.is_empty() { "" } else { "," };
    let inserted = format!("\"{member}\":{value}{comma}");
    Ok([&body[..start], inserted.as_bytes(), &body[start..]].concat().into())
}

/// The names of an object's members; `None`: it is no object.
fn member_names(body: &[u8]) -> Option<Vec<String>> {
    let object: std::collections::BTreeMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    Some(object.into_keys().collect())
}
