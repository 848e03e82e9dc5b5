//! The fleet's chapter: two sums, one table, and overcharge against loss.

use askama::Template;

use super::{
    Chapter, Headline,
    chart::{Axis, LineChart, PERCENT, Screen, Series},
    rendered,
};
use crate::{
    Lang,
    fleet::{Figures, Options, Sweep, World, percent_of},
    lang::{ATTEMPTS, ORDERS},
    money::{dollars, grouped},
};

#[derive(Template)]
#[template(path = "fleet.html")]
struct Body {
    lang: Lang,
    lead: String,
    cards: Vec<Card>,
    lines: Vec<Line>,
    sweep: Option<SweepPart>,
    method: String,
    command: String,
    python: String,
}

struct Card {
    class: &'static str,
    name: &'static str,
    charged: String,
    note: String,
}

struct Line {
    name: &'static str,
    strong: bool,
    sub: bool,
    cells: Vec<Cell>,
}

struct Cell {
    text: String,
    class: &'static str,
}

struct SweepPart {
    about: String,
    caption: String,
    wide: String,
    phone: String,
    head: [&'static str; 5],
    rows: Vec<[String; 5]>,
}

/// The chapter of one fleet; with a sweep, also the chart of overcharge against loss.
pub fn fleet(options: &Options, figures: &Figures, sweep: Option<&Sweep>, lang: Lang) -> Chapter {
    let body = Body {
        lang,
        lead: lead(figures, lang),
        cards: cards(figures, lang),
        lines: lines(figures, lang),
        sweep: sweep.map(|sweep| SweepPart::of(figures, sweep, lang)),
        method: method(figures, lang),
        command: options.command(),
        python: python(figures),
    };
    let headline = Headline { says: headline(figures, lang), held: figures.passed() };
    Chapter::new("unavez lab fleet", headline, &body, lang)
}

fn headline(figures: &Figures, lang: Lang) -> String {
    let after = &figures.after;
    let wrong = after.overcharge + after.undercharge;
    match &figures.before {
        _ if wrong > 0 => lang.say(
            format!("With a piece missing, {} were charged wrongly", dollars(wrong)),
            format!("Con una pieza menos, se cobraron mal {}", dollars(wrong)),
        ),
        Some(before) => lang.say(
            format!(
                "Lost answers cost customers {} extra. With keys remembered: {}.",
                dollars(before.overcharge),
                dollars(0)
            ),
            format!(
                "Las respuestas perdidas costaron {} de más. Recordando las claves: {}.",
                dollars(before.overcharge),
                dollars(0)
            ),
        ),
        None => lang.say(
            "Every order was charged exactly once".to_owned(),
            "Cada pedido se cobró exactamente una vez".to_owned(),
        ),
    }
}

fn lead(figures: &Figures, lang: Lang) -> String {
    let (orders, total) = (ORDERS.count(u64::from(figures.orders), lang), dollars(figures.intent.total));
    let loss = percent_of(figures.loss.share());
    let attempts = ATTEMPTS.count(u64::from(figures.attempts), lang);
    lang.say(
        format!(
            "{orders} worth {total} to be charged over a network that loses {loss} of the responses, each with up to \
             {attempts}. A lost response means that the server has done the work and the client cannot know."
        ),
        format!(
            "{orders} por {total} para cobrar por una red que pierde el {loss} de las respuestas, cada uno con hasta \
             {attempts}. Una respuesta perdida significa que el servidor hizo el trabajo y el cliente no \
             puede saberlo."
        ),
    )
}

fn cards(figures: &Figures, lang: Lang) -> Vec<Card> {
    let before = figures.before.as_ref().map(|world| Card {
        class: "before",
        name: lang.say("Before: no memory", "Antes: sin memoria"),
        charged: dollars(world.total_charged),
        note: note(world, lang),
    });
    let after = Card {
        class: if figures.passed() { "after" } else { "before" },
        name: lang.say("After: idempotent", "Después: idempotente"),
        charged: dollars(figures.after.total_charged),
        note: note(&figures.after, lang),
    };
    before.into_iter().chain([after]).collect()
}

fn note(world: &World, lang: Lang) -> String {
    match (world.overcharge, world.undercharge) {
        (0, 0) => lang.say("exactly what was meant".to_owned(), "exactamente lo que se pedía".to_owned()),
        (0, under) => {
            lang.say(format!("{} too little", dollars(under)), format!("{} de menos", dollars(under)))
        }
        (over, _) => lang.say(
            format!("{} too much, {:.1} %", dollars(over), world.overcharge_percent),
            format!("{} de más, {:.1} %", dollars(over), world.overcharge_percent),
        ),
    }
}

fn lines(figures: &Figures, lang: Lang) -> Vec<Line> {
    let worlds: Vec<&World> = figures.before.iter().chain([&figures.after]).collect();
    let line = |english, spanish, unwanted: bool, show: fn(&World) -> (u64, String)| Line {
        name: lang.say(english, spanish),
        strong: false,
        sub: false,
        cells: worlds
            .iter()
            .map(|world| {
                let (count, text) = show(world);
                Cell { text, class: if unwanted && count > 0 { "bad" } else { "" } }
            })
            .collect(),
    };
    vec![
        line("Requests sent", "Solicitudes enviadas", false, |it| (it.requests, grouped(it.requests))),
        line("Executed by the server", "Ejecutadas por el servidor", false, |it| {
            (it.executions, grouped(it.executions))
        }),
        line("Charges in the ledger", "Cobros en el libro mayor", false, |it| {
            (it.ledger_charges, grouped(it.ledger_charges))
        }),
        line("Orders charged twice or more", "Pedidos cobrados dos veces o más", true, |it| {
            (it.orders_charged_twice, grouped(it.orders_charged_twice))
        }),
        line("Orders not charged", "Pedidos sin cobrar", true, |it| {
            (it.orders_not_charged, grouped(it.orders_not_charged))
        }),
        Line {
            strong: true,
            ..line("Charged in total", "Total cobrado", false, |it| {
                (it.total_charged, dollars(it.total_charged))
            })
        },
        Line {
            strong: true,
            ..line("Overcharge", "Cobrado de más", true, |it| (it.overcharge, dollars(it.overcharge)))
        },
        line("Undercharge", "Cobrado de menos", true, |it| (it.undercharge, dollars(it.undercharge))),
        line("Unconfirmed orders", "Pedidos sin confirmar", false, |it| {
            (it.unconfirmed, grouped(it.unconfirmed))
        }),
        Line {
            sub: true,
            ..line("found out by key status", "aclarados por el estado de la clave", false, |it| {
                (it.found_by_key_status, grouped(it.found_by_key_status))
            })
        },
    ]
}

impl SweepPart {
    fn of(figures: &Figures, sweep: &Sweep, lang: Lang) -> Self {
        let series = series(sweep, lang);
        let title = lang.say(
            "Overcharge in percent of the orders' worth, by loss",
            "Cobrado de más en % de lo pedido, según la pérdida",
        );
        let x_title = lang.say("responses lost", "respuestas perdidas");
        let draw =
            |screen| rendered(&LineChart::draw(screen, title, &Axis::percent(x_title), PERCENT, &series));
        let orders = ORDERS.count(u64::from(sweep.orders), lang);
        let attempts = ATTEMPTS.count(u64::from(figures.attempts), lang);
        Self {
            about: lang.say(
                "The worse the network, the more a server without memory takes. The idempotent one stays at zero.".to_owned(),
                "Cuanto peor la red, más cobra un servidor sin memoria. El idempotente se queda en cero.".to_owned(),
            ),
            caption: lang.say(
                format!("Each point is a run of its own with {orders}, seed {}, up to {attempts}.", figures.seed),
                format!("Cada punto es una ejecución propia con {orders}, semilla {}, hasta {attempts}.", figures.seed),
            ),
            wide: draw(Screen::Wide),
            phone: draw(Screen::Phone),
            head: lang.say(
                ["loss", "requests", "meant", "charged before", "charged after"],
                ["pérdida", "solicitudes", "pedido", "cobrado antes", "cobrado después"],
            ),
            rows: sweep.points.iter().map(row).collect(),
        }
    }
}

fn series(sweep: &Sweep, lang: Lang) -> Vec<Series> {
    let along = |show: fn(&Figures) -> Option<f64>| {
        sweep
            .points
            .iter()
            .filter_map(|point| Some((percent_number(point), show(point)?)))
            .collect::<Vec<_>>()
    };
    let before = Series {
        name: lang.say("before", "antes").to_owned(),
        class: "before",
        points: along(|point| point.before.as_ref().map(|world| world.overcharge_percent)),
    };
    let after = Series {
        name: lang.say("after", "después").to_owned(),
        class: "after",
        points: along(|point| Some(point.after.overcharge_percent)),
    };
    [before, after].into_iter().filter(|series| !series.points.is_empty()).collect()
}

fn percent_number(point: &Figures) -> f64 {
    (point.loss.share() * 100.0).round()
}

fn row(point: &Figures) -> [String; 5] {
    [
        percent_of(point.loss.share()),
        grouped(point.after.requests),
        dollars(point.intent.total),
        point.before.as_ref().map_or_else(|| "–".to_owned(), |world| dollars(world.total_charged)),
        dollars(point.after.total_charged),
    ]
}

fn method(figures: &Figures, lang: Lang) -> String {
    let Figures { seed, .. } = figures;
    let next = u128::from(*seed) + 1;
    lang.say(
        format!(
            "Real servers, real HTTP, real database files. A lost response is a connection closed before its first byte \
             reaches the client, after the server has committed. Amounts are drawn from seed {seed}, losses from seed \
             {next}; all sums are read from the servers' ledgers, none from what the client believes."
        ),
        format!(
            "Servidores reales, HTTP real, archivos de base de datos reales. Una respuesta perdida es una conexión \
             cerrada antes de que su primer byte llegue al cliente, después de que el servidor confirmó. Los montos \
             salen de la semilla {seed} y las pérdidas de la semilla {next}; todas las sumas se leen en los libros de los \
             servidores, ninguna de lo que el cliente cree."
        ),
    )
}

/// A program that prints the intent and what a server without memory charges.
fn python(figures: &Figures) -> String {
    let Figures { seed, orders, loss, attempts, .. } = figures;
    let next = u128::from(*seed) + 1;
    format!(
        "import random\n\
         amounts, losses = random.Random({seed}), random.Random({next})\n\
         intent = before = 0\n\
         for price in [amounts.randint(10, 500) for _ in range({orders})]:\n    \
             intent += price\n    \
             for _ in range({attempts}):\n        \
                 before += price\n        \
                 if losses.random() >= {loss}: break\n\
         print(intent, before)"
    )
}
