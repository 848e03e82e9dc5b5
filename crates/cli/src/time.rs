//! Points in time as people and scripts read them.

use std::time::Duration;

use unavez_core::time::Time;

/// RFC 3339 in UTC, to the microsecond where there is one.
pub(crate) fn rfc3339(time: Time) -> String {
    match jiff::Timestamp::from_microsecond(time.as_micros()) {
        Ok(timestamp) => timestamp.to_string(),
        // Beyond the year 9999 there is no RFC 3339.
        Err(_) => format!("{time:?}"),
    }
}

/// A length of time in its largest whole unit.
pub(crate) fn length(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_with_a_z() {
        assert_eq!(rfc3339(Time::from_micros(0)), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(Time::from_micros(1_500_000)), "1970-01-01T00:00:01.5Z");
        assert_eq!(rfc3339(Time::MAX), "9223372036854775807us");
    }
}
