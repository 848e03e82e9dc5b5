//! Copies: one snapshot, checked, named once it is whole, and put in a database's place.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use unavez_store::sqlite::{
    Copied, CopyError, DigestIndex, FindRows as _, IndexSpec, Location, OpenError, Options, Place, Progress,
    SqliteStore, Target, Watch, copy,
};

use crate::support::{BUSINESS, Folder, finished, forgetful, id, load};

fn watch() -> Watch {
    Watch { stop: Arc::default(), report: Box::new(|_| {}) }
}

fn rows(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("select count(*) from idempotency_records", [], |row| row.get(0))
}

fn copied(folder: &Folder, target: Target<'_>) -> Result<Copied<i64>, CopyError> {
    copy(&folder.database(), target, rows, &watch())
}

fn beside(folder: &Folder, name: &str) -> PathBuf {
    folder.database().with_file_name(name)
}

/// The names in the folder.
fn names(folder: &Folder) -> Vec<String> {
    let folder = folder.database();
    let entries = fs::read_dir(folder.parent().unwrap()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// An index that is filed late has its newest entries in memory alone. A copy holds the rows, and they are what a start
/// reads such entries from, wherever the filing stood when the copy was taken.
#[tokio::test]
async fn a_copy_finds_every_record_wherever_the_filing_of_its_index_stood() {
    let (folder, target) = (Folder::new(), Folder::new());
    let options = || forgetful(Options { unfiled_least: 4, ..Options::default() });
    let store = folder.open(options()).unwrap();
    let mut filed = Vec::new();
    for number in 0..30 {
        finished(&store, &format!("k{number}")).await;
        let name = beside(&target, &format!("copy-{number}.db"));
        let copied = copied(&folder, Target::File(&name)).unwrap();
        assert_eq!(copied.observed, number + 1);
        copied.keep().unwrap();
        let copy = SqliteStore::open(Location::File(name), options()).unwrap();
        for known in 0..=number {
            assert!(load(&copy, &format!("k{known}")).await.is_some(), "k{known} in copy {number}");
        }
        assert_eq!(load(&copy, &format!("k{}", number + 1)).await, None, "a copy knows nothing of later");
        filed.push(
            copy.read(|db| {
                db.query_row("select filed_to from unavez_indexes", [], |row| row.get::<_, i64>(0))
            })
            .await
            .unwrap(),
        );
    }
    filed.dedup();
    assert!(filed.len() > 2, "copies were taken before, between and after filings: {filed:?}");
}

#[tokio::test]
async fn what_commits_while_a_copy_is_taken_is_not_in_it() {
    let (folder, target) = (Folder::new(), Folder::new());
    let store = folder.open(Options::default()).unwrap();
    store.transaction(|tx| tx.execute_batch(BUSINESS)).await.unwrap();
    let charge = "insert into charges values (x'00', 5)";
    folder.beside().execute(charge, []).unwrap();
    let database = folder.database();
    let charges = |connection: &Connection| {
        connection.query_row("select count(*) from charges", [], |row| row.get::<_, i64>(0))
    };
    let commits = move |_| {
        Connection::open(&database).unwrap().execute(charge, []).unwrap();
    };
    let each = Watch { stop: Arc::default(), report: Box::new(commits) };
    let name = beside(&target, "copy.db");
    let copied = copy(&folder.database(), Target::File(&name), charges, &each);
    // The first report comes before the snapshot, the others while it is copied and checked.
    let copied = copied.unwrap();
    assert_eq!((copied.observed, copied.contents.rows_of("charges")), (2, 2));
    assert!(folder.charges() > 2, "the source went on");
    assert_eq!(&copied.contents.realm, store.realm());
}

#[cfg(unix)]
#[tokio::test]
async fn p23_a_copy_is_one_file_and_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, target) = (Folder::new(), Folder::new());
    let store = folder.open(Options::default()).unwrap();
    finished(&store, "k1").await;
    copied(&folder, Target::File(&target.database())).unwrap().keep().unwrap();
    assert_eq!(names(&target), ["a.db"]);
    let metadata = fs::metadata(target.database()).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(rows(&Connection::open(target.database()).unwrap()).unwrap(), 1);
    assert_eq!(names(&target), ["a.db"], "reading it leaves nothing beside it");
}

#[tokio::test]
async fn a_name_that_is_taken_is_never_overwritten() {
    let (folder, target) = (Folder::new(), Folder::new());
    let store = folder.open(Options::default()).unwrap();
    finished(&store, "k1").await;
    fs::write(target.database(), "precious").unwrap();
    let refused = copied(&folder, Target::File(&target.database()));
    assert!(matches!(&refused, Err(CopyError::Exists { path }) if *path == target.database()), "{refused:?}");

    let name = beside(&target, "late.db");
    let late = copied(&folder, Target::File(&name)).unwrap();
    let busy = copied(&folder, Target::File(&name));
    assert!(matches!(&busy, Err(CopyError::Busy { .. })), "{busy:?}");
    fs::write(&name, "came meanwhile").unwrap();
    assert!(matches!(late.keep(), Err(CopyError::Exists { .. })));
    assert_eq!(fs::read_to_string(&name).unwrap(), "came meanwhile");
    assert_eq!(fs::read_to_string(target.database()).unwrap(), "precious");
    assert_eq!(names(&target), ["a.db", "late.db"]);
}

#[tokio::test]
async fn a_copying_that_is_stopped_leaves_nothing() {
    let (folder, target) = (Folder::new(), Folder::new());
    let store = folder.open(Options::default()).unwrap();
    finished(&store, "k1").await;
    for moment in 0..3 {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopper, heard) = (Arc::clone(&stop), Cell::new(0));
        let report = move |_: Progress| {
            stopper.store(heard.get() >= moment, Ordering::Relaxed);
            heard.set(heard.get() + 1);
        };
        let watch = Watch { stop, report: Box::new(report) };
        let busy = |connection: &Connection| {
            let long = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) select max(i) from n";
            connection.query_row(long, [], |row| row.get::<_, i64>(0))
        };
        let stopped = copy(&folder.database(), Target::File(&target.database()), busy, &watch);
        assert!(matches!(stopped, Err(CopyError::Interrupted)), "at {moment}: {stopped:?}");
        assert!(names(&target).is_empty(), "at {moment}: {:?}", names(&target));
    }
    // What a killed one leaves is overwritten.
    fs::write(format!("{}.partial", target.database().display()), [b'x'; 100_000]).unwrap();
    copied(&folder, Target::File(&target.database())).unwrap().keep().unwrap();
    assert_eq!(names(&target), ["a.db"]);
}

#[tokio::test]
async fn a_source_that_is_damaged_or_something_else_is_refused() {
    let (folder, target) = (Folder::new(), Folder::new());
    let store = folder.open(Options::default()).unwrap();
    finished(&store, "k1").await;
    let beside = folder.beside();
    let broken = "pragma ignore_check_constraints = on; update idempotency_records set conclusion = 'novel'";
    beside.execute_batch(broken).unwrap();
    let refused = copied(&folder, Target::File(&target.database()));
    assert!(matches!(&refused, Err(CopyError::File(OpenError::Corrupt { .. }))), "{refused:?}");

    let other = Folder::new();
    fs::write(other.database(), [b'x'; 10_000]).unwrap();
    let refused = copied(&other, Target::File(&target.database()));
    assert!(matches!(&refused, Err(CopyError::File(OpenError::NotADatabase { .. }))), "{refused:?}");
    let refused = copied(&Folder::new(), Target::File(&target.database()));
    assert!(matches!(&refused, Err(CopyError::File(OpenError::Io { .. }))), "{refused:?}");
    assert!(names(&target).is_empty());
}

#[tokio::test]
async fn what_is_observed_of_the_copy_must_be_what_was_observed_of_the_snapshot() {
    let (folder, target) = (Folder::new(), Folder::new());
    let store = folder.open(Options::default()).unwrap();
    finished(&store, "k1").await;
    let other_each_time = Cell::new(0);
    let observe = |_: &Connection| {
        other_each_time.set(other_each_time.get() + 1);
        Ok(other_each_time.get())
    };
    let differs = copy(&folder.database(), Target::File(&target.database()), observe, &watch());
    assert!(matches!(&differs, Err(CopyError::Differs { what }) if what == "the books"), "{differs:?}");
    assert!(names(&target).is_empty());
}

fn hold(path: &Path) -> Result<Place, OpenError> {
    Place::hold(path, Duration::ZERO, &|_| {})
}

#[tokio::test]
async fn a_place_is_held_like_a_database_and_what_stood_there_is_kept_with_its_log() {
    let (folder, target) = (Folder::new(), Folder::new());
    let store = folder.open(Options::default()).unwrap();
    finished(&store, "new").await;

    let old = target.open(Options::default()).unwrap();
    finished(&old, "old").await;
    assert!(matches!(hold(&target.database()), Err(OpenError::Locked { pid: Some(_), .. })));
    // Its log is as a killed process leaves it.
    let killed = Folder::new();
    for suffix in ["", "-wal"] {
        let name = |folder: &Folder| format!("{}{suffix}", folder.database().display());
        fs::copy(name(&target), name(&killed)).unwrap();
    }
    let place = hold(&killed.database()).unwrap();
    assert!(place.is_taken());
    assert!(matches!(killed.open(Options::default()), Err(OpenError::Locked { .. })), "the place is held");
    let mut copied = copied(&folder, Target::Place(&place)).unwrap();
    copied.open(Options::default()).unwrap().close().await;
    let kept = place.put(copied).unwrap().unwrap();
    assert_eq!(kept, fs::canonicalize(beside(&killed, "a.db.replaced-1")).unwrap());
    assert_eq!(names(&killed), ["a.db", "a.db.lock", "a.db.replaced-1", "a.db.replaced-1-wal"]);

    let found = killed.open(Options::default()).unwrap();
    assert!(load(&found, "new").await.is_some() && load(&found, "old").await.is_none());
    let before = SqliteStore::open(Location::File(kept), Options::default()).unwrap();
    assert!(load(&before, "old").await.is_some() && load(&before, "new").await.is_none());
}

#[tokio::test]
async fn a_place_where_nothing_stood_stays_empty_until_the_copy_is_put_there() {
    let (folder, target) = (Folder::new(), Folder::new());
    finished(&folder.open(Options::default()).unwrap(), "k1").await;
    let place = hold(&target.database()).unwrap();
    assert!(!place.is_taken() && !target.database().exists());
    let copied = copied(&folder, Target::Place(&place)).unwrap();
    assert!(!target.database().exists());
    assert_eq!(place.put(copied).unwrap(), None);
    assert!(load(&target.open(Options::default()).unwrap(), "k1").await.is_some());
}

/// The records' own index, as a tool would declare it.
const BY_ID: IndexSpec = IndexSpec {
    table: "idempotency_records_by_id",
    rows_after: "select id, position from idempotency_records where position > ?1",
    entry: |row| Ok((row.get(0)?, row.get(1)?)),
    guests: None,
};

#[tokio::test]
async fn an_index_beside_the_owner_finds_what_came_since_it_looked_wherever_the_filing_stands() {
    let folder = Folder::new();
    let store = folder.open(Options { unfiled_least: 4, ..Options::default() }).unwrap();
    let (beside, index) = (folder.beside(), DigestIndex::beside(&BY_ID));
    for number in 0..40 {
        let key = format!("k{number}");
        assert_eq!(beside.find_rows(&index, id(&key).as_bytes()).unwrap(), [], "{key} is not there yet");
        finished(&store, &key).await;
        for earlier in 0..=number {
            let key = format!("k{earlier}");
            assert_eq!(beside.find_rows(&index, id(&key).as_bytes()).unwrap().len(), 1, "{key} of {number}");
        }
    }
}
