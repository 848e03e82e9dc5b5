//! One page with every measurement on it.

use askama::Template;

use super::{Chapter, now, rendered};
use crate::{
    Lang,
    all::{Options, Report, Traced},
};

#[derive(Template)]
#[template(path = "all.html")]
struct Page {
    lang: Lang,
    headline: String,
    lead: &'static str,
    sections: Vec<Section>,
    rules: Vec<Rule>,
    commands: Vec<String>,
    made_at: String,
}

/// A chapter among others.
struct Section {
    id: &'static str,
    command: &'static str,
    headline: String,
    held: bool,
    body: String,
}

struct Rule {
    number: String,
    title: String,
    held: bool,
    tests: Vec<&'static str>,
    pieces: Vec<&'static str>,
}

/// The page of all measurements.
pub fn all(options: &Options, report: &Report, lang: Lang) -> String {
    let chapters = report.chapters(options, lang);
    rendered(&Page {
        lang,
        headline: headline(report, lang),
        lead: lang.say(
            "An answer gets lost on the way, and nobody can tell whether the money moved. What follows was measured on this \
             machine, at real servers over real HTTP with real files: what that costs, what it costs a service that remembers \
             keys, and which test would notice if a piece of the remembering were missing.",
            "Una respuesta se pierde en el camino y nadie sabe si el dinero se movió. Lo que sigue se midió en esta máquina, en \
             servidores reales por HTTP real con archivos reales: cuánto cuesta eso, cuánto le cuesta a un servicio que recuerda \
             las claves, y qué prueba notaría si faltara una pieza de ese recuerdo.",
        ),
        sections: chapters.into_iter().map(Section::of).collect(),
        rules: report.rules.iter().map(|traced| rule(traced, lang)).collect(),
        commands: options.commands(),
        made_at: now(),
    })
}

fn headline(report: &Report, lang: Lang) -> String {
    match report.passed() {
        true => lang
            .say("Charged exactly once, and how we know", "Cobrado exactamente una vez, y cómo lo sabemos"),
        false => lang.say("Not everything came out right", "No todo salió bien"),
    }
    .to_owned()
}

impl Section {
    fn of(chapter: Chapter) -> Self {
        let Chapter { command, headline, held, body, .. } = chapter;
        let id = command.rsplit(' ').next().unwrap_or(command);
        Self { id, command, headline, held, body: one_level_down(&body) }
    }
}

/// A chapter's headings stand below its own title here. Only tags of this crate's templates can match: every other text
/// is escaped.
fn one_level_down(body: &str) -> String {
    [("h3>", "h4>"), ("h2>", "h3>")].iter().fold(body.to_owned(), |body, (from, to)| {
        body.replace(&format!("<{from}"), &format!("<{to}")).replace(&format!("</{from}"), &format!("</{to}"))
    })
}

fn rule(traced: &Traced, lang: Lang) -> Rule {
    Rule {
        number: traced.rule.clone(),
        title: traced.title.say(lang).to_owned(),
        held: traced.is_right(),
        tests: traced.tests.clone(),
        pieces: traced.pieces.iter().map(|piece| piece.name()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_go_one_level_down_and_texts_stay() {
        let body = "<h2>a</h2><section class=\"card\"><h3>b</h3></section><p>&#60;h2&#62; h2></p>";
        let lowered = one_level_down(body);
        assert_eq!(lowered, "<h3>a</h3><section class=\"card\"><h4>b</h4></section><p>&#60;h2&#62; h2></p>");
    }
}
