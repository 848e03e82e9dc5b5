//! The breaker of a host, as calls meet it (P33).

use std::time::Duration;

use unavez_client::{BreakerLimits, BudgetLimits, Outcome, Reason, Received};

use crate::net::{Net, Step, charge, plain, status};

fn once() -> unavez_client::ClientBuilder {
    plain().with_attempts(1)
}

async fn codes(client: &unavez_client::Client<unavez_client::Wire<Net>>, calls: usize) {
    for _ in 0..calls {
        let _ = client.call(&charge()).await.unwrap();
    }
}

fn is_not_sent(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unknown(unknown) if unknown.received == Received::No)
}

#[tokio::test(start_paused = true)]
async fn c75_fifty_declines_are_no_outage() {
    let net = Net::new(vec![status(402); 51]);
    let client = net.client(once());
    codes(&client, 51).await;
    assert_eq!(net.requests().len(), 51);
}

#[tokio::test(start_paused = true)]
async fn c75_five_failures_with_a_refusal_between_open_it_and_a_probe_closes_it() {
    let script = [503, 503, 503, 503, 422, 503, 400, 201, 201].map(status);
    let net = Net::new(script);
    let client = net.client(once());
    codes(&client, 6).await;
    assert!(is_not_sent(&client.call(&charge()).await.unwrap()));
    assert_eq!(net.requests().len(), 6);
    tokio::time::advance(BreakerLimits::default().open_for).await;
    assert!(is_not_sent(&client.call(&charge().without_key()).await.unwrap()), "no probe without a key");
    codes(&client, 3).await;
    assert_eq!(net.requests().len(), 9, "400 leaves it half-open, 201 closes it");
}

#[tokio::test(start_paused = true)]
async fn p33_timeouts_and_refused_connections_are_failures_too() {
    for step in [Step::Hang, Step::Refuse, Step::Lose, Step::CloseAtOnce] {
        let net = Net::new(vec![step.clone(); 5]);
        let client = net.client(once().with_attempt_timeout(Duration::from_secs(1)));
        codes(&client, 5).await;
        let before = net.connections();
        assert!(is_not_sent(&client.call(&charge()).await.unwrap()), "{step:?}");
        assert_eq!(net.connections(), before, "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn p33_a_probe_that_is_dropped_or_panics_frees_its_place() {
    let failures = vec![status(503); 5];
    let net = Net::new([failures, vec![Step::Hang, Step::Hang, status(201)]].concat());
    let client = net.client(once());
    codes(&client, 5).await;
    tokio::time::advance(BreakerLimits::default().open_for).await;

    let dropped = tokio::time::timeout(Duration::from_secs(1), client.call(&charge())).await;
    assert!(dropped.is_err(), "{dropped:?}");
    let probing = client.clone();
    let panicked = tokio::spawn(async move {
        let operation = charge();
        tokio::select! {
            biased;
            outcome = probing.call(&operation) => outcome.map(|_| ()),
            () = tokio::time::sleep(Duration::from_secs(1)) => panic!("while it probes"),
        }
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert!(matches!(client.call(&charge()).await.unwrap(), Outcome::Done(_)));
}

/// A call that finds the breaker open waits for it, within its own time, instead of using up its attempts at once.
#[tokio::test(start_paused = true)]
async fn p33_a_call_waits_for_the_probe() {
    let net = Net::new([vec![status(503); 5], vec![status(201)]].concat());
    let budget = BudgetLimits { reserve: 100, ..BudgetLimits::default() };
    let client = net.client(plain().with_attempts(8).with_budget(budget));
    let outcome = client.call(&charge()).await.unwrap();
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    assert_eq!(net.requests().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn p33_hosts_have_breakers_of_their_own() {
    let net = Net::new([vec![status(503); 5], vec![status(201)]].concat());
    let client = net.client(once());
    codes(&client, 5).await;
    let elsewhere = unavez_client::Operation::post("http://other.test/").unwrap();
    assert!(matches!(client.call(&elsewhere).await.unwrap(), Outcome::Done(_)));
    match client.call(&charge()).await.unwrap() {
        Outcome::Unknown(unknown) => assert_eq!(unknown.reason, Reason::Attempts),
        other => panic!("{other:?}"),
    }
}
