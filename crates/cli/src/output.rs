//! What a command prints: for people, or one JSON document.

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::exit::Failure;

/// The two forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people; it may look different in every version
    Text,
    /// Exactly one JSON document on standard output
    Json,
}

/// The flag shared by every command that prints a result.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Output {
    /// How the result is printed; `json` is the form for scripts
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) format: Format,
}

impl Output {
    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }
}

/// Prints the one JSON document of a command.
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document)
        .map_err(|error| Failure::unavailable(format!("the result cannot be written as JSON: {error}")))?;
    print_line(&text)
}

/// Prints text; a reader that went away (`unavez … | head`) is no failure, any other write error is.
pub(crate) fn print_line(text: &str) -> Result<(), Failure> {
    use std::io::{ErrorKind, Write};
    let written = writeln!(anstream::stdout(), "{text}");
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::unavailable(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Rows as left-aligned columns, two spaces apart.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            ["a".to_owned(), "bé".to_owned(), "x".to_owned()],
            ["long".to_owned(), "c".to_owned(), String::new()],
        ];
        assert_eq!(columns(&rows), "a     bé  x\nlong  c\n");
        assert_eq!(columns::<2>(&[]), "");
    }
}
