//! The keys' table for a terminal, and what the kinds of key and the situations are in words.

use super::{Naming, Report, Situation, Tried};
use crate::{
    Lang, accept,
    lang::Noun,
    money::dollars,
    text::{Mood, bold, cell, number, styled, table, tick},
};

const TESTS: Noun = Noun::new(["test", "tests"], ["prueba", "pruebas"]);
const SITUATIONS: Noun = Noun::new(["situation", "situations"], ["situación", "situaciones"]);

impl Report {
    /// The table, the stories behind its columns, and its verdict. Carries ANSI styles.
    pub fn render(&self, lang: Lang) -> String {
        format!("{}\n\n{}\n\n{}", self.table(lang), self.stories(lang), self.verdict(lang))
    }

    /// A line for each kind of key, a column for each situation.
    fn table(&self, lang: Lang) -> String {
        let names: Vec<String> =
            self.situations.iter().map(|played| played.name.label(lang).replace(' ', "\n")).collect();
        let mut head = vec![lang.say("key", "clave")];
        head.extend(names.iter().map(String::as_str));
        let numbers: Vec<usize> = (1..head.len()).collect();
        let mut table = table(&head, &numbers);
        let mut meant = vec![cell(lang.say("what was meant", "lo que se pedía"), Mood::Quiet)];
        meant
            .extend(self.situations.iter().map(|played| number(dollars(played.expected_total), Mood::Quiet)));
        table.add_row(meant);
        for (place, naming) in Naming::ALL.into_iter().enumerate() {
            let mut row = vec![cell(naming, Mood::Plain)];
            row.extend(self.situations.iter().map(|played| {
                let tried = &played.keys[place];
                let mood = if tried.right { Mood::Good } else { Mood::Bad };
                number(format!("{} {}", dollars(tried.total), tried.sign()), mood)
            }));
            table.add_row(row);
        }
        table.trim_fmt()
    }

    fn stories(&self, lang: Lang) -> String {
        let story = |name: &str, says: &str| format!("{} {says}", styled(&format!("{name}:"), Mood::Quiet));
        let situations = Situation::ALL.into_iter().map(|it| story(it.label(lang), it.say(lang)));
        let keys = Naming::ALL.into_iter().map(|it| story(it.name(), it.say(lang)));
        situations.chain([String::new()]).chain(keys).collect::<Vec<_>>().join("\n")
    }

    fn verdict(&self, lang: Lang) -> String {
        let tests = |name: &str, report: &accept::Report| {
            let tests = TESTS.count(report.passed as u64, lang);
            let held = lang.say(format!("{name}: {tests} passed"), format!("{name}: {tests} bien"));
            format!("{} {held}", tick(report.passed()))
        };
        let (right, all) = (self.always_right(), Naming::ALL.len());
        let every = SITUATIONS.count(Situation::ALL.len() as u64, lang);
        let said = lang.say(
            format!("{} of {all} kinds of key are right in all {every}: {}", right.len(), right.join(", ")),
            format!(
                "{} de {all} tipos de clave son correctos en las {every}: {}",
                right.len(),
                right.join(", ")
            ),
        );
        [
            tests(Naming::Random.name(), &self.accept.random),
            tests(Naming::Derived.name(), &self.accept.derived),
            format!("{} {}", tick(self.passed()), bold(&said)),
        ]
        .join("\n")
    }

    /// The kinds of key that were right wherever they were put.
    pub(crate) fn always_right(&self) -> Vec<&'static str> {
        let everywhere = |place: usize| self.situations.iter().all(|played| played.keys[place].right);
        Naming::ALL
            .into_iter()
            .enumerate()
            .filter(|&(place, _)| everywhere(place))
            .map(|(_, naming)| naming.name())
            .collect()
    }
}

impl Tried {
    pub(crate) fn sign(&self) -> &'static str {
        if self.right { "✓" } else { "✗" }
    }
}

impl Naming {
    /// What such a key is made of, in a sentence.
    pub(crate) fn say(self, lang: Lang) -> &'static str {
        match self {
            Self::Random => lang.say("a UUID, kept in memory", "un UUID, guardado en memoria"),
            Self::RandomStored => lang.say(
                "a UUID, written down with the order before the first attempt",
                "un UUID, anotado con el pedido antes del primer intento",
            ),
            Self::Derived => "charge:{order}",
            Self::DerivedOccurrence => "charge:{order}:{n}",
            Self::NamesAttempt => "charge:{order}:{n}:{attempt}",
            Self::NamesTime => "charge:{order}:{n}:{time}",
            Self::NamesAmount => "charge:{amount}",
        }
    }
}

impl Situation {
    /// What happens, in a sentence.
    pub(crate) fn say(self, lang: Lang) -> &'static str {
        match self {
            Self::AnswerLost => lang.say(
                "the answer is lost, and the same worker repeats",
                "la respuesta se pierde y el mismo proceso repite",
            ),
            Self::ClientForgets => lang.say(
                "the answer is lost, the client is started anew and repeats",
                "la respuesta se pierde, el cliente arranca de nuevo y repite",
            ),
            Self::DeliveredTwice => lang.say(
                "a queue delivers the order to two workers",
                "una cola entrega el pedido a dos procesos",
            ),
            Self::SecondCharge => lang.say(
                "the order is charged once more on purpose, at the same price",
                "el pedido se cobra otra vez a propósito, al mismo precio",
            ),
            Self::SecondAmount => lang.say(
                "the order is charged once more on purpose, at another price",
                "el pedido se cobra otra vez a propósito, a otro precio",
            ),
            Self::OtherCard => lang.say(
                "the card is declined, and the customer takes another one",
                "la tarjeta se rechaza y el cliente usa otra",
            ),
            Self::TwoOrders => lang.say("two orders of one price", "dos pedidos de un mismo precio"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naming::sample as report;

    #[test]
    fn the_table_as_a_person_sees_it() {
        for lang in [Lang::En, Lang::Es] {
            let shown = anstream::adapter::strip_str(&report().render(lang)).to_string();
            insta::assert_snapshot!(format!("the_table_{lang}"), shown);
        }
    }

    #[test]
    fn two_kinds_of_key_are_predicted_to_be_right_everywhere() {
        assert_eq!(report().always_right(), ["random-stored", "derived-occurrence"]);
    }
}
