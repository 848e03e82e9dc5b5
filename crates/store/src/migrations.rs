//! Numbered changes of a schema, alike in every database. How they are applied is each database's own.

use unavez_core::time::Time;

/// A numbered change of the schema.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// From 1, without gaps.
    pub number: u32,
    /// A few words; shown by `unavez migrate`.
    pub name: &'static str,
    /// The statements.
    pub sql: &'static str,
}

/// What to do about migrations that a database lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Migrate {
    /// Apply them.
    #[default]
    Auto,
    /// Refuse to open, and say what lacks.
    Check,
}

/// One migration of an open database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedMigration {
    /// Whose.
    pub component: String,
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// When it was applied.
    pub applied_at: Time,
    /// Whether this very opening applied it.
    pub is_new: bool,
}

/// FNV-1a over the text: it guards against accidents, not against an attacker, who could edit the tables as well.
pub(crate) fn checksum(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
