//! A process that dies at each place, clocks that step, and rows that were edited. A process is its outbox here: what a
//! dropped one leaves is what a killed one leaves, since all there is of it is in the file.

use std::time::Duration;

use tokio::time::timeout;
use unavez_client::outbox::End;

use crate::shop::{HOUR, Server, Shop, Step, sent, state, worker};

const LEASE: Duration = Duration::from_secs(15);

#[tokio::test(start_paused = true)]
async fn p29_a_crash_between_put_and_send_forgets_nothing() {
    let (shop, server) = (Shop::new(), Server::new([]));
    shop.open().put(&shop.charge("o-1")).await.unwrap();
    let delivered = worker(&shop.open(), &server).deliver_one().await.unwrap();
    assert_eq!(delivered.unwrap().end, End::Done);
    assert_eq!(server.requests(), [sent("o-1")]);
}

#[tokio::test(start_paused = true)]
async fn p29_a_crash_between_answer_and_result_repeats_the_same_bytes_under_the_same_key() {
    let (shop, server) = (Shop::new(), Server::new([Step::Hang, Step::Say(201)]));
    let killed = shop.open();
    killed.put(&shop.charge("o-1")).await.unwrap();
    // It took effect, and the process is gone before it knows.
    timeout(Duration::from_secs(1), worker(&killed, &server).deliver_one()).await.unwrap_err();
    drop(killed);
    let outbox = shop.open();
    assert_eq!(worker(&outbox, &server).deliver_one().await.unwrap(), None, "the lease is not over");
    tokio::time::advance(LEASE).await;
    assert_eq!(worker(&outbox, &server).deliver_one().await.unwrap().unwrap().end, End::Done);
    assert_eq!(server.requests(), [sent("o-1"), sent("o-1")]);
}

#[tokio::test(start_paused = true)]
async fn p32_after_a_crash_a_refusal_that_may_not_know_the_lost_attempt_is_not_believed() {
    let (shop, server) = (Shop::new(), Server::new([Step::Hang, Step::Say(404), Step::Say(402)]));
    let killed = shop.open();
    killed.put(&shop.charge("o-1")).await.unwrap();
    timeout(Duration::from_secs(1), worker(&killed, &server).deliver_one()).await.unwrap_err();
    drop(killed);
    let outbox = shop.open();
    tokio::time::advance(LEASE).await;
    let delivered = worker(&outbox, &server).deliver_one().await.unwrap().unwrap();
    assert!(matches!(delivered.end, End::Later { .. }), "{delivered:?}");
    tokio::time::advance(LEASE).await;
    // 402 is what this server keeps for a key.
    assert_eq!(worker(&outbox, &server).deliver_one().await.unwrap().unwrap().end, End::Refused);
}

#[tokio::test(start_paused = true)]
async fn p32_a_refusal_is_believed_where_nothing_had_been_received() {
    let (shop, server) = (Shop::new(), Server::new([Step::Refuse, Step::Say(404)]));
    let outbox = shop.open();
    outbox.put(&shop.charge("o-1")).await.unwrap();
    let delivered = worker(&outbox, &server).deliver_one().await.unwrap().unwrap();
    assert!(matches!(delivered.end, End::Later { .. }), "{delivered:?}");
    tokio::time::advance(LEASE).await;
    assert_eq!(worker(&outbox, &server).deliver_one().await.unwrap().unwrap().end, End::Refused);
}

#[tokio::test(start_paused = true)]
async fn p29_what_is_older_than_the_retention_is_not_sent_and_unknown() {
    let (shop, server) = (Shop::new(), Server::new([Step::Hang]));
    let killed = shop.open();
    killed.put(&shop.charge("o-1")).await.unwrap();
    timeout(Duration::from_secs(1), worker(&killed, &server).deliver_one()).await.unwrap_err();
    drop(killed);
    shop.set_forth(25 * HOUR);
    let outbox = shop.open();
    let delivered = worker(&outbox, &server).deliver_one().await.unwrap().unwrap();
    assert!(matches!(delivered.end, End::Unknown { .. }), "{delivered:?}");
    assert_eq!(server.requests().len(), 1);
    let state = state(&outbox, "o-1").await;
    assert!(state.starts_with("unknown, received Perhaps: "), "{state}");
    assert!(state.contains("older than the time for which the server keeps keys"), "{state}");
}

#[tokio::test(start_paused = true)]
async fn p29_a_clock_that_goes_back_makes_nothing_young() {
    let (shop, server) = (Shop::new(), Server::new([]));
    shop.open().put(&shop.charge("o-1")).await.unwrap();
    shop.set_forth(25 * HOUR);
    // Somebody writes the time down, in a process that sends nothing.
    shop.open().put(&shop.charge("o-2")).await.unwrap();
    shop.set_back(30 * HOUR);
    let outbox = shop.open();
    let first = worker(&outbox, &server).deliver_one().await.unwrap().unwrap();
    let second = worker(&outbox, &server).deliver_one().await.unwrap().unwrap();
    assert!(matches!(first.end, End::Unknown { .. }), "{first:?}");
    // And what is new is still young, and nothing waits for the clock to catch up.
    assert_eq!(second.end, End::Done);
    outbox.put(&shop.charge("o-3")).await.unwrap();
    assert_eq!(worker(&outbox, &server).deliver_one().await.unwrap().unwrap().end, End::Done);
    assert_eq!(server.requests(), [sent("o-2"), sent("o-3")]);
}

#[tokio::test(start_paused = true)]
async fn p29_a_row_that_was_edited_is_not_sent_until_somebody_mends_it() {
    let (shop, server) = (Shop::new(), Server::new([]));
    let outbox = shop.open();
    outbox.put(&shop.charge("o-1")).await.unwrap();
    let edit = |from: &str, to: &str| {
        let sql =
            "update unavez_outbox_operations set body = cast(replace(cast(body as text), ?1, ?2) as blob)";
        assert_eq!(shop.sql().execute(sql, [from, to]).unwrap(), 1);
    };
    edit("o-1", "o-9");
    let delivered = worker(&outbox, &server).deliver_one().await.unwrap().unwrap();
    assert!(matches!(delivered.end, End::Unknown { .. }), "{delivered:?}");
    assert!(state(&outbox, "o-1").await.contains("not what was put"));
    edit("o-9", "o-1");
    assert!(outbox.resume(&crate::shop::key("o-1")).await.unwrap());
    assert_eq!(worker(&outbox, &server).deliver_one().await.unwrap().unwrap().end, End::Done);
    assert!(!outbox.resume(&crate::shop::key("o-1")).await.unwrap(), "what is done is not sent again");
    assert_eq!(server.requests(), [sent("o-1")]);
}
