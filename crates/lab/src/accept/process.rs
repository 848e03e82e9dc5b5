//! `unavez serve` as a process of its own, to be killed.

use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::{Error, servers::throw_away_folder};

/// How long the process may take to say where it listens.
const START_TIMEOUT: Duration = Duration::from_secs(15);

/// A running `unavez serve` on a file in a folder that is thrown away. Killed when dropped.
pub(super) struct Process {
    executable: PathBuf,
    // Before the folder: fields are dropped in this order, and the process must not outlive its files.
    child: Child,
    folder: TempDir,
    /// Held, so that the process can go on printing.
    _output: Lines<BufReader<ChildStdout>>,
    authority: String,
}

impl Process {
    pub(super) async fn start(executable: &Path) -> Result<Self, Error> {
        let folder = throw_away_folder()?;
        let (child, output, authority) = spawn(executable, folder.path()).await?;
        Ok(Self { executable: executable.to_owned(), child, folder, _output: output, authority })
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Kills the process as hard as the system can, and starts another one on the same file.
    pub(super) async fn kill_and_start_again(&mut self) -> Result<(), Error> {
        self.child.kill().await.map_err(|error| Error::broken(format!("killing unavez serve: {error}")))?;
        let (child, output, authority) = spawn(&self.executable, self.folder.path()).await?;
        self.child = child;
        self._output = output;
        self.authority = authority;
        Ok(())
    }

    pub(super) async fn stop(mut self) {
        // Its folder is thrown away next: there is nothing to end in order.
        let _ = self.child.kill().await;
    }
}

/// Starts the process and waits for the line that says where it listens.
async fn spawn(
    executable: &Path,
    folder: &Path,
) -> Result<(Child, Lines<BufReader<ChildStdout>>, String), Error> {
    let failed = |what: String| Error::broken(format!("{} serve: {what}", executable.display()));
    let mut command = Command::new(executable);
    // What is set for the person's own service is not meant for this one.
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("UNAVEZ_")) {
        command.env_remove(name);
    }
    let mut child = command
        .args(["serve", "--listen", "127.0.0.1:0", "--acquirer", "ledger", "--store"])
        .arg(format!("sqlite:{}", folder.join("unavez.db").display()))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let stdout = child.stdout.take().expect("its output was asked for");
    let mut lines = BufReader::new(stdout).lines();
    let first = timeout(START_TIMEOUT, lines.next_line())
        .await
        .map_err(|_| failed(format!("said nothing for {} s", START_TIMEOUT.as_secs())))?
        .map_err(|error| failed(error.to_string()))?
        .ok_or_else(|| failed("ended without a word".into()))?;
    let authority = first
        .strip_prefix("listening on http://")
        .ok_or_else(|| failed(format!("said {first:?} instead of where it listens")))?
        .trim_end()
        .to_owned();
    Ok((child, lines, authority))
}
