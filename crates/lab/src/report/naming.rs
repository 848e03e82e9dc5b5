//! The keys' chapter: every kind of key in every situation, and the money it took.

use askama::Template;

use super::{
    Chapter, Headline,
    chart::{Amount, BarChart},
    rendered,
};
use crate::{
    Lang,
    money::dollars,
    naming::{Naming, Options, Played, Report, Situation, Tried},
};

#[derive(Template)]
#[template(path = "naming.html")]
struct Body {
    lang: Lang,
    lead: &'static str,
    situations: Vec<Story>,
    keys: Vec<Row>,
    chart: String,
    command: &'static str,
}

struct Story {
    name: &'static str,
    says: &'static str,
    meant: String,
    wrong: Vec<String>,
}

struct Row {
    name: &'static str,
    says: &'static str,
    cells: Vec<Cell>,
}

struct Cell {
    class: &'static str,
    text: String,
    says: String,
}

/// The chapter of the keys.
pub fn keys(options: &Options, report: &Report, lang: Lang) -> Chapter {
    let amounts: Vec<_> = report.situations.iter().flat_map(wrong_amounts).collect();
    let body = Body {
        lang,
        lead: lang.say(
            "A key is right if every repeat of an operation has it, and no other operation does. Each kind of key was put into \
             each situation, at a real service over real HTTP; the sums stand in its books.",
            "Una clave es correcta si toda repetición de una operación la lleva y ninguna otra operación la lleva. Cada tipo de \
             clave se probó en cada situación, en un servicio real por HTTP real; las sumas están en sus libros.",
        ),
        situations: report.situations.iter().map(|played| story(played, lang)).collect(),
        keys: Naming::ALL.into_iter().enumerate().map(|(at, naming)| row(report, at, naming, lang)).collect(),
        chart: rendered(&BarChart::draw(&amounts)),
        command: options.command(),
    };
    let headline = Headline { says: headline(report, lang), held: report.passed() };
    Chapter::new("unavez lab keys", headline, &body, lang)
}

fn headline(report: &Report, lang: Lang) -> String {
    if !report.passed() {
        return lang.say("A key did what nobody predicted", "Una clave hizo lo que nadie previó").to_owned();
    }
    let (right, all) = (report.always_right().len(), Naming::ALL.len());
    let situations = Situation::ALL.len();
    lang.say(
        format!("{right} of {all} kinds of key are right in all {situations} situations"),
        format!("{right} de {all} tipos de clave son correctos en las {situations} situaciones"),
    )
}

fn story(played: &Played, lang: Lang) -> Story {
    let wrong = played.keys.iter().filter(|tried| !tried.right);
    Story {
        name: played.name.name(),
        says: played.name.say(lang),
        meant: dollars(played.expected_total),
        wrong: wrong.map(|tried| format!("{}: {}", tried.made_of, exchanged(tried, lang))).collect(),
    }
}

/// What was sent and answered: `charge:… → 201, charge:… → 422`.
fn exchanged(tried: &Tried, lang: Lang) -> String {
    let lost = lang.say("lost", "perdida");
    let answer = |status: Option<u16>| status.map_or_else(|| lost.to_owned(), |status| status.to_string());
    let sent: Vec<_> =
        tried.sent.iter().map(|sent| format!("{} → {}", sent.key, answer(sent.status))).collect();
    format!("{} = {}", sent.join(", "), dollars(tried.total))
}

fn row(report: &Report, at: usize, naming: Naming, lang: Lang) -> Row {
    let cell = |played: &Played| {
        let tried = &played.keys[at];
        Cell {
            class: if tried.right { "good" } else { "bad" },
            text: format!("{} {}", dollars(tried.total), tried.sign()),
            says: exchanged(tried, lang),
        }
    };
    Row { name: naming.name(), says: naming.say(lang), cells: report.situations.iter().map(cell).collect() }
}

fn wrong_amounts(played: &Played) -> impl Iterator<Item = Amount> + '_ {
    played.keys.iter().filter(|tried| !tried.right).map(|tried| Amount {
        name: tried.made_of.name().to_owned(),
        detail: played.name.name().to_owned(),
        meant: played.expected_total,
        taken: tried.total,
    })
}
