//! The race itself: who starts when, on which database, and what is read while it runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::bench::contestant::Contestant;
use crate::bench::probe::Usage;
use crate::bench::report::{Machine, Measured, Report};
use crate::bench::{Mode, Plan, Subject};
use crate::failure::Failure;
use crate::shell;

/// The contestants, where they live, and in which folder they may write.
pub(super) struct Race<'a> {
    pub(super) binaries: PathBuf,
    pub(super) folder: &'a Path,
    pub(super) plan: &'a Plan,
}

impl Race<'_> {
    pub(super) fn run(&self) -> Result<Report, Failure> {
        let machine = Machine::probe(self.folder)?;
        eprintln!("{machine}");
        let mut measured = Vec::new();
        let mut subjects = vec![Subject::BareAxum, Subject::UnavezEmpty, Subject::UnavezSandbox];
        if self.plan.keys > 0 {
            self.load()?;
            subjects.push(Subject::UnavezLoaded);
        }
        for turn in 1..=self.plan.runs {
            for subject in &subjects {
                measured.extend(self.turn(*subject, turn)?);
            }
        }
        let Plan { seconds, keys, runs, .. } = *self.plan;
        Ok(Report::of(machine, seconds, keys, runs, &measured))
    }

    /// Starts the contestant, measures all of its figures, stops it.
    fn turn(&self, subject: Subject, turn: u64) -> Result<Vec<Measured>, Failure> {
        let acquirer = match subject {
            Subject::UnavezSandbox => Some(self.start_acquirer()?),
            Subject::BareAxum | Subject::UnavezEmpty | Subject::UnavezLoaded => None,
        };
        let contestant = self.start(subject, acquirer.as_ref())?;
        // Warmed up apart, so that what the kernel counts during a figure belongs to the requests that are counted.
        self.generate(subject, &contestant, Mode::New, self.plan.connections[0], self.plan.seconds.min(2))?;
        let mut measured = Vec::new();
        for &connections in &self.plan.connections {
            for &mode in subject.modes() {
                let before = contestant.usage()?;
                let generated = self.generate(subject, &contestant, mode, connections, self.plan.seconds)?;
                let used = contestant.usage()?.since(&before);
                eprintln!(
                    "turn {turn} of {}: {subject:?} {} at {connections} connections: {:.0}/s, {} errors",
                    self.plan.runs,
                    mode.name(),
                    generated.rps,
                    generated.errors
                );
                measured.push(measure(subject, mode, connections, &generated, &used));
            }
        }
        contestant.stop()?;
        acquirer.map_or(Ok(()), Contestant::stop)?;
        if matches!(subject, Subject::UnavezEmpty | Subject::UnavezSandbox) {
            remove(&self.database(subject))?;
        }
        Ok(measured)
    }

    fn start(&self, subject: Subject, acquirer: Option<&Contestant>) -> Result<Contestant, Failure> {
        let mut command = match subject {
            Subject::BareAxum => Command::new(self.binaries.join("contestant-bare-axum")),
            Subject::UnavezEmpty | Subject::UnavezLoaded | Subject::UnavezSandbox => {
                self.service(&self.database(subject), acquirer.map_or("ledger", Contestant::url))?
            }
        };
        Contestant::start(command.current_dir(self.folder), &self.folder.join("log"))
    }

    fn service(&self, database: &Path, acquirer: &str) -> Result<Command, Failure> {
        std::fs::create_dir_all(database).map_err(|error| Failure::file("make", database, &error))?;
        let mut command = Command::new(self.binaries.join("unavez"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--acquirer", acquirer, "--store"]);
        command.arg(format!("sqlite:{}", database.join("unavez.db").display()));
        Ok(command)
    }

    /// The acquirer keeps its books in memory and answers at once: its own speed is not what is measured.
    fn start_acquirer(&self) -> Result<Contestant, Failure> {
        let mut command = Command::new(self.binaries.join("unavez"));
        command.args(["acquirer", "--listen", "127.0.0.1:0", "--store", "memory:", "--latency", "0s"]);
        Contestant::start(command.current_dir(self.folder), &self.folder.join("acquirer.log"))
    }

    /// A folder of its own for each database: its log and lock files lie beside it.
    fn database(&self, subject: Subject) -> PathBuf {
        self.folder.join(match subject {
            Subject::UnavezLoaded => "loaded",
            Subject::UnavezSandbox => "sandbox",
            Subject::BareAxum | Subject::UnavezEmpty => "empty",
        })
    }

    /// Charges new keys until the loaded database holds as many as asked for. The keys are the generator's own, so
    /// the index is as scattered as theirs.
    fn load(&self) -> Result<(), Failure> {
        let contestant = self.start(Subject::UnavezLoaded, None)?;
        let mut loaded = 0;
        while loaded < self.plan.keys {
            let generated = self.generate(Subject::UnavezLoaded, &contestant, Mode::New, 256, 5)?;
            let charged = generated.requests - generated.errors;
            if charged == 0 {
                return Err(Failure::check("loading the database: not one charge succeeded in 5 s"));
            }
            loaded += charged;
            eprintln!("loading: {loaded} of {} keys, {:.0}/s", self.plan.keys, generated.rps);
        }
        contestant.stop()
    }

    fn generate(
        &self,
        subject: Subject,
        contestant: &Contestant,
        mode: Mode,
        connections: u32,
        seconds: u64,
    ) -> Result<Generated, Failure> {
        let mut command = Command::new(self.binaries.join("unavez"));
        command.current_dir(self.folder).args(["bench", "--format", "json", "--mode", mode.name()]);
        command.args(["--url", contestant.url(), "--connections", &connections.to_string()]);
        command.args(["--seconds", &seconds.to_string(), "--warm-up", "0s"]);
        if subject == Subject::BareAxum {
            // It has neither keys nor a word on whether its money is play money.
            command.arg("--any-answer");
        }
        let json = shell::capture(&mut command)?;
        serde_json::from_str(&json).map_err(|error| {
            Failure::check(format!("`{}` is not as expected: {error}", shell::render(&command)))
        })
    }
}

/// What `unavez bench --format json` prints.
#[derive(Deserialize)]
struct Generated {
    requests: u64,
    errors: u64,
    rps: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests and bytes stay far below 2^53")]
fn measure(subject: Subject, mode: Mode, connections: u32, generated: &Generated, used: &Usage) -> Measured {
    let requests = generated.requests.max(1) as f64;
    Measured {
        subject,
        mode,
        connections,
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

    #[test]
    fn the_generators_document_is_read() {
        let json = r#"{"mode":"new","requests":10,"errors":1,"seconds":1.0,"rps":9.0,"p50_ms":1.0,"p99_ms":2.0,
                       "p999_ms":3.0,"hint":null}"#;
        let generated: Generated = serde_json::from_str(json).unwrap();
        let used = Usage { written_bytes: 1000, cpu: Duration::from_micros(500), resident_bytes: 1 << 20 };
        let measured = measure(Subject::UnavezEmpty, Mode::New, 64, &generated, &used);
        assert_eq!((measured.written_bytes, measured.cpu_us, measured.resident_mib), (100.0, 50.0, 1.0));
    }
}
