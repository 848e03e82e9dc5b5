//! How a command ends: its exit code, and the message for a person when it did not do what was asked.

use std::fmt;

use crate::output::tell;

/// The exit codes, part of the contract with scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// What was asked is done.
    Done = 0,
    /// It ran, and what it checked is not as it should be.
    CheckFailed = 1,
    /// Wrong use: a flag, a configuration or a file of ours that cannot be meant.
    Usage = 2,
    /// Something needed is not reachable, or a database file is corrupt, newer or locked.
    Unavailable = 3,
    /// It is not known what became of the operation.
    Unknown = 4,
    /// It is settled, and standard output took no more of its answer.
    Unwritten = 5,
    /// Ctrl-C or SIGTERM ended it before it was done.
    Interrupted = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A command that failed: its exit code, what is wrong, and what can be done about it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
    help: Option<String>,
}

impl Failure {
    /// Wrong use or configuration (exit 2).
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into(), help: None }
    }

    /// Something needed is not there or not usable (exit 3).
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unavailable, message: message.into(), help: None }
    }

    /// What was checked could not be, or contradicts itself (exit 1).
    pub(crate) fn check_failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::CheckFailed, message: message.into(), help: None }
    }

    /// It is settled, and its answer could not be written (exit 5).
    pub(crate) fn unwritten(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unwritten, message: message.into(), help: None }
    }

    /// A signal ended it before it was done (exit 130).
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self { exit: Exit::Interrupted, message: message.into(), help: None }
    }

    /// Adds what the reader can do now.
    pub(crate) fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// Writes the failure to standard error; in colour only on a terminal.
    pub(crate) fn report(&self) {
        let error = anstyle::AnsiColor::Red.on_default().bold();
        tell(&format!("{error}error:{error:#} {self}"));
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}
