//! The shell beside a test program that starts its server, and stops it when the program is gone.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The word that ends a keeper whose server was killed, and leaves the files.
const LEAVE: &str = "leave";

/// `$1`: the server's program, `$2`: its folder. The server is the shell's own child, because a killed one must be waited
/// for. Says the server's process id once it answers, then waits for a word or for the end of the pipe.
const SCRIPT: &str = r#"
cd "$2" || exit
"$1" "$2/redis.conf" >>"$2/log" 2>&1 </dev/null &
server=$!
until [ "$(redis-cli -s "$2/socket" PING 2>/dev/null)" = PONG ]; do
    kill -0 $server 2>/dev/null || { echo down; break; }
    sleep 0.03
done
echo $server
read -r word
[ "$word" = leave ] || kill -KILL $server 2>/dev/null
wait $server
cd /
[ "$word" = leave ] || rm -rf "$2"
"#;

#[derive(Debug)]
pub(crate) struct Keeper {
    shell: Child,
    server: String,
}

impl Keeper {
    pub(crate) fn start(folder: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh", program()]).arg(folder).env("LC_ALL", "C");
        // In a group of its own: a signal that ends the tests would take the keeper along, and leave the folder.
        command.process_group(0);
        // Whoever reads this program's output must not wait for the keeper.
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut shell = spawned.expect("every system has `sh`");
        let mut said = String::new();
        let answers = shell.stdout.as_mut().expect("it is piped");
        BufReader::new(answers).read_line(&mut said).expect("the pipe is ours");
        if said.trim().parse::<u32>().is_err() {
            panic!("it does not start: {}", fs::read_to_string(folder.join("log")).unwrap_or_default());
        }
        Self { shell, server: said.trim().to_owned() }
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(&self.server).status();
        assert!(sent.expect("every system has `kill`").success(), "{name} to {}", self.server);
    }

    /// Kills the server, and ends not before it has ended.
    pub(crate) fn kill(mut self) {
        self.signal("KILL");
        let pipe = self.shell.stdin.as_mut().expect("it is piped");
        writeln!(pipe, "{LEAVE}").expect("the keeper reads");
        self.shell.wait().expect("the keeper is ours");
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Closes the pipe, which is the keeper's sign.
        drop(self.shell.stdin.take());
        self.shell.wait().ok();
    }
}

/// # Panics
/// Where there is none, with what to install.
fn program() -> &'static str {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &&str| env::split_paths(&path).any(|folder| folder.join(name).exists());
    let found = ["redis-server", "valkey-server"].into_iter().find(is_there);
    found.expect("Redis is not installed (on Debian: apt-get install redis-server)")
}
