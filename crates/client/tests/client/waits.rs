//! Waits, times and the budget (P31).

use std::time::Duration;

use tokio::time::Instant;
use unavez_client::{Backoff, BreakerLimits, BudgetLimits, BulkheadLimits, Outcome, Reason, Received};

use crate::net::{Net, Step, answer, charge, plain, status};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn c72_two_hangs_and_an_answer_are_a_success_within_the_total() {
    let net = Net::new([Step::Hang, Step::Hang, status(201)]);
    let client = net.client(plain().with_attempt_timeout(seconds(2)).with_deadline(seconds(7)));
    let begun = Instant::now();
    let outcome = client.call(&charge()).await.unwrap();
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    assert!((4.0..6.0).contains(&begun.elapsed().as_secs_f64()), "{:?}", begun.elapsed());
    assert_eq!(net.requests().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn c72_a_shorter_total_ends_the_call_on_time() {
    let net = Net::new([]);
    let client = net.client(plain().with_attempt_timeout(seconds(2)).with_deadline(seconds(3)));
    let begun = Instant::now();
    let outcome = client.call(&charge()).await.unwrap();
    assert!(
        matches!(&outcome, Outcome::Unknown(unknown) if unknown.reason == Reason::Deadline),
        "{outcome:?}"
    );
    let over = begun.elapsed() - seconds(3);
    assert!(over < Duration::from_millis(5), "{over:?}");
}

#[tokio::test(start_paused = true)]
async fn c72_without_any_time_nothing_is_sent() {
    let net = Net::new([status(201)]);
    let outcome = net.client(plain().with_deadline(Duration::ZERO)).call(&charge()).await.unwrap();
    let Outcome::Unknown(unknown) = outcome else { panic!("{outcome:?}") };
    assert_eq!((unknown.reason, unknown.received), (Reason::Deadline, Received::No));
    assert_eq!(net.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn p31_retry_after_is_waited_for_and_what_is_malformed_is_not() {
    let waited = async |headers: &str| {
        let net = Net::new([answer(503, headers, ""), status(201)]);
        let begun = Instant::now();
        let outcome = net.client(plain().with_random(|| 0)).call(&charge()).await.unwrap();
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        begun.elapsed().as_secs()
    };
    assert_eq!(waited("retry-after: 7\r\n").await, 7);
    assert_eq!(waited("retry-after: 100000\r\n").await, 60, "the cap");
    let dates = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:49:49 GMT\r\n";
    assert_eq!(waited(dates).await, 12);
    for malformed in ["soon", "-3", "3.5", "3 s", "Sun, 06 Nov 1994 08:49:49"] {
        assert_eq!(waited(&format!("retry-after: {malformed}\r\n")).await, 0, "{malformed}");
    }
    assert_eq!(waited("retry-after: 5\r\nretry-after: 9\r\n").await, 0, "nobody knows which of two is meant");
}

/// 1,000 calls of one client to a host that is down for 30 s. Nothing but the budget bounds what reaches it, and nothing but
/// full jitter spreads what comes after.
#[tokio::test(start_paused = true)]
async fn c73_an_outage_meets_a_fifth_more_and_recovery_no_herd() {
    const CALLS: usize = 1000;
    let arrivals = Arrivals::default();
    let client = plain()
        .with_attempts(20)
        .with_attempt_timeout(seconds(2))
        .with_backoff(Backoff { base: seconds(4), cap: seconds(60) })
        .with_budget(BudgetLimits { percent: 20, reserve: 0, saved_max: 1000 })
        .with_breaker(BreakerLimits { failures: u32::MAX, ..BreakerLimits::default() })
        .with_bulkhead(BulkheadLimits { permits: CALLS, waiting_max: 0 })
        .build_over(Outage { until: Instant::now() + seconds(30), arrivals: arrivals.clone() });
    let calls: Vec<_> = (0..CALLS)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.call(&charge()).await.unwrap() })
        })
        .collect();
    for call in calls {
        let _ = call.await.unwrap();
    }
    let arrivals = arrivals.0.lock().unwrap().clone();
    assert!(arrivals.len() <= CALLS * 12 / 10, "{} attempts for {CALLS} calls", arrivals.len());
    let retries: Vec<Duration> = arrivals[CALLS..].to_vec();
    assert!(retries.len() > CALLS / 10, "the budget is used: {}", retries.len());
    let after = retries.iter().filter(|at| **at >= seconds(30));
    let mut per_100_ms = std::collections::BTreeMap::<u128, usize>::new();
    after.for_each(|at| *per_100_ms.entry(at.as_millis() / 100).or_default() += 1);
    let highest = per_100_ms.values().max().copied().unwrap_or(0);
    assert!(highest * 20 <= retries.len(), "{highest} of {} retries in 100 ms", retries.len());
}

#[derive(Clone, Default)]
struct Arrivals(std::sync::Arc<std::sync::Mutex<Vec<Duration>>>);

/// 503 until the outage is over, then 201; notes when it was reached, counted from the beginning of the outage.
struct Outage {
    until: Instant,
    arrivals: Arrivals,
}

impl unavez_client::Transport for Outage {
    async fn exchange(
        &self,
        _: http::Request<http_body_util::Full<bytes::Bytes>>,
        _: usize,
    ) -> unavez_client::Exchanged {
        let now = Instant::now();
        self.arrivals.0.lock().unwrap().push(now - (self.until - seconds(30)));
        let status = if now < self.until { 503 } else { 201 };
        let answer = http::Response::builder().status(status).body(bytes::Bytes::new()).unwrap();
        unavez_client::Exchanged::Answered(answer)
    }
}

#[tokio::test(start_paused = true)]
async fn p31_the_budget_is_all_calls_together() {
    let net = Net::new(vec![status(503); 100]);
    let client = net.client(
        plain()
            .with_budget(BudgetLimits { percent: 20, reserve: 3, saved_max: 100 })
            .with_breaker(BreakerLimits { failures: u32::MAX, ..BreakerLimits::default() }),
    );
    for _ in 0..10 {
        assert!(matches!(client.call(&charge()).await.unwrap(), Outcome::Unknown(_)));
    }
    assert_eq!(net.requests().len(), 10 + 10 / 5 + 3);
}
