//! The herd's chapter: load over time for each way of waiting, and the two halves against each other.

use askama::Template;

use super::{
    Chapter, Headline,
    chart::Screen,
    rendered,
    strip::{Band, Bar, Growth, Mark, Scale, Strip},
};
use crate::{
    Lang,
    crowd::DOUBLE_CHARGES,
    herd::{Figures, Measured, Options, Strategy, World, head, peak_and_served, served, times},
    money::grouped,
};

#[derive(Template)]
#[template(path = "herd.html")]
struct Body {
    lang: Lang,
    lead: String,
    halves: Vec<Half>,
    strips: Vec<Shown>,
    head: [&'static str; 7],
    rows: Vec<Row>,
    method: String,
    command: String,
}

/// A cell of the two by two.
struct Half {
    class: &'static str,
    client: &'static str,
    server: &'static str,
    double: String,
    noun: &'static str,
    note: String,
}

struct Shown {
    name: &'static str,
    about: &'static str,
    chart: String,
}

struct Row {
    name: &'static str,
    cells: [String; 4],
    twice: [(String, &'static str); 2],
    is_calmest: bool,
}

/// The chapter of a herd.
pub fn herd(options: &Options, figures: &Figures, lang: Lang) -> Chapter {
    let body = Body {
        lang,
        lead: lead(figures, lang),
        halves: halves(figures, lang),
        strips: strips(figures, lang),
        head: head(lang),
        rows: figures.strategies.iter().map(|measured| row(figures, measured, lang)).collect(),
        method: method(options, lang),
        command: options.command(),
    };
    Chapter::new("unavez lab herd", headline(figures, lang), &body, lang)
}

fn headline(figures: &Figures, lang: Lang) -> Headline {
    let peak = |name| figures.of(name).map_or(0, |measured| measured.with_engine.peak_per_100ms);
    let (herd, spread) = (peak(Strategy::Exponential), peak(Strategy::FullJitterBudget));
    let says = if figures.passed() {
        lang.say(
            format!("Waiting at random lowers the peak from {herd} to {spread}; only memory stops the double charge"),
            format!("Esperar al azar baja el pico de {herd} a {spread}; solo la memoria evita el cobro doble"),
        )
    } else {
        lang.say("An order was charged twice", "Un pedido se cobró dos veces").to_owned()
    };
    Headline { says, held: figures.passed() }
}

fn lead(figures: &Figures, lang: Lang) -> String {
    let (clients, fault) = (grouped(figures.clients.into()), figures.fault.say(lang));
    let seconds = figures.outage.as_secs_f64();
    lang.say(
        format!(
            "{clients} callers place an order each within one second, and for {seconds} seconds the server is not well \
             ({fault}). All of them repeat until they have an answer. What differs is how they wait, and whether the \
             server remembers."
        ),
        format!(
            "{clients} clientes hacen un pedido cada uno en un mismo segundo, y durante {seconds} segundos el servidor no \
             está bien ({fault}). Todos repiten hasta tener respuesta. Lo que cambia es cómo esperan, y si el servidor \
             recuerda."
        ),
    )
}

fn halves(figures: &Figures, lang: Lang) -> Vec<Half> {
    let servers = lang.say(
        ["server without memory", "server with the engine"],
        ["servidor sin memoria", "servidor con motor"],
    );
    let half = |client, server, world: &World| Half {
        class: if world.double_charges == 0 { "after" } else { "before" },
        client,
        server,
        double: grouped(world.double_charges),
        noun: DOUBLE_CHARGES.of(world.double_charges, lang),
        note: peak_and_served(world, lang),
    };
    let rows = figures.halves_shown(lang).into_iter();
    rows.flat_map(|(client, worlds)| {
        servers.iter().zip(worlds).map(|(server, world)| half(client, server, world)).collect::<Vec<_>>()
    })
    .collect()
}

fn strips(figures: &Figures, lang: Lang) -> Vec<Shown> {
    let tenths = figures.tenths_shown();
    let scale = Scale {
        seconds: seconds_of(tenths),
        highest: f64::from(figures.highest_load()),
        growth: Growth::Tenfold,
    };
    figures.strategies.iter().map(|measured| strip(figures, measured, &scale, lang)).collect()
}

fn strip(figures: &Figures, measured: &Measured, scale: &Scale, lang: Lang) -> Shown {
    let name = measured.name.say(lang);
    let peak = grouped(measured.with_engine.peak_per_100ms.into());
    let outage = figures.outage.as_secs_f64();
    let band = Band { class: "outage", from: 0.0, until: outage, says: figures.fault.say(lang).to_owned() };
    let says = lang.say(format!("peak after it: {peak}"), format!("pico después: {peak}"));
    let mark = Mark { class: "quiet", at: scale.seconds, height: None, says };
    let class = if figures.calmest() == Some(measured.name) { "after" } else { "plain" };
    let bars = bars(&measured.with_engine.load_by_tenth, scale, class);
    let chart = rendered(&Strip::draw(Screen::Phone, name, scale, &[band], &bars, &[mark]));
    Shown { name, about: measured.name.explain(lang), chart }
}

/// Bars of half a second each: a tenth would be thinner than a line. Each is as high as its highest tenth.
fn bars(tenths: &[u32], scale: &Scale, class: &'static str) -> Vec<Bar> {
    let every = 5_usize.max(1 + tenths_of(scale.seconds) / 200);
    let bars = tenths.chunks(every).enumerate().filter_map(|(chunk, tenths)| {
        let highest = tenths.iter().copied().max().filter(|&load| load > 0)?;
        let from = seconds_of(chunk * every);
        let until = seconds_of((chunk + 1) * every);
        (from < scale.seconds).then_some(Bar { class, from, until, low: 0.0, high: f64::from(highest) })
    });
    bars.collect()
}

fn seconds_of(tenths: usize) -> f64 {
    u32::try_from(tenths).map_or(f64::from(u32::MAX), f64::from) / 10.0
}

fn tenths_of(seconds: f64) -> usize {
    usize::try_from(std::time::Duration::from_secs_f64(seconds).as_millis() / 100).unwrap_or(usize::MAX)
}

fn row(figures: &Figures, measured: &Measured, lang: Lang) -> Row {
    let world = &measured.with_engine;
    let twice = |count: u64| (grouped(count), if count == 0 { "good" } else { "bad" });
    Row {
        name: measured.name.say(lang),
        cells: [
            grouped(world.attempts),
            times(world.amplification),
            grouped(world.peak_per_100ms.into()),
            served(world, lang),
        ],
        twice: [twice(world.double_charges), twice(measured.without_engine.double_charges)],
        is_calmest: figures.calmest() == Some(measured.name),
    }
}

fn method(options: &Options, lang: Lang) -> String {
    let Options { workers, queue, processes, loss, .. } = options;
    let (work, timeout) = (options.work.as_millis(), options.timeout.as_secs_f64());
    lang.say(
        format!(
            "A simulation in virtual time, event by event. Waits, budget and breaker are those of the client's own rules; \
             the server has {workers} workers, {work} ms for each charge, and room for {queue} waiting requests, and asks \
             the product's store and decision table what a repeat gets. A repeat of a finished charge costs it 1 ms. \
             Callers give an attempt up after {timeout} s, a share of {loss} of all answers gets lost, and {processes} \
             programs have a budget and a breaker each. Nothing asks for a wait, so the waits that are compared are the \
             callers' own. A call that its budget ends rests in the outbox: lower load is paid for with time. Charges are \
             counted in the ledger."
        ),
        format!(
            "Una simulación en tiempo virtual, evento por evento. Esperas, presupuesto y cortacircuitos son las reglas del \
             propio cliente; el servidor tiene {workers} trabajadores, {work} ms por cobro y lugar para {queue} solicitudes \
             en espera, y pregunta al almacén y a la tabla de decisiones del producto qué recibe una repetición. Repetir un \
             cobro terminado le cuesta 1 ms. Los clientes abandonan un intento tras {timeout} s, se pierde una parte de \
             {loss} de las respuestas, y {processes} programas tienen un presupuesto y un cortacircuitos cada uno. Nadie \
             pide esperar, así que las esperas comparadas son las de los clientes. Una llamada que su presupuesto termina \
             reposa en la bandeja de salida: menos carga se paga con tiempo. Los cobros se cuentan en el libro mayor."
        ),
    )
}
