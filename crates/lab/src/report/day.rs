//! The day's chapter: rows and bytes over the hours, and what became of repeats.

use askama::Template;

use super::{
    Chapter, Headline,
    chart::{Axis, COUNT, LineChart, MEBIBYTES, Screen, Series, Unit},
    rendered,
};
use crate::{
    Lang,
    day::{Figures, Options, Repeat, WEIGHTS, World, length},
    money::grouped,
};

#[derive(Template)]
#[template(path = "day.html")]
struct Body {
    lang: Lang,
    lead: String,
    charts: Vec<Chart>,
    repeats: Vec<Line>,
    head: [String; 6],
    rows: Vec<[String; 6]>,
    method: &'static str,
    command: String,
    python: String,
}

struct Chart {
    title: &'static str,
    about: &'static str,
    wide: String,
    phone: String,
}

struct Line {
    class: &'static str,
    verdict: &'static str,
    name: &'static str,
    seen: &'static str,
}

/// The chapter of one day.
pub fn day(options: &Options, figures: &Figures, lang: Lang) -> Chapter {
    let body = Body {
        lang,
        lead: lead(figures, lang),
        charts: vec![rows_chart(figures, lang), bytes_chart(figures, lang)],
        repeats: repeats(figures, lang),
        head: figures.head(lang),
        rows: figures.rows(),
        method: method(lang),
        command: options.command(),
        python: python(figures),
    };
    let headline = Headline { says: headline(figures, lang), held: figures.passed() };
    Chapter::new("unavez lab day", headline, &body, lang)
}

fn headline(figures: &Figures, lang: Lang) -> String {
    if !figures.passed() {
        return lang
            .say(
                "A repeat did not get its operation's one outcome",
                "Una repetición no recibió el único resultado de su operación",
            )
            .to_owned();
    }
    let (rows, all) = (grouped(figures.ttl.rows_max()), grouped(figures.no_ttl.rows_max()));
    lang.say(
        format!("Forgetting answers keeps {rows} rows instead of {all}, and charges nobody again"),
        format!("Olvidar respuestas deja {rows} filas en vez de {all}, y no cobra de nuevo a nadie"),
    )
}

fn lead(figures: &Figures, lang: Lang) -> String {
    let total = grouped(figures.operations_total());
    let (hours, ttl) = (figures.operations_by_hour.len(), length(figures.response_ttl.as_secs()));
    lang.say(
        format!(
            "{total} operations in {hours} hours, each claimed and finished in a real store. One store repeats its answers \
             for {ttl} and then purges them; the other keeps them all."
        ),
        format!(
            "{total} operaciones en {hours} horas, cada una reclamada y terminada en un almacén real. Un almacén repite sus \
             respuestas por {ttl} y luego las purga; el otro las guarda todas."
        ),
    )
}

fn rows_chart(figures: &Figures, lang: Lang) -> Chart {
    let title = lang.say("Records in the store, by hour", "Registros en el almacén, por hora");
    let about = lang.say(
        "With a TTL the table follows the traffic of the last hours; without one it only ever grows.",
        "Con TTL la tabla sigue el tráfico de las últimas horas; sin él solo crece.",
    );
    chart(figures, (title, about), COUNT, lang, |world, hour| place(world.rows_by_hour[hour]))
}

fn bytes_chart(figures: &Figures, lang: Lang) -> Chart {
    let title = lang.say("Bytes of the database, by hour", "Bytes de la base de datos, por hora");
    let about = lang.say(
        "A file does not shrink: the room of purged records is used again, so it stays as large as its busiest hours \
         needed.",
        "Un archivo no se encoge: el lugar de los registros purgados se reutiliza, y queda tan grande como lo pidieron las \
         horas más activas.",
    );
    let mebibytes = |world: &World, hour: usize| place(world.bytes_by_hour[hour] / 1024) / 1024.0;
    chart(figures, (title, about), MEBIBYTES, lang, mebibytes)
}

/// A count as a place on a chart.
fn place(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

fn chart(
    figures: &Figures,
    (title, about): (&'static str, &'static str),
    unit: Unit,
    lang: Lang,
    value: impl Fn(&World, usize) -> f64,
) -> Chart {
    let hours = figures.operations_by_hour.len();
    let points = |world: &World| {
        let ends = (1_u32..).zip(0..hours).map(|(end, hour)| (f64::from(end), value(world, hour)));
        [(0.0, 0.0)].into_iter().chain(ends).collect()
    };
    let (no_ttl, ttl) = (points(&figures.no_ttl), points(&figures.ttl));
    let series = [
        Series { name: lang.say("no TTL", "sin TTL").to_owned(), class: "before", points: no_ttl },
        Series { name: "TTL".to_owned(), class: "after", points: ttl },
    ];
    let axis = Axis::hours(lang.say("hours", "horas"), hours);
    let draw = |screen| rendered(&LineChart::draw(screen, title, &axis, unit, &series));
    Chart { title, about, wide: draw(Screen::Wide), phone: draw(Screen::Phone) }
}

fn repeats(figures: &Figures, lang: Lang) -> Vec<Line> {
    let line = |(name, seen, meant): (&'static str, Repeat, Repeat)| Line {
        class: if seen == meant { "good" } else { "bad" },
        verdict: if seen == meant { lang.say("right", "bien") } else { lang.say("wrong", "mal") },
        name,
        seen: seen.say(lang),
    };
    figures.repeats(lang).map(line).into()
}

fn method(lang: Lang) -> &'static str {
    lang.say(
        "The product's SQLite store, group commit and all; its clock is turned a minute further whenever the minute's \
         operations are done (ten minutes on a day of few), and what has expired is purged. Rows are counted in the table, sizes are those of the database \
         file. The repeats were sent to the payments service over HTTP. These are the records alone: charges and ledger \
         stay, which is why a repeat after the TTL still has an answer.",
        "El almacén SQLite del producto, con sus confirmaciones en grupo; su reloj avanza un minuto cuando las operaciones del \
         minuto están hechas (diez en un día de pocas), y lo vencido se purga. Las filas se cuentan en la tabla y los tamaños son los del archivo. Las \
         repeticiones se enviaron al servicio de pagos por HTTP. Son solo los registros: los cobros y el libro mayor quedan, y \
         por eso una repetición tras el TTL todavía tiene respuesta.",
    )
}

/// A program that prints the operations of each hour.
fn python(figures: &Figures) -> String {
    let Figures { seed, operations, days, .. } = figures;
    let weights = WEIGHTS.map(|weight| weight.to_string()).join(", ");
    format!(
        "import random\n\
         from collections import Counter\n\
         hours, draw = [{weights}], random.Random({seed})\n\
         for day in range({days}):\n    \
             count = Counter(draw.choices(range(24), hours, k={operations}))\n    \
             print([count[hour] for hour in range(24)])"
    )
}
