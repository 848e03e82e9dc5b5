//! What a failing command does to its batch: nothing (P8, P12, C113, C117).

#[cfg(target_os = "linux")]
use std::{fs, process::Command};

use unavez_core::record::Change;
use unavez_store::sqlite::{Location, OneCommit, Options, SqliteStore, TransactionError, WriteTx, swap_in};
use unavez_store::{BoxFuture, Store, StoreError, Swap};

use crate::support::{
    BUSINESS, Busy, Folder, claim, finish, finished, forgetful, id, in_one_batch, load, nothing_happened,
};

const BODY_BYTES: usize = 20_000;

/// Which calls fill the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// Transactions, which run in their order and once.
    Transactions,
    /// Every other one is claim, effect and finish, which can run again and go first.
    Mixed,
}

impl Calls {
    fn is_one_commit(self, number: u128) -> bool {
        matches!(self, Self::Mixed) && number.is_multiple_of(2)
    }
}

/// One call of a batch that fills the file, and whether it was acknowledged.
async fn fill(store: SqliteStore, calls: Calls, number: u128) -> Result<(), StoreError> {
    let key = format!("k{number}");
    if calls.is_one_commit(number) {
        let work = move |tx: &WriteTx<'_>, claimed: &unavez_store::sqlite::Claimed| {
            tx.execute("insert into charges (record, amount) values (?1, 1)", [claimed.id.as_bytes()])?;
            Ok::<_, unavez_store::sqlite::Abort<()>>(finish(vec![b'x'; BODY_BYTES]))
        };
        return match store.claim_and_finish(id(&key), claim(&key, number), work).await? {
            OneCommit::Finished { .. } => Ok(()),
            other => panic!("the key is new, got {other:?}"),
        };
    }
    let work = move |tx: &WriteTx<'_>| {
        tx.execute("insert into charges (record, amount) values (?1, 1)", [id(&key).as_bytes()])?;
        tx.execute("insert into blobs (bytes) values (?1)", [vec![b'x'; BODY_BYTES]])
    };
    match store.transaction(work).await {
        Ok(_) => Ok(()),
        Err(TransactionError::Refused(error)) => Err(StoreError::RolledBack(error.to_string().into())),
        Err(TransactionError::Store(error)) => Err(error),
    }
}

/// Runs ten calls in one batch, in a file that has room for so many bytes more. Says how many of them, from the first
/// on, were not acknowledged: the one that met the end of the file, and those before it, whose work fell with it. The
/// ones behind it had not begun, and ran by themselves.
async fn not_acknowledged_first(calls: Calls, room_bytes: u64) -> usize {
    let folder = Folder::new();
    let setup = format!("{BUSINESS}; create table blobs (bytes blob) strict;");
    let store = folder.open(Options::default()).unwrap();
    store.transaction(move |tx| tx.execute_batch(&setup)).await.unwrap();
    store.close().await;
    let file_bytes_max = Some(folder.database().metadata().unwrap().len() + room_bytes);
    let store = folder.open(Options { file_bytes_max, ..forgetful(Options::default()) }).unwrap();

    let results =
        in_one_batch(&store, (1..=10).map(|number| fill(store.clone(), calls, number)).collect()).await;
    for (number, result) in (1..).zip(&results) {
        let key = format!("k{number}");
        assert!(result.is_ok() || nothing_happened(result), "{result:?}");
        let charge = id(&key);
        let kept: i64 = store
            .read(move |db| {
                db.query_row("select count(*) from charges where record = ?1", [charge.as_bytes()], |row| {
                    row.get(0)
                })
            })
            .await
            .unwrap();
        assert_eq!(kept == 1, result.is_ok(), "{key}: {result:?}");
        let record = load(&store, &key).await;
        assert_eq!(record.is_some(), result.is_ok() && calls.is_one_commit(number), "{key}: {result:?}");
    }
    // The next batch works as soon as there is room.
    store
        .transaction(|tx| tx.execute_batch("delete from blobs; delete from idempotency_records"))
        .await
        .unwrap();
    let next = store.swap(id("next"), None, Change::Claim(claim("next", 99))).await;
    assert!(matches!(next, Ok(Swap::Swapped { .. })), "{next:?}");
    store.close().await;
    let check: String = folder.beside().query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    results.iter().take_while(|result| result.is_err()).count()
}

#[tokio::test]
async fn c113_a_full_file_at_the_nth_command_keeps_no_half_of_any() {
    let calls = Calls::Transactions;
    assert_eq!(
        not_acknowledged_first(calls, 0).await,
        10,
        "without room the first does not fit, nor any other"
    );
    let mut seen = Vec::new();
    for room in 1.. {
        match not_acknowledged_first(calls, room * 10_000).await {
            0 => break,
            n => seen.push(n),
        }
    }
    assert!((2..=10).all(|n| seen.contains(&n)), "some n was not reached: {seen:?}");
}

#[tokio::test]
async fn c113_a_full_file_keeps_no_half_of_a_command_that_can_run_again() {
    for room in 0..30 {
        not_acknowledged_first(Calls::Mixed, room * 10_000).await;
    }
}

/// A small disk, unmounted when dropped.
#[cfg(target_os = "linux")]
struct SmallDisk(std::path::PathBuf);

#[cfg(target_os = "linux")]
impl SmallDisk {
    /// `None` where this process may not mount anything.
    fn mount(at: &std::path::Path) -> Option<Self> {
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(at).output().ok()?;
        mounted.status.success().then(|| Self(at.to_owned()))
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a failed test may still have the database open.
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn c113_a_full_disk_keeps_what_was_acknowledged_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path()) else {
        println!("skipped: mounting a small disk needs root");
        return;
    };
    // As large as the WAL can grow beside it: what fills the disk must fit into the file as well.
    let ballast = disk.0.join("ballast");
    fs::write(&ballast, vec![0; 4 << 20]).unwrap();
    let database = disk.0.join("a.db");
    let store = SqliteStore::open(Location::File(database.clone()), forgetful(Options::default())).unwrap();
    store
        .transaction(|tx| tx.execute_batch(&format!("{BUSINESS}; create table blobs (bytes blob) strict;")))
        .await
        .unwrap();

    let mut results = Vec::new();
    for batch in 0..20 {
        let numbers = (batch * 10 + 1)..=(batch * 10 + 10);
        results.extend(
            in_one_batch(&store, numbers.map(|number| fill(store.clone(), Calls::Mixed, number)).collect())
                .await,
        );
    }
    let acknowledged = results.iter().filter(|result| result.is_ok()).count();
    assert!((10..200).contains(&acknowledged), "{acknowledged} of 200 fit");
    assert!(results.iter().all(|result| result.is_ok() || nothing_happened(result)), "{results:?}");

    fs::remove_file(&ballast).unwrap();
    finished(&store, "next").await;
    store.close().await;
    let store = SqliteStore::open(Location::File(database), Options::default()).unwrap();
    for (number, result) in (1..).zip(&results) {
        let charge = id(&format!("k{number}"));
        let kept: i64 = store
            .read(move |db| {
                let count = "select count(*) from charges where record = ?1";
                db.query_row(count, [charge.as_bytes()], |row| row.get(0))
            })
            .await
            .unwrap();
        assert_eq!(kept == 1, result.is_ok(), "k{number}: {result:?}");
    }
    assert!(load(&store, "next").await.is_some());
    store.close().await;
}

#[tokio::test]
async fn c113_work_that_overlooks_a_lost_transaction_commits_nothing() {
    let folder = Folder::new();
    let options = Options { file_bytes_max: Some(400_000), ..Options::default() };
    let store = folder.open(options).unwrap();
    store.transaction(|tx| tx.execute_batch(BUSINESS)).await.unwrap();
    let neighbour = {
        let store = store.clone();
        async move { store.swap(id("k1"), None, Change::Claim(claim("k1", 1))).await.map(drop) }
    };
    let careless = {
        let store = store.clone();
        async move {
            let work = |tx: &WriteTx<'_>| {
                tx.execute_batch("rollback").ok();
                // Outside any transaction by now, this would commit by itself.
                tx.execute("insert into charges (record, amount) values (x'00', 1)", []).ok();
                tx.execute_batch("begin").ok();
                Ok::<_, ()>(())
            };
            match store.transaction(work).await {
                Err(TransactionError::Store(error)) => Err(error),
                other => panic!("{other:?}"),
            }
        }
    };
    let calls: Vec<BoxFuture<'static, Result<(), StoreError>>> =
        vec![Box::pin(neighbour), Box::pin(careless)];
    let results = in_one_batch(&store, calls).await;
    assert!(results[0].is_ok() && nothing_happened(&results[1]), "{results:?}");
    assert_eq!(folder.charges(), 0);
    assert!(load(&store, "k1").await.is_some());
}

#[tokio::test]
async fn p8_work_cannot_commit_the_batch() {
    let folder = Folder::new();
    let store = folder.open(Options::default()).unwrap();
    store.transaction(|tx| tx.execute_batch(BUSINESS)).await.unwrap();
    let early = store
        .transaction(|tx| {
            tx.execute("insert into charges (record, amount) values (x'00', 1)", [])?;
            tx.execute_batch("commit")
        })
        .await;
    assert!(early.is_err(), "{early:?}");
    assert_eq!(folder.charges(), 0);
    finished(&store, "k1").await;
}

#[tokio::test]
async fn p8_a_deferred_constraint_fails_its_work_and_not_the_neighbour() {
    let folder = Folder::new();
    let store = folder.open(Options::default()).unwrap();
    store
        .transaction(|tx| {
            tx.execute_batch(
                "create table parents (id integer primary key) strict;
                 create table children (parent integer references parents deferrable initially deferred) strict;",
            )
        })
        .await
        .unwrap();
    let orphan = {
        let store = store.clone();
        async move {
            match store.transaction(|tx| tx.execute("insert into children values (7)", [])).await {
                Err(TransactionError::Store(error)) => Err(error),
                other => panic!("{other:?}"),
            }
        }
    };
    let neighbour = {
        let store = store.clone();
        async move { store.swap(id("k1"), None, Change::Claim(claim("k1", 1))).await.map(drop) }
    };
    let calls: Vec<BoxFuture<'static, Result<(), StoreError>>> = vec![Box::pin(orphan), Box::pin(neighbour)];
    let results = in_one_batch(&store, calls).await;
    assert!(nothing_happened(&results[0]) && results[1].is_ok(), "{results:?}");
    assert!(load(&store, "k1").await.is_some());
}

#[tokio::test]
async fn p12_a_panic_undoes_its_own_work_only() {
    let folder = Folder::new();
    let store = folder.open(Options::default()).unwrap();
    store.transaction(|tx| tx.execute_batch(BUSINESS)).await.unwrap();
    let calls: Vec<_> = (0..3)
        .map(|number| {
            let store = store.clone();
            async move {
                store
                    .transaction(move |tx| {
                        tx.execute("insert into charges (record, amount) values (x'00', ?1)", [number])?;
                        assert!(number != 1, "the second one breaks");
                        Ok::<_, rusqlite::Error>(number)
                    })
                    .await
            }
        })
        .collect();
    let results = in_one_batch(&store, calls).await;
    let [Ok(0), Err(TransactionError::Store(StoreError::RolledBack(why))), Ok(2)] = results.as_slice() else {
        panic!("{results:?}");
    };
    assert_eq!(&**why, "the work panicked: the second one breaks");
    assert_eq!(folder.charges(), 2);
}

/// What one call of a batch does after it has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Stands,
    Refuses,
    Breaks,
}

#[tokio::test]
async fn p12_repeatable_work_that_refuses_or_breaks_after_it_wrote_undoes_itself_alone() {
    let folder = Folder::new();
    let store = folder.open(Options::default()).unwrap();
    store.transaction(|tx| tx.execute_batch(BUSINESS)).await.unwrap();
    let calls: Vec<_> = [Then::Stands, Then::Refuses, Then::Stands, Then::Breaks]
        .into_iter()
        .enumerate()
        .map(|(number, then)| {
            let (store, key) = (store.clone(), format!("k{number}"));
            async move {
                let work = move |tx: &WriteTx<'_>| {
                    swap_in(tx, id(&key), None, Change::Claim(claim(&key, number as u128 + 1))).unwrap();
                    tx.execute("insert into charges (record, amount) values (?1, 1)", [id(&key).as_bytes()])
                        .unwrap();
                    assert_ne!(then, Then::Breaks, "as it is meant to");
                    if then == Then::Refuses { Err("not this one") } else { Ok(()) }
                };
                store.repeatable_transaction(work).await
            }
        })
        .collect();
    let results = in_one_batch(&store, calls).await;
    assert!(
        matches!(
            results.as_slice(),
            [
                Ok(()),
                Err(TransactionError::Refused("not this one")),
                Ok(()),
                Err(TransactionError::Store(StoreError::RolledBack(_)))
            ]
        ),
        "{results:?}"
    );
    assert_eq!(folder.charges(), 2);
    let kept = [
        load(&store, "k0").await,
        load(&store, "k1").await,
        load(&store, "k2").await,
        load(&store, "k3").await,
    ];
    assert_eq!(kept.map(|record| record.is_some()), [true, false, true, false]);
}

#[tokio::test]
async fn c117_a_queued_claim_whose_caller_leaves_makes_no_record() {
    let folder = Folder::new();
    let store = folder.open(Options::default()).unwrap();
    let busy = Busy::new(&store).await;
    let abandoned = {
        let store = store.clone();
        tokio::spawn(async move { store.swap(id("k1"), None, Change::Claim(claim("k1", 1))).await })
    };
    let effect = {
        let store = store.clone();
        tokio::spawn(async move {
            let effect = |_: &WriteTx<'_>, _: &unavez_store::sqlite::Claimed| {
                Ok::<_, unavez_store::sqlite::Abort<()>>(finish("ran"))
            };
            store.claim_and_finish(id("k2"), claim("k2", 1), effect).await
        })
    };
    while store.stats().queued < 2 {
        tokio::task::yield_now().await;
    }
    abandoned.abort();
    effect.abort();
    assert!(abandoned.await.unwrap_err().is_cancelled() && effect.await.unwrap_err().is_cancelled());
    busy.end().await;
    assert_eq!((load(&store, "k1").await, load(&store, "k2").await), (None, None));
    finished(&store, "k1").await;
}

#[tokio::test]
async fn c103_calls_above_the_queues_limit_are_refused() {
    let store = SqliteStore::open(Location::Memory, Options { queue_max: 2, ..Options::default() }).unwrap();
    let busy = Busy::new(&store).await;
    let calls: Vec<_> = (1..=2)
        .map(|number| {
            let store = store.clone();
            let key = format!("k{number}");
            tokio::spawn(async move { store.swap(id(&key), None, Change::Claim(claim(&key, 1))).await })
        })
        .collect();
    while store.stats().queued < 2 {
        tokio::task::yield_now().await;
    }
    let third = store.swap(id("k3"), None, Change::Claim(claim("k3", 1))).await;
    assert!(matches!(third, Err(StoreError::Overloaded { waiting: 2 })), "{third:?}");
    busy.end().await;
    for call in calls {
        assert!(call.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn p12_closing_runs_what_is_queued_and_refuses_the_rest() {
    let folder = Folder::new();
    let store = folder.open(Options::default()).unwrap();
    let busy = Busy::new(&store).await;
    let queued = {
        let store = store.clone();
        tokio::spawn(async move { store.swap(id("k1"), None, Change::Claim(claim("k1", 1))).await })
    };
    while store.stats().queued < 1 {
        tokio::task::yield_now().await;
    }
    let mut closing = Box::pin(store.close());
    tokio::select! {
        biased;
        () = &mut closing => panic!("a command is queued"),
        () = std::future::ready(()) => {}
    }
    let late = store.swap(id("k2"), None, Change::Claim(claim("k2", 1))).await;
    assert!(nothing_happened(&late), "{late:?}");
    busy.end().await;
    closing.await;
    assert!(matches!(queued.await.unwrap(), Ok(Swap::Swapped { .. })));
    let reopened = folder.open(Options::default()).unwrap();
    assert!(load(&reopened, "k1").await.is_some());
}
