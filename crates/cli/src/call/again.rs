//! The command that asks again for an operation whose result is not known.

use std::borrow::Cow;

use http::{HeaderName, HeaderValue};
use unavez_client::{Key, Received};

use super::CallArgs;
use super::body::Body;
use super::secret::{MASK, is_harmless, masked_url};

/// The same call, for a shell: same method, address, headers and body, and the key spelled out. Secrets are masked.
pub(super) fn command(args: &CallArgs, key: &Key, received: Received) -> String {
    let mut words = vec!["unavez call".to_owned(), flag("--key", key.as_str())];
    if args.preset.0.name != "any" {
        words.push(flag("--preset", args.preset.0.name));
    }
    if let Some(path) = &args.api_key_file {
        words.push(flag("--api-key-file", &path.display().to_string()));
    }
    words.extend(
        args.header.iter().map(|(name, value)| flag("-H", &format!("{name}: {}", shown(name, value)))),
    );
    if received == Received::Perhaps {
        words.push("--again".to_owned());
    }
    words.push(args.method.to_string());
    words.push(quoted(&masked_url(&args.url)).into_owned());
    match &args.data {
        Some(Body::Stdin) => words.push("-d @-".to_owned()),
        Some(Body::File(path)) => words.push(flag("-d", &format!("@{}", path.display()))),
        Some(Body::Text(text)) => words.push(flag("-d", text)),
        None => {}
    }
    words.join(" ")
}

/// Whether the command does not stand for the whole call, so that somebody has to fill it in.
pub(super) fn is_masked(args: &CallArgs) -> bool {
    masked_url(&args.url) != args.url.as_str()
        || args.header.iter().any(|(name, value)| shown(name, value) == MASK)
}

fn shown<'a>(name: &HeaderName, value: &'a HeaderValue) -> &'a str {
    value.to_str().ok().filter(|_| is_harmless(name)).unwrap_or(MASK)
}

/// A flag with its value. One that begins with a hyphen would be read as the next flag if it stood alone.
fn flag(name: &str, value: &str) -> String {
    let between = if value.starts_with('-') { '=' } else { ' ' };
    format!("{name}{between}{}", quoted(value))
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> Cow<'_, str> {
    let stands_alone = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/' | b':' | b'@' | b'=' | b',')
    };
    if !word.is_empty() && word.bytes().all(stands_alone) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_meant() {
        for word in
            ["o-1001", "a b", "it's", "", "$(rm -rf /)", "`x`", "a\nb", "é", "http://h/?a=1&b=2", "\\"]
        {
            let echoed = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quoted(word))])
                .output()
                .expect("a shell");
            assert_eq!(String::from_utf8_lossy(&echoed.stdout), word);
        }
    }
}
