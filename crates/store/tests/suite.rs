//! Every store of this crate passes the public suite.

#![cfg_attr(
    any(feature = "postgres", feature = "sqlite"),
    expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")
)]

use std::sync::Arc;

use unavez_store::clock::ManualClock;
use unavez_store::conformance::Subject;
use unavez_store::memory::MemoryStore;

async fn memory() -> Subject {
    let clock = ManualClock::new();
    let store = MemoryStore::with_clock(Arc::new(clock.clone()));
    Subject::new(Arc::new(store), move |by| clock.advance(by))
}

mod memory_store {
    unavez_store::conformance!(super::memory());
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use std::sync::Arc;

    use unavez_store::clock::ManualClock;
    use unavez_store::conformance::Subject;
    use unavez_store::sqlite::{Location, Options, SqliteStore};

    fn options(clock: &ManualClock) -> Options {
        Options { clock: Some(Arc::new(clock.clone())), ..Options::default() }
    }

    async fn memory() -> Subject {
        let clock = ManualClock::new();
        let store = SqliteStore::open(Location::Memory, options(&clock)).unwrap();
        Subject::new(Arc::new(store), move |by| clock.advance(by))
    }

    async fn file() -> Subject {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::new();
        let location = Location::File(folder.path().join("a.db"));
        let store = SqliteStore::open(location, options(&clock)).unwrap();
        Subject::new(Arc::new(store), move |by| {
            // The folder lives as long as the store in it.
            let _ = &folder;
            clock.advance(by);
        })
    }

    /// Without any memory of recent records, every answer comes from the file.
    async fn forgetful() -> Subject {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::new();
        let location = Location::File(folder.path().join("a.db"));
        let options = Options { recent_bytes_max: 0, ..options(&clock) };
        let store = SqliteStore::open(location, options).unwrap();
        Subject::new(Arc::new(store), move |by| {
            let _ = &folder;
            clock.advance(by);
        })
    }

    /// Every commit files what the one before it has added.
    async fn filing() -> Subject {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::new();
        let location = Location::File(folder.path().join("a.db"));
        let options = Options { recent_bytes_max: 0, unfiled_least: 1, ..options(&clock) };
        let store = SqliteStore::open(location, options).unwrap();
        Subject::new(Arc::new(store), move |by| {
            let _ = &folder;
            clock.advance(by);
        })
    }

    mod in_memory {
        unavez_store::conformance!(super::memory());
    }

    mod in_a_file {
        unavez_store::conformance!(super::file());
    }

    mod with_indexes_filed_at_once {
        unavez_store::conformance!(super::filing());
    }

    mod without_recent_records {
        unavez_store::conformance!(super::forgetful());
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use std::sync::Arc;

    use test_postgres::{Pooler, Server};
    use unavez_store::clock::ManualClock;
    use unavez_store::conformance::Subject;
    use unavez_store::postgres::{Location, Migrate, Options, PostgresStore};

    async fn open(url: &str, clock: &ManualClock) -> PostgresStore {
        let clock = Some(Arc::new(clock.clone()) as _);
        let options = Options { migrate: Migrate::Auto, clock, ..Options::default() };
        PostgresStore::open(Location::parse(url).unwrap(), options).await.unwrap()
    }

    async fn subject(url: &str) -> Subject {
        let clock = ManualClock::new();
        let store = open(url, &clock).await;
        Subject::new(Arc::new(store), move |by| clock.advance(by))
    }

    async fn plain() -> Subject {
        subject(&Server::shared().database().url()).await
    }

    /// What a distributed database does to every session.
    async fn serializable() -> Subject {
        let settings = ["default_transaction_isolation = 'serializable'"];
        subject(&Server::shared().database_with(&settings).url()).await
    }

    /// As a distributed database lays the records out: by the hash of their ids.
    async fn partitioned() -> Subject {
        let database = Server::shared().database();
        let clock = ManualClock::new();
        drop(open(&database.url(), &clock).await);
        database.query(
            "alter table idempotency_records rename to whole;
             create table idempotency_records (like whole including all) partition by hash (id);
             create table part_0 partition of idempotency_records for values with (modulus 3, remainder 0);
             create table part_1 partition of idempotency_records for values with (modulus 3, remainder 1);
             create table part_2 partition of idempotency_records for values with (modulus 3, remainder 2);
             drop table whole",
        );
        subject(&database.url()).await
    }

    /// Each transaction may run in another session.
    async fn pooled() -> Subject {
        let pooler = Pooler::before(Server::shared().database());
        let clock = ManualClock::new();
        let store = open(&pooler.url(), &clock).await;
        Subject::new(Arc::new(store), move |by| {
            // The pooler lives as long as the store behind it.
            let _ = &pooler;
            clock.advance(by);
        })
    }

    mod as_it_comes {
        unavez_store::conformance!(super::plain());
    }

    mod serializable_by_default {
        unavez_store::conformance!(super::serializable());
    }

    mod partitioned_by_hash {
        unavez_store::conformance!(super::partitioned());
    }

    mod behind_a_pooler {
        unavez_store::conformance!(super::pooled());
    }
}
