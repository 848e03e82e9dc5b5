//! From an answer on the wire to what the rules know of it.

use http::header::{CONTENT_TYPE, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, Response};
use serde::Deserialize;
use unavez_core::retry::{Answer, Says, Told, advice};

use crate::operation;
use crate::preset::{Conflict, Hint, Mark, MarkValue, Preset, Recorded};

type Whole = Response<bytes::Bytes>;

impl Preset {
    /// What an answer to the operation says.
    pub(crate) fn read(&self, answer: &Whole) -> Answer {
        let status = answer.status().as_u16();
        let says = if self.recorded.holds(status, answer.headers()) {
            Says::Recorded
        } else if self.pending == Some(status) {
            Says::Pending
        } else if self.recorded.is_always_marked() {
            Says::Unmarked
        } else {
            Says::Nothing
        };
        Answer { status, says, retryable: self.retryable(status, answer), wait: wait(answer.headers()) }
    }

    fn retryable(&self, status: u16, answer: &Whole) -> Option<bool> {
        if status < 400 {
            return None;
        }
        let said = match &self.hint {
            Hint::Nowhere => None,
            Hint::Header(name) => read_flag(answer.headers(), name),
            Hint::Problem => read_problem(answer),
        };
        let is_running = status == 409 && self.conflict == Conflict::Running;
        said.or(is_running.then_some(true))
    }
}

impl Recorded {
    fn holds(&self, status: u16, headers: &HeaderMap) -> bool {
        let is_marked = || self.marks.iter().any(|mark| mark.is_on(headers));
        status < self.below && (self.statuses.iter().any(|range| range.contains(&status)) || is_marked())
    }

    /// Whether no status counts without a mark.
    fn is_always_marked(&self) -> bool {
        self.statuses.is_empty() && !self.marks.is_empty()
    }
}

impl Mark {
    /// Whether the answer carries it: once, since nobody knows which of two the server has set.
    fn is_on(&self, headers: &HeaderMap) -> bool {
        let mut lines = headers.get_all(self.name).iter();
        let (Some(line), None) = (lines.next(), lines.next()) else { return false };
        match self.value {
            MarkValue::Exactly(expected) => line.as_bytes() == expected.as_bytes(),
            MarkValue::Time => line.to_str().is_ok_and(is_time),
        }
    }
}

/// `2030-01-01T00:00:00Z`, with a fraction and an offset as RFC 3339 has them. jiff reads more forms than that one.
fn is_time(text: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let Some((moment, rest)) = text.as_bytes().split_at_checked(SHAPE.len()) else { return false };
    let fits = |(seen, expected): (&u8, &u8)| match expected {
        b'0' => seen.is_ascii_digit(),
        _ => seen.eq_ignore_ascii_case(expected),
    };
    let is_rest = |byte: &u8| byte.is_ascii_digit() || b".+-:Zz".contains(byte);
    moment.iter().zip(SHAPE).all(fits) && rest.iter().all(is_rest) && text.parse::<jiff::Timestamp>().is_ok()
}

fn read_flag(headers: &HeaderMap, name: &HeaderName) -> Option<bool> {
    match headers.get(name)?.as_bytes() {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    }
}

fn read_problem(answer: &Whole) -> Option<bool> {
    #[derive(Deserialize)]
    struct Problem {
        retryable: Option<bool>,
    }
    let kind = answer.headers().get(CONTENT_TYPE)?.as_bytes();
    if !kind.starts_with(b"application/problem+json") {
        return None;
    }
    serde_json::from_slice::<Problem>(answer.body()).ok()?.retryable
}

/// One line of `Retry-After`, or none: nobody knows which of two an intermediary added.
pub(crate) fn wait(headers: &HeaderMap) -> Option<std::time::Duration> {
    let mut lines = headers.get_all(RETRY_AFTER).iter();
    let line = lines.next()?;
    if lines.next().is_some() {
        return None;
    }
    let date = headers.get(DATE).map(http::HeaderValue::as_bytes);
    advice::retry_after(line.as_bytes(), date, operation::now())
}

/// What the server says about a key (P22).
pub(crate) fn read_key_status(answer: &Whole) -> Told {
    #[derive(Deserialize)]
    struct KeyStatus {
        state: String,
    }
    match answer.status().as_u16() {
        200 => {}
        404 => return Told::Nothing,
        _ => return Told::CannotSay,
    }
    let Ok(status) = serde_json::from_slice::<KeyStatus>(answer.body()) else { return Told::CannotSay };
    match status.state.as_str() {
        "finished" => Told::Finished,
        "in_progress" | "pending" => Told::Open,
        "unknown" => Told::Unknown,
        "abandoned" => Told::Abandoned,
        _ => Told::CannotSay,
    }
}
