//! Every store of this crate passes the public suite.

#![cfg_attr(any(feature = "postgres", feature = "sqlite"), expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do"))]

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

    use test_postgres::{Database, Server};
    use unavez_store::clock::ManualClock;
    use unavez_store::conformance::Subject;
    use unavez_store::postgres::{Location, Migrate, Options, PostgresStore};

    async fn subject(database: Database<'_>) -> Subject {
        let clock = ManualClock::new();
        let options =
            Options { migrate: Migrate::Auto, clock: Some(Arc::new(clock.clone())), ..Options::default() };
        let location = Location::parse(&database.url()).unwrap();
        let store = PostgresStore::open(location, options).await.unwrap();
        Subject::new(Arc::new(store), move |by| clock.advance(by))
    }

    async fn plain() -> Subject {
        subject(Server::shared().database()).await
    }

    mod as_it_comes {
        unavez_store::conformance!(super::plain());
    }

    async fn serializable() -> Subject {
        let settings = ["default_transaction_isolation = 'serializable'"];
        subject(Server::shared().database_with(&settings)).await
    }

    mod serializable_by_default {
        unavez_store::conformance!(super::serializable());
    }
}
