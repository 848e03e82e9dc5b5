//! Finishing a record in the same transaction as the rows of the business.

use test_postgres::{Database, Server};
use tokio_postgres::{Client, NoTls};
use unavez_core::record::Change;
use unavez_store::postgres::{FinishInError, finish_in};

use crate::support::{claimed, finish, id, loaded, open, swapped};

async fn connected(database: &Database<'_>) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("create table orders (item text not null)").await.unwrap();
    client
}

#[tokio::test]
async fn p14_record_and_business_rows_commit_together() {
    let database = Server::shared().database();
    let store = open(&database).await;
    let mut client = connected(&database).await;
    for (key, commits) in [("k1", false), ("k2", true)] {
        let fence = claimed(&store, key, 1).await.fence;
        let tx = client.transaction().await.unwrap();
        tx.execute("insert into orders values ($1)", &[&key]).await.unwrap();
        let record = finish_in(&tx, id(key), fence, finish("o-1")).await.unwrap();
        assert_eq!(record.state.name(), "finished");
        if commits {
            tx.commit().await.unwrap();
            assert_eq!(loaded(&store, key).await, Some(record));
        } else {
            tx.rollback().await.unwrap();
            assert_eq!(loaded(&store, key).await.unwrap().state.name(), "in_progress");
        }
    }
    assert_eq!(database.query("select item from orders"), "k2");
}

#[tokio::test]
async fn p11_an_overtaken_owner_commits_nothing() {
    let database = Server::shared().database();
    let store = open(&database).await;
    let mut client = connected(&database).await;
    let late = claimed(&store, "k1", 1).await.fence;
    swapped(&store, "k1", Some(late), Change::Release).await;
    let successor = claimed(&store, "k1", 2).await;
    let tx = client.transaction().await.unwrap();
    tx.execute("insert into orders values ('late')", &[]).await.unwrap();
    let refusal = finish_in(&tx, id("k1"), late, finish("o-1")).await.unwrap_err();
    let FinishInError::Overtaken(Some(record)) = refusal else { panic!("{refusal:?}") };
    assert_eq!(record, successor);
    tx.rollback().await.unwrap();

    let fence = swapped(&store, "k1", Some(successor.fence), Change::Finish(finish("o-2"))).await.fence;
    let tx = client.transaction().await.unwrap();
    let refusal = finish_in(&tx, id("k1"), fence, finish("o-3")).await.unwrap_err();
    assert!(matches!(refusal, FinishInError::Illegal(_)), "{refusal:?}");
}
