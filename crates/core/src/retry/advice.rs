//! What a server asks of clients that are turned away: `Retry-After` (RFC 9110, 10.2.3).
//!
//! 1. Seconds are digits and nothing else; more than fit are the most that fit, since a cap follows anyway.
//! 2. A date may have any of the three forms of RFC 9110, 5.6.7. It is compared with the answer's own `Date` if it has
//!    one, so that two clocks are compared only where the server leaves no choice.
//! 3. What is malformed is no advice, and never an error: the answer was the message.

use core::time::Duration;

use crate::time::Time;

/// Reads the value of `Retry-After`. `date` is the same answer's `Date`, `now` this machine's clock.
pub fn retry_after(value: &[u8], date: Option<&[u8]>, now: Time) -> Option<Duration> {
    let text = core::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
    if let Some(seconds) = seconds(text) {
        return Some(Duration::from_secs(seconds));
    }
    let until = http_date(text)?;
    let since = date.and_then(|date| http_date(core::str::from_utf8(date).ok()?.trim())).unwrap_or(now);
    Some(until.since(since))
}

fn seconds(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Only too many digits can fail here.
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

/// Reads a date in one of the three forms that a recipient has to know.
pub fn http_date(text: &str) -> Option<Time> {
    if !text.is_ascii() {
        return None;
    }
    let (weekday, rest) = text.split_at_checked(text.find([',', ' '])?)?;
    if !weekday.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    match rest.strip_prefix(", ") {
        Some(rest) if rest.get(2..3)? == "-" => rfc_850(rest),
        Some(rest) => imf_fixdate(rest),
        None => asctime(rest.strip_prefix(' ')?),
    }
}

/// `06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(text: &str) -> Option<Time> {
    let [day, month, year, clock, zone] = words(text)?;
    (zone == "GMT").then_some(())?;
    moment(digits(year, 4)?, month_number(month)?, digits(day, 2)?, clock)
}

/// `06-Nov-94 08:49:37 GMT`; years below 70 are of this century.
fn rfc_850(text: &str) -> Option<Time> {
    let [date, clock, zone] = words(text)?;
    (zone == "GMT").then_some(())?;
    let mut parts = date.split('-');
    let (day, month, year) = (parts.next()?, parts.next()?, digits(parts.next()?, 2)?);
    let year = if year < 70 { 2000 + year } else { 1900 + year };
    parts.next().is_none().then_some(())?;
    moment(year, month_number(month)?, digits(day, 2)?, clock)
}

/// `Nov  6 08:49:37 1994`
fn asctime(text: &str) -> Option<Time> {
    let (month, rest) = text.split_once(' ')?;
    let [day, clock, year] = words(rest.strip_prefix(' ').unwrap_or(rest))?;
    let width = day.len();
    (1..=2).contains(&width).then_some(())?;
    moment(digits(year, 4)?, month_number(month)?, digits(day, width)?, clock)
}

/// Exactly so many words, one space between.
fn words<const N: usize>(text: &str) -> Option<[&str; N]> {
    let mut words = text.split(' ');
    let mut found = [""; N];
    for word in &mut found {
        *word = words.next()?;
    }
    words.next().is_none().then_some(found)
}

fn digits(text: &str, width: usize) -> Option<i64> {
    let is_number = text.len() == width && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

fn month_number(name: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let index = MONTHS.iter().position(|month| *month == name)?;
    i64::try_from(index + 1).ok()
}

fn moment(year: i64, month: i64, day: i64, clock: &str) -> Option<Time> {
    let mut parts = clock.split(':').map(|part| digits(part, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_clock = parts.next().is_none() && hour < 24 && minute < 60 && second <= 60;
    if !is_clock || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    let seconds = (days_since_epoch(year, month, day) * 24 + hour) * 3600 + minute * 60 + second;
    Some(Time::from_micros(seconds * 1_000_000))
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days from 1970-01-01. Years are counted from March, so that the leap day is the last of its year.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    /// From 1 March of year 0 to the epoch.
    const TO_EPOCH: i64 = 719_468;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - TO_EPOCH
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Time = Time::from_micros(0);

    fn micros(text: &str) -> Option<i64> {
        http_date(text).map(Time::as_micros)
    }

    #[test]
    fn p31_all_three_forms_of_a_date_are_read() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(micros(text), Some(784_111_777_000_000), "{text}");
        }
        assert_eq!(micros("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(micros("Tue, 29 Feb 2000 12:00:00 GMT"), Some(951_825_600_000_000));
        assert_eq!(micros("Thu, 31 Dec 2099 23:59:60 GMT"), Some(4_102_444_800_000_000));
    }

    #[test]
    fn p31_what_is_malformed_is_no_advice() {
        for value in [
            "",
            " ",
            "-1",
            "+1",
            "1.5",
            "1e3",
            "0x10",
            "soon",
            "12 ",
            "1 2",
            "1,2",
            "٣",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 PST",
            "Sun, 31 Feb 2000 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "1994-11-06T08:49:37Z",
            ", 06 Nov 1994 08:49:37 GMT x",
            "Sun, 06 Nov 1994 08:49:37:00 GMT",
        ] {
            let read = retry_after(value.as_bytes(), None, EPOCH);
            assert_eq!(read, (value == "12 ").then_some(Duration::from_secs(12)), "{value:?}");
        }
        assert_eq!(retry_after(b"\xff\xfe", None, EPOCH), None);
    }

    #[test]
    fn p31_seconds_without_end_are_the_most_there_are() {
        let endless = retry_after(b"99999999999999999999999999999999", None, EPOCH);
        assert_eq!(endless, Some(Duration::from_secs(u64::MAX)));
        assert_eq!(retry_after(b"0", None, EPOCH), Some(Duration::ZERO));
    }

    #[test]
    fn p31_a_date_is_compared_with_the_answers_own_clock() {
        let (date, until) = (b"Sun, 06 Nov 1994 08:49:37 GMT", b"Sun, 06 Nov 1994 08:50:07 GMT");
        assert_eq!(retry_after(until, Some(date), Time::MAX), Some(Duration::from_secs(30)));
        assert_eq!(retry_after(until, None, Time::MAX), Some(Duration::ZERO));
        let now = http_date("Sun, 06 Nov 1994 08:50:00 GMT").unwrap();
        assert_eq!(retry_after(until, Some(b"today"), now), Some(Duration::from_secs(7)));
    }
}
