//! What a record's state is in columns, alike in every database.

use unavez_core::answer::Content;
use unavez_core::record::State;
use unavez_core::time::Time;

use crate::headers;

/// The columns that follow from a record's state; null where the state does not have them.
#[derive(Default)]
pub(crate) struct StateColumns<'r> {
    pub(crate) deadline: Option<i64>,
    pub(crate) asked: Option<u32>,
    pub(crate) next_ask_at: Option<i64>,
    pub(crate) finished_at: Option<i64>,
    pub(crate) expires_at: Option<i64>,
    pub(crate) abandoned_at: Option<i64>,
    pub(crate) conclusion: Option<&'static str>,
    pub(crate) status: Option<u16>,
    pub(crate) resource: Option<&'r str>,
    pub(crate) not_kept: Option<&'static str>,
    pub(crate) sealed_by: Option<&'r str>,
    pub(crate) headers: Option<String>,
    pub(crate) body: Option<&'r [u8]>,
}

impl<'r> StateColumns<'r> {
    pub(crate) fn of(state: &'r State) -> Self {
        match state {
            State::InProgress { deadline } => {
                Self { deadline: deadline.map(Time::as_micros), ..Self::default() }
            }
            State::Unknown { cause: _, asked, next_ask_at } => {
                Self { asked: Some(*asked), next_ask_at: Some(next_ask_at.as_micros()), ..Self::default() }
            }
            State::Abandoned { at } => Self { abandoned_at: Some(at.as_micros()), ..Self::default() },
            State::Finished { at, expires_at, conclusion, answer, resource } => Self {
                finished_at: Some(at.as_micros()),
                expires_at: Some(expires_at.as_micros()),
                conclusion: Some(conclusion.as_str()),
                status: Some(answer.status),
                resource: resource.as_deref(),
                ..Self::of_content(&answer.content)
            },
        }
    }

    pub(crate) fn of_content(content: &'r Content) -> Self {
        match content {
            Content::Kept { headers, body } => {
                Self { headers: Some(headers::write(headers)), body: Some(body), ..Self::default() }
            }
            Content::NotKept { headers, why } => Self {
                headers: Some(headers::write(headers)),
                not_kept: Some(why.as_str()),
                ..Self::default()
            },
            Content::Sealed { key_id, bytes } => {
                Self { sealed_by: Some(key_id), body: Some(bytes), ..Self::default() }
            }
        }
    }
}
