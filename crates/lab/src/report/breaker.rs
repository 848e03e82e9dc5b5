//! The breaker's chapter: a timeline for each world, and what its probes charged.

use askama::Template;

use super::{
    Chapter, Headline,
    chart::Screen,
    rendered,
    strip::{Band, Bar, Growth, Mark, Scale, Strip},
};
use crate::{
    Lang,
    breaker::{Figures, Options, Setting, World, lines},
    money::grouped,
};

#[derive(Template)]
#[template(path = "breaker.html")]
struct Body {
    lang: Lang,
    lead: String,
    worlds: Vec<Shown>,
    head: Vec<&'static str>,
    rows: Vec<Row>,
    command: String,
}

struct Shown {
    name: &'static str,
    about: &'static str,
    wide: String,
    phone: String,
}

struct Row {
    name: &'static str,
    cells: Vec<(String, &'static str)>,
}

/// The chapter of a breaker.
pub fn breaker(options: &Options, figures: &Figures, lang: Lang) -> Chapter {
    let body = Body {
        lang,
        lead: lead(figures, lang),
        worlds: figures.worlds.iter().map(|world| shown(figures, world, lang)).collect(),
        head: figures.worlds.iter().map(|world| world.name.say(lang)).collect(),
        rows: rows(figures, lang),
        command: options.command(),
    };
    Chapter::new("unavez lab breaker", headline(figures, lang), &body, lang)
}

fn headline(figures: &Figures, lang: Lang) -> Headline {
    let twice = figures.of(Setting::WithoutEngine).map_or(0, |world| world.double_charges);
    let probes = figures.of(Setting::WithoutEngine).map_or(0, |world| world.double_charges_of_probes);
    let says = if figures.passed() {
        lang.say(
            format!("A probe is a charge: {twice} charged again without memory, {probes} by probes, and none with it"),
            format!("Una sonda es un cobro: {twice} cobrados de nuevo sin memoria, {probes} por sondas, y ninguno con ella"),
        )
    } else {
        lang.say("An order was not charged exactly once", "Un pedido no se cobró exactamente una vez")
            .to_owned()
    };
    Headline { says, held: figures.passed() }
}

fn lead(figures: &Figures, lang: Lang) -> String {
    let (orders, fault) = (grouped(figures.orders.into()), figures.fault.say(lang));
    let (from, until) = (figures.from.as_secs_f64(), figures.until.as_secs_f64());
    lang.say(
        format!(
            "{orders} orders, one program, one breaker. From {from} to {until} seconds the server is not well ({fault}). \
             The breaker opens, and now and then lets one attempt through to see whether the server is back. That attempt \
             goes where answers are likeliest to be lost."
        ),
        format!(
            "{orders} pedidos, un programa, un cortacircuitos. De {from} a {until} segundos el servidor no está bien \
             ({fault}). El cortacircuitos se abre, y de vez en cuando deja pasar un intento para ver si el servidor volvió. \
             Ese intento va adonde es más probable que se pierda la respuesta."
        ),
    )
}

fn shown(figures: &Figures, world: &World, lang: Lang) -> Shown {
    let name = world.name.say(lang);
    let highest = figures
        .worlds
        .iter()
        .flat_map(|world| &world.charges_by_second)
        .map(|[first, again]| first + again)
        .max();
    let scale = Scale {
        seconds: figures.shown().as_secs_f64(),
        highest: f64::from(highest.unwrap_or(1)),
        growth: Growth::Even,
    };
    let (bands, bars, marks) = (bands(figures, world, lang), bars(world), marks(world));
    let draw = |screen| rendered(&Strip::draw(screen, name, &scale, &bands, &bars, &marks));
    Shown { name, about: world.name.explain(lang), wide: draw(Screen::Wide), phone: draw(Screen::Phone) }
}

/// The outage, and within or around it the times when the breaker was not closed.
fn bands(figures: &Figures, world: &World, lang: Lang) -> Vec<Band> {
    let (from, until) = (figures.from.as_secs_f64(), figures.until.as_secs_f64());
    let mut bands = vec![Band { class: "outage", from, until, says: figures.fault.say(lang).to_owned() }];
    let opened = world.turns.iter().enumerate().filter(|(_, turn)| turn.opened);
    bands.extend(opened.map(|(index, turn)| Band {
        class: "open",
        from: turn.at.as_secs_f64(),
        until: world.turns.get(index + 1).map_or(f64::MAX, |next| next.at.as_secs_f64()),
        says: lang.say("breaker open", "cortacircuitos abierto").to_owned(),
    }));
    bands
}

fn bars(world: &World) -> Vec<Bar> {
    let seconds = (0_u32..).map(f64::from).zip(&world.charges_by_second);
    seconds
        .flat_map(|(from, &[first, again])| {
            let (first, again) = (f64::from(first), f64::from(again));
            let bar = |class, low, high| Bar { class, from, until: from + 1.0, low, high };
            [bar("before", 0.0, again), bar("after", again, again + first)]
        })
        .filter(|bar| bar.high > bar.low)
        .collect()
}

/// Where probes charged, and where somebody was charged again.
fn marks(world: &World) -> Vec<Mark> {
    let class = if world.double_charges_of_probes > 0 { "bad" } else { "good" };
    let probe =
        |at: &std::time::Duration| Mark { class, at: at.as_secs_f64(), height: None, says: "▼".to_owned() };
    let seconds = (0_u32..).map(f64::from).zip(&world.charges_by_second);
    let again = seconds.filter(|(_, [_, again])| *again > 0).map(|(from, &[first, again])| Mark {
        class: "bad",
        at: from + 0.5,
        height: Some(f64::from(first + again)),
        says: "×".to_owned(),
    });
    world.probe_charges_s.iter().map(probe).chain(again).collect()
}

fn rows(figures: &Figures, lang: Lang) -> Vec<Row> {
    lines(lang)
        .into_iter()
        .map(|line| Row {
            name: line.name,
            cells: figures
                .worlds
                .iter()
                .map(|world| (grouped((line.show)(world)), if (line.is_bad)(world) { "bad" } else { "" }))
                .collect(),
        })
        .collect()
}
