//! What of a request goes into its digest, and in which form: algorithm 1 (P5).

use alloc::borrow::Cow;

use sha2::digest::Update;

use super::digester::{Digester, FingerprintKey, short};
use super::parts::{self, Parts};
use super::{Ambiguous, Fields, RequestParts, Verbatim};
use crate::identity::frame;
use crate::json::{self, Canonical, NotCanonical};

/// A request with everything decided that the digest does not see: spelling, case, parameters.
pub(super) struct Covered<'a> {
    method: &'a str,
    path: &'a str,
    query: Option<&'a str>,
    essence: Option<Cow<'a, str>>,
    encoding: Option<Cow<'a, str>>,
    body: Body<'a>,
}

enum Body<'a> {
    Bytes(&'a [u8]),
    Json(Canonical),
}

impl<'a> Covered<'a> {
    pub(super) fn read(request: &RequestParts<'a>, fields: &Fields) -> Result<Self, Ambiguous> {
        let essence = request.content_type.map(essence);
        let encoding = request.content_encoding.map(|value| lower_case(value.trim_ascii()));
        let coded = encoding.as_deref().is_some_and(|encoding| encoding != "identity");
        let is_json = !coded && essence.as_deref().is_some_and(is_json);
        Ok(Self {
            method: request.method,
            path: request.path,
            query: request.query,
            essence,
            encoding,
            body: Body::read(request.body, is_json.then_some(fields))?,
        })
    }

    /// The input of algorithm 1.
    pub(super) fn feed(&self, into: &mut impl Update) {
        frame(into, b"unavez/fingerprint/v1");
        frame(into, self.method.as_bytes());
        frame(into, self.path.as_bytes());
        frame_optional(into, self.query);
        frame_optional(into, self.essence.as_deref());
        frame_optional(into, self.encoding.as_deref());
        self.body.feed(into);
    }

    pub(super) fn parts(&self, key: Option<&FingerprintKey>) -> Parts {
        let [method, path, query, kind] = parts::REQUEST;
        let parts = Parts::new([
            short(key, method.as_bytes(), |into| into.update(self.method.as_bytes())),
            short(key, path.as_bytes(), |into| into.update(self.path.as_bytes())),
            short(key, query.as_bytes(), |into| frame_optional(into, self.query)),
            short(key, kind.as_bytes(), |into| {
                frame_optional(into, self.essence.as_deref());
                frame_optional(into, self.encoding.as_deref());
            }),
        ]);
        match &self.body {
            Body::Json(form)
                if form.is_object() && parts::kept_by_member(form.members().map(|(name, _)| name)) =>
            {
                let member = |(name, value)| (name, short(key, name, |into| into.update(value)));
                parts.with_members(form.members().map(member))
            }
            body => parts.with_whole_body(short(key, b"", |into| body.feed(into))),
        }
    }
}

/// The digest of a request as it came. Its input begins with another name than the whole's, so the two never meet.
pub(super) fn verbatim(request: &RequestParts<'_>, key: Option<&FingerprintKey>) -> Verbatim {
    let mut digest = Digester::new(key);
    frame(&mut digest, b"unavez/verbatim/v1");
    frame(&mut digest, request.method.as_bytes());
    frame(&mut digest, request.path.as_bytes());
    frame_optional(&mut digest, request.query);
    frame_optional(&mut digest, request.content_type);
    frame_optional(&mut digest, request.content_encoding);
    frame(&mut digest, request.body);
    let digest = digest.finish();
    let (verbatim, _) = digest.split_first_chunk().expect("32 bytes start with 16");
    *verbatim
}

impl<'a> Body<'a> {
    /// `fields` is there if the body says it is JSON.
    fn read(bytes: &'a [u8], fields: Option<&Fields>) -> Result<Self, Ambiguous> {
        let Some(fields) = fields else { return Ok(Self::Bytes(bytes)) };
        match json::canonical_of(bytes, fields) {
            Ok(form) => Ok(Self::Json(form)),
            Err(NotCanonical::Unparsable) => Ok(Self::Bytes(bytes)),
            Err(NotCanonical::Ambiguous(ambiguous)) => Err(ambiguous),
        }
    }

    fn feed(&self, into: &mut impl Update) {
        let (kind, bytes) = match self {
            Self::Bytes(bytes) => (0, *bytes),
            Self::Json(form) => (1, form.as_bytes()),
        };
        into.update(&[kind]);
        frame(into, bytes);
    }
}

/// The media type without parameters, in lower case.
fn essence(content_type: &str) -> Cow<'_, str> {
    let (essence, _) = content_type.split_once(';').unwrap_or((content_type, ""));
    lower_case(essence.trim_ascii())
}

fn is_json(essence: &str) -> bool {
    essence == "application/json" || essence.ends_with("+json")
}

fn lower_case(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return text.to_ascii_lowercase().into();
    }
    text.into()
}

/// What is absent differs from what is empty.
fn frame_optional(into: &mut impl Update, field: Option<&str>) {
    into.update(&[u8::from(field.is_some())]);
    if let Some(field) = field {
        frame(into, field.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::identity::Collected;

    fn input(request: &RequestParts<'_>) -> Vec<u8> {
        let mut input = Collected::default();
        Covered::read(request, &Fields::All).unwrap().feed(&mut input);
        input.0
    }

    /// Texts that try to pass for their neighbours' framing, from so small a world that two requests often
    /// differ in one field only, or in where one field ends.
    fn text() -> impl Strategy<Value = &'static str> {
        prop::sample::select(
            &["", "a", "aa", "b", "\0", "\u{1}", "\0\0\0\0\0\0\0\u{1}a", "identity", "gzip"][..],
        )
    }

    fn request() -> impl Strategy<Value = RequestParts<'static>> {
        let optional = || prop::option::of(text());
        let content_type =
            prop::option::of(prop::sample::select(&["", "a", "application/json", "a+json"][..]));
        let body = prop_oneof![text(), prop::sample::select(&["1", "2", "{}", "[1,2]", "\"a\""][..])];
        (text(), text(), optional(), content_type, optional(), body).prop_map(
            |(method, path, query, content_type, content_encoding, body)| {
                let body = body.as_bytes();
                RequestParts { method, path, query, content_type, content_encoding, body }
            },
        )
    }

    fn fields<'a>(r: &RequestParts<'a>) -> (&'a str, &'a str, [Option<&'a str>; 3], &'a [u8]) {
        (r.method, r.path, [r.query, r.content_type, r.content_encoding], r.body)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(5_000) })]

        /// All texts above are spelled as their own normal form, so equal input must mean equal fields.
        #[test]
        fn p5_the_input_is_injective(one in request(), change in request(), which in 0..7_u8) {
            let mut other = one;
            match which {
                0 => other.method = change.method,
                1 => other.path = change.path,
                2 => other.query = change.query,
                3 => other.content_type = change.content_type,
                4 => other.content_encoding = change.content_encoding,
                5 => other.body = change.body,
                _ => other = change,
            }
            prop_assert_eq!(input(&one) == input(&other), fields(&one) == fields(&other), "{:?} {:?}", one, other);
        }
    }
}
