//! The load: `unavez bench` in a process of its own, and what it found.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::shell;

/// How many keys are charged beforehand for those modes that repeat some.
const REPEATED_KEYS: &str = "10000";

/// What the generator asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Keys never seen.
    New,
    /// Keys that are charged already.
    Replay,
    /// Half of each.
    Mixed,
}

impl Mode {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Replay => "replay",
            Self::Mixed => "mixed",
        }
    }

    /// Whether it sends keys that have to be charged first.
    pub(crate) const fn repeats(self) -> bool {
        matches!(self, Self::Replay | Self::Mixed)
    }
}

/// What is held against an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answers {
    /// A charge, with the replay mark exactly where it belongs, of a server that says its money is play money.
    OfTheService,
    /// The same, of a server that says nothing of money.
    WithKeys,
    /// Any 2xx.
    Any,
}

/// One stretch of load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) mode: Mode,
    pub(crate) connections: u32,
    pub(crate) seconds: u64,
    pub(crate) answers: Answers,
    /// The same seed sends the same keys.
    pub(crate) seed: Option<u64>,
}

/// The generator, and in which folder it may look for settings.
#[derive(Debug)]
pub(crate) struct Generator<'a> {
    pub(crate) binary: PathBuf,
    pub(crate) folder: &'a Path,
}

/// What `unavez bench --format json` prints.
#[derive(Debug, Deserialize)]
pub(crate) struct Generated {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) rps: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
}

impl Generator<'_> {
    /// Drives load at a server until its time is over.
    pub(crate) fn drive(&self, url: &str, load: Load) -> Result<Generated, Failure> {
        let mut command = self.command(url, load.mode.name(), load.connections);
        command.args(["--seconds", &load.seconds.to_string(), "--warm-up", "0s", "--keys", REPEATED_KEYS]);
        if let Some(seed) = load.seed {
            command.args(["--seed", &seed.to_string()]);
        }
        match load.answers {
            Answers::OfTheService => {}
            Answers::WithKeys => drop(command.arg("--i-know")),
            Answers::Any => drop(command.arg("--any-answer")),
        }
        read(&mut command)
    }

    /// Makes this many charges whose outcome the service does not learn.
    pub(crate) fn lose(&self, url: &str, connections: u32, charges: u64) -> Result<Generated, Failure> {
        read(self.command(url, "lost", connections).args(["--keys", &charges.to_string()]))
    }

    fn command(&self, url: &str, mode: &str, connections: u32) -> Command {
        let mut command = Command::new(&self.binary);
        command.current_dir(self.folder).args(["bench", "--format", "json", "--mode", mode, "--url", url]);
        command.args(["--connections", &connections.to_string()]);
        command
    }
}

fn read(command: &mut Command) -> Result<Generated, Failure> {
    let json = shell::capture(command)?;
    serde_json::from_str(&json)
        .map_err(|error| Failure::check(format!("`{}` is not as expected: {error}", shell::render(command))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generators_document_is_read() {
        let json = r#"{"mode":"new","requests":10,"errors":1,"seconds":1.0,"rps":9.0,"p50_ms":1.0,"p99_ms":2.0,
                       "p999_ms":3.0,"hint":null}"#;
        let mut echo = Command::new("printf");
        let generated = read(echo.args(["%s", json])).unwrap();
        assert_eq!((generated.requests, generated.errors, generated.p999_ms), (10, 1, 3.0));
    }

    #[test]
    fn another_document_is_refused_with_the_command_that_printed_it() {
        let failure = read(Command::new("echo").arg("{}")).unwrap_err();
        assert!(
            failure.to_string().starts_with("`echo '{}'` is not as expected: missing field"),
            "{failure}"
        );
    }

    #[test]
    fn a_load_is_told_in_flags() {
        let generator = Generator { binary: "unavez".into(), folder: Path::new("/") };
        let command = generator.command("http://127.0.0.1:1", "new", 64);
        let expected = "unavez bench --format json --mode new --url http://127.0.0.1:1 --connections 64";
        assert_eq!(shell::render(&command), expected);
    }
}
