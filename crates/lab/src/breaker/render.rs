//! The breaker's table and timelines for a terminal.

use std::time::Duration;

use comfy_table::Cell;

use super::{Figures, Setting, World};
use crate::{
    Lang,
    crowd::DOUBLE_CHARGES,
    lang::Noun,
    money::grouped,
    text::{Mood, bold, cell, number, styled, table, tick},
};

const ORDERS: Noun = Noun::new(["order", "orders"], ["pedido", "pedidos"]);

/// Columns of a timeline.
const COLUMNS: u32 = 60;

impl Figures {
    /// The table and the timelines, with what was asked above and what follows below. Carries ANSI styles.
    pub fn render(&self, lang: Lang) -> String {
        [self.heading(lang), self.table(lang), self.timelines(lang), self.verdict(lang)].join("\n\n")
    }

    fn heading(&self, lang: Lang) -> String {
        let (seed, fault) = (self.seed, self.fault.say(lang));
        let orders = ORDERS.count(self.orders.into(), lang);
        let (from, until) = (self.from.as_secs_f64(), self.until.as_secs_f64());
        let first = lang.say(format!("{orders}, one breaker"), format!("{orders}, un cortacircuitos"));
        let rest = lang.say(
            format!(" · {fault} from {from} s to {until} s · virtual time · seed {seed}"),
            format!(" · {fault} de {from} s a {until} s · tiempo virtual · semilla {seed}"),
        );
        format!("{}{}", bold(&first), styled(&rest, Mood::Quiet))
    }

    fn table(&self, lang: Lang) -> String {
        let names: Vec<&str> = self.worlds.iter().map(|world| world.name.say(lang)).collect();
        let mut table = table(&[&[""], names.as_slice()].concat(), &[1, 2, 3]);
        for line in lines(lang) {
            let cells =
                self.worlds.iter().map(|world| number(grouped((line.show)(world)), (line.mood)(world)));
            table.add_row([vec![cell(line.name, Mood::Plain)], cells.collect()].concat() as Vec<Cell>);
        }
        table.trim_fmt()
    }

    fn timelines(&self, lang: Lang) -> String {
        let width =
            self.worlds.iter().map(|world| world.name.say(lang).chars().count()).max().unwrap_or_default();
        let mut lines = vec![bold(lang.say("Over time", "En el tiempo"))];
        for world in &self.worlds {
            lines.push(format!("{:width$}  {}", world.name.say(lang), self.timeline(world)));
        }
        let outage = self.marks(|at| if self.from <= at && at < self.until { '─' } else { ' ' });
        lines.push(styled(&format!("{:width$}  {outage} {}", "", self.fault.say(lang)), Mood::Quiet));
        let legend = lang.say(
            "  · charges pass   ▒ breaker open   ▲ a probe charged   ✗ charged again",
            "  · pasan cobros   ▒ cortacircuitos abierto   ▲ cobró una sonda   ✗ cobrado de nuevo",
        );
        lines.push(styled(&format!("{:width$}{legend}", ""), Mood::Quiet));
        lines.join("\n")
    }

    /// One sign for each stretch of time: the worst that happened in it.
    fn timeline(&self, world: &World) -> String {
        let length = self.shown() / COLUMNS;
        self.marks(|from| {
            let until = from + length;
            let in_it = |at: Duration| from <= at && at < until;
            let again = world
                .charges_by_second
                .iter()
                .zip(0_u64..)
                .any(|([_, again], second)| *again > 0 && in_it(Duration::from_secs(second)));
            match () {
                () if again => '✗',
                () if world.probe_charges_s.iter().any(|&at| in_it(at)) => '▲',
                () if world.is_open(from + length / 2) => '▒',
                () => '·',
            }
        })
    }

    fn marks(&self, mark: impl Fn(Duration) -> char) -> String {
        (0..COLUMNS).map(|column| mark(self.shown() * column / COLUMNS)).collect()
    }

    /// How much of time is shown: as long after the outage as before it and during it.
    pub(crate) fn shown(&self) -> Duration {
        self.until + self.from
    }

    fn verdict(&self, lang: Lang) -> String {
        let once = lang.say(
            "with the engine every order is charged once, probes included",
            "con el motor cada pedido se cobra una vez, sondas incluidas",
        );
        let mut lines = vec![format!("{} {once}", tick(self.passed()))];
        if let Some(world) = self.of(Setting::WithoutEngine) {
            let twice = DOUBLE_CHARGES.count(world.double_charges, lang);
            let probes = grouped(world.double_charges_of_probes);
            lines.push(lang.say(
                format!("  without it: {twice}, {probes} of them through probes"),
                format!("  sin él: {twice}, {probes} de ellos por sondas"),
            ));
        }
        if let Some(world) = self.of(Setting::HealthProbes) {
            let (orders, charged) = (ORDERS.count(world.unknown, lang), grouped(world.unknown_and_charged));
            lines.push(lang.say(
                format!(
                    "  without it and without repeating: nobody knows about {orders} (charged: {charged})"
                ),
                format!("  sin él y sin repetir: nadie sabe de {orders} (cobrados: {charged})"),
            ));
        }
        lines.join("\n")
    }
}

impl World {
    /// Whether the breaker was not closed then.
    pub(crate) fn is_open(&self, at: Duration) -> bool {
        self.turns.iter().rfind(|turn| turn.at <= at).is_some_and(|turn| turn.opened)
    }
}

/// A line of the table.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) show: fn(&World) -> u64,
    mood: fn(&World) -> Mood,
    pub(crate) is_bad: fn(&World) -> bool,
}

/// The lines of the table.
pub(crate) fn lines(lang: Lang) -> Vec<Line> {
    let plain = |name, show| Line { name, show, mood: |_| Mood::Plain, is_bad: |_| false };
    vec![
        plain(lang.say("charges before the outage", "cobros antes de la caída"), |world| {
            world.charges.before
        }),
        plain(lang.say("charges during it", "cobros durante"), |world| world.charges.during),
        plain(lang.say("charges after it", "cobros después"), |world| world.charges.after),
        plain(lang.say("probes sent", "sondas enviadas"), |world| world.probes),
        plain(lang.say("charges made by probes", "cobros hechos por sondas"), |world| {
            world.charged_by_probes
        }),
        plain(lang.say("attempts held back", "intentos retenidos"), |world| world.held_back),
        Line {
            name: lang.say("charged again", "cobrados de nuevo"),
            show: |world| world.double_charges,
            mood: |world| Mood::of_unwanted(world.double_charges),
            is_bad: |world| world.double_charges > 0,
        },
        Line {
            name: lang.say("  of them through probes", "  de ellos por sondas"),
            show: |world| world.double_charges_of_probes,
            mood: |world| Mood::of_unwanted(world.double_charges_of_probes),
            is_bad: |world| world.double_charges_of_probes > 0,
        },
        Line {
            name: lang.say("orders nobody knows about", "pedidos de los que nadie sabe"),
            show: |world| world.unknown,
            mood: |world| Mood::of_unwanted(world.unknown),
            is_bad: |world| world.unknown > 0,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use crate::Lang;

    #[test]
    fn as_a_person_sees_it() {
        for lang in [Lang::En, Lang::Es] {
            let shown = anstream::adapter::strip_str(&sample().render(lang)).to_string();
            insta::assert_snapshot!(format!("breaker_{lang}"), shown);
        }
    }

    #[test]
    fn the_json_is_the_promised_one() {
        insta::assert_json_snapshot!(sample());
        assert!(sample().passed());
    }
}
