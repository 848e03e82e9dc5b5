//! What a command prints: for people, or one JSON document.
//!
//! Much of it was said by others: acquirers, callers, whoever typed the command. Nothing of that acts on a terminal: of all
//! that a terminal obeys only our own line ends and colours pass.

use std::borrow::Cow;

use clap::{Args, ValueEnum};
use serde::Serialize;
use unavez_payments::books::text::acts;

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
    print(&readable_json(&text))
}

/// Prints text for people; a reader that went away (`unavez … | head`) is no failure, any other write error is.
pub(crate) fn print_line(text: &str) -> Result<(), Failure> {
    print(&harmless(text))
}

fn print(text: &str) -> Result<(), Failure> {
    use std::io::{ErrorKind, Write};
    let written = writeln!(anstream::stdout(), "{text}");
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::unavailable(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// The text without what a terminal would obey, but for line ends and colours.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|it| it != '\n' && acts(it)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let colour = colour(rest);
        let length = colour.max(character.len_utf8());
        match character {
            '\n' => shown.push('\n'),
            _ if colour > 0 => shown.push_str(&rest[..colour]),
            _ if acts(character) => shown.push('\u{fffd}'),
            _ => shown.push(character),
        }
        rest = &rest[length..];
    }
    Cow::Owned(shown)
}

/// How long the colour sequence at the beginning is: `ESC [`, digits and semicolons, `m`.
fn colour(text: &str) -> usize {
    let Some(arguments) = text.strip_prefix("\u{1b}[") else { return 0 };
    let length = arguments.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if length <= COLOUR_LENGTH_MAX && arguments[length..].starts_with('m') { 2 + length + 1 } else { 0 }
}

/// No colour of ours is longer: `38;2;255;255;255`.
const COLOUR_LENGTH_MAX: usize = 16;

/// A JSON text in which everything a terminal would obey is escaped; it means the same.
fn readable_json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|it| it != '\n' && acts(it)) {
        return Cow::Borrowed(text);
    }
    let escape = |character: char| match character {
        '\n' => "\n".to_owned(),
        // All of them are below U+10000.
        acting if acts(acting) => format!("\\u{:04x}", u32::from(acting)),
        plain => plain.to_string(),
    };
    Cow::Owned(text.chars().map(escape).collect())
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
    fn nothing_that_others_said_acts_on_a_terminal() {
        let ours = "\u{1b}[1;31mred\u{1b}[0m\nnext";
        assert_eq!(harmless(ours), ours);
        for (said, shown) in [
            ("a\u{1b}[2Jb", "a\u{fffd}[2Jb"),
            ("a\u{1b}]0;title\u{7}b", "a\u{fffd}]0;title\u{fffd}b"),
            ("a\rb\tc\u{8}", "a\u{fffd}b\u{fffd}c\u{fffd}"),
            ("\u{9b}31mx\u{202e}cba", "\u{fffd}31mx\u{fffd}cba"),
            ("\u{1b}[", "\u{fffd}["),
            ("é\u{1b}[1é", "é\u{fffd}[1é"),
        ] {
            assert_eq!(harmless(said), shown, "{said:?}");
        }
        let json = serde_json::to_string(&serde_json::json!({"d": "\u{1b}x\u{9b}\u{202e}y"})).unwrap();
        let printed = readable_json(&json);
        assert!(!printed.chars().any(acts), "{printed}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&printed).unwrap(),
            serde_json::from_str::<serde_json::Value>(&json).unwrap()
        );
    }

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
