//! The chapter of the acceptance tests.

use askama::Template;

use super::{
    Chapter, Headline,
    chart::{Amount, BarChart},
    rendered,
};
use crate::{
    Lang,
    accept::{Options, Outcome, Report, Test},
    lang::Noun,
    money::dollars,
};

#[derive(Template)]
#[template(path = "accept.html")]
struct Body {
    lang: Lang,
    lead: String,
    tests: Vec<Item>,
    chart: String,
    command: String,
}

struct Item {
    class: &'static str,
    verdict: &'static str,
    name: &'static str,
    count: String,
    detail: String,
}

/// The chapter of one round of tests.
pub fn accept(options: &Options, report: &Report, lang: Lang) -> Chapter {
    let made: Vec<_> =
        report.tests.iter().filter(|test| test.result != Outcome::Skipped).map(amount).collect();
    let body = Body {
        lang,
        lead: lead(report, lang),
        tests: report.tests.iter().map(|test| item(test, lang)).collect(),
        chart: rendered(&BarChart::draw(&made)),
        command: options.command(),
    };
    let headline = Headline { says: headline(report, lang), held: report.passed() };
    Chapter::new("unavez lab accept", headline, &body, lang)
}

const KEPT: Noun = Noun::new(["promise kept", "promises kept"], ["promesa cumplida", "promesas cumplidas"]);

const UNTESTED: Noun =
    Noun::new(["not tested", "not tested"], ["no se pudo probar", "no se pudieron probar"]);

fn headline(report: &Report, lang: Lang) -> String {
    let (passed, made) = (report.passed, report.passed + report.failed);
    match report.failed {
        0 if report.skipped > made => lang.say(
            format!("{}, {} not tested here", KEPT.count(passed as u64, lang), report.skipped),
            format!("{}, {} sin probar aquí", KEPT.count(passed as u64, lang), report.skipped),
        ),
        0 => lang.say(
            format!("{passed} of {}", KEPT.count(made as u64, lang)),
            format!("{passed} de {}", KEPT.count(made as u64, lang)),
        ),
        1 => lang.say("One promise is broken".to_owned(), "Una promesa está rota".to_owned()),
        failed => lang.say(format!("{failed} promises are broken"), format!("{failed} promesas están rotas")),
    }
}

fn lead(report: &Report, lang: Lang) -> String {
    let skipped = match report.skipped {
        0 => String::new(),
        count => lang.say(
            format!(" {count} could not be tested here."),
            format!(" {} aquí.", UNTESTED.count(count as u64, lang)),
        ),
    };
    let tests = lang.say(
        "One test per promise, against a real server over real HTTP. Charges are counted at its ledger.",
        "Una prueba por promesa, contra un servidor real por HTTP real. Los cobros se cuentan en su libro mayor.",
    );
    let missing = report.mutation.map_or_else(String::new, |mutation| {
        lang.say(
            format!(" One piece was taken out on purpose: {mutation}."),
            format!(" Se quitó una pieza a propósito: {mutation}."),
        )
    });
    format!("{tests}{missing}{skipped}")
}

fn item(test: &Test, lang: Lang) -> Item {
    let (class, verdict) = match test.result {
        Outcome::Passed => ("good", lang.say("passed", "bien")),
        Outcome::Failed => ("bad", lang.say("failed", "mal")),
        Outcome::Skipped => ("quiet", lang.say("skipped", "omitida")),
    };
    let count = match test.result {
        Outcome::Skipped => String::new(),
        _ => lang.say(
            format!("{} · {}", counted(test, ["charge", "charges"], "of"), dollars(test.total)),
            format!("{} · {}", counted(test, ["cobro", "cobros"], "de"), dollars(test.total)),
        ),
    };
    Item { class, verdict, name: test.name, count, detail: test.detail.say(lang).to_owned() }
}

/// `1 charge`, or `2 of 1 charge` where that is not what was expected.
fn counted(test: &Test, [one, several]: [&str; 2], of: &str) -> String {
    let name = if test.expected_charges == 1 { one } else { several };
    match test.charges == test.expected_charges {
        true => format!("{} {name}", test.charges),
        false => format!("{} {of} {} {name}", test.charges, test.expected_charges),
    }
}

fn amount(test: &Test) -> Amount {
    Amount {
        name: test.name.to_owned(),
        detail: String::new(),
        meant: test.expected_charges * crate::accept::PRICE,
        taken: test.total,
    }
}
