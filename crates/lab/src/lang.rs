//! The two languages in which the lab speaks: tables, reports, progress and what went wrong.
//!
//! 1. What a person reads is made in both languages at once ([`Lang::say`], [`Said`]), so that neither can lack a text.
//! 2. Names that are typed or searched for - commands, tests, pieces, problem codes - are the same in both.
//! 3. JSON has no language. Where it carries a sentence, that is the English one.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

use crate::money::grouped;

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
    pub fn say<T>(self, english: T, spanish: T) -> T {
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

/// A thing that is counted, for one of it and for several, in both languages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noun {
    english: [&'static str; 2],
    spanish: [&'static str; 2],
}

impl Noun {
    /// One, and several.
    pub(crate) const fn new(english: [&'static str; 2], spanish: [&'static str; 2]) -> Self {
        Self { english, spanish }
    }

    /// The word that goes with so many.
    pub(crate) fn of(self, count: u64, lang: Lang) -> &'static str {
        let [one, several] = lang.say(self.english, self.spanish);
        if count == 1 { one } else { several }
    }

    /// `1 row`, `2,500 rows`.
    pub(crate) fn count(self, count: u64, lang: Lang) -> String {
        format!("{} {}", grouped(count), self.of(count, lang))
    }
}

/// What the fleet charges.
pub(crate) const ORDERS: Noun = Noun::new(["order", "orders"], ["pedido", "pedidos"]);

/// How often something is tried.
pub(crate) const ATTEMPTS: Noun = Noun::new(["attempt", "attempts"], ["intento", "intentos"]);

/// A sentence in both languages. JSON and `Display` carry the English one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    english: String,
    spanish: String,
}

impl Said {
    /// A sentence, said twice.
    pub(crate) fn new(english: impl Into<String>, spanish: impl Into<String>) -> Self {
        Self { english: english.into(), spanish: spanish.into() }
    }

    /// This sentence and the next one, with something between them.
    #[must_use]
    pub(crate) fn join(self, between: &str, next: &Self) -> Self {
        Self {
            english: self.english + between + &next.english,
            spanish: self.spanish + between + &next.spanish,
        }
    }

    /// The sentence in this language.
    pub fn say(&self, lang: Lang) -> &str {
        lang.say(&self.english, &self.spanish)
    }
}

impl<E: Into<String>, S: Into<String>> From<(E, S)> for Said {
    fn from((english, spanish): (E, S)) -> Self {
        Self::new(english, spanish)
    }
}

impl fmt::Display for Said {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.english)
    }
}

impl Serialize for Said {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.english)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one_and_none_are_several_in_both_languages() {
        let counted = |lang| [0, 1, 2, 1_001].map(|count| ORDERS.count(count, lang));
        assert_eq!(counted(Lang::En), ["0 orders", "1 order", "2 orders", "1,001 orders"]);
        assert_eq!(counted(Lang::Es), ["0 pedidos", "1 pedido", "2 pedidos", "1,001 pedidos"]);
    }
}
