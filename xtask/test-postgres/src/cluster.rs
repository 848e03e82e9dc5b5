//! The files of a server, the programs that make and run it, and the user they run as.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set for a life of seconds: little to write at the start, nothing in the background.
const SETTINGS: &str = "
listen_addresses = ''
shared_buffers = '64MB'
max_wal_size = '1GB'
min_wal_size = '2MB'
wal_level = 'minimal'
max_wal_senders = 0
autovacuum_naptime = '5s'
";

/// Where the programs of the newest installed version are.
#[derive(Clone, Debug)]
pub struct Binaries(PathBuf);

impl Binaries {
    /// Debian's folders first, then what `PATH` has.
    ///
    /// # Panics
    /// Where there is none, with what to install.
    pub fn find() -> Self {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let debian = versions.map(|version| version.path().join("bin"));
        let others = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>());
        let mut found: Vec<PathBuf> = debian.filter(|folder| folder.join("initdb").exists()).collect();
        found.sort();
        let elsewhere = || others?.into_iter().find(|folder| folder.join("initdb").exists());
        let newest = found.pop().or_else(elsewhere);
        Self(newest.expect("PostgreSQL is not installed (on Debian: apt-get install postgresql)"))
    }

    fn program(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        if path.exists() { path } else { PathBuf::from(name) }
    }

    /// The version, as the folder of it is called.
    fn version(&self) -> String {
        let folder = self.0.parent().and_then(Path::file_name);
        folder.map_or_else(|| "installed".to_owned(), |name| name.to_string_lossy().into_owned())
    }
}

/// Who runs the server.
#[derive(Clone, Copy, Debug)]
pub enum User {
    /// Whoever runs the test.
    Caller,
    /// The user of PostgreSQL's package, because the caller is root.
    Postgres {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
    },
}

impl User {
    fn of_caller() -> Self {
        let id = Command::new("id").arg("-u").output().expect("every system has `id`").stdout;
        if String::from_utf8_lossy(&id).trim() != "0" {
            return Self::Caller;
        }
        let users = fs::read_to_string("/etc/passwd").expect("the user of PostgreSQL is a local one");
        let line = users.lines().find(|line| line.starts_with("postgres:"));
        let fields: Vec<&str> = line.expect("the package made the user `postgres`").split(':').collect();
        let number = |at: usize| fields[at].parse().expect("ids are numbers");
        Self::Postgres { uid: number(2), gid: number(3) }
    }

    fn owns(self, path: &Path) {
        if let Self::Postgres { uid, gid } = self {
            chown(path, Some(uid), Some(gid)).expect("root may give files away");
        }
    }

    fn owns_all(self, folder: &Path) {
        self.owns(folder);
        for entry in fs::read_dir(folder).expect("the folder was just made") {
            let path = entry.expect("the folder is readable").path();
            if path.is_dir() { self.owns_all(&path) } else { self.owns(&path) }
        }
    }
}

/// The files of one server.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) folder: PathBuf,
    user: User,
    binaries: Binaries,
}

impl Cluster {
    pub(crate) fn create(settings: &[&str]) -> Self {
        let (user, binaries) = (User::of_caller(), Binaries::find());
        let cluster = Self { folder: new_folder(user), user, binaries };
        copy(&cluster.template(), &cluster.data());
        let conf = cluster.data().join("postgresql.conf");
        let socket = format!("unix_socket_directories = '{}'", cluster.folder.display());
        let text = [SETTINGS, &socket, "\n", &settings.join("\n"), "\n"].concat();
        fs::write(conf, text).expect("the folder is ours");
        user.owns_all(&cluster.data());
        cluster
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// A program as the server's user.
    pub(crate) fn command(&self, program: &str) -> Command {
        command(self.user, &self.binaries, program)
    }

    pub(crate) fn programs(&self) -> &Path {
        &self.binaries.0
    }

    /// `initdb` takes a second, a copy of what it made none: it is kept beside the test programs.
    fn template(&self) -> PathBuf {
        let kept = programs_folder().join(format!("postgres-template-{}", self.binaries.version()));
        if kept.exists() {
            return kept;
        }
        let made = self.folder.join("template");
        let mut initdb = self.command("initdb");
        initdb.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"]);
        initdb.args(["--wal-segsize=1", "--pgdata"]).arg(&made);
        let ran = initdb.output().expect("initdb is in the server's package");
        assert!(ran.status.success(), "initdb: {}", String::from_utf8_lossy(&ran.stderr));
        // Several programs may do this at once: whichever renames first is taken by all.
        let staged = tempfile::tempdir_in(programs_folder()).expect("cargo's folder is ours").keep();
        copy(&made, &staged.join("data"));
        if fs::rename(staged.join("data"), &kept).is_err() {
            assert!(kept.exists(), "{} cannot be made", kept.display());
        }
        fs::remove_dir_all(&staged).expect("it was just made");
        fs::remove_dir_all(&made).expect("it was just made");
        kept
    }

    /// Kills the server's first process and all its children.
    pub(crate) fn kill(&self) {
        let pid_file = fs::read_to_string(self.data().join("postmaster.pid")).expect("the server runs");
        let first = pid_file.lines().next().expect("its first line is the process id").to_owned();
        let children = children_of(&first);
        // One of them may have ended by itself meanwhile.
        Command::new("kill").arg("-9").arg(&first).args(&children).output().expect("every system has `kill`");
    }
}

fn command(user: User, binaries: &Binaries, program: &str) -> Command {
    let mut command = Command::new(binaries.program(program));
    if let User::Postgres { uid, gid } = user {
        command.uid(uid).gid(gid);
    }
    command.current_dir("/").env("LC_ALL", "C");
    command
}

/// Short, because a socket's path may have 107 bytes.
fn new_folder(user: User) -> PathBuf {
    let folder = tempfile::Builder::new().prefix("unavez-pg-").tempdir_in("/tmp");
    let folder = folder.expect("a temporary folder can be made").keep();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("the folder is ours");
    user.owns(&folder);
    folder
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-r", "--"]).arg(from).arg(to).status();
    assert!(copied.expect("every system has `cp`").success());
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).expect("the folder is ours");
}

/// Where cargo put this program; tests lie one level deeper.
fn programs_folder() -> PathBuf {
    let program = env::current_exe().expect("a running program has a path");
    let folder = program.parent().expect("a program lies in a folder");
    if folder.ends_with("deps") { folder.parent().unwrap_or(folder).to_owned() } else { folder.to_owned() }
}

fn children_of(parent: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("the tests of crashes need /proc").flatten();
    let ids = processes.map(|process| process.file_name().to_string_lossy().into_owned());
    ids.filter(|id| parent_of(id).as_deref() == Some(parent)).collect()
}

/// The second field after the name in parentheses, which may itself hold anything.
fn parent_of(id: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1).map(str::to_owned)
}
