//! Starts the binary and talks to it.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::Value;

/// Tenfold of what anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The binary in an environment of its own: no variables and no file of whoever runs the tests.
pub(crate) fn unavez(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unavez"));
    command.current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let ours = name.to_str().is_some_and(|name| name.starts_with("UNAVEZ_"));
        if ours
            || ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES"]
                .iter()
                .any(|other| name == *other)
        {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command to its end.
pub(crate) fn run<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Ran {
    Ran::new(unavez(folder).args(arguments).output().unwrap())
}

/// A command that ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn new(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Checks the exit code and that standard error says all of this.
    #[track_caller]
    pub(crate) fn fails_with(&self, code: i32, said: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.stdout, "", "failures go to standard error");
        for part in said {
            assert!(self.stderr.contains(part), "{part:?} is not said: {self:?}");
        }
    }

    /// The one JSON document on standard output of a command that ended so.
    #[track_caller]
    pub(crate) fn json(&self, code: i32) -> Value {
        assert_eq!(self.code, Some(code), "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A running `unavez serve` or `unavez acquirer`. Killed when dropped.
pub(crate) struct Serve {
    child: Child,
    pub(crate) address: SocketAddr,
    stdout: BufReader<ChildStdout>,
    log: Receiver<String>,
}

impl Serve {
    /// Starts on any free port with a database in the folder, and waits until it is ready.
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    pub(crate) fn start_with(folder: &Path, flags: &[&str]) -> Self {
        Self::ready(Self::spawn(folder, flags))
    }

    /// Starts `unavez acquirer` on any free port, and waits until it is ready.
    pub(crate) fn acquirer(folder: &Path, flags: &[&str]) -> Self {
        Self::ready(spawn(folder, "acquirer", flags))
    }

    fn ready(mut child: Child) -> Self {
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        stdout.read_line(&mut first).unwrap();
        let Some(address) =
            first.trim_end().strip_prefix("listening on http://").and_then(|it| it.parse().ok())
        else {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("not ready: {first:?} {said}");
        };
        let log = drained(child.stderr.take().unwrap());
        Self { child, address, stdout, log }
    }

    /// Starts without waiting for anything.
    pub(crate) fn spawn(folder: &Path, flags: &[&str]) -> Child {
        spawn(folder, "serve", flags)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line on standard output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Waits for a line of the log that holds this; the line.
    #[track_caller]
    pub(crate) fn logs(&self, part: &str) -> String {
        self.log.iter().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part:?} is not logged"))
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits for the end; the exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// SIGTERM, and the exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal("TERM");
        self.ended()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// A charge under a key.
    pub(crate) fn charge(&self, key: &str, order: &str) -> Answer {
        let key = format!("Idempotency-Key: {key}");
        send(self.address, "POST", "/v1/charges", &[&key], Some(&order_body(order)))
            .expect("the service answers")
    }

    pub(crate) fn get(&self, path: &str, headers: &[&str]) -> Answer {
        send(self.address, "GET", path, headers, None).expect("the service answers")
    }
}

fn spawn(folder: &Path, command: &str, flags: &[&str]) -> Child {
    let anywhere: &[&str] = if flags.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
    unavez(folder)
        .arg(command)
        .args(anywhere)
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

impl Drop for Serve {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a pipe as it fills, so that whoever writes it never waits.
fn drained(pipe: ChildStderr) -> Receiver<String> {
    let (lines, log) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            // Nobody has to be listening any more.
            let _ = lines.send(line);
        }
    });
    log
}

pub(crate) fn order_body(order: &str) -> String {
    serde_json::json!({"order_id": order, "amount": 2500, "currency": "EUR"}).to_string()
}

pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {pid}")).status().unwrap();
    assert!(sent.success(), "SIG{name} to {pid}");
}

/// Sends the signal once the process has a handler for it, so that it does not meet the default.
pub(crate) fn signal_when_caught(pid: u32, name: &str) {
    let number = match name {
        "INT" => 2,
        "TERM" => 15,
        other => panic!("the number of SIG{other} is not known here"),
    };
    let is_caught = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(mask, 16).unwrap() >> (number - 1) & 1 == 1
    };
    while !is_caught() {
        std::thread::yield_now();
    }
    signal(pid, name);
}

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// One request on a connection of its own; `None` if it was cut off before the answer was complete.
pub(crate) fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[&str],
    body: Option<&str>,
) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for header in headers {
        request.push_str(header);
        request.push_str("\r\n");
    }
    if let Some(body) = body {
        if !headers.iter().any(|header| header.to_lowercase().starts_with("content-type:")) {
            request.push_str("Content-Type: application/json\r\n");
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    } else {
        request.push_str("\r\n");
    }
    stream.write_all(request.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    parse(&String::from_utf8(bytes).ok()?)
}

fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let header =
        |name: &str| headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
    let body = match (header("content-length"), header("transfer-encoding")) {
        (Some(length), _) => body.get(..length.parse().ok()?)?.to_owned(),
        (None, Some("chunked")) => dechunked(body)?,
        _ => body.to_owned(),
    };
    Some(Answer { status, headers, body })
}

fn dechunked(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.push_str(after.get(..size)?);
        rest = after.get(size + 2..)?;
    }
}

/// A throw-away folder.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}
