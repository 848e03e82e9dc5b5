//! A Redis server for one test program, from the binary of Debian's package `redis-server`, or of Valkey where that is what
//! `PATH` has.
//!
//! 1. A program has one server, [`Server::shared`], and a test a database of its own in it, [`Server::database`]. Tests that
//!    kill or reconfigure a server start their own.
//! 2. Nothing is left behind, however the program ends: a shell beside it holds the other end of a pipe, and when that
//!    breaks it stops the server and removes its folder.
//! 3. It listens on a socket in that folder alone, so no port is taken and nobody else is disturbed. The nodes of a
//!    [`Cluster`] must have ports; they take free ones of the loopback address.
//! 4. Every write is in its file before it is answered, as what is tested requires.
//!
//! ```no_run
//! let database = test_redis::Server::shared().database();
//! assert_eq!(database.query(&["ECHO", "hello"]), "hello");
//! ```

mod cluster;
mod keeper;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub use cluster::Cluster;
use keeper::Keeper;

/// Databases are numbers, and a test program has as many tests.
const SETTINGS: &str = "
port 0
databases 1024
save \"\"
appendonly yes
appendfsync always
maxmemory-policy noeviction
";

/// A running server. Dropping it stops it and removes its folder.
#[derive(Debug)]
pub struct Server {
    folder: PathBuf,
    keeper: Mutex<Option<Keeper>>,
    databases: AtomicU32,
}

impl Server {
    /// The server of this program.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&[]))
    }

    /// A server of one's own, with further lines for `redis.conf`.
    ///
    /// # Panics
    /// Where Redis is not installed or does not start, with its own words.
    pub fn start(settings: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("unavez-redis-").tempdir_in("/tmp");
        let folder = folder.expect("a temporary folder can be made").keep();
        let place = format!("dir {0}\nunixsocket {0}/socket\n", folder.display());
        let text = [SETTINGS, &place, &settings.join("\n"), "\n"].concat();
        fs::write(folder.join("redis.conf"), text).expect("the folder is ours");
        let keeper = Keeper::start(&folder);
        Self { folder, keeper: Mutex::new(Some(keeper)), databases: AtomicU32::new(0) }
    }

    /// An empty database.
    pub fn database(&self) -> Database<'_> {
        Database { server: self, number: self.databases.fetch_add(1, Ordering::Relaxed) }
    }

    /// Kills the server at once, as a failing machine does. What was synced stays.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill(&self) {
        self.keeper().take().expect("the server runs").kill();
    }

    /// Starts the server again after [`Server::kill`], on the same files.
    ///
    /// # Panics
    /// If it runs, or does not start.
    pub fn start_again(&self) {
        let mut keeper = self.keeper();
        assert!(keeper.is_none(), "the server runs");
        *keeper = Some(Keeper::start(&self.folder));
    }

    /// Stops the server's process without ending it, until [`Server::wake`]: connections stand, and nothing answers.
    ///
    /// # Panics
    /// If it does not run.
    pub fn freeze(&self) {
        self.keeper().as_ref().expect("the server runs").signal("STOP");
    }

    /// See [`Server::freeze`].
    ///
    /// # Panics
    /// If it does not run.
    pub fn wake(&self) {
        self.keeper().as_ref().expect("the server runs").signal("CONT");
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// The folder of all its files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn keeper(&self) -> MutexGuard<'_, Option<Keeper>> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One database of a server.
#[derive(Debug)]
pub struct Database<'s> {
    server: &'s Server,
    number: u32,
}

impl Database<'_> {
    /// Its connection string.
    pub fn url(&self) -> String {
        format!("redis+unix://{}?db={}", self.server.socket().display(), self.number)
    }

    /// Runs a command and returns the answer as `redis-cli` prints it.
    ///
    /// # Panics
    /// If the server refuses, with its words.
    pub fn query(&self, command: &[&str]) -> String {
        let number = self.number.to_string();
        let mut client = Command::new("redis-cli");
        client.arg("-s").arg(self.server.socket()).args(["-e", "-n", &number]).args(command);
        ran(&mut client)
    }
}

/// The output of a client that has to succeed.
fn ran(client: &mut Command) -> String {
    let ran =
        client.output().expect("redis-cli comes with the server (on Debian: apt-get install redis-server)");
    assert!(ran.status.success(), "{client:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_server_comes_back_with_what_was_written_and_leaves_no_folder() {
        let server = Server::start(&["maxmemory 64mb"]);
        let (database, other) = (server.database(), server.database());
        assert_eq!(database.query(&["CONFIG", "GET", "maxmemory"]), "maxmemory\n67108864");
        database.query(&["SET", "a", "7"]);
        server.kill();
        server.start_again();
        assert_eq!(database.query(&["GET", "a"]), "7");
        assert_eq!(other.query(&["GET", "a"]), "");

        let folder = server.folder().to_owned();
        drop(server);
        assert!(!folder.exists(), "{} is still there", folder.display());
    }

    #[test]
    fn three_masters_share_the_slots() {
        let cluster = Cluster::start();
        let info = cluster.query(&["CLUSTER", "INFO"]);
        assert!(info.contains("cluster_state:ok") && info.contains("cluster_size:3"), "{info}");
    }
}
