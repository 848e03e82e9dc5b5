//! The scripts, and calls of them. A call names its script by a digest; a server that does not know it gets the text.

use std::sync::LazyLock;

use redis::Cmd;
use unavez_core::identity::{AttemptId, RecordId};
use unavez_core::record::Fence;

/// What has to be the same in every script that writes a record stands before its own text.
macro_rules! writing {
    ($first_line:literal, $file:literal) => {
        LazyLock::new(|| {
            Script::new(concat!($first_line, "\n", include_str!("lua/records.lua"), include_str!($file)))
        })
    };
}

pub(super) static CLAIM: LazyLock<Script> = writing!("#!lua", "lua/claim.lua");
pub(super) static CHANGE: LazyLock<Script> = writing!("#!lua flags=allow-oom", "lua/change.lua");
pub(super) static LOAD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/load.lua")));
pub(super) static DUE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/due.lua")));
pub(super) static EXPIRED: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/expired.lua")));
pub(super) static LIST: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/list.lua")));
pub(super) static PURGE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/purge.lua")));

/// A script and the digest by which servers know it.
pub(super) struct Script {
    text: &'static str,
    digest: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, digest: redis::Script::new(text).get_hash().to_owned() }
    }

    /// A call that touches these keys, all of one slot.
    pub(super) fn call(&'static self, keys: &[String]) -> Call {
        Call { script: self, keys: keys.to_vec(), args: Vec::new() }
    }
}

/// A call of a script.
pub(super) struct Call {
    script: &'static Script,
    keys: Vec<String>,
    args: Vec<Vec<u8>>,
}

impl Call {
    pub(super) fn arg(mut self, arg: impl Into<Vec<u8>>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(super) fn number(self, number: impl Into<i128>) -> Self {
        self.arg(number.into().to_string())
    }

    pub(super) fn count(self, count: usize) -> Self {
        self.arg(count.to_string())
    }

    pub(super) fn flag(self, flag: bool) -> Self {
        self.arg(if flag { "1" } else { "0" })
    }

    pub(super) fn attempt(self, attempt: AttemptId) -> Self {
        self.arg(format!("{:032x}", u128::from_be_bytes(*attempt.as_bytes())))
    }

    /// The caller's time, in tests; the first argument of every script.
    pub(super) fn told(self, now: Option<i64>) -> Self {
        match now {
            Some(now) => self.number(now),
            None => self.arg(""),
        }
    }

    /// Which record a step is about, and the fence that it must have.
    pub(super) fn of(self, id: RecordId, expected: Option<Fence>) -> Self {
        let call = self.arg(id.to_string());
        match expected {
            Some(Fence { version, attempt }) => call.number(version).attempt(attempt),
            None => call.arg("").arg(""),
        }
    }

    pub(super) fn by_digest(&self) -> Cmd {
        self.command("EVALSHA", &self.script.digest)
    }

    pub(super) fn by_text(&self) -> Cmd {
        self.command("EVAL", self.script.text)
    }

    fn command(&self, verb: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(self.keys.len());
        self.keys.iter().for_each(|key| {
            command.arg(key);
        });
        self.args.iter().for_each(|arg| {
            command.arg(arg.as_slice());
        });
        command
    }
}
