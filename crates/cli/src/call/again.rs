//! The command that asks again for an operation whose result is not known.

use std::borrow::Cow;

use unavez_client::{Key, Received};

use super::CallArgs;
use super::body::Body;

/// The same call, for a shell: same method, address, headers and body, and the key spelled out. Secrets are not: they would
/// stand in the log of whoever runs this.
pub(super) fn command(args: &CallArgs, key: &Key, received: Received) -> String {
    let mut words = vec!["unavez call".to_owned()];
    let mut flag = |name: &str, value: &str| words.push(format!("{name} {}", quoted(value)));
    flag("--key", key.as_str());
    if args.preset.0.name != "any" {
        flag("--preset", args.preset.0.name);
    }
    if let Some(path) = &args.api_key_file {
        flag("--api-key-file", &path.display().to_string());
    }
    for (name, value) in &args.header {
        let shown = if is_secret(name.as_str()) { "…" } else { value.to_str().unwrap_or("…") };
        flag("-H", &format!("{name}: {shown}"));
    }
    if received == Received::Perhaps {
        words.push("--again".to_owned());
    }
    words.push(args.method.to_string());
    words.push(quoted(&args.url).into_owned());
    match &args.data {
        Some(Body::Stdin) => words.push("-d @-".to_owned()),
        Some(Body::File(path)) => words.push(format!("-d {}", quoted(&format!("@{}", path.display())))),
        Some(Body::Text(text)) => words.push(format!("-d {}", quoted(text))),
        None => {}
    }
    words.join(" ")
}

/// Headers whose value is not shown.
fn is_secret(name: &str) -> bool {
    ["authorization", "cookie", "key", "token", "secret", "password", "signature"]
        .iter()
        .any(|part| name.contains(part))
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
