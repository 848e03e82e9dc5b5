//! The herd's table for a terminal.

use std::time::Duration;

use comfy_table::Cell;

use super::{Figures, Measured, Strategy, World};
use crate::{
    Lang,
    crowd::DOUBLE_CHARGES,
    money::grouped,
    text::{Mood, bold, cell, number, styled, table, tick},
};

/// Columns of a curve in the terminal.
const CURVE_COLUMNS: usize = 48;

/// Heights of a curve.
const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl Figures {
    /// The tables and curves, with what was asked above them and what follows from them below. Carries ANSI styles.
    pub fn render(&self, lang: Lang) -> String {
        [self.heading(lang), self.table(lang), self.curves(lang), self.halves(lang), self.verdict(lang)]
            .join("\n\n")
    }

    fn heading(&self, lang: Lang) -> String {
        let (clients, processes) = (grouped(u64::from(self.clients)), self.processes);
        let (seconds, fault, seed) = (self.outage.as_secs_f64(), self.fault.say(lang), self.seed);
        let first = lang.say(
            format!("{clients} callers in {processes} programs, one order each"),
            format!("{clients} clientes en {processes} programas, un pedido cada uno"),
        );
        let rest = lang.say(
            format!(" · {fault} of {seconds} s · virtual time · seed {seed}"),
            format!(" · {fault} de {seconds} s · tiempo virtual · semilla {seed}"),
        );
        format!("{}{}", bold(&first), styled(&rest, Mood::Quiet))
    }

    fn table(&self, lang: Lang) -> String {
        let head = head(lang);
        let mut table = table(&head, &[1, 2, 3, 4, 5, 6]);
        for measured in &self.strategies {
            table.add_row(self.row(measured, lang));
        }
        table.trim_fmt()
    }

    fn row(&self, measured: &Measured, lang: Lang) -> Vec<Cell> {
        let World { attempts, amplification, peak_per_100ms, double_charges, .. } = measured.with_engine;
        let without = &measured.without_engine;
        let is_calmest = self.calmest() == Some(measured.name);
        vec![
            cell(measured.name.say(lang), Mood::Plain),
            number(grouped(attempts), Mood::Plain),
            number(times(amplification), Mood::Quiet),
            number(grouped(peak_per_100ms.into()), if is_calmest { Mood::Good } else { Mood::Plain }),
            number(served(&measured.with_engine, lang), Mood::Plain),
            number(grouped(double_charges), Mood::of_unwanted(double_charges)),
            number(grouped(without.double_charges), Mood::of_unwanted(without.double_charges)),
        ]
    }

    /// Load over time. The scale is logarithmic, or all but the first would be flat.
    fn curves(&self, lang: Lang) -> String {
        let (tenths, highest) = (self.tenths_shown(), self.highest_load());
        let width = self.strategies.iter().map(|measured| measured.name.say(lang).chars().count()).max();
        let width = width.unwrap_or_default();
        let mut lines = vec![bold(lang.say(
            "Attempts at the server's door over time, engine on (logarithmic)",
            "Intentos ante la puerta del servidor en el tiempo, con motor (logarítmica)",
        ))];
        for measured in &self.strategies {
            let name = measured.name.say(lang);
            let curve = curve(&measured.with_engine.load_by_tenth, tenths, highest);
            lines.push(format!("{name:width$}  {curve}"));
        }
        let outage = self.outage.as_secs_f64() * 10.0 / to_f64(tenths) * to_f64(CURVE_COLUMNS);
        let outage = (0..CURVE_COLUMNS).filter(|&column| to_f64(column) + 0.5 < outage).count();
        let mark = format!("{:width$}  {}", "", "─".repeat(outage));
        let end = format!("{}{} s", " ".repeat(CURVE_COLUMNS.saturating_sub(outage + 6)), tenths / 10);
        lines.push(styled(&format!("{mark}{end}"), Mood::Quiet));
        let below = format!("{:width$}  {} {} s", "", self.fault.say(lang), self.outage.as_secs_f64());
        lines.push(styled(&below, Mood::Quiet));
        lines.join("\n")
    }

    /// The client's half against the server's half: neither does the other's work.
    fn halves(&self, lang: Lang) -> String {
        let head = lang.say(
            ["", "server without memory", "server with the engine"],
            ["", "servidor sin memoria", "servidor con motor"],
        );
        let mut table = table(&head, &[1, 2]);
        for (name, worlds) in self.halves_shown(lang) {
            let shown =
                worlds.map(|world| number(half(world, lang), Mood::of_unwanted(world.double_charges)));
            table.add_row([vec![cell(name, Mood::Plain)], shown.into()].concat());
        }
        table.trim_fmt()
    }

    /// The two by two: how callers wait, and whether the server remembers.
    pub(crate) fn halves_shown(&self, lang: Lang) -> Vec<(&'static str, [&World; 2])> {
        let rows = [
            (lang.say("client: again at once", "cliente: de nuevo enseguida"), Strategy::NoBackoff),
            (
                lang.say("client: full jitter + budget", "cliente: azar total + presupuesto"),
                Strategy::FullJitterBudget,
            ),
        ];
        rows.into_iter()
            .filter_map(|(said, name)| {
                let measured = self.of(name)?;
                Some((said, [&measured.without_engine, &measured.with_engine]))
            })
            .collect()
    }

    fn verdict(&self, lang: Lang) -> String {
        let once = lang.say(
            "with the engine every order is charged once, however it is repeated",
            "con el motor cada pedido se cobra una vez, se repita como se repita",
        );
        let mut lines = vec![format!("{} {once}", tick(self.passed()))];
        if let Some(calmest) = self.calmest() {
            let name = calmest.say(lang);
            lines.push(lang.say(
                format!("  lowest peak after the outage: {name}"),
                format!("  el pico más bajo tras la caída: {name}"),
            ));
        }
        lines.join("\n")
    }

    /// The most attempts in a tenth of a second of any curve.
    pub(crate) fn highest_load(&self) -> u32 {
        let loads = self.strategies.iter().flat_map(|measured| &measured.with_engine.load_by_tenth);
        loads.copied().max().unwrap_or(0)
    }

    /// How much of time a curve shows: until the last of those that were served was.
    pub(crate) fn tenths_shown(&self) -> usize {
        let last = self.strategies.iter().filter_map(|measured| measured.with_engine.served_after_s);
        let after = Duration::from_secs_f64(last.fold(10.0, f64::max));
        let tens = (self.outage + after).as_secs() / 10 + 1;
        usize::try_from(tens).expect("a herd is watched for minutes") * 100
    }
}

/// The names of the columns.
pub(crate) fn head(lang: Lang) -> [&'static str; 7] {
    lang.say(
        ["", "attempts", "per order", "peak/100ms", "all served", "twice, engine", "twice, no engine"],
        ["", "intentos", "por pedido", "pico/100ms", "todos servidos", "dobles, motor", "dobles, sin motor"],
    )
}

/// `8.4x`, `1,847x`
pub(crate) fn times(amplification: f64) -> String {
    if amplification < 100.0 {
        return format!("{amplification:.1}x");
    }
    let whole = Duration::from_secs_f64(amplification.round()).as_secs();
    format!("{}x", grouped(whole))
}

/// When all were served, after the outage.
pub(crate) fn served(world: &World, lang: Lang) -> String {
    match world.served_after_s {
        Some(seconds) => format!("+{seconds:.1} s"),
        None => lang.say("never", "nunca").to_owned(),
    }
}

fn half(world: &World, lang: Lang) -> String {
    let double = DOUBLE_CHARGES.count(world.double_charges, lang);
    format!("{double}\n{}", peak_and_served(world, lang))
}

/// `peak 8, all served +58.0 s`
pub(crate) fn peak_and_served(world: &World, lang: Lang) -> String {
    let peak = grouped(world.peak_per_100ms.into());
    if world.served_after_s.is_none() {
        return lang
            .say(format!("peak {peak}, never all served"), format!("pico {peak}, nunca todos servidos"));
    }
    let served = served(world, lang);
    lang.say(format!("peak {peak}, all served {served}"), format!("pico {peak}, todos servidos {served}"))
}

/// The highest load in each column's time, on a scale of doublings that ends at `highest`.
fn curve(tenths: &[u32], shown: usize, highest: u32) -> String {
    let column = |column: usize| {
        let (from, until) = (column * shown / CURVE_COLUMNS, (column + 1) * shown / CURVE_COLUMNS);
        let slice = tenths.get(from..until.min(tenths.len())).unwrap_or_default();
        HEIGHTS[height(slice.iter().copied().max().unwrap_or(0), highest)]
    };
    (0..CURVE_COLUMNS).map(column).collect()
}

/// How many doublings a load is, as a share of those of the highest one. A single attempt is seen.
fn height(load: u32, highest: u32) -> usize {
    let doublings = |load: u32| (u32::BITS - load.leading_zeros()) as usize;
    (doublings(load) * (HEIGHTS.len() - 1)).div_ceil(doublings(highest).max(1))
}

/// Counts of columns and tenths are small.
fn to_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use crate::Lang;

    #[test]
    fn as_a_person_sees_it() {
        for lang in [Lang::En, Lang::Es] {
            let shown = anstream::adapter::strip_str(&sample().render(lang)).to_string();
            insta::assert_snapshot!(format!("herd_{lang}"), shown);
        }
    }

    #[test]
    fn a_single_attempt_is_seen_and_the_highest_load_fills_its_line() {
        assert_eq!([0, 1, 8, 129, 1_000].map(|load| super::height(load, 1_000)), [0, 1, 4, 7, 8]);
        assert_eq!([0, 1].map(|load| super::height(load, 1)), [0, 8]);
        assert_eq!(super::height(0, 0), 0);
    }

    #[test]
    fn the_json_is_the_promised_one() {
        insta::assert_json_snapshot!(sample());
        assert!(sample().passed());
    }
}
