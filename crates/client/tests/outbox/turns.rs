//! Several workers, in one process and in two: nobody runs what another runs, and no host holds up another.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use unavez_client::outbox::{End, Happening};

use crate::shop::{Server, Shop, Step, once, sent, state, worker};

const LEASE: Duration = Duration::from_secs(15);

#[tokio::test(start_paused = true)]
async fn p29_two_processes_with_two_workers_each_send_everything_once() {
    let shop = Shop::new();
    let slow = std::iter::repeat_n(Step::Slow(Duration::from_millis(70), 201), 40);
    let server = Server::new(slow);
    let (one, other) = (shop.open(), shop.open());
    for order in 0..40 {
        one.put(&shop.charge(&format!("o-{order}"))).await.unwrap();
    }
    let workers = [&one, &one, &other, &other].map(|outbox| worker(outbox, &server).with_calls(3, 3));
    let [a, b, c, d] = &workers;
    let all = async { tokio::join!(a.run(), b.run(), c.run(), d.run()) };
    timeout(Duration::from_secs(10), all).await.unwrap_err();
    let mut requests = server.requests();
    requests.sort();
    let mut expected: Vec<String> = (0..40).map(|order| sent(&format!("o-{order}"))).collect();
    expected.sort();
    assert_eq!(requests, expected);
    assert_eq!(one.backlog().await.unwrap().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn p29_a_call_longer_than_its_lease_renews_it() {
    let (shop, server) = (Shop::new(), Server::new([Step::Slow(LEASE * 2 - LEASE / 10, 201)]));
    let outbox = shop.open();
    outbox.put(&shop.charge("o-1")).await.unwrap();
    let (owner, other) = (worker(&outbox, &server), worker(&shop.open(), &server));
    let owner = tokio::spawn(async move { owner.deliver_one().await.unwrap().unwrap() });
    sleep(LEASE + LEASE / 10).await;
    assert_eq!(other.deliver_one().await.unwrap(), None);
    assert_eq!(owner.await.unwrap().end, End::Done);
    assert_eq!(server.requests(), [sent("o-1")]);
}

#[tokio::test(start_paused = true)]
async fn p29_a_lost_lease_stores_nothing_and_does_no_harm() {
    // Refused by something before the record, while another worker is charging.
    let script = [Step::Slow(Duration::from_secs(2), 404), Step::Slow(Duration::from_secs(3), 201)];
    let (shop, server) = (Shop::new(), Server::new(script));
    let (outbox, other) = (shop.open(), shop.open());
    outbox.put(&shop.charge("o-1")).await.unwrap();
    let slept = worker(&outbox, &server);
    let slept = tokio::spawn(async move { slept.deliver_one().await.unwrap().unwrap() });
    sleep(Duration::from_secs(1)).await;
    // As if its process had been stopped for longer than the lease.
    shop.set_forth(LEASE * 2);
    assert_eq!(worker(&other, &server).deliver_one().await.unwrap().unwrap().end, End::Done);
    assert_eq!(slept.await.unwrap().end, End::LeaseLost);
    assert_eq!(server.requests(), [sent("o-1"), sent("o-1")]);
    assert_eq!(state(&outbox, "o-1").await, "done 201");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_hangs_holds_up_no_other() {
    let shop = Shop::new();
    let server = Server::new([]);
    let outbox = shop.open();
    for order in 0..20 {
        outbox.put(&shop.charge_at("a.test", &format!("a-{order}"))).await.unwrap();
    }
    outbox.put(&shop.charge_at("b.test", "b-0")).await.unwrap();
    let hanging = Hanging(server.clone());
    let worker = outbox.worker(once().build_over(hanging)).with_calls(4, 2);
    timeout(Duration::from_secs(5), worker.run()).await.unwrap_err();
    assert_eq!((server.count("a.test"), server.count("b.test")), (0, 1));
    assert_eq!(state(&outbox, "b-0").await, "done 201");
}

/// The server, of which one host hangs before anything is read.
struct Hanging(Server);

impl unavez_client::Transport for Hanging {
    async fn exchange(
        &self,
        request: http::Request<http_body_util::Full<bytes::Bytes>>,
        answer_bytes_max: usize,
    ) -> unavez_client::Exchanged {
        if request.uri().host() == Some("a.test") {
            return std::future::pending().await;
        }
        self.0.exchange(request, answer_bytes_max).await
    }
}

#[tokio::test(start_paused = true)]
async fn p31_calls_that_fail_come_back_after_growing_waits_across_processes() {
    let shop = Shop::new();
    let server = Server::new([Step::Say(503); 6]);
    shop.open().put(&shop.charge("o-1")).await.unwrap();
    let waits = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..3 {
        let seen = Arc::clone(&waits);
        let client = once().with_random(|| u64::MAX).build_over(server.clone());
        let worker = shop.open().worker(client).with_listener(move |happening| {
            if let Happening::Delivered(delivered) = happening
                && let End::Later { wait, .. } = &delivered.end
            {
                seen.lock().unwrap().push(wait.as_secs_f64().round());
            }
        });
        let until = waits.lock().unwrap().len() + 2;
        let enough = async {
            while waits.lock().unwrap().len() < until {
                sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            _ = worker.run() => {}
            () = enough => {}
        }
    }
    assert_eq!(*waits.lock().unwrap(), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
    assert_eq!(state(&shop.open(), "o-1").await, "waiting, 6 calls");
}

#[tokio::test(start_paused = true)]
async fn a_put_wakes_the_worker_and_another_process_is_seen_at_its_next_look() {
    let (shop, server) = (Shop::new(), Server::new([]));
    let (outbox, other) = (shop.open(), shop.open());
    let worker = worker(&outbox, &server);
    let running = tokio::spawn(async move { worker.run().await });
    sleep(Duration::from_millis(10)).await;
    outbox.put(&shop.charge("o-1")).await.unwrap();
    sleep(Duration::from_millis(10)).await;
    assert_eq!(state(&outbox, "o-1").await, "done 201");
    other.put(&shop.charge("o-2")).await.unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(state(&outbox, "o-2").await, "done 201");
    running.abort();
}
