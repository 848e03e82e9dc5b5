//! A PostgreSQL server for one test program, from the binaries of Debian's package `postgresql`.
//!
//! 1. A program has one server, [`Server::shared`], and a test a database of its own in it, [`Server::database`]. Tests that
//!    kill or reconfigure a server start their own.
//! 2. Nothing is left behind, however the program ends: a shell beside it holds the other end of a pipe, and when that
//!    breaks it stops the server and removes its folder.
//! 3. It listens on a socket in that folder alone, so no port is taken and nobody else is disturbed.
//! 4. Root cannot run PostgreSQL: started by root it runs as the user `postgres`, which the package brings.
//! 5. `fsync` and `synchronous_commit` stay on, as what is tested requires them; the rest is set for a short life.
//!
//! ```no_run
//! let database = test_postgres::Server::shared().database();
//! assert_eq!(database.query("select 1 + 1"), "2");
//! ```

mod cluster;
mod keeper;
mod pooler;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub use cluster::{Binaries, User};
use keeper::Keeper;
pub use pooler::Pooler;

/// A running server. Dropping it stops it and removes its folder.
#[derive(Debug)]
pub struct Server {
    cluster: cluster::Cluster,
    keeper: Mutex<Option<Keeper>>,
    databases: AtomicU32,
}

impl Server {
    /// The server of this program.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&[]))
    }

    /// A server of one's own, with further lines for `postgresql.conf`.
    ///
    /// # Panics
    /// Where PostgreSQL is not installed or does not start, with its own words.
    pub fn start(settings: &[&str]) -> Self {
        let cluster = cluster::Cluster::create(settings);
        let keeper = Keeper::start(&cluster);
        Self { cluster, keeper: Mutex::new(Some(keeper)), databases: AtomicU32::new(0) }
    }

    /// Makes an empty database.
    ///
    /// # Panics
    /// If the server refuses.
    pub fn database(&self) -> Database<'_> {
        self.database_with(&[])
    }

    /// Makes an empty database in which every session begins with these settings, each as `name = value`.
    ///
    /// # Panics
    /// If the server refuses.
    pub fn database_with(&self, settings: &[&str]) -> Database<'_> {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let postgres = Database { server: self, name: "postgres".to_owned() };
        postgres.query(&format!("create database {name}"));
        for setting in settings {
            postgres.query(&format!("alter database {name} set {setting}"));
        }
        Database { server: self, name }
    }

    /// Kills every process of the server at once, as a failing machine does. What was synced stays.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill(&self) {
        let keeper = self.keeper().take().expect("the server runs");
        self.cluster.kill();
        keeper.leave();
    }

    /// Starts the server again after [`Server::kill`], on the same files.
    ///
    /// # Panics
    /// If it runs, or does not start.
    pub fn start_again(&self) {
        let mut keeper = self.keeper();
        assert!(keeper.is_none(), "the server runs");
        *keeper = Some(Keeper::start(&self.cluster));
    }

    /// The folder of its socket, which is also `host` in a connection string.
    pub fn folder(&self) -> &Path {
        &self.cluster.folder
    }

    /// Runs a program as the server's user, and from the server's package where it has one of that name.
    pub fn command(&self, program: &str) -> Command {
        self.cluster.command(program)
    }

    fn keeper(&self) -> MutexGuard<'_, Option<Keeper>> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One database of a server.
#[derive(Debug)]
pub struct Database<'s> {
    server: &'s Server,
    name: String,
}

impl Database<'_> {
    /// Its connection string.
    pub fn url(&self) -> String {
        self.url_at(5432)
    }

    fn url_at(&self, port: u16) -> String {
        let folder = self.server.folder().display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{folder}:{port}/{}", self.name)
    }

    /// Its name in the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs SQL in a session of its own and returns the rows, one a line, their columns divided by `|`.
    ///
    /// # Panics
    /// If a statement fails, with the server's words.
    pub fn query(&self, sql: &str) -> String {
        let mut psql = self.server.command("psql");
        psql.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]);
        psql.arg("--host").arg(self.server.folder()).args(["--username=postgres", "--dbname", &self.name]);
        let ran = psql.arg("--command").arg(sql).output().expect("psql is in the server's package");
        assert!(ran.status.success(), "{sql}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_server_comes_back_with_what_was_committed_and_leaves_no_folder() {
        let server = Server::start(&["work_mem = '5MB'"]);
        let database = server.database_with(&["default_transaction_isolation = 'serializable'"]);
        assert_eq!(database.query("show work_mem"), "5MB");
        assert_eq!(database.query("show transaction_isolation"), "serializable");
        database.query("create table t (x int); insert into t values (7)");
        server.kill();
        server.start_again();
        assert_eq!(database.query("select x from t"), "7");

        let folder = server.folder().to_owned();
        drop(server);
        assert!(!folder.exists(), "{} is still there", folder.display());
    }
}
