//! What can keep a measurement from being made. A measurement that was made and came out badly is a report, not an error.

use std::{fmt, io};

use crate::{
    Lang, Said,
    wire::{Answer, Cut},
};

/// Why there is no measurement.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: Said,
}

/// What the person at the command line can do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The options ask for something that does not exist or is refused; change them.
    Usage,
    /// A service or file that is needed cannot be reached; start or mend it.
    Unreachable,
    /// The measurement contradicts itself, or a server of the lab's own broke: a fault of unavez.
    Broken,
}

impl Error {
    /// Wrong use: exit code 2.
    pub fn usage(message: impl Into<Said>) -> Self {
        Self { kind: ErrorKind::Usage, message: message.into() }
    }

    /// Something needed is not there: exit code 3.
    pub fn unreachable(message: impl Into<Said>) -> Self {
        Self { kind: ErrorKind::Unreachable, message: message.into() }
    }

    /// The lab itself failed: exit code 1. What follows is for those who mend it, and in their language.
    pub fn broken(message: impl Into<String>) -> Self {
        let message = message.into();
        let spanish = format!("fallo del propio laboratorio: {message}");
        Self { kind: ErrorKind::Broken, message: Said::new(message, spanish) }
    }

    /// No whole answer came to what was asked.
    pub(crate) fn cut(asked: impl Into<Said>, cut: &Cut) -> Self {
        Self::unreachable(asked.into().join(": ", &cut.said()))
    }

    /// What was asked was not answered as it should be.
    pub(crate) fn answered(asked: impl Into<Said>, answer: &Answer) -> Self {
        let answer = format!("{} {}", answer.status, answer.excerpt());
        Self::unreachable(asked.into().join(": ", &(answer.as_str(), answer.as_str()).into()))
    }

    /// The message in this language; `Display` shows the English one.
    pub fn say(&self, lang: Lang) -> &str {
        self.message.say(lang)
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The process exit code for this error, as the command line documents it.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            ErrorKind::Usage => 2,
            ErrorKind::Unreachable => 3,
            ErrorKind::Broken => 1,
        }
    }

    /// Says what was being done when the error happened, in front of the message.
    #[must_use]
    pub fn while_doing(self, doing: &Said) -> Self {
        Self { message: doing.clone().join(": ", &self.message), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(out)
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        // The system has one language.
        let message = error.to_string();
        Self::unreachable((message.clone(), message))
    }
}
