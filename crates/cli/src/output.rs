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

/// A line on standard error; in colour only on a terminal. Where that cannot be written there is nobody to tell: the exit
/// code says how the command ended.
pub(crate) fn tell(text: &str) {
    use std::io::Write;
    let _ = writeln!(anstream::stderr(), "{}", harmless(text));
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

/// The flag of commands that print tables.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Width {
    /// All columns, however wide the terminal is; a pipe always gets them
    #[arg(long)]
    wide: bool,
}

/// How wide a table may become; `None`: as wide as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room(pub(crate) Option<usize>);

impl Width {
    /// The room that `COLUMNS` or the terminal gives.
    pub(crate) fn room(self) -> Room {
        let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let seen =
            || terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
        Room(told.or_else(seen).filter(|_| !self.wide).map(|width| width.max(NARROWEST)))
    }
}

/// Below this nothing is made to fit.
const NARROWEST: usize = 40;

/// A cell that is shortened keeps at least so many characters.
const SHORTEST: usize = 10;

/// As [`columns`], made to fit: first the columns in `expendable` go, the first of them first, then the widest cells are
/// shortened with `…`. Whether anything is missing comes back, too.
pub(crate) fn fitted<const N: usize>(
    rows: &[[String; N]],
    expendable: &[usize],
    room: Room,
) -> (String, bool) {
    let Room(Some(room)) = room else { return (columns(rows), false) };
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut widths: [usize; N] = std::array::from_fn(width);
    let total = |widths: &[usize; N]| {
        let shown = widths.iter().filter(|width| **width > 0);
        shown.clone().sum::<usize>() + 2 * shown.count().saturating_sub(1)
    };
    let mut is_cut = false;
    for column in expendable {
        if total(&widths) > room {
            (widths[*column], is_cut) = (0, true);
        }
    }
    while total(&widths) > room {
        let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > SHORTEST) else { break };
        (*widest, is_cut) = (*widest - 1, true);
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).filter(|(_, width)| *width > 0);
        let cells: Vec<String> =
            cells.map(|(cell, width)| format!("{:width$}", shortened(cell, width))).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    (text, is_cut)
}

fn shortened(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    cell.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Names and values, each value broken into lines that fit beside its name.
pub(crate) fn described(rows: &[[String; 2]], room: Room) -> String {
    let Room(Some(room)) = room else { return columns(rows) };
    let name = rows.iter().map(|[name, _]| name.chars().count()).max().unwrap_or(0);
    let beside = room.saturating_sub(name + 2).max(SHORTEST);
    let lines = rows.iter().flat_map(|[name, value]| {
        let values = broken(value, beside).into_iter().enumerate();
        values.map(|(at, line)| [if at == 0 { name.clone() } else { String::new() }, line])
    });
    columns(&lines.collect::<Vec<_>>())
}

/// Lines of at most `width` characters, broken between words; a longer word stands alone.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is a line from the start");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
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

    fn cells<const N: usize>(row: [&str; N]) -> [String; N] {
        row.map(str::to_owned)
    }

    #[test]
    fn a_table_fits_its_room_and_says_what_it_left_out() {
        let rows = [
            cells(["KEY", "STATE", "MORE"]),
            cells(["a-key-of-some-length", "unknown", "not needed at all"]),
        ];
        let (whole, is_cut) = fitted(&rows, &[2], Room(None));
        assert_eq!((whole, is_cut), (columns(&rows), false));
        for room in [20, 25, 30, 40, 48, 60] {
            let (text, is_cut) = fitted(&rows, &[2], Room(Some(room)));
            assert!(text.lines().all(|line| line.chars().count() <= room), "{room}\n{text}");
            assert_eq!(text.contains("not needed"), room >= 48, "{room}\n{text}");
            assert_eq!(text.contains('…'), room < 29, "{room}\n{text}");
            assert_eq!(is_cut, room < 48, "{room}\n{text}");
        }
    }

    #[test]
    fn values_are_broken_beside_their_names() {
        let rows = [cells(["key", "one two three four"]), cells(["state", "a"])];
        assert_eq!(described(&rows, Room(Some(20))), "key    one two three\n       four\nstate  a\n");
        assert_eq!(described(&rows, Room(None)), columns(&rows));
    }

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
