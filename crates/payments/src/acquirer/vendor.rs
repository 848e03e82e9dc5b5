//! What the adapters of real acquirers share: an API key that never shows, and webhook secrets that are plain text.

use std::fmt;
use std::path::Path;

use unavez_core::identity::Tenant;

use super::signature::{Refused, SecretsError, hmac_sha256, is_one_of, parse_lines, read_file};

/// The key of an account. Added to a request while it is sent; never stored, logged or shown.
#[derive(Clone)]
pub struct ApiKey(Box<str>);

impl ApiKey {
    /// Reads a file that holds the key, and perhaps white space around it.
    ///
    /// # Errors
    /// [`SecretsError`].
    pub fn read(path: &Path) -> Result<Self, SecretsError> {
        read_file(path, Self::parse)
    }

    /// Takes a key.
    ///
    /// # Errors
    /// It is empty, or cannot stand in a header.
    pub fn parse(text: &str) -> Result<Self, SecretsError> {
        let key = text.trim();
        let fits = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        let why = "is not one key: printable characters without space".to_owned();
        if fits { Ok(Self(key.into())) } else { Err(SecretsError { path: None, line: None, why }) }
    }

    /// The value of `Authorization`.
    pub(super) fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

/// Webhook secrets whose characters are the HMAC's key, in the order of their file. Never shown.
#[derive(Clone, Default)]
pub struct SharedSecrets(Vec<(Option<Tenant>, Box<str>)>);

impl SharedSecrets {
    /// Reads a file of secrets, see [`SharedSecrets::parse`].
    ///
    /// # Errors
    /// [`SecretsError`].
    pub fn read(path: &Path) -> Result<Self, SecretsError> {
        read_file(path, Self::parse)
    }

    /// Reads one `[tenant ]secret` a line. What follows a `#` is a comment; empty lines are skipped.
    ///
    /// # Errors
    /// The first line at fault, or that there is no secret at all.
    pub fn parse(text: &str) -> Result<Self, SecretsError> {
        parse_lines(text, |tenant, secret| match secret.len() {
            16.. => Ok((tenant, secret.into())),
            length => Err(format!("the secret has {length} characters, allowed are 16 or more")),
        })
        .map(Self)
    }

    /// The tenant whose secret made one of the signatures over the parts; `None` inside: the whole account's.
    pub(super) fn verify(&self, parts: &[&[u8]], signatures: &[Vec<u8>]) -> Result<Option<Tenant>, Refused> {
        if self.0.is_empty() {
            return Err(Refused::NoSecret);
        }
        let made = |secret: &str| is_one_of(&hmac_sha256(secret.as_bytes(), parts), signatures);
        let (tenant, _) = self.0.iter().find(|(_, secret)| made(secret)).ok_or(Refused::Signature)?;
        Ok(tenant.clone())
    }
}

impl fmt::Debug for SharedSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedSecrets").field("count", &self.0.len()).finish_non_exhaustive()
    }
}

/// The bytes of lower- or upper-case hex digits.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok();
    text.as_bytes().chunks_exact(2).map(byte).collect()
}

/// The values of `name=` in a header such as `t=1,v1=ab,v1=cd`.
pub(super) fn values_of<'a>(header: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    header.split(',').filter_map(move |part| part.trim().strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_one_word_and_never_shown() {
        let key = ApiKey::parse(" sk_test_123\n").unwrap();
        assert_eq!(key.bearer(), "Bearer sk_test_123");
        assert_eq!(format!("{key:?}"), "ApiKey(..)");
        for text in ["", " \n", "a b", "a\nb", "clé"] {
            let refused = ApiKey::parse(text).unwrap_err().to_string();
            assert_eq!(refused, "is not one key: printable characters without space", "{text:?}");
        }
    }

    #[test]
    fn secrets_are_read_by_line_and_never_shown() {
        let secrets =
            SharedSecrets::parse("whsec_0123456789abcdef # old\nshop-a 0123456789abcdef\n").unwrap();
        assert_eq!(format!("{secrets:?}"), "SharedSecrets { count: 2, .. }");
        let refused = SharedSecrets::parse("short").unwrap_err().to_string();
        assert_eq!(refused, "line 1: the secret has 5 characters, allowed are 16 or more");
    }

    #[test]
    fn hex_is_read_in_pairs() {
        assert_eq!(unhex("00fFa1"), Some(vec![0, 0xFF, 0xA1]));
        for text in ["0", "0g", "+1", "éé"] {
            assert_eq!(unhex(text), None, "{text}");
        }
        assert_eq!(values_of("t=1, v1=a,v1=b,v10=c", "v1").collect::<Vec<_>>(), ["a", "b"]);
    }
}
