//! What a server must be like.

use test_redis::{Cluster, Server};
use unavez_core::identity::Realm;
use unavez_store::Store;
use unavez_store::redis::{Options, Warning};

use crate::support::{open, open_with};

async fn refusal(settings: &[&str]) -> String {
    let server = Server::start(settings);
    open(&server.database().url()).await.unwrap_err().to_string()
}

#[tokio::test]
async fn c114_a_server_that_may_lose_records_by_itself_is_refused() {
    assert_eq!(
        refusal(&["maxmemory-policy allkeys-lru"]).await,
        "the server has maxmemory_policy = allkeys-lru, so it may delete a record while its promise stands, and a repeat \
         would run again; set `maxmemory-policy noeviction`, and give records a server of their own"
    );
    assert_eq!(
        refusal(&["appendonly no"]).await,
        "the server has aof_enabled = 0, so a restart takes back what it acknowledged; set `appendonly yes` and \
         `appendfsync always`"
    );
    assert_eq!(
        refusal(&["appendfsync no"]).await,
        "the server has appendfsync = no, so a machine that fails takes back what it acknowledged; set it to always, or \
         to everysec where a second may be lost"
    );
}

#[tokio::test]
async fn c114_what_is_allowed_and_may_be_lost_is_told() {
    let server = Server::start(&[]);
    let database = server.database();
    assert_eq!(open(&database.url()).await.unwrap().warnings(), []);
    database.query(&["CONFIG", "SET", "appendfsync", "everysec"]);
    assert_eq!(open(&database.url()).await.unwrap().warnings(), [Warning::SyncsEverySecond]);
    database.query(&["ACL", "SETUSER", "default", "-config"]);
    assert_eq!(open(&database.url()).await.unwrap().warnings(), [Warning::SyncUnknown]);
}

#[tokio::test]
async fn c114_every_master_of_a_cluster_is_checked() {
    let cluster = Cluster::start();
    assert_eq!(open(&cluster.url()).await.unwrap().warnings(), []);
    let policy = "volatile-ttl";
    let last = cluster.node(2).database();
    last.query(&["CONFIG", "SET", "maxmemory-policy", policy]);
    let refused = open(&cluster.url()).await.unwrap_err().to_string();
    assert!(refused.starts_with("the server has maxmemory_policy = volatile-ttl"), "{refused}");
}

#[tokio::test]
async fn the_realm_is_stored_and_another_refused() {
    let database = Server::shared().database();
    let named = |name: &str| Options { realm: Some(Realm::parse(name).unwrap()), ..Options::default() };
    let store = open_with(&database.url(), named("shop")).await.unwrap();
    assert_eq!(store.realm(), open(&database.url()).await.unwrap().realm());
    let refused = open_with(&database.url(), named("other")).await.unwrap_err().to_string();
    assert_eq!(refused, "the server's records belong to realm `shop`, not to `other`");
}

#[tokio::test]
async fn nobody_there_is_said_at_once() {
    let refused = open("redis://127.0.0.1:1").await.unwrap_err().to_string();
    assert!(refused.starts_with("no connection to Redis: "), "{refused}");
}
