//! The two languages tables and reports are written in.

use std::{fmt, str::FromStr};

/// The language of tables and reports. JSON has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Spanish.
    Es,
}

impl Lang {
    /// Picks the text of this language.
    pub(crate) fn say<T>(self, english: T, spanish: T) -> T {
        match self {
            Self::En => english,
            Self::Es => spanish,
        }
    }

    /// The language's tag, as HTML's `lang` attribute wants it.
    pub fn tag(self) -> &'static str {
        self.say("en", "es")
    }
}

impl fmt::Display for Lang {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.tag())
    }
}

impl FromStr for Lang {
    type Err = String;

    fn from_str(tag: &str) -> Result<Self, String> {
        [Self::En, Self::Es]
            .into_iter()
            .find(|lang| lang.tag() == tag)
            .ok_or_else(|| format!("no language {tag:?}; there are en and es"))
    }
}
