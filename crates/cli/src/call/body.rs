//! Where the body comes from.

use std::convert::Infallible;
use std::io::Read as _;
use std::path::PathBuf;
use std::str::FromStr;

use crate::exit::Failure;

/// What `-d` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// `@-`
    Stdin,
    /// `@FILE`
    File(PathBuf),
    /// Anything else is the body itself.
    Text(String),
}

impl FromStr for Body {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.strip_prefix('@') {
            Some("-") => Self::Stdin,
            Some(path) => Self::File(path.into()),
            None => Self::Text(text.to_owned()),
        })
    }
}

impl Body {
    /// The bytes, untouched: a line end that an editor has added is part of them, and of every repeat.
    pub(super) fn read(&self) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Text(text) => Ok(text.clone().into_bytes()),
            Self::File(path) => std::fs::read(path)
                .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display()))),
            Self::Stdin => {
                let mut body = Vec::new();
                let read = std::io::stdin().lock().read_to_end(&mut body);
                read.map_err(|error| Failure::usage(format!("standard input cannot be read: {error}")))?;
                Ok(body)
            }
        }
    }
}
