//! The mutations' table for a terminal.

use super::{Broken, Report};
use crate::{
    Lang,
    lang::Noun,
    money::dollars,
    text::{Mood, bold, cell, number, table, tick},
};

const PIECES: Noun = Noun::new(
    ["missing piece was", "missing pieces were"],
    ["pieza faltante fue descubierta", "piezas faltantes fueron descubiertas"],
);

impl Report {
    /// The table and its verdict. Carries ANSI styles.
    pub fn render(&self, lang: Lang) -> String {
        let head = lang.say(
            ["", "without", "caught by", "charges", "total"],
            ["", "sin", "lo descubre", "cobros", "total"],
        );
        let mut table = table(&head, &[3, 4]);
        for broken in &self.mutations {
            broken.add_rows(&mut table, lang);
        }
        format!("{}\n\n{}", table.trim_fmt(), self.verdict(lang))
    }

    fn verdict(&self, lang: Lang) -> String {
        let pieces = PIECES.count(self.mutations.len() as u64, lang);
        let caught = self.mutations.iter().filter(|broken| broken.as_predicted).count();
        let said = lang.say(
            format!("{caught} of {pieces} caught by exactly the predicted tests"),
            format!("{caught} de {pieces} justo por las pruebas previstas"),
        );
        format!("{} {}", tick(self.passed()), bold(&said))
    }
}

impl Broken {
    /// One row for each test that failed or should have.
    fn add_rows(&self, table: &mut comfy_table::Table, lang: Lang) {
        let unnoticed = self.predicted.iter().filter(|test| !self.breaks.contains(test));
        let mut tests = self.breaks.iter().chain(unnoticed).peekable();
        if tests.peek().is_none() {
            table.add_row(vec![
                cell("✗", Mood::Bad),
                cell(self.name, Mood::Plain),
                cell(lang.say("nothing", "nada"), Mood::Bad),
            ]);
        }
        for (row, test) in tests.enumerate() {
            let first = row == 0;
            let (sign, mood) = if self.as_predicted { ("✓", Mood::Good) } else { ("✗", Mood::Bad) };
            let observed = self.observed.get(test);
            table.add_row(vec![
                cell(if first { sign } else { "" }, mood),
                cell(if first { self.name.name() } else { "" }, Mood::Plain),
                cell(
                    self.caught(test, lang),
                    if self.is_as_predicted(test) { Mood::Plain } else { Mood::Bad },
                ),
                number(observed.map_or_else(String::new, |seen| seen.charges.to_string()), Mood::Plain),
                number(observed.map_or_else(String::new, |seen| dollars(seen.total)), Mood::Plain),
            ]);
        }
    }

    fn is_as_predicted(&self, test: &str) -> bool {
        self.predicted.contains(&test) && self.breaks.contains(&test)
    }

    fn caught(&self, test: &str, lang: Lang) -> String {
        match (self.predicted.contains(&test), self.breaks.contains(&test)) {
            (true, false) => {
                lang.say(format!("not by {test}, as predicted"), format!("no por {test}, como se preveía"))
            }
            (false, _) => lang.say(format!("{test}, not predicted"), format!("{test}, no prevista")),
            (true, true) => test.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mutation, break_::Observed};

    fn broken(name: Mutation, predicted: &[&'static str], seen: &[(&'static str, u64)]) -> Broken {
        let breaks: Vec<_> = seen.iter().map(|&(test, _)| test).collect();
        let observed = |&(test, charges)| (test, Observed { charges, total: charges * 500 });
        Broken {
            name,
            as_predicted: breaks == predicted,
            predicted: predicted.to_vec(),
            breaks,
            observed: seen.iter().map(observed).collect(),
        }
    }

    fn report() -> Report {
        Report {
            mutations: vec![
                broken(Mutation::KeyPerAttempt, &["retries-same-key"], &[("retries-same-key", 3)]),
                broken(
                    Mutation::KeyAfterWork,
                    &["concurrent-race", "repeat-in-progress"],
                    &[("concurrent-race", 2), ("repeat-in-progress", 2)],
                ),
                broken(Mutation::NoFence, &["lost-owner"], &[]),
                broken(Mutation::CheckThenWrite, &["concurrent-race"], &[("lost-owner", 2)]),
                broken(Mutation::NoFingerprint, &[], &[]),
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
