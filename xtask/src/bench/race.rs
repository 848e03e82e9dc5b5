//! The race itself: who starts when, on which database, and what is read while it runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::contestant::Contestant;
use crate::bench::generator::{Generated, Generator, Load, Mode};
use crate::bench::probe::Usage;
use crate::bench::report::{self, Machine, Measured, Report};
use crate::bench::{Plan, Subject};
use crate::failure::Failure;

/// The contestants, where they live, and in which folder they may write.
pub(super) struct Race<'a> {
    binaries: &'a Path,
    folder: &'a Path,
    plan: &'a Plan,
    generator: Generator<'a>,
}

impl<'a> Race<'a> {
    pub(super) fn new(binaries: &'a Path, folder: &'a Path, plan: &'a Plan) -> Self {
        Self { binaries, folder, plan, generator: Generator { binary: binaries.join("unavez"), folder } }
    }

    pub(super) fn run(&self) -> Result<Report, Failure> {
        let machine = Machine::probe(self.folder)?;
        eprintln!("{machine}");
        let mut measured = Vec::new();
        let Plan { seconds, keys, runs, ref subjects, .. } = *self.plan;
        if subjects.contains(&Subject::UnavezLoaded) {
            self.load()?;
        }
        for turn in 1..=runs {
            for subject in subjects {
                measured.extend(self.turn(*subject, turn)?);
            }
        }
        Ok(Report::of(machine, seconds, keys, runs, &measured))
    }

    /// Starts the contestant, measures all of its figures, stops it.
    fn turn(&self, subject: Subject, turn: u64) -> Result<Vec<Measured>, Failure> {
        let acquirer = match subject {
            Subject::UnavezSandbox => Some(self.start_acquirer()?),
            _ => None,
        };
        let contestant = self.start(subject, acquirer.as_ref())?;
        // Warmed up apart, so that what the kernel counts during a figure belongs to the requests that are counted.
        let warm_up = self.plan.seconds.min(2);
        self.generate(
            subject,
            &contestant,
            self.load_of(subject, Mode::New, self.plan.connections[0], warm_up),
        )?;
        let mut measured = Vec::new();
        for &connections in &self.plan.connections {
            for &mode in subject.modes() {
                let one = self.figure(subject, &contestant, mode, connections, turn)?;
                eprintln!(
                    "turn {turn} of {}: {} {} at {connections} connections: {:.0}/s, {} errors",
                    self.plan.runs,
                    report::name(subject),
                    mode.name(),
                    one.rps,
                    one.errors
                );
                measured.push(one);
            }
        }
        contestant.stop()?;
        acquirer.map_or(Ok(()), Contestant::stop)?;
        if let Some(database) = self.database(subject).filter(|_| subject != Subject::UnavezLoaded) {
            remove(&database)?;
        }
        Ok(measured)
    }

    fn figure(
        &self,
        subject: Subject,
        contestant: &Contestant,
        mode: Mode,
        connections: u32,
        turn: u64,
    ) -> Result<Measured, Failure> {
        let mut load = self.load_of(subject, mode, connections, self.plan.seconds);
        if mode.repeats() {
            // Any will do, as long as no other figure of this database has it.
            load.seed = Some(turn << 32 | u64::from(connections) << 8 | u64::from(mode == Mode::Mixed));
            self.generate(subject, contestant, Load { mode: Mode::Replay, seconds: 1, ..load })?;
        }
        let before = contestant.usage()?;
        let generated = self.generate(subject, contestant, load)?;
        let used = contestant.usage()?.since(&before);
        Ok(measure(subject, load, turn, &generated, &used))
    }

    const fn load_of(&self, subject: Subject, mode: Mode, connections: u32, seconds: u64) -> Load {
        Load { mode, connections, seconds, answers: subject.answers(), seed: None }
    }

    fn generate(&self, subject: Subject, contestant: &Contestant, load: Load) -> Result<Generated, Failure> {
        let generated = self.generator.drive(&contestant.url(), load)?;
        if generated.requests == generated.errors {
            return Err(Failure::check(format!(
                "{} gave not one good answer to {} {} requests at {} connections",
                report::name(subject),
                generated.requests,
                load.mode.name(),
                load.connections
            )));
        }
        Ok(generated)
    }

    fn start(&self, subject: Subject, acquirer: Option<&Contestant>) -> Result<Contestant, Failure> {
        let database = self.database(subject);
        if let Some(folder) = &database {
            std::fs::create_dir_all(folder).map_err(|error| Failure::file("make", folder, &error))?;
        }
        let store =
            database.map_or("memory:".to_owned(), |it| format!("sqlite:{}", it.join("unavez.db").display()));
        let mut command = match subject {
            Subject::BareAxum => Command::new(self.binaries.join("contestant-bare-axum")),
            Subject::MiddlewareMemory | Subject::MiddlewareSqlite => {
                let mut command = Command::new(self.binaries.join("contestant-middleware"));
                command.arg(store);
                command
            }
            Subject::UnavezEmpty | Subject::UnavezLoaded | Subject::UnavezSandbox => {
                let mut command = Command::new(&self.generator.binary);
                let acquirer = acquirer.map_or("ledger".to_owned(), Contestant::url);
                command.args([
                    "serve",
                    "--listen",
                    "127.0.0.1:0",
                    "--acquirer",
                    &acquirer,
                    "--store",
                    &store,
                ]);
                command
            }
        };
        Contestant::start(command.current_dir(self.folder), &self.folder.join("log"))
    }

    /// The acquirer keeps its books in memory and answers at once: its own speed is not what is measured.
    fn start_acquirer(&self) -> Result<Contestant, Failure> {
        let mut command = Command::new(&self.generator.binary);
        command.args(["acquirer", "--listen", "127.0.0.1:0", "--store", "memory:", "--latency", "0s"]);
        Contestant::start(command.current_dir(self.folder), &self.folder.join("acquirer.log"))
    }

    /// A folder of its own for each database: its log and lock files lie beside it. None where nothing is stored.
    fn database(&self, subject: Subject) -> Option<PathBuf> {
        let name = match subject {
            Subject::BareAxum | Subject::MiddlewareMemory => return None,
            Subject::MiddlewareSqlite => "middleware",
            Subject::UnavezEmpty => "empty",
            Subject::UnavezSandbox => "sandbox",
            Subject::UnavezLoaded => "loaded",
        };
        Some(self.folder.join(name))
    }

    /// Charges new keys until the loaded database holds as many as asked for. The keys are the generator's own, so
    /// the index is as scattered as theirs.
    fn load(&self) -> Result<(), Failure> {
        let subject = Subject::UnavezLoaded;
        let contestant = self.start(subject, None)?;
        let mut loaded = 0;
        while loaded < self.plan.keys {
            let generated = self.generate(subject, &contestant, self.load_of(subject, Mode::New, 256, 5))?;
            loaded += generated.requests - generated.errors;
            eprintln!("loading: {loaded} of {} keys, {:.0}/s", self.plan.keys, generated.rps);
        }
        contestant.stop()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests and bytes stay far below 2^53")]
fn measure(subject: Subject, load: Load, turn: u64, generated: &Generated, used: &Usage) -> Measured {
    let requests = generated.requests.max(1) as f64;
    Measured {
        subject,
        mode: load.mode,
        connections: load.connections,
        turn,
        rps: generated.rps,
        p50_ms: generated.p50_ms,
        p99_ms: generated.p99_ms,
        p999_ms: generated.p999_ms,
        errors: generated.errors,
        written_bytes: used.written_bytes as f64 / requests,
        cpu_us: used.cpu.as_secs_f64() * 1e6 / requests,
        resident_mib: used.resident_bytes as f64 / f64::from(1 << 20),
    }
}

fn remove(folder: &Path) -> Result<(), Failure> {
    std::fs::remove_dir_all(folder).map_err(|error| Failure::file("delete", folder, &error))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::generator::Answers;

    #[test]
    fn what_was_used_is_told_for_each_request() {
        let generated =
            Generated { requests: 10, errors: 1, rps: 9.0, p50_ms: 1.0, p99_ms: 2.0, p999_ms: 3.0 };
        let used = Usage { written_bytes: 1000, cpu: Duration::from_micros(500), resident_bytes: 1 << 20 };
        let answers = Answers::OfTheService;
        let load = Load { mode: Mode::New, connections: 64, seconds: 1, answers, seed: None };
        let measured = measure(Subject::UnavezEmpty, load, 1, &generated, &used);
        assert_eq!((measured.written_bytes, measured.cpu_us, measured.resident_mib), (100.0, 50.0, 1.0));
    }
}
