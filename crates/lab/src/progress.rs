//! Telling a waiting person how far a measurement is.

use std::borrow::Cow;

use indicatif::{ProgressBar, ProgressStyle};

/// Hears how far a measurement is. Called from several tasks at once.
pub trait Progress: Send + Sync {
    /// A phase of `total` steps begins.
    fn begin(&self, phase: &str, total: u64);
    /// One more step of the phase is done.
    fn step(&self);
    /// The phase is over.
    fn end(&self);
}

/// Says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _phase: &str, _total: u64) {}
    fn step(&self) {}
    fn end(&self) {}
}

/// A bar on standard error. Draws only where standard error is a terminal and leaves nothing behind.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// A bar that appears with the first phase.
    pub fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{msg:<28} {bar:32.cyan/dim} {pos:>6}/{len} {elapsed:.dim}")
            .expect("the template is a constant that parses")
            .progress_chars("━━─");
        bar.set_style(style);
        Self { bar }
    }
}

impl Default for Bar {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress for Bar {
    fn begin(&self, phase: &str, total: u64) {
        self.bar.reset();
        self.bar.set_length(total);
        self.bar.set_message(Cow::Owned(phase.to_owned()));
    }

    fn step(&self) {
        self.bar.inc(1);
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}
