//! Telling a waiting person how far a measurement is.

use std::borrow::Cow;

use indicatif::{ProgressBar, ProgressStyle};

use crate::{Lang, Said};

/// Hears how far a measurement is. Called from several tasks at once.
pub trait Progress: Send + Sync {
    /// A phase of `total` steps begins.
    fn begin(&self, phase: &Said, total: u64);
    /// One more step of the phase is done.
    fn step(&self) {
        self.steps(1);
    }
    /// So many more are.
    fn steps(&self, count: u64);
    /// The phase is over.
    fn end(&self);
}

/// Says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _phase: &Said, _total: u64) {}
    fn steps(&self, _count: u64) {}
    fn end(&self) {}
}

/// A bar on standard error. Draws only where standard error is a terminal and leaves nothing behind.
#[derive(Debug)]
pub struct Bar {
    lang: Lang,
    bar: ProgressBar,
}

impl Bar {
    /// A bar that appears with the first phase.
    pub fn new(lang: Lang) -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{msg:<28} {bar:32.cyan/dim} {pos:>6}/{len} {elapsed:.dim}")
            .expect("the template is a constant that parses")
            .progress_chars("━━─");
        bar.set_style(style);
        Self { lang, bar }
    }
}

impl Progress for Bar {
    fn begin(&self, phase: &Said, total: u64) {
        self.bar.reset();
        self.bar.set_length(total);
        self.bar.set_message(Cow::Owned(phase.say(self.lang).to_owned()));
    }

    fn steps(&self, count: u64) {
        self.bar.inc(count);
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}
