//! One trial: losing, waiting, settling, loading, comparing.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Contestant, Generator, Plan};
use crate::bench::generator::{Answers, Generated, Load, Mode};
use crate::bench::probe::Usage;
use crate::bench::recovery::books::{self, Books};
use crate::failure::Failure;
use crate::wire;

/// Outcomes lost between two lines of progress.
const PORTION: u64 = 20_000;

/// As slow as a machine may be at losing them, each second: those lost first must not be due before the last is lost.
const LOST_PER_SECOND: u64 = 2000;

/// What an attempt needs besides: its calls of store and acquirer must fit into it.
const OPERATION_TIMEOUT_LEAST: Duration = Duration::from_secs(10);

/// Without one more settled in this time, recovery is taken to stand still.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Between two looks, at least; see [`Watch::look`].
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How long what the generator left behind may take to reach the books.
const BOOKS_PATIENCE: Duration = Duration::from_secs(30);

/// Everything one trial needs.
pub(super) struct Trial<'a> {
    pub(super) plan: Plan,
    pub(super) generator: &'a Generator<'a>,
    /// A folder of its own, made here.
    pub(super) database: &'a Path,
}

/// What one trial found.
pub(super) struct Found {
    /// Settled each second with nothing else to do.
    pub(super) alone: f64,
    /// Of the service's processor time, for each one settled alone.
    pub(super) cpu_us: f64,
    /// Of the service, for each one settled alone.
    pub(super) written_bytes: f64,
    /// Settled each second beside the load.
    pub(super) beside: f64,
    pub(super) load_beside: Generated,
    pub(super) load_alone: Generated,
    pub(super) executed: u64,
}

impl Trial<'_> {
    pub(super) fn run(&self) -> Result<Found, Failure> {
        let folder = self.database;
        std::fs::create_dir_all(folder).map_err(|error| Failure::file("make", folder, &error))?;
        let acquirer = self.start_acquirer()?;
        self.lose_outcomes(&acquirer)?;
        let service = self.start_service(&acquirer, None)?;
        let found = self.measure(&service, &acquirer)?;
        service.stop()?;
        acquirer.stop()?;
        Ok(found)
    }

    /// Leaves behind a database in which every outcome is unknown and due.
    fn lose_outcomes(&self, acquirer: &Contestant) -> Result<(), Failure> {
        let attempts = self.plan.attempts;
        let operation_timeout = OPERATION_TIMEOUT_LEAST + Duration::from_secs(attempts / LOST_PER_SECOND);
        let service = self.start_service(acquirer, Some(operation_timeout))?;
        let began = Instant::now();
        let mut lost = 0;
        while lost < attempts {
            let portion = PORTION.min(attempts - lost);
            let generated = self.generator.lose(&service.url(), self.plan.connections, portion)?;
            if (generated.requests, generated.errors) != (portion, 0) {
                let Generated { requests, errors, .. } = generated;
                return Err(Failure::check(format!(
                    "losing {portion} outcomes: {requests} were answered, {errors} of them otherwise than with 504"
                )));
            }
            lost += portion;
            eprintln!("  outcomes lost: {lost} of {attempts}, {:.0} s", began.elapsed().as_secs_f64());
        }
        let asked = Watch::look(&service)?.asked;
        service.stop()?;
        if asked > 0 {
            return Err(Failure::lacking(format!(
                "losing {attempts} outcomes took {:.0} s, so that {asked} were asked about before all were lost: this \
                 machine needs a smaller --recovery",
                began.elapsed().as_secs_f64()
            )));
        }
        wait("until all are due", operation_timeout + Duration::from_secs(1));
        Ok(())
    }

    fn measure(&self, service: &Contestant, acquirer: &Contestant) -> Result<Found, Failure> {
        let attempts = self.plan.attempts;
        let mut watch = Watch::begin(service)?;
        let (usage, first) = (service.usage()?, watch.last);
        watch.until(attempts.div_ceil(2), "recovery alone")?;
        let (half, used) = (watch.last, service.usage()?.since(&usage));
        eprintln!("  recovery beside new charges, {} s", self.plan.seconds);
        let load_beside = self.load(service)?;
        watch.again()?;
        let beside = watch.last.rate_since(half);
        if watch.last.settled >= attempts {
            return Err(Failure::Usage(format!(
                "all {attempts} were settled before {} s of load were over, so that their figures would not be those \
                 beside recovery: take a larger --recovery or fewer --seconds",
                self.plan.seconds
            )));
        }
        watch.until(attempts, "recovery alone")?;
        eprintln!("  new charges alone, {} s", self.plan.seconds);
        let load_alone = self.load(service)?;
        let executed = self.compare(service, acquirer, &[&load_beside, &load_alone])?;
        let settled = half.settled.saturating_sub(first.settled);
        Ok(Found {
            alone: half.rate_since(first),
            cpu_us: per(used.cpu.as_secs_f64() * 1e6, settled),
            written_bytes: per(written(&used), settled),
            beside,
            load_beside,
            load_alone,
            executed,
        })
    }

    fn load(&self, service: &Contestant) -> Result<Generated, Failure> {
        let Plan { seconds, connections, .. } = self.plan;
        let answers = Answers::OfTheService;
        self.generator
            .drive(&service.url(), Load { mode: Mode::New, connections, seconds, answers, seed: None })
    }

    /// Compares the books, once what was on its way when the load ended has reached both, and says how much was executed.
    fn compare(
        &self,
        service: &Contestant,
        acquirer: &Contestant,
        loads: &[&Generated],
    ) -> Result<u64, Failure> {
        let told: u64 = loads.iter().map(|load| load.requests - load.errors).sum();
        let at_least = self.plan.attempts + told;
        let began = Instant::now();
        loop {
            let stats = document(acquirer, "/stats")?;
            let summary = document(service, "/v1/ledger/summary")?;
            let books = Books::read(&stats, &summary);
            let faults = books::faults(books, at_least);
            if faults.is_empty() {
                eprintln!("  books agree: {} operations, each executed once", books.executed);
                return Ok(books.executed);
            }
            if began.elapsed() > BOOKS_PATIENCE {
                return Err(Failure::check(faults.join("\n")));
            }
            pause(LOOK_EVERY);
        }
    }

    /// Its books are in memory and it answers at once: its own speed is not what is measured.
    fn start_acquirer(&self) -> Result<Contestant, Failure> {
        let mut command = self.command("acquirer");
        command.args(["--store", "memory:", "--latency", "0s", "--dedupe", "off"]);
        Contestant::start(&mut command, &self.database.join("acquirer.log"))
    }

    fn start_service(
        &self,
        acquirer: &Contestant,
        operation_timeout: Option<Duration>,
    ) -> Result<Contestant, Failure> {
        let mut command = self.command("serve");
        command.args(["--acquirer", &acquirer.url(), "--store", "sqlite:unavez.db"]);
        if let Some(timeout) = operation_timeout {
            command.args(["--operation-timeout", &format!("{}s", timeout.as_secs())]);
        }
        Contestant::start(&mut command, &self.database.join("serve.log"))
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.generator.binary);
        command.current_dir(self.database).args([subcommand, "--listen", "127.0.0.1:0"]);
        command
    }
}

/// The recovery counter of one process, looked at again and again.
struct Watch<'a> {
    service: &'a Contestant,
    last: Look,
    /// How long the latest look took.
    took: Duration,
}

/// One look at the counter.
#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    settled: u64,
    /// Whatever came of it.
    asked: u64,
}

impl Look {
    fn rate_since(self, earlier: Self) -> f64 {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let settled = self.settled.saturating_sub(earlier.settled);
        if seconds > 0.0 { count(settled) / seconds } else { 0.0 }
    }
}

impl<'a> Watch<'a> {
    fn begin(service: &'a Contestant) -> Result<Self, Failure> {
        Ok(Self { service, last: Self::look(service)?, took: Duration::ZERO })
    }

    fn again(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        self.last = Self::look(self.service)?;
        self.took = began.elapsed();
        Ok(())
    }

    /// Looks until so many are settled.
    fn until(&mut self, settled: u64, what: &str) -> Result<(), Failure> {
        let (mut told_at, mut grew) = (self.last.at, self.last);
        while self.last.settled < settled {
            pause(LOOK_EVERY.max(self.took * 10));
            self.again()?;
            if self.last.settled > grew.settled {
                grew = self.last;
            } else if self.last.at.duration_since(grew.at) > PATIENCE {
                return Err(Failure::check(format!(
                    "recovery stands still: {} of {settled} settled, and not one more in {} s; {} were asked about",
                    self.last.settled,
                    PATIENCE.as_secs(),
                    self.last.asked
                )));
            }
            if self.last.at.duration_since(told_at) > PROGRESS_EVERY {
                told_at = self.last.at;
                eprintln!("  {what}: {} of {settled} settled", self.last.settled);
            }
        }
        eprintln!("  {what}: {} settled", self.last.settled);
        Ok(())
    }

    fn look(service: &Contestant) -> Result<Look, Failure> {
        let metrics = got(service, "/metrics")?;
        let text = String::from_utf8_lossy(&metrics.body);
        Ok(Look { at: Instant::now(), settled: recovered(&text, "settled"), asked: recovered(&text, "") })
    }
}

/// The counter's sum over the verdicts that begin like this; zero before the first.
fn recovered(metrics: &str, verdict: &str) -> u64 {
    let series = format!("unavez_recovery_total{{verdict=\"{verdict}");
    let values = metrics.lines().filter(|line| line.starts_with(&series));
    values.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

fn got(server: &Contestant, path: &str) -> Result<wire::Message, Failure> {
    let answer = wire::get(server.address(), path)
        .map_err(|error| Failure::lacking(format!("{}{path} does not answer: {error}", server.url())))?;
    if answer.status() != 200 {
        return Err(Failure::check(format!("{}{path} answered {}", server.url(), answer.shown())));
    }
    Ok(answer)
}

fn document(server: &Contestant, path: &str) -> Result<Value, Failure> {
    Ok(got(server, path)?.json())
}

fn wait(what: &str, whole: Duration) {
    let end = Instant::now() + whole;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        eprintln!("  waiting {what}: {:.0} s", left.as_secs_f64());
        pause(left.min(PROGRESS_EVERY * 2));
    }
}

#[expect(clippy::disallowed_methods, reason = "another process's work: it can only be looked at again")]
fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

#[expect(clippy::cast_precision_loss, reason = "counts of operations and bytes stay far below 2^53")]
fn count(number: u64) -> f64 {
    number as f64
}

fn written(used: &Usage) -> f64 {
    count(used.written_bytes)
}

fn per(total: f64, number: u64) -> f64 {
    total / count(number.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "# TYPE unavez_recovery counter\n\
                           unavez_recovery_total{verdict=\"settled\"} 120\n\
                           unavez_recovery_total{verdict=\"cannot-say\"} 3\n\
                           unavez_unknown 7\n";

    #[test]
    fn the_counter_is_read_by_verdict_and_as_a_whole() {
        assert_eq!((recovered(METRICS, "settled"), recovered(METRICS, "")), (120, 123));
        assert_eq!(recovered("unavez_unknown 7\n", "settled"), 0);
    }

    #[test]
    fn a_rate_is_what_was_settled_over_the_time_between() {
        let at = Instant::now();
        let (earlier, later) = (
            Look { at, settled: 100, asked: 0 },
            Look { at: at + Duration::from_secs(2), settled: 500, asked: 0 },
        );
        assert_eq!(later.rate_since(earlier), 200.0);
        assert_eq!(earlier.rate_since(earlier), 0.0);
    }
}
