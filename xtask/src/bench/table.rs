//! Figures as people read them: medians with their range, in columns.

use std::fmt::Write as _;

use serde::Serialize;

/// A median and what lies around it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    /// Of no values: all zero.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => 0.0,
            even if even % 2 == 0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        let end = |value: Option<&f64>| value.copied().unwrap_or_default();
        Self { median, min: end(sorted.first()), max: end(sorted.last()) }
    }

    /// The range stands there only if there is one.
    pub(crate) fn shown(self, decimals: usize) -> String {
        let Self { median, min, max } = self;
        if min < max {
            format!("{median:.decimals$} ({min:.decimals$}-{max:.decimals$})")
        } else {
            format!("{median:.decimals$}")
        }
    }
}

/// Lines of cells below a header, the first `names` columns to the left and numbers to the right.
pub(crate) fn table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl Iterator<Item = [String; COLUMNS]>,
    names: usize,
) -> String {
    let cells: Vec<[String; COLUMNS]> = [header.map(str::to_owned)].into_iter().chain(rows).collect();
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        cells.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    });
    let mut text = String::new();
    for line in &cells {
        let padded = line.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if column < names { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        writeln!(text, "{}", padded.collect::<Vec<_>>().join("  ").trim_end()).expect("a string takes all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_with_its_range() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0].into_iter()), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0].into_iter()), Spread { median: 2.5, min: 1.0, max: 4.0 });
        assert_eq!(Spread::of([4.0, 1.0].into_iter()).shown(1), "2.5 (1.0-4.0)");
        assert_eq!(Spread::of([4.0].into_iter()).shown(0), "4");
    }

    #[test]
    fn names_stand_to_the_left_and_numbers_to_the_right() {
        let rows = [["a".to_owned(), "100".to_owned()], ["long name".to_owned(), "5".to_owned()]];
        let expected = "who          n\na          100\nlong name    5\n";
        assert_eq!(table(["who", "n"], rows.into_iter(), 1), expected);
    }
}
