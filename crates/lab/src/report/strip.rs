//! Strips: one narrow chart for each thing that is compared, all on the same scales, below or beside each other.

use askama::Template;

use super::chart::Screen;

/// A narrow chart of bars over time.
#[derive(Debug, Template)]
#[template(path = "strip_chart.html")]
pub(crate) struct Strip {
    width: f64,
    height: f64,
    plot: Plot,
    title: String,
    bands: Vec<Block>,
    bars: Vec<Block>,
    marks: Vec<Placed>,
    x_ticks: Vec<Placed>,
    y_ticks: Vec<Placed>,
}

/// What the strips of one comparison have in common.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    /// Seconds that are shown.
    pub(crate) seconds: f64,
    /// The highest value of any of them.
    pub(crate) highest: f64,
    /// Whether each mark on the vertical axis is ten times the one below.
    pub(crate) growth: Growth,
}

/// How the vertical axis grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    Even,
    /// By powers of ten; a single one stands a little above the axis.
    Tenfold,
}

/// A stretch of time that is shaded, in seconds.
#[derive(Debug, Clone)]
pub(crate) struct Band {
    pub(crate) class: &'static str,
    pub(crate) from: f64,
    pub(crate) until: f64,
    pub(crate) says: String,
}

/// A bar: when, for how long, from where, up to where.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) class: &'static str,
    pub(crate) from: f64,
    pub(crate) until: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// A sign at a moment.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) class: &'static str,
    pub(crate) at: f64,
    /// At the height of this value; `None`: above everything.
    pub(crate) height: Option<f64>,
    pub(crate) says: String,
}

#[derive(Debug)]
struct Plot {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

#[derive(Debug)]
struct Block {
    class: &'static str,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    says: String,
}

#[derive(Debug)]
struct Placed {
    class: &'static str,
    x: f64,
    y: f64,
    anchor: &'static str,
    says: String,
}

impl Strip {
    /// Draws one strip.
    pub(crate) fn draw(
        screen: Screen,
        title: &str,
        scale: &Scale,
        bands: &[Band],
        bars: &[Bar],
        marks: &[Mark],
    ) -> Self {
        let (width, height) = match screen {
            Screen::Wide => (760.0, 150.0),
            Screen::Phone => (372.0, 150.0),
        };
        let plot = Plot { left: 42.0, right: width - 12.0, top: 22.0, bottom: height - 26.0 };
        Self {
            width,
            height,
            title: title.to_owned(),
            bands: bands.iter().map(|band| plot.band(scale, band)).collect(),
            bars: bars.iter().map(|bar| plot.bar(scale, bar)).collect(),
            marks: marks.iter().map(|mark| plot.mark(scale, mark)).collect(),
            x_ticks: plot.x_ticks(scale),
            y_ticks: plot.y_ticks(scale),
            plot,
        }
    }
}

impl Plot {
    fn x(&self, scale: &Scale, seconds: f64) -> f64 {
        let share = (seconds / scale.seconds).clamp(0.0, 1.0);
        rounded(self.left + (self.right - self.left) * share)
    }

    fn y(&self, scale: &Scale, value: f64) -> f64 {
        rounded(self.bottom - (self.bottom - self.top) * scale.share(value))
    }

    fn band(&self, scale: &Scale, band: &Band) -> Block {
        let (x, until) = (self.x(scale, band.from), self.x(scale, band.until));
        let (y, height) = (self.top, self.bottom - self.top);
        Block { class: band.class, x, y, width: rounded(until - x), height, says: band.says.clone() }
    }

    fn bar(&self, scale: &Scale, bar: &Bar) -> Block {
        let (x, until) = (self.x(scale, bar.from), self.x(scale, bar.until));
        let (y, low) = (self.y(scale, bar.high), self.y(scale, bar.low));
        let (width, height) = (rounded(until - x), rounded(low - y));
        Block { class: bar.class, x, y, width, height, says: String::new() }
    }

    fn mark(&self, scale: &Scale, mark: &Mark) -> Placed {
        let x = self.x(scale, mark.at);
        let y = mark.height.map_or(self.top - 6.0, |height| self.y(scale, height) - 6.0);
        let middle = (self.left + self.right) / 2.0;
        let is_sign = mark.says.chars().count() == 1;
        let anchor = match () {
            () if is_sign => "middle",
            () if x > middle => "end",
            () => "start",
        };
        Placed { class: mark.class, x, y, anchor, says: mark.says.clone() }
    }

    fn x_ticks(&self, scale: &Scale) -> Vec<Placed> {
        let step = [10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0]
            .into_iter()
            .find(|step| scale.seconds / step <= 6.0)
            .unwrap_or(scale.seconds);
        let tick = |at: f64| Placed {
            class: "tick",
            x: self.x(scale, at),
            y: self.bottom + 18.0,
            // The last one would be cut by the edge.
            anchor: if at < scale.seconds { "middle" } else { "end" },
            says: format!("{at} s"),
        };
        (0_u8..=6)
            .map(|count| f64::from(count) * step)
            .take_while(|&at| at <= scale.seconds)
            .map(tick)
            .collect()
    }

    fn y_ticks(&self, scale: &Scale) -> Vec<Placed> {
        let tick = |value: f64| Placed {
            class: "tick",
            x: self.left,
            y: self.y(scale, value),
            anchor: "end",
            says: format!("{value}"),
        };
        scale.marks().into_iter().map(tick).collect()
    }
}

impl Scale {
    /// How high a value stands, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let share = match self.growth {
            Growth::Even => value / self.top(),
            Growth::Tenfold => (1.0 + value).ln() / (1.0 + self.highest.max(1.0)).ln(),
        };
        share.clamp(0.0, 1.0)
    }

    /// The end of an even axis: a number that is short, and halved is short too.
    fn top(&self) -> f64 {
        let unit = 10_f64.powf(self.highest.max(1.0).log10().floor());
        let half = if unit > 1.0 { unit / 2.0 } else { 2.0 };
        (self.highest.max(1.0) / half).ceil() * half
    }

    fn marks(&self) -> Vec<f64> {
        match self.growth {
            Growth::Even => vec![0.0, self.top() / 2.0, self.top()],
            Growth::Tenfold => {
                let powers = (0..9)
                    .map(|power| 10_f64.powi(power))
                    .take_while(|&value| value <= self.highest.max(1.0));
                powers.collect()
            }
        }
    }
}

/// Tenths are finer than any screen, and short.
fn rounded(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(growth: Growth) -> Scale {
        Scale { seconds: 90.0, highest: 999.0, growth }
    }

    #[test]
    fn tenfold_is_an_equal_step() {
        let scale = scale(Growth::Tenfold);
        assert_eq!(scale.marks(), [1.0, 10.0, 100.0]);
        assert!((scale.share(99.0) - 2.0 / 3.0).abs() < 0.001 && scale.share(9.0) > 0.33);
    }

    #[test]
    fn an_even_axis_ends_at_a_round_number() {
        let top = |highest| Scale { highest, ..scale(Growth::Even) }.top();
        assert_eq!([0.0, 1.0, 9.0, 10.0, 131.0, 1_001.0].map(top), [2.0, 2.0, 10.0, 10.0, 150.0, 1_500.0]);
    }

    #[test]
    fn nothing_stands_outside_the_plot() {
        let bars = [Bar { class: "after", from: -5.0, until: 500.0, low: 0.0, high: 1e9 }];
        for screen in [Screen::Wide, Screen::Phone] {
            let strip = Strip::draw(screen, "t", &scale(Growth::Even), &[], &bars, &[]);
            let bar = &strip.bars[0];
            assert_eq!((bar.x, bar.y), (strip.plot.left, strip.plot.top));
            assert_eq!(bar.x + bar.width, strip.plot.right);
        }
    }
}
