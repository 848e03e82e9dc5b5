//! The generator's threads: each drives its part of the connections on a runtime of its own.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::connection::{self, Dice};
use super::cpu::{Load, Sample};
use super::pass::Pass;
use super::report::Shape;
use super::tally::Tally;
use crate::exit::Failure;

/// What a pass came to.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) tally: Tally,
    /// How much of the window was measured.
    pub(super) measured: Duration,
    /// Ctrl-C ended it.
    pub(super) interrupted: bool,
    /// The load of the busiest thread.
    pub(super) load: Option<Load>,
}

/// Drives a pass to its end, or until Ctrl-C.
pub(super) fn drive(pass: Pass, shape: Shape, what: &'static str) -> Result<Outcome, Failure> {
    let pass = Arc::new(pass);
    try_drive(&pass, shape, what)
        .map_err(|error| Failure::unavailable(format!("the load generator cannot run: {error}")))
}

fn try_drive(pass: &Arc<Pass>, shape: Shape, what: &'static str) -> io::Result<Outcome> {
    let watcher = Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = watch::channel(false);
    let workers: Vec<Worker> = (0..shape.threads)
        .map(|index| spawn(pass, index, shape, stopped.clone()))
        .collect::<io::Result<_>>()?;
    let interrupted = watcher.block_on(watch_over(&workers, pass, &stop, what));
    let ended = Instant::now().min(pass.window.until);
    let mut tally = Tally::new();
    let mut load: Option<Load> = None;
    for worker in workers {
        let part = worker.join().map_err(|_| io::Error::other("a generator thread panicked"))??;
        tally.merge(&part.tally);
        load = load.into_iter().chain(part.load).max_by(|a, b| a.ran.total_cmp(&b.ran));
    }
    let measured = ended.saturating_duration_since(pass.window.from);
    Ok(Outcome { tally, measured, interrupted, load })
}

type Worker = JoinHandle<io::Result<Part>>;

/// What one thread found.
struct Part {
    tally: Tally,
    load: Option<Load>,
}

fn spawn(pass: &Arc<Pass>, index: usize, shape: Shape, stopped: watch::Receiver<bool>) -> io::Result<Worker> {
    let pass = Arc::clone(pass);
    std::thread::Builder::new().name(format!("bench-{index}")).spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connections = (index..shape.connections).step_by(shape.threads);
        Ok(LocalSet::new().block_on(&runtime, work(&pass, connections, stopped)))
    })
}

/// Drives a thread's connections side by side until the pass has no more steps, its window closes, or it is stopped.
async fn work(
    pass: &Arc<Pass>,
    connections: impl Iterator<Item = usize>,
    mut stopped: watch::Receiver<bool>,
) -> Part {
    let tally = Rc::new(RefCell::new(Tally::new()));
    let mut tasks = JoinSet::new();
    for index in connections {
        let (pass, tally) = (Arc::clone(pass), Rc::clone(&tally));
        let dice = Dice::new(index as u64);
        tasks.spawn_local(async move { connection::run(&pass, dice, &tally).await });
    }
    let mut first = None;
    loop {
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => break,
            () = sleep_until(pass.window.until) => break,
            () = sleep_until(pass.window.from), if first.is_none() => first = Some(Sample::take()),
            done = tasks.join_next() => if done.is_none() { break },
        }
    }
    let load = first.flatten().zip(Sample::take()).map(|(first, last)| last.since(first));
    tasks.shutdown().await;
    Part { tally: tally.replace(Tally::new()), load }
}

/// Draws progress and listens for Ctrl-C until the workers are done; true if they were stopped by it.
async fn watch_over(workers: &[Worker], pass: &Pass, stop: &watch::Sender<bool>, what: &'static str) -> bool {
    let bar = if super::is_watched() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.set_style(ProgressStyle::default_spinner());
    let mut ticks = interval(Duration::from_millis(50));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut interrupted = false;
    while !workers.iter().all(JoinHandle::is_finished) {
        tokio::select! {
            _ = ticks.tick() => bar.set_message(progress(pass, what)),
            _ = tokio::signal::ctrl_c(), if !interrupted => {
                interrupted = true;
                stop.send_replace(true);
            }
        }
        bar.tick();
    }
    bar.finish_and_clear();
    interrupted
}

fn progress(pass: &Pass, what: &str) -> String {
    let [good, faults] = [0, 1].map(|at| pass.progress[at].load(Ordering::Relaxed));
    let now = Instant::now();
    let stage = if now < pass.window.from { "warming up" } else { what };
    let left = pass.window.until.saturating_duration_since(now).as_secs();
    format!("{stage}: {good} answers, {faults} errors, {left} s left")
}
