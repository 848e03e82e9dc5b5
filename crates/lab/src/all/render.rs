//! All measurements in a few lines for a terminal.

use super::{Options, Report, Traced};
use crate::{
    Lang,
    lang::Noun,
    text::{Mood, bold, cell, styled, table, tick},
};

const MEASUREMENTS: Noun = Noun::new(["measurement", "measurements"], ["medición", "mediciones"]);

impl Report {
    /// A line for each measurement, the rules, and the verdict. Carries ANSI styles.
    pub fn render(&self, options: &Options, lang: Lang) -> String {
        let chapters = self.chapters(options, lang);
        let lines: Vec<String> = chapters
            .iter()
            .map(|chapter| {
                let command = styled(&format!("{:<18}", chapter.command()), Mood::Quiet);
                format!("{} {command} {}", tick(chapter.held()), chapter.headline())
            })
            .collect();
        let held = chapters.iter().filter(|chapter| chapter.held()).count();
        let all = MEASUREMENTS.count(chapters.len() as u64, lang);
        let said =
            lang.say(format!("{held} of {all} came out right"), format!("{held} de {all} salieron bien"));
        let verdict = format!("{} {}", tick(self.passed()), bold(&said));
        [lines.join("\n"), self.rules(lang), verdict].join("\n\n")
    }

    fn rules(&self, lang: Lang) -> String {
        let head =
            lang.say(["", "rule", "shown by", "missed without"], ["", "regla", "la muestran", "se nota sin"]);
        let mut table = table(&head, &[]);
        for traced in &self.rules {
            let mood = if traced.is_right() { Mood::Good } else { Mood::Bad };
            let pieces: Vec<&str> = traced.pieces.iter().map(|piece| piece.name()).collect();
            table.add_row(vec![
                cell(if traced.is_right() { "✓" } else { "✗" }, mood),
                cell(format!("{} {}", traced.rule, traced.title.say(lang)), Mood::Plain),
                cell(traced.tests.join("\n"), Mood::Quiet),
                cell(pieces.join("\n"), Mood::Quiet),
            ]);
        }
        table.trim_fmt()
    }
}

impl Traced {
    /// Whether its tests held, and its pieces were missed as predicted.
    pub(crate) fn is_right(&self) -> bool {
        self.held && self.missed
    }
}
