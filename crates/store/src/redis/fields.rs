//! Records as hashes: every field to core's types, and the answers of the scripts around them.
//!
//! A field that does not read back is an error, never a guess: a record guards an effect.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use redis::Value;
use unavez_core::answer::{Answer, Conclusion, Content, NotKept};
use unavez_core::fingerprint::Fingerprint;
use unavez_core::identity::{AttemptId, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{Cause, Exposure, Fence, Record, State};
use unavez_core::time::Time;

use crate::{Loaded, headers};

/// The form of the hash that this program writes and reads.
const FORM: &str = "1";

/// What a script that writes answers.
pub(super) struct Step {
    pub(super) happened: bool,
    pub(super) now: Time,
    /// The record as it was found, where the script tells.
    pub(super) record: Option<Record>,
}

/// Reads `{happened, now, fields}`.
pub(super) fn step(id: RecordId, answer: Value) -> Result<Step, Unreadable> {
    let Value::Array(parts) = answer else { return Err(Unreadable::answer()) };
    let Ok([Value::Int(happened), Value::Int(now), fields]) = <[Value; 3]>::try_from(parts) else {
        return Err(Unreadable::answer());
    };
    Ok(Step { happened: happened == 1, now: Time::from_micros(now), record: record(id, fields)? })
}

/// Reads `{now, fields}`.
pub(super) fn loaded(id: RecordId, answer: Value) -> Result<Loaded, Unreadable> {
    let (now, fields) = timed(answer)?;
    Ok(Loaded { record: record(id, fields)?.map(Arc::new), now })
}

/// Reads `{now, anything}`.
pub(super) fn timed(answer: Value) -> Result<(Time, Value), Unreadable> {
    let Value::Array(parts) = answer else { return Err(Unreadable::answer()) };
    match <[Value; 2]>::try_from(parts) {
        Ok([Value::Int(now), rest]) => Ok((Time::from_micros(now), rest)),
        _ => Err(Unreadable::answer()),
    }
}

/// Reads an array of byte strings.
pub(super) fn strings(answer: Value) -> Result<Vec<Vec<u8>>, Unreadable> {
    let Value::Array(parts) = answer else { return Err(Unreadable::answer()) };
    let string = |part| match part {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(Unreadable::answer()),
    };
    parts.into_iter().map(string).collect()
}

/// Reads members of a sorted set that are ids, each followed by its score.
pub(super) fn scored_ids(answer: Value) -> Result<Vec<(i64, RecordId)>, Unreadable> {
    let strings = strings(answer)?;
    let (pairs, []) = strings.as_chunks::<2>() else { return Err(Unreadable::answer()) };
    pairs.iter().map(|[id, score]| Ok((score_of(score)?, record_id(id)?))).collect()
}

fn score_of(bytes: &[u8]) -> Result<i64, Unreadable> {
    let whole = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    whole.ok_or_else(|| Unreadable::new("score of an index", &"not a whole number"))
}

/// Reads `tenant NUL time NUL id`.
pub(super) fn due_entry(bytes: &[u8]) -> Result<(Time, Tenant, RecordId), Unreadable> {
    let unreadable = || Unreadable::new("entry of an index", &"not tenant, time and id");
    let mut parts = bytes.split(|byte| *byte == 0);
    let mut part = || parts.next().ok_or_else(unreadable);
    let tenant = std::str::from_utf8(part()?).ok().and_then(|text| Tenant::parse(text).ok());
    let at = score_of(part()?)?;
    Ok((Time::from_micros(at), tenant.ok_or_else(unreadable)?, record_id(part()?)?))
}

fn record_id(hex: &[u8]) -> Result<RecordId, Unreadable> {
    sixteen_bytes(hex)
        .map(RecordId::from_bytes)
        .ok_or_else(|| Unreadable::new("id in an index", &"not 32 hex digits"))
}

fn sixteen_bytes(hex: &[u8]) -> Option<[u8; 16]> {
    let text = std::str::from_utf8(hex).ok().filter(|text| text.len() == 32)?;
    u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)
}

/// Reads names and values that follow each other; none of them is no record.
fn record(id: RecordId, fields: Value) -> Result<Option<Record>, Unreadable> {
    let strings = strings(fields)?;
    let (pairs, []) = strings.as_chunks::<2>() else { return Err(Unreadable::answer()) };
    if pairs.is_empty() {
        return Ok(None);
    }
    let pairs = pairs.iter().map(|[name, value]| (name.as_slice(), value.as_slice()));
    Fields(pairs.collect()).record(id).map(Some)
}

/// The fields of one hash.
struct Fields<'a>(HashMap<&'a [u8], &'a [u8]>);

impl<'a> Fields<'a> {
    fn record(&self, id: RecordId) -> Result<Record, Unreadable> {
        let form = self.text("form")?;
        if form != FORM {
            return Err(Unreadable::new("form", &format_args!("`{form}`, this program knows `{FORM}`")));
        }
        let fingerprint = Fingerprint::decode(self.bytes("fingerprint")?);
        Ok(Record {
            id,
            tenant: self.parsed("tenant", Tenant::parse)?,
            key: self.parsed("key", Key::parse_path)?,
            fingerprint: fingerprint.map_err(|error| Unreadable::new("fingerprint", &error))?,
            fence: Fence { version: self.number("version")?, attempt: self.attempt()? },
            attempts: self.number("attempts")?,
            exposure: if self.flag("may_be_sent")? { Exposure::MayBeSent } else { Exposure::Contained },
            sighted: self.flag("sighted")?,
            created_at: self.time("created_at")?,
            attempt_started_at: self.time("attempt_started_at")?,
            latest_send_at: self.time("latest_send_at")?,
            state: self.state()?,
        })
    }

    fn state(&self) -> Result<State, Unreadable> {
        match self.text("state")? {
            "in_progress" => Ok(State::InProgress {
                deadline: self.get("deadline").map(|_| self.time("deadline")).transpose()?,
            }),
            "pending" => self.unknown(Cause::Pending),
            "unknown" => self.unknown(Cause::CutOff),
            "abandoned" => Ok(State::Abandoned { at: self.time("abandoned_at")? }),
            "finished" => Ok(State::Finished {
                at: self.time("finished_at")?,
                expires_at: self.time("expires_at")?,
                conclusion: self.word("conclusion", Conclusion::parse)?,
                answer: Answer { status: self.number("status")?, content: self.content()? },
                resource: self.get("resource").map(|_| self.text("resource")).transpose()?.map(Into::into),
            }),
            other => Err(Unreadable::new("state", &NoSuchWord(other))),
        }
    }

    fn unknown(&self, cause: Cause) -> Result<State, Unreadable> {
        Ok(State::Unknown { cause, asked: self.number("asked")?, next_ask_at: self.time("next_ask_at")? })
    }

    fn content(&self) -> Result<Content, Unreadable> {
        let body = || self.bytes("body").map(Bytes::copy_from_slice);
        if self.get("sealed_by").is_some() {
            return Ok(Content::Sealed { key_id: self.text("sealed_by")?.into(), bytes: body()? });
        }
        let headers =
            headers::read(self.text("headers")?).map_err(|error| Unreadable::new("headers", &error))?;
        match self.get("not_kept") {
            None => Ok(Content::Kept { headers, body: body()? }),
            Some(_) => Ok(Content::NotKept { headers, why: self.word("not_kept", NotKept::parse)? }),
        }
    }

    fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.0.get(name.as_bytes()).copied()
    }

    fn bytes(&self, name: &'static str) -> Result<&'a [u8], Unreadable> {
        self.get(name).ok_or_else(|| Unreadable::new(name, &"missing"))
    }

    fn text(&self, name: &'static str) -> Result<&'a str, Unreadable> {
        std::str::from_utf8(self.bytes(name)?).map_err(|error| Unreadable::new(name, &error))
    }

    fn number<T: TryFrom<i64>>(&self, name: &'static str) -> Result<T, Unreadable> {
        let number: i64 = self.text(name)?.parse().map_err(|error| Unreadable::new(name, &error))?;
        T::try_from(number).map_err(|_| Unreadable::new(name, &format_args!("{number} is out of range")))
    }

    fn time(&self, name: &'static str) -> Result<Time, Unreadable> {
        self.number(name).map(Time::from_micros)
    }

    fn flag(&self, name: &'static str) -> Result<bool, Unreadable> {
        match self.text(name)? {
            "0" => Ok(false),
            "1" => Ok(true),
            other => Err(Unreadable::new(name, &NoSuchWord(other))),
        }
    }

    fn attempt(&self) -> Result<AttemptId, Unreadable> {
        let bytes = sixteen_bytes(self.bytes("attempt_id")?);
        bytes.map(AttemptId::from_bytes).ok_or_else(|| Unreadable::new("attempt_id", &"not 32 hex digits"))
    }

    fn parsed<T, E: fmt::Display>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Unreadable> {
        parse(self.text(name)?).map_err(|error| Unreadable::new(name, &error))
    }

    fn word<T>(&self, name: &'static str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Unreadable> {
        let word = self.text(name)?;
        parse(word).ok_or_else(|| Unreadable::new(name, &NoSuchWord(word)))
    }
}

/// An answer or a field that is not what this program writes.
#[derive(Debug)]
pub(super) struct Unreadable {
    what: &'static str,
    why: String,
}

impl Unreadable {
    fn new(what: &'static str, why: &dyn fmt::Display) -> Self {
        Self { what, why: why.to_string() }
    }

    pub(super) fn answer() -> Self {
        Self::new("answer of a script", &"another shape")
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} does not read back: {}", self.what, self.why)
    }
}

/// A word that no version of this code up to this one has written.
struct NoSuchWord<'w>(&'w str);

impl fmt::Display for NoSuchWord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown word `{}`", self.0)
    }
}
