//! Charts as geometry: everything a template has to place is computed here, nothing is computed in the template.

use askama::Template;

/// A line chart.
#[derive(Debug, Template)]
#[template(path = "line_chart.html")]
pub(crate) struct LineChart {
    frame: Frame,
    title: String,
    x_title: String,
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
    lines: Vec<Line>,
}

/// The horizontal axis: from 0 to its end, with its marks.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    title: String,
    unit: &'static str,
    end: f64,
    marks: Vec<f64>,
}

/// How the values of a vertical axis are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit {
    suffix: &'static str,
    decimals: usize,
}

/// Shares of a hundred.
pub(crate) const PERCENT: Unit = Unit { suffix: " %", decimals: 1 };

/// Things that are counted.
pub(crate) const COUNT: Unit = Unit { suffix: "", decimals: 0 };

/// Sizes of files, given in MiB.
pub(crate) const MEBIBYTES: Unit = Unit { suffix: " MiB", decimals: 1 };

/// One series of a line chart: its name, its CSS class, and its values against the horizontal axis.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) class: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The drawing area and, inside it, where the plot stands.
#[derive(Debug, Clone, Copy)]
struct Frame {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// A mark on an axis.
#[derive(Debug)]
struct Tick {
    at: f64,
    label: String,
}

/// A series with its places.
#[derive(Debug)]
struct Line {
    name: String,
    class: &'static str,
    path: String,
    dots: Vec<Dot>,
    label: Dot,
}

#[derive(Debug)]
struct Dot {
    x: f64,
    y: f64,
    text: String,
}

/// Which screen a chart is drawn for. A page holds both and shows one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Screen {
    Wide,
    Phone,
}

impl Axis {
    /// Shares of a hundred, up to ninety.
    pub(crate) fn percent(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            unit: " %",
            end: 90.0,
            marks: (0..=9).map(|tenth| f64::from(tenth) * 10.0).collect(),
        }
    }

    /// Hours, with a mark at each quarter of a day; a day has more marks.
    pub(crate) fn hours(title: &str, hours: usize) -> Self {
        let hours = u32::try_from(hours).unwrap_or(u32::MAX);
        let every = if hours <= 24 { 3 } else { 6 * hours.div_ceil(48) };
        Self {
            title: title.to_owned(),
            unit: "",
            end: f64::from(hours),
            marks: (0..=hours).step_by(every as usize).map(f64::from).collect(),
        }
    }
}

impl Unit {
    fn write(self, value: f64) -> String {
        let number = format!("{value:.*}", self.decimals);
        let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
        let whole = whole.parse().map_or_else(|_| whole.to_owned(), crate::money::grouped);
        format!("{whole}{rest}{}", self.suffix)
    }

    /// A mark on the axis: as short as it can be.
    fn mark(self, value: f64) -> String {
        Self { decimals: 0, ..self }.write(value)
    }
}

impl Frame {
    fn of(screen: Screen) -> Self {
        match screen {
            Screen::Wide => {
                Self { width: 760.0, height: 340.0, left: 56.0, right: 740.0, top: 24.0, bottom: 284.0 }
            }
            Screen::Phone => {
                Self { width: 340.0, height: 300.0, left: 44.0, right: 330.0, top: 22.0, bottom: 244.0 }
            }
        }
    }

    /// Moves the plot to the right if the marks of its vertical axis need more room than they have.
    fn with_room_for(self, longest: &str) -> Self {
        let width = longest.chars().map(|_| LETTER_WIDTH).sum::<f64>() + 2.0 * MARK_GAP;
        Self { left: self.left.max(rounded(width)), ..self }
    }

    fn x(&self, share: f64) -> f64 {
        rounded(self.left + (self.right - self.left) * share)
    }

    fn y(&self, share: f64) -> f64 {
        rounded(self.bottom - (self.bottom - self.top) * share)
    }
}

impl LineChart {
    /// Draws the series for a screen. The vertical axis ends at a round number above the highest value.
    pub(crate) fn draw(screen: Screen, title: &str, x: &Axis, y: Unit, series: &[Series]) -> Self {
        let highest = series.iter().flat_map(|line| &line.points).map(|&(_, y)| y).fold(0.0, f64::max);
        let step = round_step(highest);
        let steps = (highest / step).ceil().max(1.0);
        let top = step * steps;
        let frame = Frame::of(screen).with_room_for(&y.mark(top));
        let every = if screen == Screen::Phone { 2 } else { 1 };
        Self {
            frame,
            title: title.to_owned(),
            x_title: x.title.clone(),
            x_ticks: x
                .marks
                .iter()
                .step_by(every)
                .map(|mark| Tick { at: frame.x(mark / x.end), label: format!("{mark}{}", x.unit) })
                .collect(),
            y_ticks: (0_u8..)
                .map(f64::from)
                .take_while(|&count| count <= steps)
                .map(|count| Tick { at: frame.y(count / steps), label: y.mark(step * count) })
                .collect(),
            lines: series.iter().map(|series| Line::draw(&frame, x, (y, top), series)).collect(),
        }
    }
}

impl Line {
    fn draw(frame: &Frame, axis: &Axis, (unit, top): (Unit, f64), series: &Series) -> Self {
        let place = |&(x, y): &(f64, f64)| Dot {
            x: frame.x(x / axis.end),
            y: frame.y(y / top),
            text: format!("{}: {x}{} → {}", series.name, axis.unit, unit.write(y)),
        };
        let dots: Vec<Dot> = series.points.iter().map(place).collect();
        let path = dots
            .iter()
            .enumerate()
            .map(|(index, dot)| format!("{}{} {}", if index == 0 { 'M' } else { 'L' }, dot.x, dot.y))
            .collect();
        let label = Self::label(frame, &dots, unit, series);
        Self { name: series.name.clone(), class: series.class, path, dots, label }
    }

    /// The value at the right end, written above the dots that its words cover.
    fn label(frame: &Frame, dots: &[Dot], unit: Unit, series: &Series) -> Dot {
        let value = series.points.last().map_or(0.0, |&(_, y)| y);
        let x = dots.last().map_or(frame.right, |dot| dot.x);
        let covered = dots.iter().filter(|dot| dot.x > x - LABEL_WIDTH).map(|dot| dot.y);
        let y = covered.fold(frame.bottom, f64::min);
        Dot { x: x - 10.0, y: y - 8.0, text: format!("{}: {}", series.name, unit.write(value)) }
    }
}

/// The widest letter of a mark on an axis, and what stands between it and the plot.
const LETTER_WIDTH: f64 = 7.2;
const MARK_GAP: f64 = 8.0;

/// About as wide as a label is.
const LABEL_WIDTH: f64 = 120.0;

/// The distance between marks: 1, 2 or 5 times a power of ten, so that there are at most six.
fn round_step(highest: f64) -> f64 {
    let mut step = 1.0;
    for factor in [2.0, 2.5, 2.0].iter().cycle().take(30) {
        if highest <= step * 6.0 {
            break;
        }
        step *= factor;
    }
    step
}

/// Tenths are finer than any screen, and short.
fn rounded(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}

/// Bars of money, each against what was meant.
#[derive(Debug, Template)]
#[template(path = "bar_chart.html")]
pub(crate) struct BarChart {
    bars: Vec<Bar>,
}

/// One bar: a name, what was meant, and what happened, in whole dollars.
#[derive(Debug)]
pub(crate) struct Bar {
    name: String,
    detail: String,
    class: &'static str,
    amount: String,
    meant_percent: f64,
    taken_percent: f64,
}

/// What a bar shows.
#[derive(Debug, Clone)]
pub(crate) struct Amount {
    pub(crate) name: String,
    pub(crate) detail: String,
    pub(crate) meant: u64,
    pub(crate) taken: u64,
}

impl BarChart {
    /// Draws the amounts on one scale.
    pub(crate) fn draw(amounts: &[Amount]) -> Self {
        let longest = amounts.iter().map(|amount| amount.meant.max(amount.taken)).max().unwrap_or(0).max(1);
        let bar = |amount: &Amount| Bar {
            name: amount.name.clone(),
            detail: amount.detail.clone(),
            class: if amount.taken == amount.meant { "after" } else { "before" },
            amount: crate::money::dollars(amount.taken),
            meant_percent: crate::money::percent(amount.meant, longest),
            taken_percent: crate::money::percent(amount.taken, longest),
        };
        Self { bars: amounts.iter().map(bar).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        let step = |highest: f64| round_step(highest);
        assert_eq!(
            [0.0, 6.0, 7.0, 18.7, 41.8, 244.5, 900.0].map(step),
            [1.0, 1.0, 2.0, 5.0, 10.0, 50.0, 200.0]
        );
    }

    #[test]
    fn a_flat_line_lies_on_the_axis() {
        let series = Series { name: "after".into(), class: "after", points: vec![(0.0, 0.0), (90.0, 0.0)] };
        let chart = LineChart::draw(Screen::Wide, "t", &Axis::percent("x"), PERCENT, &[series]);
        assert!(chart.lines[0].dots.iter().all(|dot| dot.y == chart.frame.bottom));
        assert_eq!(chart.lines[0].path, "M56 284L740 284");
    }

    #[test]
    fn marks_have_room_however_long_they_are() {
        let left = |highest: f64, unit: Unit| {
            let series = Series { name: "s".into(), class: "after", points: vec![(0.0, highest)] };
            let chart = LineChart::draw(Screen::Phone, "t", &Axis::hours("x", 24), unit, &[series]);
            (chart.frame.left, chart.lines[0].dots[0].x)
        };
        assert_eq!(left(7.0, COUNT), (44.0, 44.0));
        let (million, dot) = left(1_000_000.0, COUNT);
        assert!(million > 76.0 && dot == million, "{million} {dot}");
        assert!(left(696.0, MEBIBYTES).0 > 60.0);
    }

    #[test]
    fn names_are_escaped() {
        let amount = Amount { name: "<b>".into(), detail: String::new(), meant: 1, taken: 3 };
        let drawn = BarChart::draw(&[amount]).render().expect("renders");
        assert!(drawn.contains("&#60;b&#62;") && !drawn.contains("<b>"), "{drawn}");
    }
}
