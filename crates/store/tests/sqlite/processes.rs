//! Many tasks, and processes that read the file beside them (C19).

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use unavez_core::record::Change;
use unavez_store::Store;
use unavez_store::clock::ManualClock;

use crate::support::{Folder, RESPONSE_TTL, claim, finish, finished, id, load, on, swapped};

const TASKS: usize = 50;
const KEYS_PER_TASK: usize = 40;
const DATABASE: &str = "UNAVEZ_TEST_READ_DATABASE";

/// Starts this test program again as a process that only reads.
fn reading_process(folder: &Folder) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "processes::c19_reading_process", "--ignored", "--nocapture"])
        .env(DATABASE, folder.database())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The process beside: reads until the file `stop` appears, and fails at the first error.
#[test]
#[ignore = "run by c19 as a process of its own"]
fn c19_reading_process() {
    let Some(database) = env::var_os(DATABASE).map(PathBuf::from) else { return };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&database, flags).unwrap();
    let stop = database.with_file_name("stop");
    let mut last = 0;
    while !stop.exists() {
        let (count, checked): (i64, i64) = connection
            .query_row(
                "select max(position), sum(length(coalesce(body, x'00'))) from idempotency_records",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .unwrap();
        assert!(count >= last && checked > 0, "{count} after {last}");
        last = count;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_no_lock_reaches_anyone_whoever_reads_beside() {
    let folder = Folder::new();
    let clock = ManualClock::new();
    let store = folder.open(on(&clock)).unwrap();
    for number in 0..200 {
        finished(&store, &format!("old-{number}")).await;
    }
    clock.advance(RESPONSE_TTL);
    finished(&store, "first").await;
    let mut readers: Vec<Child> = (0..3).map(|_| reading_process(&folder)).collect();

    let start = Arc::new(tokio::sync::Barrier::new(TASKS + 1));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (store, start) = (store.clone(), Arc::clone(&start));
            tokio::spawn(async move {
                start.wait().await;
                for number in 0..KEYS_PER_TASK {
                    let key = format!("t{task}-{number}");
                    let fence = swapped(&store, &key, None, Change::Claim(claim(&key, 1))).await.fence;
                    store.swap(id(&key), None, Change::Claim(claim(&key, 2))).await.unwrap();
                    swapped(&store, &key, Some(fence), Change::Finish(finish(key.clone()))).await;
                    assert!(load(&store, &key).await.is_some());
                    if number % 10 == 0 {
                        store.purge(20).await.unwrap();
                    }
                }
            })
        })
        .collect();
    start.wait().await;
    for task in tasks {
        task.await.unwrap();
    }
    fs::write(folder.database().with_file_name("stop"), "").unwrap();
    for reader in readers.drain(..) {
        let ended = reader.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert!(load(&store, "old-0").await.is_none());
}

#[tokio::test]
async fn c19_a_read_transaction_held_open_stops_no_claim() {
    let folder = Folder::new();
    let store = folder.open(on(&ManualClock::new())).unwrap();
    finished(&store, "k1").await;
    let reader = folder.beside();
    let count = "select count(*) from idempotency_records";
    reader.execute_batch("begin").unwrap();
    let before: i64 = reader.query_row(count, [], |row| row.get(0)).unwrap();
    finished(&store, "k2").await;
    let during: i64 = reader.query_row(count, [], |row| row.get(0)).unwrap();
    finished(&store, "k3").await;
    reader.execute_batch("commit").unwrap();
    let after: i64 = reader.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!((before, during, after), (1, 1, 3));
}
