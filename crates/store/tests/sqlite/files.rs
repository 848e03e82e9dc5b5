//! Opening: who owns the file, what is refused, and what a restart finds (P8, C26, C53).

use std::fs;
use std::process;
use std::sync::mpsc;
use std::time::Duration;

use unavez_core::answer::Content;
use unavez_core::identity::Realm;
use unavez_core::record::{Change, State};
use unavez_store::sqlite::{Component, Location, Migrate, Migration, OpenError, Options, SqliteStore};
use unavez_store::{Store, StoreError, Swap};

use crate::support::{Folder, claim, finish, finished, forgetful, id, load, nothing_happened, swapped};

/// The error of an opening, with the folder's name taken out.
fn refusal(folder: &Folder, options: Options) -> String {
    let error = folder.open(options).map(drop).unwrap_err().to_string();
    error.replace(&fs::canonicalize(folder.database()).unwrap().display().to_string(), "FILE")
}

#[tokio::test]
async fn a_second_owner_waits_and_is_told_the_pid() {
    let folder = Folder::new();
    let store = folder.open(Options::default()).unwrap();
    let pid = process::id();
    assert_eq!(refusal(&folder, Options::default()), format!("database FILE is owned by process {pid}"));

    let (heard, hears) = mpsc::channel();
    let options = Options {
        lock_wait: Duration::from_secs(60),
        on_lock_wait: Box::new(move |pid| heard.send(pid).unwrap()),
        ..Options::default()
    };
    let database = folder.database();
    let second = std::thread::spawn(move || SqliteStore::open(Location::File(database), options).map(drop));
    assert_eq!(hears.recv().unwrap(), Some(pid));
    store.close().await;
    second.join().unwrap().unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn p23_a_new_database_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let store = folder.open(Options::default()).unwrap();
    finished(&store, "k1").await;
    for suffix in ["", "-wal", "-shm"] {
        let file = format!("{}{suffix}", folder.database().display());
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn p8_a_second_name_or_a_deleted_lock_file_makes_no_second_owner() {
    let folder = Folder::new();
    let store = folder.open(Options::default()).unwrap();
    let pid = process::id();
    fs::remove_file(format!("{}.lock", folder.database().display())).unwrap();
    assert_eq!(
        refusal(&folder, Options::default()),
        "database FILE is owned by another process",
        "the lock is on the file, and {pid} holds it"
    );

    let beside = Folder::new();
    fs::hard_link(folder.database(), beside.database()).unwrap();
    let linked = refusal(&beside, Options::default());
    assert!(linked.starts_with("database FILE has 2 names (hard links), allowed: 1"), "{linked}");
    fs::remove_file(beside.database()).unwrap();
    store.close().await;
    folder.open(Options::default()).map(drop).unwrap();
}

#[tokio::test]
async fn an_overtaken_writer_never_writes_again() {
    let folder = Folder::new();
    let store = folder.open(Options::default()).unwrap();
    finished(&store, "k1").await;
    // What a second owner does on a file system whose locks do not hold.
    folder.beside().execute("update unavez_store set epoch = epoch + 1", []).unwrap();
    for key in ["k2", "k3"] {
        let refused = store.swap(id(key), None, Change::Claim(claim(key, 1))).await;
        assert!(nothing_happened(&refused), "{refused:?}");
        assert!(refused.unwrap_err().to_string().ends_with("another process has taken the database over"));
    }
    let count: i64 =
        folder.beside().query_row("select count(*) from idempotency_records", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1);
}

#[tokio::test]
async fn c26_a_restart_forgets_nothing() {
    let folder = Folder::new();
    let store = folder.open(Options::default()).unwrap();
    let done = finished(&store, "done").await;
    let running = swapped(&store, "running", None, Change::Claim(claim("running", 1))).await;
    let realm = store.realm().clone();
    drop(store);

    let store = folder.open(Options::default()).unwrap();
    assert_eq!(store.realm(), &realm);
    assert_eq!(load(&store, "done").await.as_ref(), Some(&done));
    let repeat = store.swap(id("done"), None, Change::Claim(claim("done", 2))).await.unwrap();
    assert!(matches!(repeat, Swap::Conflict { record: Some(standing), .. } if standing == done));
    swapped(&store, "running", Some(running.fence), Change::Finish(finish("late"))).await;
}

#[tokio::test]
async fn c53_bodies_are_the_same_bytes_in_the_file() {
    let folder = Folder::new();
    let bodies: [&[u8]; 6] =
        [b"", b"null", b"\x00\xff\xfe\x0a", b"\xc3\x28", b"{\"b\":1, \"a\":1.0}", b"'\"\\"];
    let store = folder.open(Options::default()).unwrap();
    for (number, body) in (0..).zip(bodies) {
        let key = format!("k{number}");
        let fence = swapped(&store, &key, None, Change::Claim(claim(&key, 1))).await.fence;
        swapped(&store, &key, Some(fence), Change::Finish(finish(body))).await;
    }
    store.close().await;

    let store = folder.open(Options::default()).unwrap();
    let beside = folder.beside();
    for (number, body) in (0..).zip(bodies) {
        let key = format!("k{number}");
        let stored: Vec<u8> = beside
            .query_row("select body from idempotency_records where key = ?1", [&key], |row| row.get(0))
            .unwrap();
        assert_eq!(stored, body, "{key}");
        let record = load(&store, &key).await.unwrap();
        let State::Finished { answer, .. } = &record.state else { panic!("{record:?}") };
        assert!(matches!(&answer.content, Content::Kept { body: replayed, .. } if replayed == body), "{key}");
    }
}

#[tokio::test]
async fn a_row_that_does_not_read_back_is_an_error_and_never_a_free_key() {
    let folder = Folder::new();
    let store = folder.open(forgetful(Options::default())).unwrap();
    finished(&store, "k1").await;
    let newer = folder.beside();
    newer
        .execute_batch(
            "pragma ignore_check_constraints = on; update idempotency_records set conclusion = 'novel'",
        )
        .unwrap();
    let read = store.load(id("k1")).await;
    assert!(
        matches!(&read, Err(StoreError::Unavailable(why)) if why.contains("unknown word `novel`")),
        "{read:?}"
    );
    let repeat = store.swap(id("k1"), None, Change::Claim(claim("k1", 2))).await;
    assert!(nothing_happened(&repeat), "{repeat:?}");
}

#[test]
fn realms_are_random_unless_named_and_never_change() {
    let (one, two) = (Folder::new(), Folder::new());
    let realm_of = |folder: &Folder| folder.open(Options::default()).unwrap().realm().as_str().to_owned();
    assert_ne!(realm_of(&one), realm_of(&two));
    let named = |name| Options { realm: Some(Realm::parse(name).unwrap()), ..Options::default() };
    let stored = realm_of(&one);
    assert_eq!(refusal(&one, named("eu")), format!("database FILE belongs to realm {stored}, not to eu"));

    let three = Folder::new();
    assert_eq!(three.open(named("eu")).unwrap().realm().as_str(), "eu");
    assert_eq!(three.open(named("eu")).unwrap().realm().as_str(), "eu");
    assert_eq!(realm_of(&three), "eu");
}

#[test]
fn files_that_cannot_be_used_are_refused_by_what_is_wrong_with_them() {
    let folder = Folder::new();
    fs::write(folder.database(), [b'x'; 10_000]).unwrap();
    assert_eq!(refusal(&folder, Options::default()), "FILE is not a sqlite database");

    let folder = Folder::new();
    drop(folder.open(Options::default()).unwrap());
    let whole = fs::read(folder.database()).unwrap();
    fs::write(folder.database(), &whole[..whole.len() / 2]).unwrap();
    assert!(refusal(&folder, Options::default()).starts_with("database FILE is corrupt: "));

    let folder = Folder::new();
    let tiny = Options { file_bytes_max: Some(8192), ..Options::default() };
    assert_eq!(refusal(&folder, tiny), "cannot write FILE: disk or file limit is full");

    let nowhere = SqliteStore::open(Location::File("/nowhere/a.db".into()), Options::default());
    assert!(matches!(nowhere, Err(OpenError::Io { .. })));
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_written_is_read_only() {
    // Nobody can create a file there, not even root.
    let refused = SqliteStore::open(Location::File("/sys/unavez.db".into()), Options::default());
    assert!(matches!(refused, Err(OpenError::ReadOnly { .. })), "{refused:?}");
}

const SHOP: &[Migration] =
    &[Migration { number: 1, name: "shop", sql: "create table shop_orders (id text primary key) strict" }];

#[tokio::test]
async fn migrations_of_a_component_are_applied_once_and_reported() {
    let folder = Folder::new();
    let options = |migrate| Options {
        migrate,
        components: vec![Component { name: "shop", migrations: SHOP, indexes: &[], guests: None }],
        ..Options::default()
    };
    let check = "database FILE is older than this program: migration 0 of store, needed 1";
    assert_eq!(refusal(&folder, options(Migrate::Check)), check);
    let report = |store: &SqliteStore| {
        store.migrations().iter().map(|it| (it.component.clone(), it.number, it.is_new)).collect::<Vec<_>>()
    };
    let store = folder.open(options(Migrate::Auto)).unwrap();
    assert_eq!(report(&store), [("store".into(), 1, true), ("shop".into(), 1, true)]);
    drop(store);
    let store = folder.open(options(Migrate::Check)).unwrap();
    assert_eq!(report(&store), [("store".into(), 1, false), ("shop".into(), 1, false)]);
    store.transaction(|tx| tx.execute("insert into shop_orders values ('o-1')", [])).await.unwrap();
    drop(store);

    let newer = "insert into unavez_migrations values ('store', 9, 'future', 'x', 0)";
    folder.beside().execute(newer, []).unwrap();
    let refused = refusal(&folder, Options::default());
    assert_eq!(refused, "database FILE is newer than this program: migration 9 of store, known up to 1");
}

#[test]
fn the_description_of_the_format_names_every_table_column_and_index() {
    let description = include_str!("../../../../docs/format.md");
    let folder = Folder::new();
    drop(folder.open(Options::default()).unwrap());
    let sql = "select name from sqlite_schema where name not like 'sqlite_%'
        union all
        select columns.name from sqlite_schema as tables, pragma_table_info(tables.name) as columns
        where tables.type = 'table'";
    let beside = folder.beside();
    let mut names = beside.prepare(sql).unwrap();
    let names: Vec<String> =
        names.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        assert!(description.contains(&format!("`{name}`")), "{name} is not described");
    }
}
