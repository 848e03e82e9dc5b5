//! The tests' table for a terminal.

use super::{Outcome, Report, Test};
use crate::{
    Lang,
    lang::Noun,
    money::dollars,
    text::{Mood, bold, cell, number, styled, table, tick},
};

const SKIPPED: Noun = Noun::new(["skipped", "skipped"], ["omitida", "omitidas"]);

impl Report {
    /// The table and its verdict. Carries ANSI styles.
    pub fn render(&self, lang: Lang) -> String {
        let head = lang.say(
            ["", "test", "charges", "expected", "total", "what was seen"],
            ["", "prueba", "cobros", "esperados", "total", "lo que se vio"],
        );
        let mut table = table(&head, &[2, 3, 4]);
        for test in &self.tests {
            let mood = test.result.mood();
            let seen = |text: String| if test.result == Outcome::Skipped { "–".to_owned() } else { text };
            table.add_row(vec![
                cell(test.result.sign(), mood),
                cell(test.name, if test.result == Outcome::Skipped { Mood::Quiet } else { Mood::Plain }),
                number(seen(test.charges.to_string()), test.charges_mood()),
                number(test.expected_charges, Mood::Quiet),
                number(seen(dollars(test.total)), test.charges_mood()),
                cell(wrapped(test.detail.say(lang)), Mood::Quiet),
            ]);
        }
        format!("{}\n\n{}", table.trim_fmt(), self.verdict(lang))
    }

    fn verdict(&self, lang: Lang) -> String {
        let Self { passed, failed, skipped, .. } = self;
        let counts = lang.say(
            format!("{passed} passed, {failed} failed, {skipped} skipped"),
            format!("{passed} bien, {failed} mal, {}", SKIPPED.count(*skipped as u64, lang)),
        );
        let missing = match self.mutation {
            Some(mutation) => lang.say(format!(", with {mutation}"), format!(", con {mutation}")),
            None => String::new(),
        };
        // Most of the promises untested is no pass.
        let sign = if self.passed() && *skipped > *passed {
            styled("–", Mood::Quiet)
        } else {
            tick(self.passed())
        };
        format!("{sign} {}{}", bold(&counts), styled(&missing, Mood::Quiet))
    }
}

impl Outcome {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Passed => "✓",
            Self::Failed => "✗",
            Self::Skipped => "–",
        }
    }

    fn mood(self) -> Mood {
        match self {
            Self::Passed => Mood::Good,
            Self::Failed => Mood::Bad,
            Self::Skipped => Mood::Quiet,
        }
    }
}

impl Test {
    fn charges_mood(&self) -> Mood {
        match self.result {
            Outcome::Skipped => Mood::Quiet,
            _ if self.charges == self.expected_charges => Mood::Plain,
            _ => Mood::Bad,
        }
    }
}

/// Breaks a sentence between words so that the table stays narrower than most terminals.
pub(crate) fn wrapped(sentence: &str) -> String {
    const WIDTH: usize = 46;
    let mut out = String::with_capacity(sentence.len() + 4);
    let mut line = 0;
    for word in sentence.split_whitespace() {
        let length = word.chars().count();
        if line > 0 && line + 1 + length > WIDTH {
            out.push('\n');
            line = 0;
        } else if line > 0 {
            out.push(' ');
            line += 1;
        }
        out.push_str(word);
        line += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Said, accept::PRICE};

    fn report() -> Report {
        let test = |name, result, charges, expected_charges, detail: &str| Test {
            name,
            result,
            passed: result == Outcome::Passed,
            charges,
            total: charges * PRICE,
            expected_charges,
            detail: Said::new(detail, "…"),
        };
        Report {
            passed: 1,
            failed: 1,
            skipped: 1,
            mutation: Some(crate::Mutation::CheckThenWrite),
            tests: vec![
                test("distinct-operations", Outcome::Passed, 2, 2, "two orders of one amount, two charges"),
                test("concurrent-race", Outcome::Failed, 2, 1, "a racer was answered 201 with another body"),
                test("after-kill", Outcome::Skipped, 0, 1, "the lesson server is no process of its own"),
            ],
        }
    }

    #[test]
    fn the_table_as_a_person_sees_it() {
        insta::assert_snapshot!(anstream::adapter::strip_str(&report().render(Lang::En)).to_string());
    }

    #[test]
    fn the_json_is_the_promised_one() {
        insta::assert_json_snapshot!(report());
    }
}
