//! Answers that are lost on their way: whether the change happened is not known, and never guessed (P12).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use test_postgres::Server;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use unavez_core::record::Change;
use unavez_store::{Store, StoreError, Swap};

use crate::support::{attempt, claim, claimed, finish, id, loaded, open, open_at};

/// What becomes of the next thing a client sends.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Nothing,
    /// It is lost, and the connection ends.
    Request,
    /// It is done, and the connection ends in place of the answer.
    Answer,
}

/// A network between the store and its server that can be cut at a chosen point.
struct Network {
    url: String,
    cut: Arc<AtomicU8>,
}

impl Network {
    async fn before(server: &'static Server, database: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("postgres://postgres@{}/{database}", listener.local_addr().unwrap());
        let cut = Arc::new(AtomicU8::new(Cut::Nothing as u8));
        let socket = server.folder().join(".s.PGSQL.5432");
        tokio::spawn(accept(listener, socket, Arc::clone(&cut)));
        Self { url, cut }
    }

    fn cut(&self, what: Cut) {
        self.cut.store(what as u8, Ordering::SeqCst);
    }
}

async fn accept(listener: TcpListener, socket: PathBuf, cut: Arc<AtomicU8>) {
    while let Ok((client, _)) = listener.accept().await {
        let server = UnixStream::connect(&socket).await.unwrap();
        tokio::spawn(carry(client, server, Arc::clone(&cut)));
    }
}

async fn carry(mut client: TcpStream, mut server: UnixStream, cut: Arc<AtomicU8>) {
    let (mut request, mut answer) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let length = read.unwrap_or(0);
                let cut = cut.swap(Cut::Nothing as u8, Ordering::SeqCst);
                if length == 0 || cut == Cut::Request as u8 {
                    return;
                }
                server.write_all(&request[..length]).await.unwrap();
                if cut == Cut::Answer as u8 {
                    // The server answers after it has committed.
                    server.read_u8().await.unwrap();
                    return;
                }
            }
            read = server.read(&mut answer) => {
                let length = read.unwrap_or(0);
                if length == 0 || client.write_all(&answer[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn is_in_doubt(result: &Result<Swap, StoreError>) -> bool {
    matches!(result, Err(StoreError::InDoubt(_)))
}

#[tokio::test]
async fn p12_a_claim_whose_answer_is_lost_is_in_doubt_and_resolved_by_its_attempt_id() {
    let server = Server::shared();
    let database = server.database();
    let network = Network::before(server, database.name()).await;
    let store = open_at(&network.url).await.unwrap();
    for (cut, key) in [(Cut::Request, "lost"), (Cut::Answer, "done")] {
        // The connection is there already, so that the claim is what is cut.
        claimed(&store, &format!("before-{key}"), 1).await;
        network.cut(cut);
        let doubt = store.swap(id(key), None, claim(key, 1)).await;
        assert!(is_in_doubt(&doubt), "{cut:?}: {doubt:?}");

        let record = match (cut, store.swap(id(key), None, claim(key, 1)).await.unwrap()) {
            (Cut::Request, Swap::Swapped { record, .. }) => record,
            (Cut::Answer, Swap::Conflict { record: Some(record), .. }) => record,
            (_, other) => panic!("{cut:?}: {other:?}"),
        };
        assert_eq!(record.fence.attempt, attempt(1), "{cut:?}");
        assert_eq!(loaded(&store, key).await, Some(record), "{cut:?}");
    }
}

#[tokio::test]
async fn p12_a_finish_whose_answer_is_lost_is_in_doubt_and_resolved_by_its_fence() {
    let server = Server::shared();
    let database = server.database();
    let network = Network::before(server, database.name()).await;
    let store = open_at(&network.url).await.unwrap();
    for (cut, key) in [(Cut::Request, "lost"), (Cut::Answer, "done")] {
        let fence = claimed(&store, key, 1).await.fence;
        // The other lane's connection has to be there too.
        loaded(&store, key).await;
        network.cut(cut);
        let doubt = store.swap(id(key), Some(fence), Change::Finish(finish("ch_1"))).await;
        assert!(is_in_doubt(&doubt), "{cut:?}: {doubt:?}");

        let again = store.swap(id(key), Some(fence), Change::Finish(finish("ch_1"))).await.unwrap();
        let record = match (cut, again) {
            (Cut::Request, Swap::Swapped { record, .. }) => record,
            (Cut::Answer, Swap::Conflict { record: Some(record), .. }) => record,
            (_, other) => panic!("{cut:?}: {other:?}"),
        };
        assert_eq!((record.state.name(), record.fence.attempt), ("finished", attempt(1)), "{cut:?}");
    }
}

#[tokio::test]
async fn a_load_whose_answer_is_lost_is_made_again() {
    let server = Server::shared();
    let database = server.database();
    let network = Network::before(server, database.name()).await;
    let store = open_at(&network.url).await.unwrap();
    let record = claimed(&store, "k1", 1).await;
    loaded(&store, "k1").await;
    network.cut(Cut::Answer);
    assert_eq!(loaded(&store, "k1").await, Some(record));
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_a_commit_that_no_standby_confirmed_is_in_doubt() {
    let server = Server::start(&["wal_level = replica", "max_wal_senders = 2"]);
    let database = server.database();
    let store = open(&database).await;
    claimed(&store, "before", 1).await;
    database.query("alter system set synchronous_standby_names = 'nobody'");
    database.query("select pg_reload_conf()");
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.swap(id("k1"), None, claim("k1", 1)).await }
    });
    let cancelled = "select count(pg_cancel_backend(pid)) from pg_stat_activity where wait_event = 'SyncRep'";
    while database.query(cancelled) == "0" {}
    let doubt = waiting.await.unwrap();
    assert!(is_in_doubt(&doubt), "{doubt:?}");
    // It stands on this server, and a failover may take it back.
    assert_eq!(database.query("select count(*) from idempotency_records"), "2");
    database.query("alter system reset synchronous_standby_names");
    database.query("select pg_reload_conf()");
}
