//! The day's table for a terminal.

use super::{Figures, Repeat, World};
use crate::{
    Lang,
    lang::Noun,
    money::grouped,
    text::{Mood, bold, number, styled, table, tick},
};

const OPERATIONS: Noun = Noun::new(["operation", "operations"], ["operación", "operaciones"]);
const DAYS: Noun = Noun::new(["day", "days"], ["día", "días"]);
const ROWS: Noun = Noun::new(["row", "rows"], ["fila", "filas"]);

impl Figures {
    /// The table, with what was asked above it and what follows from it below. Carries ANSI styles.
    pub fn render(&self, lang: Lang) -> String {
        format!("{}\n\n{}\n\n{}", self.heading(lang), self.table(lang), self.verdict(lang))
    }

    fn heading(&self, lang: Lang) -> String {
        let (ttl, seed) = (length(self.response_ttl.as_secs()), self.seed);
        let first = OPERATIONS.count(self.operations_total(), lang);
        let days = DAYS.count(u64::from(self.days), lang);
        let rest = lang.say(
            format!(" in {days} · answers are repeated for {ttl}, or for ever · seed {seed}"),
            format!(" en {days} · las respuestas se repiten por {ttl}, o para siempre · semilla {seed}"),
        );
        format!("{}{}", bold(&first), styled(&rest, Mood::Quiet))
    }

    fn table(&self, lang: Lang) -> String {
        let head = self.head(lang);
        let mut table = table(&head.each_ref().map(String::as_str), &[0, 1, 2, 3, 4, 5]);
        for row in self.rows() {
            let mut column = 0;
            table.add_row(row.map(|text| {
                column += 1;
                number(text, if matches!(column, 1 | 4 | 6) { Mood::Quiet } else { Mood::Plain })
            }));
        }
        table.trim_fmt()
    }

    /// The names of the columns of [`Figures::rows`].
    pub(crate) fn head(&self, lang: Lang) -> [String; 6] {
        let ttl = length(self.response_ttl.as_secs());
        let [hour, operations, rows, size, all_rows, all_size] = lang.say(
            ["hour", "operations", "rows", "size", "rows, no TTL", "size"],
            ["hora", "operaciones", "filas", "tamaño", "filas, sin TTL", "tamaño"],
        );
        [
            hour.into(),
            operations.into(),
            format!("{rows}, {ttl}"),
            size.into(),
            all_rows.into(),
            all_size.into(),
        ]
    }

    /// Each hour, its operations, and rows and size of both stores at its end.
    pub(crate) fn rows(&self) -> Vec<[String; 6]> {
        let held =
            |world: &World, at: usize| (grouped(world.rows_by_hour[at]), mebibytes(world.bytes_by_hour[at]));
        let row = |(at, &operations): (usize, &u32)| {
            let ((rows, size), (all_rows, all_size)) = (held(&self.ttl, at), held(&self.no_ttl, at));
            [(at + 1).to_string(), grouped(u64::from(operations)), rows, size, all_rows, all_size]
        };
        self.operations_by_hour.iter().enumerate().map(row).collect()
    }

    fn verdict(&self, lang: Lang) -> String {
        let mut lines = vec![self.most(lang)];
        for (what, seen, meant) in self.repeats(lang) {
            lines.push(format!("{} {what}: {}", tick(seen == meant), seen.say(lang)));
        }
        lines.join("\n")
    }

    /// The most that either store had to hold.
    fn most(&self, lang: Lang) -> String {
        let held = |world: &World| (ROWS.count(world.rows_max(), lang), mebibytes(world.file_bytes));
        let ((rows, size), (all_rows, all_size)) = (held(&self.ttl), held(&self.no_ttl));
        lang.say(
            format!("At most {rows} in {size} with a TTL; {all_rows} in {all_size} without, and growing."),
            format!("Como mucho {rows} en {size} con TTL; {all_rows} en {all_size} sin él, y creciendo."),
        )
    }

    /// Each repeat that was sent: what it was, what it got, and what it should get.
    pub(crate) fn repeats(&self, lang: Lang) -> [(&'static str, Repeat, Repeat); 3] {
        [
            (
                lang.say(
                    "a repeat in the last second of the TTL",
                    "una repetición en el último segundo del TTL",
                ),
                self.repeat_within_ttl,
                Repeat::Replayed,
            ),
            (
                lang.say("a repeat after the TTL", "una repetición tras el TTL"),
                self.repeat_after_ttl,
                Repeat::ExistingResource,
            ),
            (
                lang.say("its key with another amount", "su clave con otro monto"),
                self.other_body_after_ttl,
                Repeat::Refused,
            ),
        ]
    }
}

impl Repeat {
    /// What became of it, in a sentence.
    pub(crate) fn say(self, lang: Lang) -> &'static str {
        match self {
            Self::Replayed => {
                lang.say("the stored answer, byte for byte", "la respuesta guardada, byte por byte")
            }
            Self::ExistingResource => lang.say(
                "the charge that is there; its record is gone, its outcome is not (P21)",
                "el cobro que ya existe; su registro se fue, su resultado no (P21)",
            ),
            Self::Refused => lang.say("refused, nothing charged", "rechazada, sin cobro"),
            Self::ChargedAgain => lang.say("charged again", "cobrado de nuevo"),
            Self::Otherwise => lang.say("answered otherwise", "otra respuesta"),
        }
    }
}

/// `4h`, `90m`, `75s`: a length of time in the largest unit that leaves nothing over.
pub(crate) fn length(seconds: u64) -> String {
    match seconds {
        _ if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

/// A size with one decimal.
fn mebibytes(bytes: u64) -> String {
    let tenths = bytes * 10 / (1 << 20);
    format!("{}.{} MiB", grouped(tenths / 10), tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::day::sample as figures;

    #[test]
    fn the_table_as_a_person_sees_it() {
        for lang in [Lang::En, Lang::Es] {
            let shown = anstream::adapter::strip_str(&figures().render(lang)).to_string();
            insta::assert_snapshot!(format!("the_table_{lang}"), shown);
        }
    }

    #[test]
    fn the_json_is_the_promised_one() {
        insta::assert_json_snapshot!(figures());
        assert!(!figures().passed());
    }
}
