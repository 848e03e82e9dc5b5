//! What is not shown of a call: it would stand in the log of whoever runs this.

use std::borrow::Cow;

use http::HeaderName;

use super::CallArgs;

/// What stands where something is not shown.
pub(super) const MASK: &str = "…";

/// Words of headers that are shorter guard nothing, and would take words out of what the server says.
const SECRET_LENGTH_MIN: usize = 8;

/// Headers that hold no secret. The value of any other one might be.
const HARMLESS: [&str; 12] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-encoding",
    "content-language",
    "content-type",
    "date",
    "idempotency-key",
    "prefer",
    "user-agent",
];

/// Parts of the names of query parameters that hold one.
const SECRET: [&str; 9] = ["key", "token", "secret", "sig", "pass", "pwd", "auth", "cred", "session"];

/// The secrets of one call, which a server may repeat in what it says.
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    pub(super) fn of(args: &CallArgs, api_key: Option<&str>) -> Self {
        let hidden = args.header.iter().filter(|(name, _)| !is_harmless(name));
        // Of `Bearer …` the words by themselves too.
        let words = hidden.filter_map(|(_, value)| value.to_str().ok()).flat_map(str::split_whitespace);
        let is_worth_hiding = |word: &&str| word.len() >= SECRET_LENGTH_MIN;
        Self(words.filter(is_worth_hiding).chain(api_key).map(str::to_owned).collect())
    }

    /// A text in which they do not stand.
    pub(super) fn masked(&self, text: &[u8]) -> String {
        let text = String::from_utf8_lossy(text).into_owned();
        self.0.iter().fold(text, |text, secret| text.replace(secret, MASK))
    }
}

/// Whether the header's value is shown.
pub(super) fn is_harmless(name: &HeaderName) -> bool {
    HARMLESS.contains(&name.as_str())
}

/// The address without the values of parameters that look like credentials.
pub(super) fn masked_url(url: &str) -> Cow<'_, str> {
    let Some((address, query)) = url.split_once('?') else { return Cow::Borrowed(url) };
    let parameters: Vec<Cow<'_, str>> = query.split('&').map(masked_parameter).collect();
    Cow::Owned(format!("{address}?{}", parameters.join("&")))
}

fn masked_parameter(parameter: &str) -> Cow<'_, str> {
    match parameter.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_secret(name) => Cow::Owned(format!("{name}={MASK}")),
        _ => Cow::Borrowed(parameter),
    }
}

/// By its name, however it is written.
fn is_secret(name: &str) -> bool {
    let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy().to_ascii_lowercase();
    SECRET.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p23_credentials_in_an_address_are_not_shown() {
        for name in
            ["api_key", "apikey", "API-Key", "access_token", "client_secret", "X-Amz-Signature", "sig"]
                .into_iter()
                .chain(["password", "pwd", "api%5Fkey", "k%65y", "sessionid", "X-Amz-Credential", "auth"])
        {
            let url = format!("http://h/x?a=1&{name}=s3cret=&b=2");
            assert_eq!(masked_url(&url), format!("http://h/x?a=1&{name}=…&b=2"));
        }
        for url in ["http://h/x", "http://h/x?", "http://h/x?page=2&limit=10", "http://h/x?key=&token"] {
            assert_eq!(masked_url(url), url);
        }
    }
}
