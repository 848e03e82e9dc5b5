//! Links `unavez-core` into a library that has no std: the proof that core needs none.
//!
//! `#![no_std]` in core is not enough, since any dependency may bring std along without a word. Here it cannot:
//! this library defines the panic handler, std defines another one, and two do not link ("found duplicate lang
//! item `panic_impl`"). A library rather than a program, because a `main` without std takes `unsafe`.
//!
//! ```text
//! cargo build --manifest-path xtask/no-std-proof/Cargo.toml --target-dir target/no-std-proof
//! ```

#![no_std]

use core::panic::PanicInfo;
use core::time::Duration;

use unavez_core::decision::{Decision, Incoming, decide};
use unavez_core::derive::derive;
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::outcome::Effect;
use unavez_core::record::{AttemptTiming, Claim, Exposure, Record};
use unavez_core::retry::{Budget, BudgetLimits, Call, Ended, Nature, Next, Policy, Start};
use unavez_core::seal::{Owner, SealKeys};
use unavez_core::time::Time;

#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

type Decide = fn(&[u8], &[u8], [u8; 16], Time) -> Option<Decision>;

/// Keeps [`decide_one`], and with it what it calls, from being dropped as unused.
#[used]
static DECIDED: Decide = decide_one;

/// One request's way through core: key, fingerprint, record, decision.
fn decide_one(header: &[u8], body: &[u8], attempt: [u8; 16], now: Time) -> Option<Decision> {
    let key = Key::parse_header_values([header]).ok()??;
    let (realm, tenant) = (Realm::parse("proof").ok()?, Tenant::single());
    let request = RequestParts {
        method: "POST",
        path: "/v1/charges",
        query: None,
        content_type: Some("application/json"),
        content_encoding: None,
        body,
    };
    let fingerprint = Fingerprint::of(&request, &Rules::default()).ok()?;
    let id = RecordId::of(&realm, &tenant, &key);
    let timing = AttemptTiming {
        operation_timeout: Duration::from_secs(60),
        attempt_deadline: Duration::from_secs(50),
    };
    let claim = Claim {
        tenant,
        key,
        fingerprint: fingerprint.clone(),
        attempt: AttemptId::from_bytes(attempt),
        timing,
        exposure: Exposure::Contained,
    };
    let record = Record::claimed(id, claim, now);
    let incoming = Incoming {
        fingerprint: &fingerprint,
        effect: Effect::Transactional,
        response_ttl: Duration::from_secs(24 * 3600),
    };
    Some(decide(&record, &incoming, now))
}

/// The same for what no request needs: derived keys and sealed answers.
#[used]
static SEALED: fn(&str, &[u8], [u8; 24]) -> Option<bool> = seal_one;

fn seal_one(key_file: &str, answer: &[u8], nonce: [u8; 24]) -> Option<bool> {
    let keys = SealKeys::parse(key_file).ok()?;
    let key = derive("charge", &["o-1001"]).ok()?;
    let owner = Owner { realm: &Realm::parse("proof").ok()?, tenant: &Tenant::single(), key: &key };
    let opened = keys.open(owner, &keys.seal(nonce, owner, answer)).ok()?;
    Some(opened == answer)
}

/// And the client's side: one attempt that was cut off.
#[used]
static RETRIED: fn(u64, Time) -> Option<Next> = retry_one;

fn retry_one(random: u64, now: Time) -> Option<Next> {
    let mut call = Call::new(Policy::default(), Start::fresh(Nature::Keyed), now).ok()?;
    Some(call.after(&Ended::Cut, &mut Budget::new(BudgetLimits::default()), random, now))
}
