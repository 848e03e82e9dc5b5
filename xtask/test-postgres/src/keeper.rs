//! The shell beside a test program that starts its server, and stops it when the program is gone.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};

use crate::cluster::Cluster;

/// The word that ends a keeper whose server was killed, and leaves the files.
const LEAVE: &str = "leave";

/// `$1`: the folder of the programs, `$2`: the server's folder. The server is the shell's own child, because a killed one
/// must be waited for: its files stay locked as long as its id is taken. Its memory stays taken until the last of its
/// children has noticed, so a start is tried again for a while. Then waits for a word or for the end of the pipe.
const SCRIPT: &str = r#"
tries=40
while [ $tries -gt 0 ]; do
    "$1/postgres" -D "$2/data" >>"$2/log" 2>&1 </dev/null &
    server=$!
    until "$1/pg_isready" --quiet --host "$2"; do
        kill -0 $server 2>/dev/null || break
        sleep 0.03
    done
    kill -0 $server 2>/dev/null && break
    tries=$((tries - 1))
    sleep 0.05
done
[ $tries -gt 0 ] && echo up || echo down
read -r word
[ "$word" = leave ] || kill -QUIT $server 2>/dev/null
wait $server
[ "$word" = leave ] || rm -rf "$2"
"#;

#[derive(Debug)]
pub(crate) struct Keeper(Child);

impl Keeper {
    pub(crate) fn start(cluster: &Cluster) -> Self {
        Self::of(cluster, SCRIPT)
    }

    /// Runs a script that says `up` or `down`, and ends with its input.
    pub(crate) fn of(cluster: &Cluster, script: &str) -> Self {
        let mut shell = cluster.command("sh");
        shell.args(["-c", script, "sh"]).arg(cluster.programs()).arg(&cluster.folder);
        // In a group of its own: a signal that ends the tests would take the keeper along, and leave the folder.
        shell.process_group(0);
        // Whoever reads this program's output must not wait for the keeper.
        let spawned = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut keeper = spawned.expect("every system has `sh`");
        let mut said = String::new();
        let answers = keeper.stdout.as_mut().expect("it is piped");
        BufReader::new(answers).read_line(&mut said).expect("the pipe is ours");
        if said.trim() != "up" {
            panic!(
                "it does not start: {}",
                fs::read_to_string(cluster.folder.join("log")).unwrap_or_default()
            );
        }
        Self(keeper)
    }

    /// Ends the keeper of a killed server, and not before that has ended.
    pub(crate) fn leave(mut self) {
        let pipe = self.0.stdin.as_mut().expect("it is piped");
        writeln!(pipe, "{LEAVE}").expect("the keeper reads");
        self.0.wait().expect("the keeper is ours");
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Closes the pipe, which is the keeper's sign.
        drop(self.0.stdin.take());
        self.0.wait().ok();
    }
}
