//! Tables and sentences for a terminal. They carry ANSI styles; print them through something that strips those where
//! there is no terminal, as the command line does.

use anstyle::{AnsiColor, Style};
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, LineStyle, Table, TableStyle};

/// How a value should strike the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// As it should be.
    Good,
    /// Money or a promise lost.
    Bad,
    /// Neither.
    Plain,
    /// Of less interest than the rest.
    Quiet,
}

impl Mood {
    /// Bad when there is any of something that should not be, good when there is none.
    pub(crate) fn of_unwanted(count: u64) -> Self {
        if count == 0 { Self::Good } else { Self::Bad }
    }

    fn style(self) -> Style {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Plain => Style::new(),
            Self::Quiet => Style::new().dimmed(),
        }
    }
}

/// A piece of text in its mood.
pub(crate) fn styled(text: &str, mood: Mood) -> String {
    let style = mood.style();
    format!("{style}{text}{style:#}")
}

/// A piece of text that stands out.
pub(crate) fn bold(text: &str) -> String {
    let style = Style::new().bold();
    format!("{style}{text}{style:#}")
}

/// The sign in front of a verdict.
pub(crate) fn tick(held: bool) -> String {
    if held { styled("✓", Mood::Good) } else { styled("✗", Mood::Bad) }
}

/// A table with one rule under its head; the columns named as numbers stand to the right.
pub(crate) fn table(head: &[&str], numbers: &[usize]) -> Table {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('─').junction('─');
    table.load_style(TableStyle::new().header_separator(rule));
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.enforce_styling();
    table.style_text_only();
    table.set_header(head.iter().enumerate().map(|(column, title)| {
        let alignment = if numbers.contains(&column) { CellAlignment::Right } else { CellAlignment::Left };
        Cell::new(title).set_alignment(alignment).add_attribute(Attribute::Bold)
    }));
    table
}

/// A number, to the right.
pub(crate) fn number(text: impl ToString, mood: Mood) -> Cell {
    cell(text, mood).set_alignment(CellAlignment::Right)
}

/// A text, to the left.
pub(crate) fn cell(text: impl ToString, mood: Mood) -> Cell {
    let cell = Cell::new(text);
    match mood {
        Mood::Good => cell.fg(Color::Green),
        Mood::Bad => cell.fg(Color::Red).add_attribute(Attribute::Bold),
        Mood::Plain => cell,
        Mood::Quiet => cell.add_attribute(Attribute::Dim),
    }
}
