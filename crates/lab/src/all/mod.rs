//! Every measurement, one after the other, for one page that a teacher can show.
//!
//! A further measurement has a place in [`Options`], in [`Report`], in `run`, and among the chapters; whatever is missing
//! there the compiler names, but for its chapter.

mod render;
mod run;
mod trace;

use serde::Serialize;

use crate::{
    Lang, accept, break_, breaker, day, fleet, herd, naming,
    report::{self, Chapter},
};

pub use run::run;
pub use trace::Traced;
pub(crate) use trace::trace;

/// How each measurement is made.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The same orders, before and after.
    pub fleet: fleet::Options,
    /// One test per promise.
    pub accept: accept::Options,
    /// Each piece taken out.
    pub break_: break_::Options,
    /// Every kind of key.
    pub keys: naming::Options,
    /// A day of traffic.
    pub day: day::Options,
    /// Many callers after an outage.
    pub herd: herd::Options,
    /// A breaker and its probes.
    pub breaker: breaker::Options,
}

/// Every measurement: exactly what `--format json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The same orders, before and after.
    pub fleet: fleet::Figures,
    /// Overcharge against loss.
    pub sweep: fleet::Sweep,
    /// One test per promise.
    pub accept: accept::Report,
    /// Each piece taken out.
    #[serde(rename = "break")]
    pub break_: break_::Report,
    /// Every kind of key.
    pub keys: naming::Report,
    /// A day of traffic.
    pub day: day::Figures,
    /// Many callers after an outage.
    pub herd: herd::Figures,
    /// A breaker and its probes.
    pub breaker: breaker::Figures,
    /// Which test shows which rule, and which piece makes it fail.
    pub rules: Vec<Traced>,
}

impl Report {
    /// Whether everything held.
    pub fn passed(&self) -> bool {
        self.fleet.passed()
            && self.accept.passed()
            && self.break_.passed()
            && self.keys.passed()
            && self.day.passed()
            && self.herd.passed()
            && self.breaker.passed()
    }

    /// The measurements as chapters, in the order in which they are told.
    pub fn chapters(&self, options: &Options, lang: Lang) -> [Chapter; 7] {
        [
            report::fleet(&options.fleet, &self.fleet, Some(&self.sweep), lang),
            report::accept(&options.accept, &self.accept, lang),
            report::break_(&self.break_, lang),
            report::keys(&options.keys, &self.keys, lang),
            report::day(&options.day, &self.day, lang),
            report::herd(&options.herd, &self.herd, lang),
            report::breaker(&options.breaker, &self.breaker, lang),
        ]
    }
}

impl Options {
    /// The commands that give the same figures again.
    pub fn commands(&self) -> Vec<String> {
        vec![
            self.fleet.command(),
            self.accept.command(),
            "unavez lab break".to_owned(),
            self.keys.command().to_owned(),
            self.day.command(),
            self.herd.command(),
            self.breaker.command(),
        ]
    }
}
