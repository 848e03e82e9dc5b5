//! From an answer on the wire to what the rules know of it.

use http::header::{CONTENT_TYPE, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, Response};
use serde::Deserialize;
use unavez_core::retry::{Answer, Says, Told, advice};

use crate::operation;
use crate::preset::{Conflict, Hint, Preset, Recorded};

type Whole = Response<bytes::Bytes>;

impl Preset {
    /// What an answer to the operation says.
    pub(crate) fn read(&self, answer: &Whole) -> Answer {
        let status = answer.status().as_u16();
        let says = if self.recorded.holds(status, answer.headers()) {
            Says::Recorded
        } else if self.pending == Some(status) {
            Says::Pending
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
        let is_marked = || {
            self.marks.iter().any(|mark| {
                let Some(value) = headers.get(mark.name) else { return false };
                mark.value.is_none_or(|expected| value.as_bytes() == expected.as_bytes())
            })
        };
        status < self.below && (self.statuses.iter().any(|range| range.contains(&status)) || is_marked())
    }
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
