//! The published figures, measured at the real servers: real HTTP, real files, really lost responses.

use std::{net::Ipv4Addr, num::NonZeroUsize};

use tokio::net::TcpListener;
use unavez_lab::{
    Mutation, Remote,
    fleet::{Figures, Intent, Options, World, run, sweep},
    progress::Silent,
};
use unavez_payments::{Payments, Settings, server};
use unavez_store::sqlite;

/// The figures of a server without memory and of the idempotent one, in the order of their published table.
struct Row {
    seed: u64,
    loss: &'static str,
    intent: u64,
    requests: u64,
    charged_before: u64,
    overcharge: u64,
    percent: f64,
    charged_twice: u64,
    unconfirmed: u64,
}

impl Row {
    fn before(&self) -> World {
        World {
            requests: self.requests,
            executions: self.requests,
            ledger_charges: self.requests,
            orders_charged_twice: self.charged_twice,
            orders_not_charged: 0,
            total_charged: self.charged_before,
            overcharge: self.overcharge,
            undercharge: 0,
            overcharge_percent: self.percent,
            unconfirmed: self.unconfirmed,
            found_by_key_status: 0,
        }
    }

    fn after(&self) -> World {
        World {
            requests: self.requests,
            executions: 1_000,
            ledger_charges: 1_000,
            orders_charged_twice: 0,
            orders_not_charged: 0,
            total_charged: self.intent,
            overcharge: 0,
            undercharge: 0,
            overcharge_percent: 0.0,
            unconfirmed: self.unconfirmed,
            found_by_key_status: self.unconfirmed,
        }
    }
}

fn at_once(concurrency: usize) -> NonZeroUsize {
    NonZeroUsize::new(concurrency).expect("at least one")
}

async fn measured(options: Options) -> Figures {
    run(&options, &Silent).await.expect("private servers can be measured")
}

async fn check(row: Row, concurrency: usize) {
    let loss = row.loss.parse().expect("a share");
    let figures =
        measured(Options { seed: row.seed, loss, concurrency: at_once(concurrency), ..Options::default() })
            .await;
    assert_eq!(figures.intent, Intent { charges: 1_000, total: row.intent });
    assert_eq!(figures.before, Some(row.before()));
    assert_eq!(figures.after, row.after());
    assert!(figures.passed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_42_loses_15_percent_one_order_at_a_time() {
    let row = Row {
        seed: 42,
        loss: "0.15",
        intent: 256_979,
        requests: 1_184,
        charged_before: 305_118,
        overcharge: 48_139,
        percent: 18.7,
        charged_twice: 146,
        unconfirmed: 0,
    };
    check(row, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_42_loses_30_percent() {
    let row = Row {
        seed: 42,
        loss: "0.30",
        intent: 256_979,
        requests: 1_401,
        charged_before: 364_315,
        overcharge: 107_336,
        percent: 41.8,
        charged_twice: 283,
        unconfirmed: 3,
    };
    check(row, 16).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_42_loses_90_percent() {
    let row = Row {
        seed: 42,
        loss: "0.90",
        intent: 256_979,
        requests: 3_450,
        charged_before: 885_212,
        overcharge: 628_233,
        percent: 244.5,
        charged_twice: 901,
        unconfirmed: 663,
    };
    check(row, 16).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_7_loses_15_percent() {
    let row = Row {
        seed: 7,
        loss: "0.15",
        intent: 247_660,
        requests: 1_173,
        charged_before: 291_378,
        overcharge: 43_718,
        percent: 17.7,
        charged_twice: 149,
        unconfirmed: 0,
    };
    check(row, 16).await;
}

fn small() -> Options {
    Options { orders: 60, loss: "0.4".parse().expect("a share"), ..Options::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrency_changes_no_figure() {
    let one = measured(small()).await;
    let many = measured(Options { concurrency: at_once(20), ..small() }).await;
    assert_eq!(one, many);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_orders_and_nothing_but_losses_are_fleets_too() {
    let none = measured(Options { orders: 0, ..Options::default() }).await;
    assert_eq!((none.intent.total, none.after.requests, none.after.overcharge_percent), (0, 0, 0.0));

    let lost =
        measured(Options { orders: 10, loss: "1".parse().expect("a share"), ..Options::default() }).await;
    let before = lost.before.expect("measured");
    assert_eq!((before.requests, before.total_charged), (40, 4 * lost.intent.total));
    assert_eq!((lost.after.unconfirmed, lost.after.found_by_key_status), (10, 10));
    assert!(lost.passed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_without_the_claims_atomicity_looks_perfect() {
    let figures = measured(Options { mutation: Some(Mutation::CheckThenWrite), ..small() }).await;
    assert!(figures.passed(), "one order at a time never races");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_for_every_attempt_charges_like_no_memory_at_all() {
    let figures = measured(Options { mutation: Some(Mutation::KeyPerAttempt), ..small() }).await;
    let before = figures.before.expect("measured");
    assert_eq!(figures.after.overcharge, before.overcharge);
    assert!(!figures.passed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_from_the_amount_melts_orders_into_one() {
    let figures = measured(Options { orders: 200, mutation: Some(Mutation::KeyFromAmount), ..small() }).await;
    assert!(figures.after.orders_not_charged > 0 && figures.after.undercharge > 0);
    assert!(!figures.passed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_rises_before_and_stays_at_zero_after() {
    let sweep = sweep(&Options { orders: 30, ..Options::default() }, &Silent).await.expect("private servers");
    assert_eq!(sweep.points.len(), 10);
    let before: Vec<_> =
        sweep.points.iter().map(|point| point.before.expect("measured").overcharge).collect();
    assert!(before[0] == 0 && before.iter().all(|over| *over <= before[9]) && before[9] > 0, "{before:?}");
    assert!(sweep.points.iter().all(Figures::passed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_service_is_measured_at_all_its_addresses_and_again() {
    let payments = Payments::open(sqlite::Location::Memory, sqlite::Options::default(), Settings::default())
        .await
        .expect("a database in memory");
    let mut addresses = Vec::new();
    for _ in 0..2 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        addresses.push(format!("http://{}", listener.local_addr().expect("bound")));
        tokio::spawn(server::serve(
            listener,
            payments.router(),
            server::Limits::default(),
            std::future::pending(),
        ));
    }
    let target = Some(Remote::parse(&addresses.join(",")).expect("addresses"));
    let alone = measured(small()).await;
    for round in 1..=2 {
        let figures = measured(Options { target: target.clone(), ..small() }).await;
        assert_eq!((figures.before, figures.after), (None, alone.after), "round {round}");
    }
}

#[tokio::test]
async fn an_order_without_attempts_is_refused() {
    let refused = run(&Options { attempts: 0, ..small() }, &Silent).await.expect_err("nothing to measure");
    assert_eq!(
        (refused.exit_code(), refused.to_string().as_str()),
        (2, "attempts is 0; an order needs at least 1")
    );
}

#[tokio::test]
async fn a_piece_between_service_and_acquirer_is_not_the_fleets() {
    let options = Options { mutation: Some(Mutation::NoLookup), ..Options::default() };
    let refused = run(&options, &Silent).await.expect_err("its charges stay in the house");
    assert_eq!(refused.exit_code(), 2);
    assert!(refused.to_string().contains("no-lookup"), "{refused}");
}
