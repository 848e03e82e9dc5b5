//! A server process that takes part: started on a free port, watched while it runs, stopped in the end.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::bench::probe::Usage;
use crate::failure::Failure;
use crate::shell;

/// How long a contestant may take until it listens, and to end when asked to.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. Dropped without [`Contestant::stop`] it is killed, so that no failure leaves one behind.
pub(crate) struct Contestant {
    process: Child,
    address: SocketAddr,
}

impl Contestant {
    /// Starts the server and waits until its first line says where it listens. What it writes to standard error goes
    /// to the log, which is told if it does not start.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self, Failure> {
        let file = File::create(log).map_err(|error| Failure::file("write", log, &error))?;
        without_settings(command);
        let shown = shell::render(command);
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .map_err(|error| Failure::lacking(format!("cannot run `{shown}`: {error}")))?;
        let output = process.stdout.take().expect("standard output was asked to be piped");
        let first_line = first_line_of(output);
        let line = first_line.recv_timeout(PATIENCE).ok();
        let Some(address) = line.as_deref().and_then(address_in) else {
            end(&mut process);
            let said = std::fs::read_to_string(log).unwrap_or_default();
            let first = line.unwrap_or_default();
            return Err(Failure::lacking(format!(
                "`{shown}` did not begin with where it listens, but with {first:?}\n{}",
                said.trim()
            )));
        };
        Ok(Self { process, address })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What the process has used so far.
    pub(crate) fn usage(&self) -> Result<Usage, Failure> {
        Usage::of(self.process.id())
    }

    /// Asks the server to end as an operator would, and sees that it does.
    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        // The shell's own `kill`: a signal without unsafe code, and without a package that minimal systems lack.
        shell::run(Command::new("sh").args(["-c", &format!("kill -TERM {}", self.process.id())]))?;
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let ended = self.process.try_wait();
            match ended.map_err(|error| Failure::lacking(format!("cannot wait for a contestant: {error}")))? {
                Some(_) => return Ok(()),
                None => pause(),
            }
        }
        Err(Failure::check(format!("a contestant did not end within {} s of SIGTERM", PATIENCE.as_secs())))
    }
}

impl Drop for Contestant {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

fn end(process: &mut Child) {
    // Both fail when the process has ended already, which is what is wanted.
    process.kill().ok();
    process.wait().ok();
}

/// The first line, from a thread that goes on reading: a server whose pipe is full stands still.
fn first_line_of(output: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Only the first finds a listener.
            sender.send(line).ok();
        }
    });
    receiver
}

fn address_in(line: &str) -> Option<SocketAddr> {
    line.strip_prefix("listening on http://")?.parse().ok()
}

/// The caller's own settings for the service must not decide what is measured.
fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("UNAVEZ_") {
            command.env_remove(name);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "another process's end: the standard library can only look again"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn start(script: &str) -> Result<Contestant, Failure> {
        let folder = tempfile::tempdir().unwrap();
        Contestant::start(&mut sh(script), &folder.path().join("log"))
    }

    #[test]
    fn a_server_is_known_by_its_first_line_and_ends_when_asked() {
        let contestant = start("echo listening on http://127.0.0.1:1; exec sleep 60").unwrap();
        assert_eq!(contestant.url(), "http://127.0.0.1:1");
        contestant.stop().unwrap();
    }

    #[test]
    fn a_server_that_ends_at_once_is_lacking_and_its_last_words_are_told() {
        let failure = start("echo the port is taken >&2; exit 3").err().unwrap();
        assert!(matches!(failure, Failure::Lacking(_)));
        assert!(failure.to_string().ends_with("but with \"\"\nthe port is taken"), "{failure}");
    }

    #[test]
    fn another_first_line_is_shown() {
        let failure = start("echo hello").err().unwrap();
        assert!(failure.to_string().contains("but with \"hello\""), "{failure}");
    }
}
