//! `Prefer: wait=N` (RFC 7240).

use std::time::Duration;

use http::HeaderValue;

/// Nobody waits longer than this, whatever it prefers (P10): connections are not free.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The first well-formed `wait` preference, capped. Malformed ones are ignored, as the RFC wants.
pub(super) fn wait<'a>(lines: impl IntoIterator<Item = &'a HeaderValue>) -> Option<Duration> {
    lines
        .into_iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .find_map(seconds)
        .map(|seconds| Duration::from_secs(seconds).min(WAIT_MAX))
}

fn seconds(preference: &str) -> Option<u64> {
    let (word, _parameters) = preference.split_once(';').unwrap_or((preference, ""));
    let (name, value) = word.split_once('=')?;
    if !name.trim().eq_ignore_ascii_case("wait") {
        return None;
    }
    value.trim().trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p10_reads_the_wait_preference() {
        let check = |lines: &[&'static str], expected: Option<u64>| {
            let lines: Vec<_> = lines.iter().map(|line| HeaderValue::from_static(line)).collect();
            assert_eq!(wait(&lines), expected.map(Duration::from_secs), "{lines:?}");
        };
        check(&[], None);
        check(&["wait=5"], Some(5));
        check(&["WAIT = \"7\"; x=y"], Some(7));
        check(&["respond-async, wait=10"], Some(10));
        check(&["return=minimal", "wait=2, wait=9"], Some(2));
        check(&["wait=86400"], Some(30));
        check(&["wait=18446744073709551615"], Some(30));
        check(&["wait=18446744073709551616"], None);
        check(&["wait=-1"], None);
        check(&["wait"], None);
        check(&["wait=soon"], None);
        check(&["await=5"], None);
    }
}
