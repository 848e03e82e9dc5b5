//! Too much at once, a store that does not answer, and stopping.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use unavez_core::timing::Timings;
use unavez_payments::{Limits, Settings, server};

use crate::support::{B1, Service, Setup, refused};

/// Keeps the writer's thread until the sender is dropped.
struct Blocked {
    release: mpsc::Sender<()>,
}

impl Blocked {
    /// Resolves once the writer is stuck.
    async fn begin(service: &Service) -> Self {
        let (blocked, begun) = Self::queue(service);
        begun.await.unwrap();
        blocked
    }

    /// Queues the obstacle; the receiver hears when the writer has reached it.
    fn queue(service: &Service) -> (Self, tokio::sync::oneshot::Receiver<()>) {
        let (release, released) = mpsc::channel::<()>();
        let (reached, begun) = tokio::sync::oneshot::channel();
        let store = service.payments.store().clone();
        tokio::spawn(async move {
            let stuck = store.transaction(move |_| {
                let _ = reached.send(());
                let _ = released.recv();
                Ok::<_, rusqlite::Error>(())
            });
            stuck.await
        });
        (Self { release }, begun)
    }

    fn end(self) {
        drop(self.release);
    }
}

fn with_store_timeout(store_timeout: Duration) -> Setup {
    let timings = Timings { store_timeout, ..Timings::default() };
    Setup { settings: Settings { timings, ..Settings::default() }, ..Setup::default() }
}

#[tokio::test]
async fn requests_above_the_limit_are_503_and_run_nothing() {
    let limits = Limits { in_flight_max: 1, ..Limits::default() };
    let service = Service::start_with(Setup {
        settings: Settings { limits, ..Settings::default() },
        ..Setup::default()
    })
    .await;
    // A request whose body does not come keeps its place.
    let mut slow = TcpStream::connect(service.address).await.unwrap();
    let head = format!(
        "POST /v1/charges HTTP/1.1\r\nhost: x\r\nidempotency-key: K1\r\ncontent-type: application/json\r\n\
         expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        B1.len()
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    slow.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n", "the request is inside");

    let refusal = service.charge("K2", B1).await;
    assert_eq!(refusal.refusal(), refused(503, "overloaded"));
    assert_eq!(refusal.header("retry-after"), Some("1"));
    assert!(refusal.detail().contains("limit 1"), "{refusal:?}");
    for path in ["/healthz", "/metrics"] {
        assert_eq!(service.get(path).await.status, 200, "{path} is for whoever looks why");
    }

    slow.write_all(B1.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 201");
    assert_eq!(service.charge("K2", B1).await.status, 201);
}

#[tokio::test]
async fn p17_a_store_that_does_not_begin_is_503_and_runs_nothing() {
    let service = Service::start_with(with_store_timeout(Duration::from_millis(200))).await;
    assert_eq!(service.charge("K0", B1).await.status, 201);
    let blocked = Blocked::begin(&service).await;
    let late = service.charge("K1", B1).await;
    assert_eq!(late.refusal(), refused(503, "store-unavailable"));
    assert_eq!(late.header("retry-after"), Some("1"));
    assert!(service.charge("K0", B1).await.is_replayed(), "repeats do not need the writer");
    blocked.end();
    let status = service.charge("K1", B1).await;
    assert_eq!((status.status.as_u16(), status.is_replayed()), (201, false), "the first one never ran");
    assert_eq!(service.ledger().await, (2, 5000));
}

#[tokio::test]
async fn p12_a_commit_that_may_have_happened_is_504_and_found_by_the_repeat() {
    // Long enough for the two commands to be queued on a loaded machine before the first one's time is over.
    let service = Arc::new(Service::start_with(with_store_timeout(Duration::from_secs(3))).await);
    assert_eq!(service.charge("K0", B1).await.status, 201);
    let first = Blocked::begin(&service).await;
    // Both wait in the queue, so that the writer takes them into one commit and is stuck behind the charge.
    let charging = tokio::spawn({
        let service = Arc::clone(&service);
        async move { service.charge("K1", B1).await }
    });
    while service.payments.store().stats().queued < 1 {
        tokio::task::yield_now().await;
    }
    let (second, begun) = Blocked::queue(&service);
    while service.payments.store().stats().queued < 2 {
        tokio::task::yield_now().await;
    }
    first.end();
    begun.await.unwrap();
    let in_doubt = charging.await.unwrap();
    assert_eq!(in_doubt.refusal(), refused(504, "outcome-unknown"));
    assert_eq!(in_doubt.json()["next"], "same key, never a new one");
    assert_eq!(in_doubt.json()["key_status"], "/v1/idempotency-keys/K1");
    second.end();
    let repeat = service.charge("K1", B1).await;
    assert_eq!((repeat.status.as_u16(), repeat.is_replayed()), (201, true));
    assert_eq!(service.ledger().await, (2, 5000));
}

#[tokio::test]
async fn a_caller_that_leaves_the_queue_leaves_nothing_behind() {
    let service = Service::start().await;
    assert_eq!(service.charge("K0", B1).await.status, 201);
    let blocked = Blocked::begin(&service).await;
    let mut caller = TcpStream::connect(service.address).await.unwrap();
    let request = format!(
        "POST /v1/charges HTTP/1.1\r\nhost: x\r\nidempotency-key: K1\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{B1}",
        B1.len()
    );
    caller.write_all(request.as_bytes()).await.unwrap();
    while service.payments.store().stats().queued < 1 {
        tokio::task::yield_now().await;
    }
    drop(caller);
    blocked.end();
    // c117: withdrawn, or done whole; the repeat finds out which, and either way there is one charge.
    let repeat = service.charge("K1", B1).await;
    assert_eq!(repeat.status, 201);
    assert_eq!(service.ledger().await, (2, 5000));
    assert_eq!(service.rows().await, [2, 2, 2]);
}

#[tokio::test]
async fn readiness_ends_with_the_store_and_health_does_not() {
    let service = Service::start().await;
    while service.get("/readyz").await.status != 200 {
        tokio::task::yield_now().await;
    }
    let health = service.get("/healthz").await.json();
    assert_eq!((&health["status"], &health["acquirer"]), (&"ok".into(), &"ledger".into()));
    service.payments.close().await;
    assert_eq!(service.get("/readyz").await.refusal(), refused(503, "store-unavailable"));
    assert_eq!(service.get("/healthz").await.status, 200);
    let refusal = service.charge("K1", B1).await;
    assert_eq!(refusal.refusal(), refused(503, "store-unavailable"));
}

#[tokio::test]
async fn a_shutdown_lets_running_requests_finish_and_cuts_the_rest() {
    for (drain_timeout, cut, answered) in
        [(Duration::from_secs(20), 0, true), (Duration::from_millis(100), 1, false)]
    {
        let server = server::Limits { drain_timeout, ..server::Limits::default() };
        let service = Service::start_with(Setup { server, ..Setup::default() }).await;
        let mut running = TcpStream::connect(service.address).await.unwrap();
        let head = "POST /v1/charges HTTP/1.1\r\nhost: x\r\nidempotency-key: K1\r\ncontent-type: application/json\r\n\
                    expect: 100-continue\r\n";
        running.write_all(format!("{head}content-length: {}\r\n\r\n", B1.len()).as_bytes()).await.unwrap();
        let mut go_on = [0; 25];
        running.read_exact(&mut go_on).await.unwrap();
        let address = service.address;
        let finish = tokio::spawn(async move {
            if answered {
                // Nobody new is let in any more; then the running request gets the rest of its body.
                while TcpStream::connect(address).await.is_ok() {
                    tokio::task::yield_now().await;
                }
                running.write_all(B1.as_bytes()).await.unwrap();
            }
            let mut heard = Vec::new();
            drop(running.read_to_end(&mut heard).await);
            heard.starts_with(b"HTTP/1.1 201")
        });
        let (_folder, drained) = service.stop().await;
        assert_eq!(drained.cut, cut);
        assert_eq!(finish.await.unwrap(), answered);
    }
}
