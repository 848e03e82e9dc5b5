//! Why a chore ended early, and the exit code that tells a script the same.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The three ways not to be done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A check looked and said no. Exit code 1.
    Check(String),
    /// The arguments contradict each other. Exit code 2, which clap uses for the rest of wrong use.
    Usage(String),
    /// Something needed is not there: a tool, a file the machine should have, a process that does not start. Exit code 3.
    Lacking(String),
}

impl Failure {
    pub(crate) fn check(what: impl Into<String>) -> Self {
        Self::Check(what.into())
    }

    pub(crate) fn lacking(what: impl Into<String>) -> Self {
        Self::Lacking(what.into())
    }

    /// A file or folder that could not be used, with its name: `io::Error` alone does not say which.
    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::Lacking(format!("cannot {doing} {}: {error}", path.display()))
    }

    /// The same kind with nothing left to say, for a chore that has told the whole story itself.
    pub(crate) fn told(&self) -> Self {
        match self {
            Self::Check(_) => Self::Check(String::new()),
            Self::Usage(_) => Self::Usage(String::new()),
            Self::Lacking(_) => Self::Lacking(String::new()),
        }
    }

    /// What is still to be told; None where a chore has told it.
    pub(crate) fn untold(&self) -> Option<&str> {
        let (Self::Check(what) | Self::Usage(what) | Self::Lacking(what)) = self;
        (!what.is_empty()).then_some(what)
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Check(_) => 1,
            Self::Usage(_) => 2,
            Self::Lacking(_) => 3,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check(what) | Self::Usage(what) | Self::Lacking(what) => f.write_str(what),
        }
    }
}
