//! Durations as people write them: `60s`, `24h`, `500ms`, `1h30m`.

use std::time::Duration;

/// The longest duration a flag takes. Longer ones are typing errors, and sums of shorter ones cannot overflow.
const LONGEST: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// The units, longest first, each in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a duration that may be zero. For clap's `value_parser`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if text.is_empty() {
        return Err(format!("the value is empty; {EXPECTED}"));
    }
    let mut rest = text;
    let mut total_ms: u64 = 0;
    let mut last_unit_ms = u64::MAX;
    while !rest.is_empty() {
        let (number, after_number) = split_while(rest, |c| c.is_ascii_digit());
        let (unit, after_unit) = split_while(after_number, |c| c.is_alphabetic());
        let unit_ms = unit_ms(number, unit, after_number)?;
        if unit_ms >= last_unit_ms {
            return Err(format!("`{unit}` stands after a unit that is not longer; write the longest first"));
        }
        let number: u64 = number.parse().map_err(|_| too_long(text))?;
        total_ms = number
            .checked_mul(unit_ms)
            .and_then(|ms| ms.checked_add(total_ms))
            .ok_or_else(|| too_long(text))?;
        last_unit_ms = unit_ms;
        rest = after_unit;
    }
    let total = Duration::from_millis(total_ms);
    if total > LONGEST { Err(too_long(text)) } else { Ok(total) }
}

/// Reads a duration of at least one millisecond. For clap's `value_parser`.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("it has to be longer than 0".to_owned()),
        duration => Ok(duration),
    }
}

const EXPECTED: &str = "expected whole numbers with a unit (ms, s, m, h, d), such as 60s or 1h30m";

fn unit_ms(number: &str, unit: &str, after_number: &str) -> Result<u64, String> {
    if number.is_empty() {
        let found = after_number.chars().next().map_or(String::new(), |c| format!(", not `{c}`"));
        return Err(format!("a whole number is expected{found}; {EXPECTED}"));
    }
    if unit.is_empty() {
        return Err(match after_number.chars().next() {
            None => format!("`{number}` has no unit; {number}s or {number}ms is meant?"),
            Some(c) => format!("`{c}` is not part of a duration; {EXPECTED}"),
        });
    }
    let known = UNITS.iter().find(|(name, _)| *name == unit);
    known.map(|&(_, ms)| ms).ok_or_else(|| format!("`{unit}` is not a unit; {EXPECTED}"))
}

fn too_long(text: &str) -> String {
    format!("`{text}` is longer than the limit of 3650d")
}

fn split_while(text: &str, keep: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !keep(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_unit_and_their_sums() {
        let cases = [
            ("500ms", 500),
            ("60s", 60_000),
            ("5m", 300_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
            ("1h30m", 5_400_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("0s", 0),
            ("3650d", 315_360_000_000),
        ];
        for (text, ms) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_duration_and_says_why() {
        let cases = [
            ("", "empty"),
            ("60", "`60` has no unit; 60s"),
            ("s", "a whole number is expected, not `s`"),
            ("1.5s", "`.` is not part of a duration"),
            ("-1s", "not `-`"),
            ("5 s", "` ` is not part"),
            ("5sec", "`sec` is not a unit"),
            ("5M", "`M` is not a unit"),
            ("5µs", "`µs` is not a unit"),
            ("30m1h", "longest first"),
            ("1s1s", "longest first"),
            ("3651d", "limit of 3650d"),
            ("99999999999999999999s", "limit of 3650d"),
            ("18446744073709551615d", "limit of 3650d"),
            ("1h30", "`30` has no unit"),
        ];
        for (text, reason) in cases {
            let refused = parse(text).expect_err(text);
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }

    #[test]
    fn zero_is_refused_where_it_makes_no_sense() {
        assert!(parse_positive("0ms").is_err());
        assert_eq!(parse_positive("1ms"), Ok(Duration::from_millis(1)));
    }
}
