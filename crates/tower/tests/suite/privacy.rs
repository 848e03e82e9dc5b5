//! What logs and stored rows show (P23).

use std::io;
use std::sync::{Arc, Mutex};

use axum::response::IntoResponse;
use http::StatusCode;
use tracing_subscriber::fmt::MakeWriter;
use unavez_core::answer::Content;
use unavez_core::key::Key;
use unavez_core::record::{Record, State};
use unavez_store::fault::{Call, Fault, Truth};
use unavez_tower::answers::Ran;
use unavez_tower::tenant::Tenant;
use unavez_tower::{OnLost, SealKeys};

use crate::support::*;

/// Everything that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn c60_logs_at_trace_show_no_key_no_member_and_no_answer() {
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (world, turns) = (World::new(), Counter::default());
    let turn = turns.clone();
    let app = app(world.layer().opaque(OnLost::Hold), async move || match turn.hit() {
        1 => panic!("a handler with a fault"),
        2 => (StatusCode::INTERNAL_SERVER_ERROR, "ANSWER-TEXT").into_response(),
        _ => (StatusCode::CREATED, [("x-answer", "ANSWER-HEADER")], "ANSWER-TEXT").into_response(),
    });
    let body = r#"{"card":"MEMBER-TEXT"}"#;
    world.store.fail_call_of(Call::Finish, 1, Fault::Fail);
    world.store.fail_call_of(Call::Claim, 3, Fault::InDoubt(Truth::Happened));
    for key in ["KEY-ONE", "KEY-TWO", "KEY-THREE"] {
        for _ in 0..2 {
            send(&app, post(key, body)).await;
            send(&app, post(key, r#"{"card":"MEMBER-OTHER"}"#)).await;
        }
    }
    send(&app, post("KEY-BAD,", body)).await;
    send(&app, post("KEY-FOUR", r#"{"card":"MEMBER-TEXT","card":1}"#)).await;
    world.store.fail_all(Fault::Fail);
    send(&app, post("KEY-FIVE", body)).await;
    let text = log.text();
    assert!(
        text.contains("handler panicked") && text.contains("claim in doubt"),
        "there is a log to look at:\n{text}"
    );
    for secret in ["KEY-", "MEMBER-", "ANSWER-"] {
        assert!(!text.contains(secret), "{secret} in:\n{text}");
    }
}

pub(crate) fn seal_keys(id: &str, byte: &str) -> SealKeys {
    SealKeys::parse(&format!("{id} {}\n", byte.repeat(32))).unwrap()
}

#[tokio::test(start_paused = true)]
async fn c60_a_sealed_answer_is_nowhere_in_clear_and_replays_whole() {
    let world = World::new();
    let layer = world.layer().with_seal_keys(seal_keys("k1", "a5"));
    let app = app(layer.opaque(OnLost::Hold), async || {
        (StatusCode::CREATED, [("x-answer", "HEADER")], "ANSWER-TEXT")
    });
    let first = send(&app, post("K1", B1)).await;
    let record = world.record("K1").await.unwrap();
    let State::Finished { answer, .. } = &record.state else { panic!("{:?}", record.state) };
    let Content::Sealed { bytes, .. } = &answer.content else { panic!("{:?}", answer.content) };
    for clear in [&b"ANSWER-TEXT"[..], b"HEADER"] {
        assert!(!bytes.windows(clear.len()).any(|window| window == clear));
    }
    let repeat = send(&app, post("K1", B1)).await;
    assert_eq!(
        (&repeat.body, repeat.header("x-answer"), repeat.is_replay()),
        (&first.body, Some("HEADER"), true)
    );
    assert_eq!(send(&app, post("K1", B2)).await.status, 422);
}

#[tokio::test(start_paused = true)]
async fn c60_without_its_key_a_sealed_answer_is_refused_and_nothing_runs() {
    let (world, effects) = (World::new(), Counter::default());
    let by = |keys: Option<SealKeys>| {
        let layer = keys.map_or(world.layer(), |keys| world.layer().with_seal_keys(keys));
        let handler = effects.clone();
        app(layer.opaque(OnLost::Hold), async move || {
            handler.hit();
            (StatusCode::CREATED, "made")
        })
    };
    assert_eq!(send(&by(Some(seal_keys("k1", "a5"))), post("K1", B1)).await.status, 201);
    for keys in [None, Some(seal_keys("k2", "5a"))] {
        assert_eq!(send(&by(keys), post("K1", B1)).await.problem(), (500, "internal".to_owned(), None));
    }
    let rotated = SealKeys::parse(&format!("k2 {}\nk1 {}\n", "5a".repeat(32), "a5".repeat(32))).unwrap();
    let repeat = send(&by(Some(rotated)), post("K1", B1)).await;
    assert_eq!((repeat.status, repeat.is_replay()), (201, true), "older keys still open and compare");
    assert_eq!(effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn c60_a_row_copied_to_another_key_or_tenant_does_not_open() {
    let world = World::new();
    let layer = world.layer().with_seal_keys(seal_keys("k1", "a5"));
    let engine = layer.engine().clone();
    let app = app(layer.opaque(OnLost::Hold), async || "ANSWER-TEXT");
    send(&app, post("K1", B1)).await;
    let own = world.record("K1").await.unwrap();
    assert_eq!(read(engine.replay(&own, Ran::Another)).await.body, "ANSWER-TEXT");
    let other_key = Record { key: Key::parse_path("K2").unwrap(), ..(*own).clone() };
    let other_tenant = Record { tenant: Tenant::parse("b").unwrap(), ..(*own).clone() };
    for copied in [other_key, other_tenant] {
        let seen = read(engine.replay(&copied, Ran::Another)).await;
        assert_eq!((seen.status, seen.code(), seen.is_replay()), (500, "internal".to_owned(), false));
    }
}
