//! Signed webhooks by the Standard Webhooks scheme: making signatures, and checking them (P24).
//!
//! 1. The HMAC is taken over `id.timestamp.body`, the body as raw bytes: whoever parses first has trusted already.
//! 2. Every secret is tried against every signature of the header, each comparison in constant time. Several secrets
//!    are how one replaces another without a gap.
//! 3. The tenant follows from the secret that verified, never from the body.
//! 4. A timestamp more than 300 seconds off, before or ahead, is refused: an old capture cannot be played again later.
//!    Repeats inside that time are for the receiver to know by the event's id (P25).
//!
//! What breaks it in deployment: a proxy that re-encodes bodies, and a clock more than five minutes off.
//!
//! ```
//! use unavez_core::time::Time;
//! use unavez_payments::acquirer::signature::Secrets;
//!
//! let secrets = Secrets::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw # the account's").expect("24 bytes");
//! let now = Time::from_micros(1_795_000_000_000_000);
//! let headers = secrets.sign(None, "evt_1", now, b"{}").expect("there is a secret");
//! assert!(secrets.verify(&headers, b"{}", now).is_ok());
//! assert!(secrets.verify(&headers, b"{ }", now).is_err());
//! ```

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderValue};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use unavez_core::identity::Tenant;
use unavez_core::time::Time;
use uuid::Uuid;

use super::base64;

/// How far a webhook's time may be off, before or ahead (P24).
pub const TOLERANCE: Duration = Duration::from_secs(300);

/// Names the event.
pub const ID: &str = "webhook-id";
/// When it was signed: seconds since 1970.
pub const TIMESTAMP: &str = "webhook-timestamp";
/// `v1,` and the HMAC in Base64; several, separated by spaces.
pub const SIGNATURE: &str = "webhook-signature";

const SECRET_PREFIX: &str = "whsec_";

/// What the scheme asks of a secret. Shorter ones can be guessed, longer ones are hashed down.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Secrets of one source, in the order of their file. Never shown.
#[derive(Clone, Default)]
pub struct Secrets(Vec<Secret>);

#[derive(Clone)]
struct Secret {
    /// Whose events it signs; `None`: everybody's.
    tenant: Option<Tenant>,
    key: Box<[u8]>,
}

/// A webhook whose signature and time are right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The event's id, from the signed header.
    pub id: Box<str>,
    /// The tenant of the secret; `None`: the secret is the whole account's.
    pub tenant: Option<Tenant>,
}

/// Why a webhook is not trusted. Its text goes to the log, never to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No secret is configured.
    NoSecret,
    /// A header of the scheme is missing, there twice, or not readable.
    Header(&'static str),
    /// No secret made any of the signatures.
    Signature,
    /// Signed more than [`TOLERANCE`] ago, or ahead.
    Time,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSecret => f.write_str("no webhook secret is configured"),
            Self::Header(name) => write!(f, "{name} is missing, there twice, or malformed"),
            Self::Signature => f.write_str("no configured secret made the signature"),
            Self::Time => write!(f, "signed more than {} seconds before or after now", TOLERANCE.as_secs()),
        }
    }
}

impl std::error::Error for Refused {}

/// A secret file that cannot be used. Says where, never what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretsError {
    /// Which file, where it was one.
    pub path: Option<PathBuf>,
    /// Which line, counted from 1; `None`: the file as a whole.
    pub line: Option<usize>,
    /// Why.
    pub why: String,
}

impl fmt::Display for SecretsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.why)
    }
}

impl std::error::Error for SecretsError {}

impl Secrets {
    /// Reads a file of secrets, see [`Secrets::parse`].
    ///
    /// # Errors
    /// [`SecretsError`].
    pub fn read(path: &Path) -> Result<Self, SecretsError> {
        read_file(path, Self::parse)
    }

    /// Reads one `[tenant ]whsec_…` a line. What follows a `#` is a comment; empty lines are skipped.
    ///
    /// # Errors
    /// The first line at fault, or that there is no secret at all.
    pub fn parse(text: &str) -> Result<Self, SecretsError> {
        parse_lines(text, Secret::parse).map(Self)
    }

    /// One secret that nobody else knows, for a sender and a receiver in one process.
    #[must_use]
    pub fn random() -> Self {
        let halves = [Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()];
        Self(vec![Secret { tenant: None, key: halves.concat().into() }])
    }

    /// Whether there is no secret: nothing verifies then.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The headers of a webhook about a tenant's operation, signed with every secret that may speak of it. `None`:
    /// there is no such secret.
    #[must_use]
    pub fn sign(&self, tenant: Option<&Tenant>, id: &str, now: Time, body: &[u8]) -> Option<HeaderMap> {
        let timestamp = now.as_micros().div_euclid(1_000_000).to_string();
        let signatures: Vec<String> = self
            .0
            .iter()
            .filter(|secret| secret.tenant.is_none() || secret.tenant.as_ref() == tenant)
            .map(|secret| format!("v1,{}", base64::encode(&secret.mac(id, &timestamp, body))))
            .collect();
        if signatures.is_empty() {
            return None;
        }
        let mut headers = HeaderMap::new();
        for (name, value) in [(ID, id), (TIMESTAMP, &timestamp), (SIGNATURE, &signatures.join(" "))] {
            headers.insert(name, HeaderValue::from_str(value).ok()?);
        }
        Some(headers)
    }

    /// Checks a webhook's signature over its raw body, and its time.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn verify(&self, headers: &HeaderMap, body: &[u8], now: Time) -> Result<Verified, Refused> {
        if self.is_empty() {
            return Err(Refused::NoSecret);
        }
        let id = only(headers, ID)?;
        let timestamp = only(headers, TIMESTAMP)?;
        let signed_at = seconds(timestamp).ok_or(Refused::Header(TIMESTAMP))?;
        let signatures = signatures(only(headers, SIGNATURE)?);
        let secret = self
            .0
            .iter()
            .find(|secret| is_one_of(&secret.mac(id, timestamp, body), &signatures))
            .ok_or(Refused::Signature)?;
        if is_in_time(signed_at, now) {
            Ok(Verified { id: id.into(), tenant: secret.tenant.clone() })
        } else {
            Err(Refused::Time)
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("count", &self.0.len()).finish_non_exhaustive()
    }
}

/// Reads a file of secrets. Errors name it.
pub(super) fn read_file<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, SecretsError>,
) -> Result<T, SecretsError> {
    let text = std::fs::read_to_string(path).map_err(|error| SecretsError {
        path: Some(path.to_owned()),
        line: None,
        why: format!("cannot be read: {error}"),
    })?;
    parse(&text).map_err(|error| SecretsError { path: Some(path.to_owned()), ..error })
}

/// Reads one `[tenant ]secret` a line. What follows a `#` is a comment; empty lines are skipped.
pub(super) fn parse_lines<T>(
    text: &str,
    parse: impl Fn(Option<Tenant>, &str) -> Result<T, String>,
) -> Result<Vec<T>, SecretsError> {
    let mut secrets = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let secret = split_line(line).and_then(|(tenant, secret)| parse(tenant, secret));
            secrets.push(secret.map_err(|why| SecretsError { path: None, line: Some(at + 1), why })?);
        }
    }
    if secrets.is_empty() {
        return Err(SecretsError { path: None, line: None, why: "has no secret".to_owned() });
    }
    Ok(secrets)
}

fn split_line(line: &str) -> Result<(Option<Tenant>, &str), String> {
    let Some((tenant, secret)) = line.split_once(char::is_whitespace) else { return Ok((None, line)) };
    Ok((Some(Tenant::parse(tenant).map_err(|error| error.to_string())?), secret.trim_start()))
}

impl Secret {
    fn parse(tenant: Option<Tenant>, secret: &str) -> Result<Self, String> {
        let key = secret
            .strip_prefix(SECRET_PREFIX)
            .and_then(base64::decode)
            .ok_or("is not `[tenant ]whsec_` followed by Base64")?;
        if !SECRET_BYTES.contains(&key.len()) {
            return Err(format!("the secret has {} bytes, allowed are 24 to 64", key.len()));
        }
        Ok(Self { tenant, key: key.into() })
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> [u8; 32] {
        hmac_sha256(&self.key, &[id.as_bytes(), b".", timestamp.as_bytes(), b".", body])
    }
}

/// HMAC-SHA-256 over the parts one after the other.
pub(super) fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC takes any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Whether a signature is among those a webhook carries. Takes as long whichever it is.
pub(super) fn is_one_of(mac: &[u8; 32], signatures: &[Vec<u8>]) -> bool {
    signatures.iter().fold(false, |found, signature| found | bool::from(signature.as_slice().ct_eq(mac)))
}

/// Whether a webhook signed at that second is recent enough, and not ahead.
pub(super) fn is_in_time(signed_at: Time, now: Time) -> bool {
    now.since(signed_at) <= TOLERANCE && signed_at.since(now) <= TOLERANCE
}

/// Whole seconds since 1970 in decimal digits, and nothing else.
pub(super) fn seconds(text: &str) -> Option<Time> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: u64 = is_decimal.then(|| text.parse().ok())??;
    Some(Time::from_micros(0).plus(Duration::from_secs(seconds)))
}

/// The value of a header that stands once.
pub(super) fn only<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, Refused> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|value| !value.is_empty()).ok_or(Refused::Header(name))?;
    if values.next().is_some() {
        return Err(Refused::Header(name));
    }
    value.to_str().map_err(|_| Refused::Header(name))
}

/// The signatures of version 1. Those of versions to come stand beside them and are not ours to judge.
fn signatures(header: &str) -> Vec<Vec<u8>> {
    header.split(' ').filter_map(|one| base64::decode(one.strip_prefix("v1,")?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    fn secrets(text: &str) -> Secrets {
        Secrets::parse(text).unwrap()
    }

    fn at(seconds: i64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    fn now() -> Time {
        at(1_795_000_000)
    }

    fn signed(body: &[u8]) -> HeaderMap {
        secrets(SECRET).sign(None, "evt_1", now(), body).unwrap()
    }

    fn verify(headers: &HeaderMap, body: &[u8]) -> Result<Verified, Refused> {
        secrets(SECRET).verify(headers, body, now())
    }

    /// The example of the Standard Webhooks specification, computed apart from this code.
    #[test]
    fn p24_the_signature_is_the_one_of_the_scheme() {
        let headers = secrets(SECRET)
            .sign(None, "msg_p5jXN8AQM9LWM0D4loKWxJek", at(1_614_265_330), br#"{"test": 2432232314}"#)
            .unwrap();
        assert_eq!(headers[SIGNATURE], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(headers[TIMESTAMP], "1614265330");
    }

    #[test]
    fn c91_raw_bytes_are_signed_whatever_they_are() {
        let large = vec![b'x'; 1 << 20];
        let bodies: [&[u8]; 6] =
            [b"{\r\n}", b"{}\n", "{\"a\":\"\u{e9}\"}".as_bytes(), b"{\"a\":\"\\u00e9\"}", &large, b""];
        for body in bodies {
            let headers = signed(body);
            assert!(verify(&headers, body).is_ok());
            let added = [body, b" "].concat();
            assert_eq!(verify(&headers, &added), Err(Refused::Signature));
            if !body.is_empty() {
                let mut changed = body.to_vec();
                *changed.last_mut().unwrap() ^= 1;
                assert_eq!(verify(&headers, &changed), Err(Refused::Signature));
                assert_eq!(verify(&headers, b""), Err(Refused::Signature));
            }
        }
    }

    #[test]
    fn c92_times_are_tolerated_for_300_seconds_both_ways() {
        for (offset, accepted) in
            [(-299, true), (299, true), (-300, true), (300, true), (-301, false), (301, false)]
        {
            let signed_at = at(1_795_000_000 + offset);
            let headers = secrets(SECRET).sign(None, "evt_1", signed_at, b"{}").unwrap();
            let expected = if accepted { None } else { Some(Refused::Time) };
            assert_eq!(verify(&headers, b"{}").err(), expected, "{offset}");
        }
    }

    #[test]
    fn c92_times_that_are_none_are_refused_without_panic() {
        let secret = Secret::parse(None, SECRET).unwrap();
        for text in ["0", "1000000000000000000", "18446744073709551615"] {
            let mut headers = signed(b"{}");
            let signature = format!("v1,{}", base64::encode(&secret.mac("evt_1", text, b"{}")));
            headers.insert(TIMESTAMP, text.parse().unwrap());
            headers.insert(SIGNATURE, signature.parse().unwrap());
            assert_eq!(verify(&headers, b"{}"), Err(Refused::Time), "{text}");
        }
        for text in ["-1", "abc", "", "+1795000000", "1795000000.0", "99999999999999999999"] {
            let mut headers = signed(b"{}");
            headers.insert(TIMESTAMP, text.parse().unwrap());
            assert_eq!(verify(&headers, b"{}"), Err(Refused::Header(TIMESTAMP)), "{text:?}");
        }
    }

    #[test]
    fn c92_two_secrets_in_rotation() {
        let both = secrets(&format!("{OTHER}\n{SECRET}\n"));
        assert!(both.verify(&signed(b"{}"), b"{}", now()).is_ok(), "the old one signs, both are known");
        let headers = both.sign(None, "evt_1", now(), b"{}").unwrap();
        for one in [SECRET, OTHER] {
            assert!(secrets(one).verify(&headers, b"{}", now()).is_ok(), "both sign, one is known");
        }
        let third = "whsec_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB";
        assert_eq!(secrets(third).verify(&headers, b"{}", now()), Err(Refused::Signature));
    }

    #[test]
    fn p24_headers_stand_once_and_are_all_needed() {
        for name in [ID, TIMESTAMP, SIGNATURE] {
            let mut headers = signed(b"{}");
            let value = headers.remove(name).unwrap();
            assert_eq!(verify(&headers, b"{}"), Err(Refused::Header(name)), "{name} missing");
            headers.append(name, value.clone());
            headers.append(name, value);
            assert_eq!(verify(&headers, b"{}"), Err(Refused::Header(name)), "{name} twice");
        }
        assert_eq!(Secrets::default().verify(&signed(b"{}"), b"{}", now()), Err(Refused::NoSecret));
    }

    #[test]
    fn p24_other_versions_beside_ours_do_not_disturb() {
        let mut headers = signed(b"{}");
        let ours = headers[SIGNATURE].to_str().unwrap().to_owned();
        headers.insert(SIGNATURE, format!("v1a,AAAA  v2,{ours} {ours}").parse().unwrap());
        assert!(verify(&headers, b"{}").is_ok());
        headers.insert(SIGNATURE, ours.replace("v1,", "v2,").parse().unwrap());
        assert_eq!(verify(&headers, b"{}"), Err(Refused::Signature));
    }

    #[test]
    fn p24_the_tenant_follows_from_the_secret() {
        let text = format!("# shops\nshop-a {SECRET} # since May\n\nshop-b\t{OTHER}\n");
        let both = secrets(&text);
        let tenant = Tenant::parse("shop-b").unwrap();
        let headers = both.sign(Some(&tenant), "evt_1", now(), b"{}").unwrap();
        let verified = both.verify(&headers, b"{}", now()).unwrap();
        assert_eq!(verified, Verified { id: "evt_1".into(), tenant: Some(tenant) });
        assert!(both.sign(None, "evt_1", now(), b"{}").is_none(), "no secret speaks for the account");
    }

    #[test]
    fn files_are_refused_by_line_and_never_quoted() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Secrets::parse(text).unwrap_err().to_string(), expected, "{text:?}");
        };
        check("", "has no secret");
        check("# none\n", "has no secret");
        check("\nwhsec_AAAA\n", "line 2: the secret has 3 bytes, allowed are 24 to 64");
        check("a b whsec_AAAA", "line 1: is not `[tenant ]whsec_` followed by Base64");
        check("sk_live_123", "line 1: is not `[tenant ]whsec_` followed by Base64");
        let shown = format!("{:?}", secrets(SECRET));
        assert_eq!(shown, "Secrets { count: 1, .. }");
    }
}
