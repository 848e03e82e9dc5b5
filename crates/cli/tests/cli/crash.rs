//! The process is killed under load, again and again: every acknowledged charge is there exactly once, and none half.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};

use crate::support::{Answer, Serve, folder, run};

const ROUNDS: u64 = 20;
const CLIENTS: usize = 4;

/// Other kills with another seed: `UNAVEZ_TEST_SEED=7 cargo test -p unavez crash`.
fn seed() -> u64 {
    std::env::var("UNAVEZ_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(42)
}

/// A small generator of its own, so that a seed means the same kills everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// What the clients were told, key by key.
#[derive(Default)]
struct Told {
    /// The body of the first 2xx answer.
    acknowledged: BTreeMap<String, String>,
    /// Sent, and no answer arrived.
    open: BTreeSet<String>,
    answers: u64,
}

struct Clients {
    told: Mutex<Told>,
    changed: Condvar,
    stop: AtomicBool,
}

impl Clients {
    /// Charges new keys, and every few of them repeats one that has had no answer yet.
    fn charge(&self, address: SocketAddr, round: u64, client: usize) {
        for n in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let repeat = (n % 3 == 2).then(|| self.told.lock().unwrap().open.first().cloned()).flatten();
            let key = repeat.unwrap_or_else(|| format!("key-{round}-{client}-{n}"));
            self.told.lock().unwrap().open.insert(key.clone());
            match try_charge(address, &key) {
                Some(answer) => self.hear(&key, &answer),
                None => return,
            }
        }
    }

    fn hear(&self, key: &str, answer: &Answer) {
        let mut told = self.told.lock().unwrap();
        match answer.status {
            201 => {
                told.open.remove(key);
                let first = told.acknowledged.entry(key.to_owned()).or_insert_with(|| answer.body.clone());
                assert_eq!(*first, answer.body, "{key} was told two answers");
            }
            // Two clients may repeat one open key at the same moment; a service that goes down may say so.
            409 | 503 | 504 => {}
            status => panic!("{key}: {status} {}", answer.body),
        }
        told.answers += 1;
        self.changed.notify_all();
    }

    /// Returns when so many answers have arrived.
    fn wait_for(&self, answers: u64) {
        let told = self.told.lock().unwrap();
        drop(self.changed.wait_while(told, |told| told.answers < answers).unwrap());
    }
}

fn try_charge(address: SocketAddr, key: &str) -> Option<Answer> {
    let body = serde_json::json!({"order_id": format!("order-of-{key}"), "amount": 2500, "currency": "EUR"})
        .to_string();
    let header = format!("Idempotency-Key: {key}");
    crate::support::send(address, "POST", "/v1/charges", &[&header], Some(&body))
}

#[test]
fn killed_under_load_no_acknowledged_charge_is_lost_doubled_or_half() {
    let folder = folder();
    let mut dice = Dice(seed());
    let mut told = Told::default();
    for round in 0..ROUNDS {
        let mut serve = Serve::start_with(folder.path(), &["--acquirer", "ledger"]);
        let target = told.answers + 1 + dice.below(120);
        let clients =
            Clients { told: Mutex::new(told), changed: Condvar::new(), stop: AtomicBool::new(false) };
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (clients, address) = (&clients, serve.address);
                scope.spawn(move || clients.charge(address, round, client));
            }
            clients.wait_for(target);
            crate::support::signal(serve.pid(), "KILL");
            clients.stop.store(true, Ordering::Relaxed);
        });
        serve.kill();
        told = clients.told.into_inner().unwrap();
    }
    audit(&folder, &told);
}

fn audit(folder: &tempfile::TempDir, told: &Told) {
    println!(
        "seed {}: {} acknowledged, {} open after {ROUNDS} kills",
        seed(),
        told.acknowledged.len(),
        told.open.len()
    );
    assert!(told.acknowledged.len() > 100, "the load was no load");
    let serve = Serve::start_with(folder.path(), &["--acquirer", "ledger"]);
    for (key, body) in &told.acknowledged {
        let replay = serve_charge(&serve, key);
        assert_eq!((replay.status, replay.header("idempotent-replayed")), (201, Some("true")), "{key}");
        assert_eq!(replay.body, *body, "{key}");
    }
    for key in &told.open {
        assert_eq!(serve_charge(&serve, key).status, 201, "{key}: a key without answer can be repeated");
    }
    let keys = told.acknowledged.len() + told.open.len();
    let expected = keys as u64;
    let summary = serve.get("/v1/ledger/summary", &[]).json();
    let eur = &summary["currencies"][0];
    assert_eq!((eur["charges"].as_u64(), eur["captured"].as_u64()), (Some(expected), Some(expected * 2500)));
    assert_eq!(eur["balanced"], true);
    assert_eq!(count(&serve, "/v1/charges?limit=100"), expected, "charges");
    assert_eq!(count(&serve, "/v1/ledger/entries?limit=100"), expected, "lines of the ledger");
    for key in told.acknowledged.keys().chain(&told.open) {
        let of_order = serve.get(&format!("/v1/charges?order_id=order-of-{key}"), &[]).json();
        assert_eq!(of_order["data"].as_array().map(Vec::len), Some(1), "{key}");
    }
    let records = run(folder.path(), ["keys", "list", "--limit", "10000", "--format", "json"]).json(0);
    assert_eq!(records["keys"].as_array().map(Vec::len), Some(keys), "records");
    assert!(records["keys"].as_array().unwrap().iter().all(|row| row["state"] == "finished"));
}

fn serve_charge(serve: &Serve, key: &str) -> Answer {
    try_charge(serve.address, key).expect("the service answers")
}

/// The length of a list over all its pages.
fn count(serve: &Serve, path: &str) -> u64 {
    let mut seen = 0;
    let mut after = String::new();
    loop {
        let page = serve.get(&format!("{path}{after}"), &[]).json();
        seen += page["data"].as_array().unwrap().len() as u64;
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return seen,
        }
    }
}
