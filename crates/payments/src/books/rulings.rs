//! What operators ruled by hand, and what the acquirer says of it. Rows are never deleted.

use rusqlite::{Connection, OptionalExtension as _};
use unavez_core::identity::RecordId;
use unavez_core::settling::{Confirmation, Ruling};
use unavez_core::time::Time;

use super::operations::OperationRow;
use super::rows;
use crate::acquirer::Account;

/// A ruling as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByOperator {
    /// When.
    pub ruled_at: Time,
    /// What was ruled.
    pub ruling: Ruling,
    /// Who said so.
    pub operator: Box<str>,
    /// Why.
    pub reason: Box<str>,
    /// What the acquirer says of it, and since when; `None`: it has not answered since.
    pub confirmation: Option<(Confirmation, Time)>,
    /// How often it was asked in vain.
    pub asked: u32,
}

impl ByOperator {
    /// Whether the operator's word alone stands for it.
    #[must_use]
    pub fn stands_alone(&self) -> bool {
        !matches!(self.confirmation, Some((Confirmation::Agrees, _)))
    }
}

/// A ruling to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRuling<'a> {
    pub(crate) operation: OperationRow,
    pub(crate) ruling: Ruling,
    pub(crate) operator: &'a str,
    pub(crate) reason: &'a str,
    /// What the acquirer said when it was asked for the ruling; `None`: nothing.
    pub(crate) confirmation: Option<Confirmation>,
    /// When it is asked again, if it was silent.
    pub(crate) ask_at: Time,
}

/// Adds a ruling.
pub(crate) fn write(connection: &Connection, new: &NewRuling<'_>, now: Time) -> rusqlite::Result<()> {
    connection.prepare_cached(include_str!("sql/insert_ruling.sql"))?.execute((
        new.operation,
        now.as_micros(),
        new.ruling.as_str(),
        new.operator,
        new.reason,
        new.confirmation.map(word),
        new.confirmation.map(|_| now.as_micros()),
        new.ask_at.as_micros(),
    ))?;
    Ok(())
}

/// The ruling about an operation.
pub(crate) fn of_operation(
    connection: &Connection,
    operation: OperationRow,
) -> rusqlite::Result<Option<ByOperator>> {
    let mut find = connection.prepare_cached(include_str!("sql/ruling_of_operation.sql"))?;
    find.query_row([operation], |row| {
        let confirmed_at: Option<i64> = row.get(5)?;
        let confirmation = rows::optional_word(row, 4, "confirmation", parse_confirmation)?;
        Ok(ByOperator {
            ruled_at: rows::time(row, 0)?,
            ruling: rows::word(row, 1, "ruling", parse_ruling)?,
            operator: row.get(2)?,
            reason: row.get(3)?,
            confirmation: confirmation.zip(confirmed_at.map(Time::from_micros)),
            asked: row.get(6)?,
        })
    })
    .optional()
}

/// Operations of this account whose rulings are to be confirmed by now.
pub(crate) fn to_confirm(
    connection: &Connection,
    account: &Account,
    now: Time,
    limit: u32,
) -> rusqlite::Result<Vec<RecordId>> {
    let mut list = connection.prepare_cached(include_str!("sql/rulings_to_confirm.sql"))?;
    let ids = list
        .query_map((account.as_str(), now.as_micros(), limit), |row| row.get(0).map(RecordId::from_bytes))?;
    ids.collect()
}

/// Writes what the acquirer says of a ruling. The first answer stays.
pub(crate) fn confirm(
    connection: &Connection,
    operation: OperationRow,
    confirmation: Confirmation,
    now: Time,
) -> rusqlite::Result<()> {
    let mut confirm = connection.prepare_cached(include_str!("sql/confirm_ruling.sql"))?;
    confirm.execute((operation, word(confirmation), now.as_micros())).map(drop)
}

/// It was asked in vain.
pub(crate) fn ask_again(connection: &Connection, operation: OperationRow, at: Time) -> rusqlite::Result<()> {
    let mut again = connection.prepare_cached(include_str!("sql/ask_again_about_ruling.sql"))?;
    again.execute((operation, at.as_micros())).map(drop)
}

const fn word(confirmation: Confirmation) -> &'static str {
    match confirmation {
        Confirmation::Agrees => "agrees",
        Confirmation::Contradicts => "contradicts",
        Confirmation::ProvesNothing => "proves_nothing",
    }
}

fn parse_confirmation(text: &str) -> Option<Confirmation> {
    [Confirmation::Agrees, Confirmation::Contradicts, Confirmation::ProvesNothing]
        .into_iter()
        .find(|it| word(*it) == text)
}

fn parse_ruling(text: &str) -> Option<Ruling> {
    [Ruling::Done, Ruling::Failed].into_iter().find(|it| it.as_str() == text)
}
