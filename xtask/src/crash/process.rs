//! The programs under test: started on a port that stays theirs, killed, and started again.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::failure::Failure;

/// What `abort` ends a process with.
const SIGABRT: i32 = 6;

/// Starts of one program before it is believed that it does not start: another program may have taken its port while
/// it was dead.
const STARTS_MAX: u32 = 20;

/// The variable that names a point and a time to die at.
pub(crate) const CRASH_AT: &str = "UNAVEZ_CRASH_AT";

/// A program and where it listens. Killed when dropped.
pub(crate) struct Process {
    program: Program,
    child: Option<Child>,
}

/// How a program is started.
pub(crate) struct Program {
    pub(crate) binary: PathBuf,
    pub(crate) folder: PathBuf,
    /// For its log, and for people.
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    /// All but where it listens.
    pub(crate) arguments: Vec<String>,
}

/// How a process was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Alive,
    /// At a point it was told to die at.
    DiedAtThePoint,
    /// By itself, or by somebody else's hand.
    DiedOtherwise(i32),
}

impl Process {
    /// A program that is not started yet.
    pub(crate) const fn new(program: Program) -> Self {
        Self { program, child: None }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.program.address
    }

    /// Starts it and waits until it is ready. `crash_at`: where it is to die.
    pub(crate) fn start(&mut self, crash_at: Option<&str>) -> Result<(), Failure> {
        self.kill();
        let mut failure = Failure::lacking("never started");
        for _ in 0..STARTS_MAX {
            match self.program.spawn(crash_at) {
                Ok(child) => {
                    self.child = Some(child);
                    return Ok(());
                }
                Err(reason) => failure = reason,
            }
            pause(Duration::from_millis(250));
        }
        Err(failure)
    }

    /// SIGKILL, from outside, at whatever moment this is.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may be dead already; either way nothing is left of it afterwards.
            child.kill().ok();
            child.wait().ok();
        }
    }

    pub(crate) fn look(&mut self) -> Found {
        let Some(child) = &mut self.child else { return Found::DiedOtherwise(0) };
        match child.try_wait() {
            Ok(None) => Found::Alive,
            Ok(Some(status)) if status.signal() == Some(SIGABRT) => Found::DiedAtThePoint,
            Ok(Some(status)) => Found::DiedOtherwise(status.into_raw()),
            Err(_) => Found::DiedOtherwise(0),
        }
    }

    /// The end of what it logged.
    pub(crate) fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.program.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Program {
    fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }

    fn spawn(&self, crash_at: Option<&str>) -> Result<Child, Failure> {
        let log = File::options().create(true).append(true).open(self.log());
        let log = log.map_err(|error| Failure::file("open", &self.log(), &error))?;
        let mut command = Command::new(&self.binary);
        // What is set for the person's own service is not meant for this one.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("UNAVEZ_"))
        {
            command.env_remove(name);
        }
        if let Some(crash_at) = crash_at {
            command.env(CRASH_AT, crash_at);
        }
        let mut child = command
            .args(&self.arguments)
            .args(["--listen", &self.address.to_string()])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| Failure::lacking(format!("cannot run {}: {error}", self.binary.display())))?;
        match ready(&mut child) {
            Ok(()) => Ok(child),
            Err(said) => {
                child.kill().ok();
                child.wait().ok();
                Err(Failure::lacking(format!("{} is not ready: {said:?}", self.name)))
            }
        }
    }
}

/// Waits for the line that says that it listens, and goes on reading so that the process can go on printing.
fn ready(child: &mut Child) -> Result<(), String> {
    let stdout = child.stdout.take().expect("its output was asked for");
    let mut stdout = BufReader::new(stdout);
    let mut first = String::new();
    stdout.read_line(&mut first).map_err(|error| error.to_string())?;
    if !first.starts_with("listening on http://") {
        return Err(first);
    }
    std::thread::spawn(move || std::io::copy(&mut stdout.by_ref(), &mut std::io::sink()));
    Ok(())
}

/// Ports below those that systems give to outgoing connections: such a one could take the port of a program while it is
/// dead, and keep it.
const PORTS: std::ops::Range<u16> = 10_000..32_000;

/// A port that is free now. It is fixed for a program's whole life, since what the other one is told to connect to must
/// not change when it dies.
pub(crate) fn free_address() -> Result<SocketAddr, Failure> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let all = u32::from(PORTS.end - PORTS.start);
    // Runs at the same time begin at different places.
    let first = std::process::id().wrapping_mul(97);
    for _ in 0..all {
        let place = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % all;
        let port = PORTS.start + u16::try_from(place).expect("below the number of ports");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(Failure::lacking(format!("no free port from {} to {}", PORTS.start, PORTS.end - 1)))
}

/// The binary, out of the way of whoever builds the next one meanwhile.
pub(crate) fn copy_of(binary: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    let copy = folder.join(binary.file_name().expect("a binary has a name"));
    std::fs::copy(binary, &copy).map_err(|error| Failure::file("copy", binary, &error))?;
    Ok(copy)
}

/// Between two looks at something that happens in another process.
#[expect(
    clippy::disallowed_methods,
    reason = "processes are looked at, and a thread of the harness is no worker"
)]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_each_another_and_none_of_an_outgoing_connection() {
        let (one, other) = (free_address().unwrap(), free_address().unwrap());
        assert_ne!(one, other);
        for address in [one, other] {
            assert!(PORTS.contains(&address.port()), "{address}");
            TcpListener::bind(address).unwrap();
        }
    }
}
