//! What a call costs, and what the server does with a promise by itself.

use std::time::Duration;

use test_redis::{Cluster, Database, Server};
use unavez_store::Store;
use unavez_store::redis::{Options, RedisStore};

use crate::support::{claim, claimed, finish, finish_for, finished, id, loaded, open, open_with, swapped};

/// How often the clients of a server have called scripts, and how often anything else that writes or reads records.
fn calls(database: &Database<'_>) -> (u64, u64) {
    let stats = database.query(&["INFO", "commandstats"]);
    let of = |name: &str| -> u64 {
        let prefix = format!("cmdstat_{name}:calls=");
        let line = stats.lines().find_map(|line| line.strip_prefix(&prefix));
        line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
    };
    (of("evalsha"), of("eval"))
}

#[tokio::test]
async fn p8_a_swap_and_a_load_are_one_script_each() {
    let server = Server::start(&[]);
    let database = server.database();
    let store = open(&database.url()).await.unwrap();
    // The server learns each script once.
    finished(&store, "before").await;
    loaded(&store, "before").await;
    let (before, learned) = calls(&database);
    let fence = claimed(&store, "k1").await.fence;
    store.swap(id("k1"), None, claim("k1", 2)).await.unwrap();
    swapped(&store, "k1", Some(fence), finish()).await;
    loaded(&store, "k1").await;
    assert_eq!(calls(&database), (before + 4, learned), "claim, lost race, finish, load");
    database.query(&["SCRIPT", "FLUSH"]);
    claimed(&store, "k2").await;
    assert_eq!(calls(&database), (before + 5, learned + 1), "what the server forgot is told again");
}

#[tokio::test]
async fn p9_the_server_ends_a_promise_and_never_an_open_record() {
    let database = Server::shared().database();
    let store = open(&database.url()).await.unwrap();
    claimed(&store, "open").await;
    finished(&store, "done").await;
    let key = |name: &str| database.query(&["--scan", "--pattern", &format!("*:record:{}", id(name))]);
    assert_eq!(database.query(&["PTTL", &key("open")]), "-1");
    let left: u64 = database.query(&["PTTL", &key("done")]).parse().unwrap();
    let day = 24 * 3600 * 1000;
    assert!(left <= day && left > day - 60_000, "{left}");

    let fence = claimed(&store, "over").await.fence;
    swapped(&store, "over", Some(fence), finish_for(Duration::ZERO)).await;
    while loaded(&store, "over").await.is_some() {}
    assert_eq!(indexed(&database, "over"), ["list", "expiry"]);
    // Claimed anew before anybody tidied up, it is not taken for the old one.
    claimed(&store, "over").await;
    assert_eq!(indexed(&database, "over"), ["list", "due"]);
    assert_eq!(store.purge(10).await.unwrap().deleted, 0);
    assert!(loaded(&store, "over").await.is_some());
}

#[tokio::test]
async fn c59_a_purge_tidies_up_after_the_server_and_is_bounded() {
    let database = Server::shared().database();
    let store = open(&database.url()).await.unwrap();
    for key in ["a", "b", "c"] {
        let fence = claimed(&store, key).await.fence;
        swapped(&store, key, Some(fence), finish_for(Duration::ZERO)).await;
        while loaded(&store, key).await.is_some() {}
    }
    assert_eq!(store.purge(2).await.unwrap().deleted, 2);
    assert_eq!(store.purge(2).await.unwrap().deleted, 1);
    assert_eq!(database.query(&["--scan", "--pattern", "{unavez:*"]), "", "nothing is left of them");
}

/// Which indexes name a record.
fn indexed(database: &Database<'_>, key: &str) -> Vec<&'static str> {
    let id = id(key).to_string();
    let names = |index: &str| {
        let keys = database.query(&["--scan", "--pattern", &format!("*:{index}")]);
        keys.lines().any(|key| database.query(&["ZRANGE", key, "0", "-1"]).contains(&id))
    };
    ["list", "due", "expiry"].into_iter().filter(|index| names(index)).collect()
}

#[tokio::test]
async fn a_cluster_spreads_records_over_its_masters_and_lists_them_all() {
    let cluster = Cluster::start();
    let store: RedisStore = open(&cluster.url()).await.unwrap();
    for number in 0..40 {
        claimed(&store, &format!("k{number}")).await;
    }
    let counts = cluster.query_each(&["DBSIZE"]);
    assert!(counts.iter().all(|count| count != "0"), "{counts:?}");
    let page = store.list(unavez_store::Filter::default(), None, 100).await.unwrap();
    assert_eq!(page.records.len(), 40);
}

#[tokio::test]
async fn a_server_without_memory_takes_no_claim_and_still_ends_what_was_claimed() {
    let server = Server::start(&[]);
    let database = server.database();
    let store = open_with(&database.url(), Options::default()).await.unwrap();
    let fence = claimed(&store, "k1").await.fence;
    finished(&store, "before").await;
    database.query(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = store.swap(id("k2"), None, claim("k2", 1)).await.unwrap_err();
    assert!(!refused.may_have_happened() && refused.to_string().contains("OOM"), "{refused}");
    swapped(&store, "k1", Some(fence), finish()).await;
    assert!(loaded(&store, "k1").await.is_some());
}
