//! What a test saw, in a sentence that can be told in both languages.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::Lang;

/// A sentence in both languages. JSON and `Display` carry the English one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    english: String,
    spanish: String,
}

impl Detail {
    /// A sentence, said twice.
    pub(crate) fn new(english: impl Into<String>, spanish: impl Into<String>) -> Self {
        Self { english: english.into(), spanish: spanish.into() }
    }

    /// The sentence in this language.
    pub fn say(&self, lang: Lang) -> &str {
        lang.say(&self.english, &self.spanish)
    }
}

impl From<(&'static str, &'static str)> for Detail {
    fn from((english, spanish): (&'static str, &'static str)) -> Self {
        Self::new(english, spanish)
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.english)
    }
}

impl Serialize for Detail {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.english)
    }
}
