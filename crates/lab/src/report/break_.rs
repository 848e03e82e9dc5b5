//! The chapter of the mutations: which test notices which missing piece.

use askama::Template;

use super::{
    Chapter, Headline,
    chart::{Amount, BarChart},
    rendered,
};
use crate::{
    Lang,
    accept::{self, Promise},
    break_::{Broken, Report},
    lang::Noun,
};

#[derive(Template)]
#[template(path = "break.html")]
struct Body {
    lang: Lang,
    lead: &'static str,
    /// What the table does not show by itself.
    note: String,
    tests: Vec<&'static str>,
    rows: Vec<Row>,
    chart: String,
    command: &'static str,
}

struct Row {
    name: &'static str,
    cells: Vec<Cell>,
}

struct Cell {
    failed: bool,
    odd: bool,
    says: String,
}

/// The chapter of one round of mutations.
pub fn break_(report: &Report, lang: Lang) -> Chapter {
    let tests = Promise::on_the_lesson_server(None).map(Promise::name).collect::<Vec<_>>();
    let amounts: Vec<_> = report.mutations.iter().flat_map(amounts).collect();
    let body = Body {
        lang,
        lead: lang.say(
            "Each piece was taken out alone, in a client, store or acquirer of the lab's own, on a ledger that has no second net. \
             A piece that no test misses would be no piece.",
            "Cada pieza se quitó sola, en un cliente, almacén o adquirente propio del laboratorio, sobre un libro mayor sin segunda \
             red. Una pieza que ninguna prueba echa de menos no sería pieza.",
        ),
        note: note(report, &tests, lang),
        rows: report.mutations.iter().map(|broken| row(broken, &tests)).collect(),
        tests,
        chart: rendered(&BarChart::draw(&amounts)),
        command: "unavez lab break",
    };
    let headline = Headline { says: headline(report, lang), held: report.passed() };
    Chapter::new("unavez lab break", headline, &body, lang)
}

const PIECES: Noun = Noun::new(
    ["missing piece was noticed", "missing pieces were noticed"],
    ["pieza faltante fue notada", "piezas faltantes fueron notadas"],
);

fn headline(report: &Report, lang: Lang) -> String {
    let pieces = PIECES.count(report.mutations.len() as u64, lang);
    let caught = report.mutations.iter().filter(|broken| broken.as_predicted).count();
    lang.say(
        format!("{caught} of {pieces}, by exactly the predicted tests"),
        format!("{caught} de {pieces}, justo por las pruebas previstas"),
    )
}

/// The tests without a mark, and the ones without a column.
fn note(report: &Report, tests: &[&'static str], lang: Lang) -> String {
    let marked = |test: &&&'static str| report.mutations.iter().any(|broken| broken.breaks.contains(*test));
    let quiet: Vec<&str> = tests.iter().filter(|test| !marked(test)).copied().collect();
    let absent = Promise::AfterKill.name();
    let unmarked = match quiet.is_empty() {
        true => String::new(),
        false => lang.say(
            format!("No piece here makes {} fail: what it guards is not among them. ", quiet.join(", ")),
            format!(
                "Ninguna pieza de aquí hace fallar a {}: lo que guarda no está entre ellas. ",
                quiet.join(", ")
            ),
        ),
    };
    let absent = lang.say(
        format!("{absent} has no column: it kills a process, and the lab's own server is none."),
        format!("{absent} no tiene columna: mata un proceso, y el servidor del laboratorio no lo es."),
    );
    unmarked + &absent
}

fn row(broken: &Broken, tests: &[&'static str]) -> Row {
    let cell = |test: &&'static str| {
        let failed = broken.breaks.contains(test);
        let says = match broken.observed.get(test) {
            Some(seen) => format!("{test}: {} × = ${}", seen.charges, seen.total),
            None => (*test).to_owned(),
        };
        Cell { failed, odd: failed != broken.predicted.contains(test), says }
    };
    Row { name: broken.name.name(), cells: tests.iter().map(cell).collect() }
}

/// A bar for each failed test, in the order of the tests.
fn amounts(broken: &Broken) -> impl Iterator<Item = Amount> + '_ {
    broken.breaks.iter().filter_map(|test| {
        Some(Amount {
            name: broken.name.name().to_owned(),
            detail: (*test).to_owned(),
            meant: Promise::named(test).map_or(0, Promise::expected_charges) * accept::PRICE,
            taken: broken.observed.get(test)?.total,
        })
    })
}
