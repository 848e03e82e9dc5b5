//! Counting: what passed, failed and was skipped, as the test runners report it.

use std::fmt;
use std::ops::AddAssign;

/// How many checks or tests ended how.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Tally {
    pub(crate) fn count(&mut self, passed: bool) {
        if passed {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }

    /// Reads a line of a test runner; None if it is not its summary.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        let line = without_colours(line);
        Self::of_nextest(&line).or_else(|| Self::of_libtest(&line))
    }

    /// `Summary [ 1.2s] 9 tests run: 7 passed (1 slow), 1 failed, 1 timed out, 3 skipped`
    fn of_nextest(line: &str) -> Option<Self> {
        let rest = line.trim().strip_prefix("Summary [")?;
        let (_, counts) = rest.split_once(" run: ")?;
        Some(Self::of_counts(counts.split(',')))
    }

    /// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
    fn of_libtest(line: &str) -> Option<Self> {
        let rest = line.trim().strip_prefix("test result: ")?;
        let (_, counts) = rest.split_once(". ")?;
        Some(Self::of_counts(counts.split(';')))
    }

    fn of_counts<'a>(counts: impl Iterator<Item = &'a str>) -> Self {
        let mut tally = Self::default();
        for count in counts {
            let Some((number, what)) = count.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse::<usize>() else { continue };
            match what.split(' ').next() {
                Some("passed") => tally.passed += number,
                Some("failed" | "timed" | "exec") => tally.failed += number,
                Some("skipped" | "ignored") => tally.skipped += number,
                // Measured, filtered out: not tests that were asked for.
                _ => {}
            }
        }
        tally
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// The line without terminal escapes (`ESC [ … letter`).
fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\x1b[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, text)| text));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<(usize, usize, usize)>) {
        let found = Tally::of_line(line).map(|tally| (tally.passed, tally.failed, tally.skipped));
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn both_runners_are_understood() {
        check("     Summary [   0.123s] 12 tests run: 12 passed, 3 skipped", Some((12, 0, 3)));
        check("     Summary [   0.1s] 1 test run: 1 passed, 0 skipped", Some((1, 0, 0)));
        check(
            "Summary [ 9s] 9 tests run: 6 passed (1 slow), 1 failed, 1 timed out, 1 exec failed, 2 skipped",
            Some((6, 3, 2)),
        );
        check(
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s",
            Some((3, 0, 1)),
        );
        check(
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
            Some((3, 2, 0)),
        );
    }

    #[test]
    fn colours_do_not_hide_a_summary() {
        check(
            "\x1b[32;1m     Summary\x1b[0m [   0.1s] \x1b[1m2\x1b[0m tests run: \x1b[1m2\x1b[0m \x1b[32;1mpassed\x1b[0m, 0 skipped",
            Some((2, 0, 0)),
        );
    }

    #[test]
    fn other_lines_are_not_counted() {
        check("running 12 tests", None);
        check("test record::p8_one_winner ... ok", None);
    }

    #[test]
    fn the_last_line_of_the_gate() {
        assert_eq!(
            Tally { passed: 612, failed: 0, skipped: 1 }.to_string(),
            "612 passed, 0 failed, 1 skipped"
        );
    }
}
