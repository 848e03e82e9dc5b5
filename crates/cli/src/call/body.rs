//! Where the body comes from.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::exit::Failure;

/// The largest body. All of it is held in memory, for every attempt.
const BODY_MIB_MAX: u64 = 64;

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
            Self::File(path) => read(&path.display().to_string(), || open(path)),
            Self::Stdin => read("standard input", || Ok(io::stdin().lock())),
        }
    }
}

/// A regular file: a pipe may have no writer, and a device no end, and the time for the call begins only after this.
fn open(path: &Path) -> io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file; `@-` is standard input"));
    }
    File::open(path)
}

fn read<R: Read>(name: &str, open: impl FnOnce() -> io::Result<R>) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    let limit = BODY_MIB_MAX << 20;
    open()
        .and_then(|source| source.take(limit + 1).read_to_end(&mut body))
        .map_err(|error| Failure::usage(format!("{name} cannot be read: {error}")))?;
    if body.len() as u64 > limit {
        return Err(Failure::usage(format!(
            "{name} holds more than {BODY_MIB_MAX} MiB, the limit of a body"
        )));
    }
    Ok(body)
}
