//! Deadlines and promises in stored rows, across restarts and steps of the clock (P9).

use std::time::Duration;

use proptest::prelude::*;
use unavez_core::record::{Change, State};
use unavez_core::time::Time;
use unavez_store::clock::{Clock, ManualClock};
use unavez_store::sqlite::SqliteStore;
use unavez_store::{Store, StoreError, Swap};

use crate::support::{
    Folder, OPERATION_TIMEOUT, RESPONSE_TTL, claim, claim_for, finished, forgetful, id, load, on, swapped,
};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn c4_a_record_without_a_deadline_is_alive_until_one_is_stamped() {
    let folder = Folder::new();
    let clock = ManualClock::new();
    let store = folder.open(forgetful(on(&clock))).unwrap();
    let claimed = swapped(&store, "k1", None, Change::Claim(claim("k1", 1))).await;
    // An older writer left no deadline, on a table that did not ask for one.
    let older = folder.beside();
    older
        .execute_batch("pragma ignore_check_constraints = on; update idempotency_records set deadline = null")
        .unwrap();

    clock.advance(Duration::from_secs(2) + RESPONSE_TTL);
    let record = load(&store, "k1").await.unwrap();
    assert_eq!(record.state, State::InProgress { deadline: None });
    assert!(!record.is_lost(clock.now()));
    let repeat = store.swap(id("k1"), None, Change::Claim(claim("k1", 2))).await.unwrap();
    assert!(matches!(repeat, Swap::Conflict { record: Some(standing), .. } if standing == record));
    assert!(store.due(9).await.unwrap().records.is_empty());
    assert_eq!(store.purge(9).await.unwrap().deleted, 0);

    let stamp = || Change::StampDeadline { operation_timeout: OPERATION_TIMEOUT };
    let stamped = swapped(&store, "k1", Some(claimed.fence), stamp()).await;
    assert_eq!(stamped.state, State::InProgress { deadline: Some(clock.now().plus(OPERATION_TIMEOUT)) });
    let late = store.swap(id("k1"), Some(claimed.fence), stamp()).await.unwrap();
    assert!(matches!(late, Swap::Conflict { record: Some(standing), .. } if standing == stamped));
    let twice = store.swap(id("k1"), Some(stamped.fence), stamp()).await;
    assert!(matches!(twice, Err(StoreError::Illegal(_))), "{twice:?}");
    clock.advance(OPERATION_TIMEOUT);
    assert!(load(&store, "k1").await.unwrap().is_lost(clock.now()));
}

/// Checks one timeout both ways: written by the store and read by SQL, written by SQL and read by the store.
async fn check_units(
    store: &SqliteStore,
    folder: &Folder,
    clock: &ManualClock,
    number: u64,
    timeout: Duration,
) {
    let key = format!("k{number}");
    let claimed = swapped(store, &key, None, Change::Claim(claim_for(&key, 1, timeout))).await;
    let beside = folder.beside();
    let (deadline, created_at): (i64, i64) = beside
        .query_row(
            "select deadline, created_at from idempotency_records where id = ?1",
            [claimed.id.as_bytes()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert_eq!(i128::from(deadline - created_at), i128::try_from(timeout.as_micros()).unwrap());

    let later = timeout + Duration::from_millis(250);
    beside
        .execute(
            "update idempotency_records set deadline = created_at + ?2 where id = ?1",
            (claimed.id.as_bytes(), i64::try_from(later.as_micros()).unwrap()),
        )
        .unwrap();
    let read = load(store, &key).await.unwrap();
    let start = Time::from_micros(created_at);
    assert!(!read.is_lost(start.plus(later - Duration::from_micros(1))) && read.is_lost(start.plus(later)));
    clock.advance(Duration::from_micros(1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn c6_deadlines_are_microseconds_for_every_writer_and_reader(
        timeouts_ms in prop::collection::vec(1_u64..=7 * 24 * 3_600_000, 1..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let folder = Folder::new();
            let clock = ManualClock::new();
            let store = folder.open(forgetful(on(&clock))).unwrap();
            for (number, timeout_ms) in (0..).zip(timeouts_ms) {
                check_units(&store, &folder, &clock, number, Duration::from_millis(timeout_ms)).await;
            }
        });
    }
}

#[tokio::test]
async fn c101_a_step_forth_across_a_restart_ends_nothing_until_it_is_confirmed() {
    let folder = Folder::new();
    let clock = ManualClock::new();
    let store = folder.open(on(&clock)).unwrap();
    let start = clock.now();
    finished(&store, "done").await;
    swapped(&store, "running", None, Change::Claim(claim("running", 2))).await;
    store.close().await;

    clock.step_wall(48 * 3600);
    clock.advance(Duration::from_secs(1));
    let clock = clock.restarted();
    let store = folder.open(on(&clock)).unwrap();
    assert_eq!(clock.now().since(start), Duration::from_secs(1));
    assert!(!load(&store, "running").await.unwrap().is_lost(clock.now()));
    assert!(!load(&store, "done").await.unwrap().is_expired(clock.now()));
    let paused = store.purge(9).await;
    assert!(matches!(paused, Err(StoreError::ClockStepped { step }) if step == 48 * HOUR), "{paused:?}");
    store.close().await;

    // Still not confirmed after another restart.
    let clock = clock.restarted();
    let store = folder.open(on(&clock)).unwrap();
    assert_eq!(store.clock_step(), Some(48 * HOUR));
    store.confirm_clock().await.unwrap();
    assert_eq!(store.purge(9).await.unwrap().deleted, 1);
    store.close().await;

    let clock = clock.restarted();
    let store = folder.open(on(&clock)).unwrap();
    assert_eq!((store.clock_step(), clock.now().since(start)), (None, 48 * HOUR + Duration::from_secs(1)));
}

#[tokio::test]
async fn c101_a_step_back_neither_extends_nor_reuses_time() {
    let folder = Folder::new();
    let clock = ManualClock::new();
    let start = clock.now();
    for (restarted, reboot) in [(1, false), (2, true)] {
        let clock = if reboot { clock.rebooted() } else { clock.restarted() };
        let store = folder.open(on(&clock)).unwrap();
        let before = clock.now();
        clock.advance(Duration::from_secs(60));
        finished(&store, &format!("k{restarted}")).await;
        store.close().await;
        clock.step_wall(-3600);
        let clock = if reboot { clock.rebooted() } else { clock.restarted() };
        let store = folder.open(on(&clock)).unwrap();
        assert!(clock.now().since(before) >= Duration::from_secs(60), "{restarted}");
        assert_eq!(store.clock_step().is_some(), !reboot, "{restarted}");
        assert!(load(&store, &format!("k{restarted}")).await.unwrap().created_at > start);
        store.confirm_clock().await.unwrap();
        store.close().await;
    }
}

#[tokio::test]
async fn c101_a_step_during_an_attempt_changes_no_age() {
    let folder = Folder::new();
    let clock = ManualClock::new();
    let store = folder.open(on(&clock)).unwrap();
    swapped(&store, "k1", None, Change::Claim(claim("k1", 1))).await;
    for seconds in [3600, -7200] {
        clock.step_wall(seconds);
        clock.advance(Duration::from_secs(4));
        assert!(!load(&store, "k1").await.unwrap().is_lost(clock.now()));
        assert!(matches!(store.purge(9).await, Err(StoreError::ClockStepped { .. })));
    }
    clock.advance(Duration::from_secs(2));
    assert!(load(&store, "k1").await.unwrap().is_lost(clock.now()));
}
