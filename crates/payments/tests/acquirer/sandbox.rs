//! What the sandbox does with each payment method and step.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinSet;
use unavez_core::time::Time;
use unavez_payments::acquirer::sandbox::{Behaviour, Dedupe, Lookup, PENDING, Sandbox, SandboxAcquirer};
use unavez_payments::acquirer::signature::Secrets;
use unavez_payments::acquirer::{Acquirer, Answer, Instruction, Kind, Listed};
use unavez_payments::charge::OrderId;
use unavez_store::clock::Clock as _;
use unavez_store::sqlite::{Location, Options};

use crate::support::{Bench, amount, cannot_say, declined, done, payment, sighted, step};

const SECOND: Duration = Duration::from_secs(1);

fn bench() -> Bench {
    Bench::new(Behaviour::default())
}

fn authorized(key: &str) -> Instruction {
    Instruction { captures_at_once: false, ..payment(key, "tok_approve") }
}

#[tokio::test]
async fn every_payment_method_answers_as_it_promises_and_is_found_afterwards() {
    let bench = bench();
    let check = async |method: &str, first: &str, executed: u64, found: &str| {
        let payment = payment(method, method);
        assert_eq!(class(&bench.send(&payment).await), first, "{method}: first answer");
        assert_eq!(bench.executed(&payment).await, executed, "{method}");
        assert_eq!(class(&bench.look_up(&payment).await), found, "{method}: asked");
    };
    check("tok_approve", "done", 1, "done").await;
    check("tok_decline", "declined", 1, "declined").await;
    check("tok_pending", "pending", 1, "pending").await;
    check("tok_pending_decline", "pending", 1, "pending").await;
    check("tok_error_after", "cannot say", 1, "done").await;
    check("tok_error", "cannot say", 0, "not found").await;
}

fn class(answer: &Answer) -> &'static str {
    match answer {
        Answer::Done(_) => "done",
        Answer::Declined(_) => "declined",
        Answer::Pending(_) => "pending",
        Answer::NotFound => "not found",
        Answer::Sighted(_) => "sighted",
        Answer::CannotSay(_) => "cannot say",
        Answer::NotSent(_) => "not sent",
    }
}

#[tokio::test]
async fn a_lost_answer_never_comes_and_its_repeat_does() {
    let bench = bench();
    let lost = payment("k", "tok_lost");
    {
        let mut sent = pin!(bench.send(&lost));
        // Polled until it was executed, and once more: silence is not an answer that takes its time.
        loop {
            let polled = poll_fn(|cx| Poll::Ready(sent.as_mut().poll(cx).is_ready())).await;
            assert!(!polled, "a lost answer came");
            if bench.executed(&lost).await == 1 {
                break;
            }
        }
        assert!(poll_fn(|cx| Poll::Ready(sent.as_mut().poll(cx).is_pending())).await);
    }
    done(bench.look_up(&lost).await);
    done(bench.send(&lost).await);
    assert_eq!(bench.executed(&lost).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_takes_its_time() {
    let bench = bench();
    let started = tokio::time::Instant::now();
    done(bench.send(&payment("k", "tok_slow_1500")).await);
    assert!(started.elapsed() >= Duration::from_millis(1500));
}

#[tokio::test]
async fn pending_is_decided_after_two_seconds() {
    let bench = bench();
    let (good, bad) = (payment("good", "tok_pending"), payment("bad", "tok_pending_decline"));
    let Answer::Pending(report) = bench.send(&good).await else { panic!("decided at once") };
    let next_action = report.next_action.expect("somebody has to do something");
    assert!(next_action.starts_with("{\"type\":\"redirect\",\"url\":\"https://"), "{next_action}");
    bench.send(&bad).await;
    bench.clock.advance(PENDING - Duration::from_micros(1));
    assert!(matches!(bench.look_up(&good).await, Answer::Pending(_)));
    bench.clock.advance(Duration::from_micros(1));
    assert_eq!(done(bench.look_up(&good).await).next_action, None);
    assert_eq!(declined(bench.look_up(&bad).await), "card_declined");
}

#[tokio::test]
async fn an_id_is_remembered_for_as_long_as_it_says() {
    let window = Duration::from_secs(3600);
    let payment = payment("k", "tok_approve");
    for (dedupe, after_an_hour) in [(Dedupe::Forever, 1), (Dedupe::For(window), 2), (Dedupe::Off, 3)] {
        let bench = Bench::new(Behaviour { dedupe, ..Behaviour::default() });
        let first = done(bench.send(&payment).await);
        bench.clock.advance(window - Duration::from_micros(1));
        let again = done(bench.send(&payment).await);
        assert_eq!(first == again, dedupe != Dedupe::Off, "{dedupe:?}");
        bench.clock.advance(Duration::from_micros(1));
        done(bench.send(&payment).await);
        assert_eq!(bench.executed(&payment).await, after_an_hour, "{dedupe:?}");
        done(bench.look_up(&payment).await);
    }
}

#[tokio::test]
async fn one_id_means_one_content() {
    let bench = bench();
    let original = payment("k", "tok_approve");
    done(bench.send(&original).await);
    let mut others = vec![
        payment("k", "tok_decline"),
        Instruction { captures_at_once: false, ..original.clone() },
        Instruction { order_id: OrderId::parse("o-2").unwrap(), ..original.clone() },
        step("k", Kind::Refund, &original, 10_000),
    ];
    let mut dearer = original.clone();
    dearer.subject.amount = amount(10_001);
    others.push(dearer);
    for other in others {
        assert_eq!(
            sighted(bench.send(&other).await),
            "has other content under the operation's id",
            "{other:?}"
        );
    }
    assert_eq!(bench.executed(&original).await, 1);
}

#[tokio::test]
async fn one_id_means_one_step() {
    let bench = bench();
    let (payment, another) = (payment("p", "tok_approve"), payment("p2", "tok_approve"));
    done(bench.send(&payment).await);
    done(bench.send(&another).await);
    let refund = step("r", Kind::Refund, &payment, 500);
    done(bench.send(&refund).await);
    for other in [
        step("r", Kind::Refund, &payment, 501),
        step("r", Kind::Refund, &another, 500),
        step("r", Kind::Void, &payment, 500),
        Instruction { subject: crate::support::payment("r", "tok_approve").subject, ..payment.clone() },
    ] {
        assert_eq!(
            sighted(bench.send(&other).await),
            "has other content under the operation's id",
            "{other:?}"
        );
    }
    assert_eq!(bench.executed(&refund).await, 1);
}

#[tokio::test]
async fn a_capture_takes_what_was_authorized_or_less_and_once() {
    let bench = bench();
    let payment = authorized("p");
    done(bench.send(&payment).await);
    let refused = |key, minor_units| step(key, Kind::Capture, &payment, minor_units);
    assert_eq!(declined(bench.send(&refused("more", 10_001)).await), "capture_exceeds_authorized");
    assert_eq!(declined(bench.send(&step("early", Kind::Refund, &payment, 1)).await), "not_captured");
    let capture = step("part", Kind::Capture, &payment, 4_000);
    let report = done(bench.send(&capture).await);
    assert_eq!(
        (report.kind, report.amount, report.payment),
        (Kind::Capture, amount(4_000), Some(payment.subject.operation_id))
    );
    assert_eq!(declined(bench.send(&refused("again", 1)).await), "already_captured");
    assert_eq!(declined(bench.send(&step("void", Kind::Void, &payment, 10_000)).await), "already_captured");
    assert_eq!(done(bench.send(&capture).await), report, "the step's repeat");
    assert_eq!(done(bench.look_up(&capture).await), report);
}

#[tokio::test]
async fn a_void_gives_the_whole_authorization_up() {
    let bench = bench();
    let payment = authorized("p");
    done(bench.send(&payment).await);
    assert_eq!(declined(bench.send(&step("part", Kind::Void, &payment, 1)).await), "void_of_part");
    done(bench.send(&step("void", Kind::Void, &payment, 10_000)).await);
    for (key, kind) in [("c", Kind::Capture), ("v", Kind::Void), ("r", Kind::Refund)] {
        assert_eq!(
            declined(bench.send(&step(key, kind, &payment, 10_000)).await),
            "payment_voided",
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn steps_wait_for_their_payment_and_a_declined_one_has_none() {
    let bench = bench();
    let (pending, bad) = (payment("p", "tok_pending"), payment("d", "tok_decline"));
    bench.send(&pending).await;
    bench.send(&bad).await;
    assert_eq!(declined(bench.send(&step("r1", Kind::Refund, &pending, 1)).await), "payment_pending");
    assert_eq!(declined(bench.send(&step("r2", Kind::Refund, &bad, 1)).await), "payment_declined");
    let refusal = step("r1", Kind::Refund, &pending, 1);
    bench.clock.advance(PENDING);
    assert_eq!(declined(bench.send(&refusal).await), "payment_pending", "bound to the id");
    done(bench.send(&step("r3", Kind::Refund, &pending, 1)).await);
    let nowhere = step("r4", Kind::Refund, &payment("never sent", "tok_approve"), 1);
    assert_eq!(cannot_say(bench.send(&nowhere).await), "answered 404 payment_not_found");
    let on_a_step = step("r5", Kind::Refund, &refusal, 1);
    assert_eq!(cannot_say(bench.send(&on_a_step).await), "answered 404 payment_not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn c86_refunds_at_once_never_exceed_what_was_captured() {
    let bench = Arc::new(bench());
    let payment = payment("p", "tok_approve");
    done(bench.send(&payment).await);
    let mut refunds = JoinSet::new();
    for number in 0..20 {
        let refund = step(&format!("r{number}"), Kind::Refund, &payment, 3_000);
        let bench = Arc::clone(&bench);
        refunds.spawn(async move { bench.send(&refund).await });
    }
    let answers = refunds.join_all().await;
    let refunded = answers.iter().filter(|answer| matches!(answer, Answer::Done(_))).count();
    assert_eq!(refunded, 3);
    for answer in answers {
        if !matches!(answer, Answer::Done(_)) {
            assert_eq!(declined(answer), "refund_exceeds_captured");
        }
    }
    done(bench.send(&step("rest", Kind::Refund, &payment, 1_000)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_id_sent_many_times_at_once_is_executed_once() {
    let bench = Arc::new(bench());
    let payment = payment("p", "tok_approve");
    let mut sends = JoinSet::new();
    for _ in 0..40 {
        let (bench, payment) = (Arc::clone(&bench), payment.clone());
        sends.spawn(async move { bench.send(&payment).await });
    }
    let answers = sends.join_all().await;
    assert!(answers.iter().all(|answer| *answer == answers[0] && matches!(answer, Answer::Done(_))));
    assert_eq!(bench.executed(&payment).await, 1);
}

#[tokio::test]
async fn what_is_not_visible_yet_is_not_found_and_still_deduplicated() {
    let visibility_delay = 60 * SECOND;
    let bench = Bench::new(Behaviour { visibility_delay, ..Behaviour::default() });
    let payment = payment("k", "tok_approve");
    done(bench.send(&payment).await);
    bench.clock.advance(visibility_delay - Duration::from_micros(1));
    assert_eq!(bench.look_up(&payment).await, Answer::NotFound);
    assert!(listed(&bench, Time::MIN).await.is_empty());
    bench.clock.advance(Duration::from_micros(1));
    done(bench.look_up(&payment).await);
    assert_eq!(listed(&bench, Time::MIN).await.len(), 1);
    assert_eq!(bench.acquirer.promise(Kind::Payment).visibility_delay, visibility_delay);
}

async fn listed(bench: &Bench, since: Time) -> Vec<Listed> {
    bench.acquirer.list(since, None, 100).await.unwrap().items
}

#[tokio::test]
async fn with_its_lookup_down_it_executes_and_tells_nothing() {
    let bench = bench();
    let payment = payment("k", "tok_approve");
    done(bench.send(&payment).await);
    bench.sandbox.behave(Behaviour { lookup: Lookup::Down, ..Behaviour::default() });
    assert_eq!(cannot_say(bench.look_up(&payment).await), "answered 503 lookup_down");
    assert!(bench.acquirer.list(Time::MIN, None, 10).await.is_err());
    done(bench.send(&payment).await);
    bench.sandbox.behave(Behaviour::default());
    done(bench.look_up(&payment).await);
}

#[tokio::test]
async fn the_list_shows_every_execution_in_pages_from_a_time_on() {
    let bench = Bench::new(Behaviour { dedupe: Dedupe::Off, ..Behaviour::default() });
    let early = payment("early", "tok_approve");
    done(bench.send(&early).await);
    bench.clock.advance(SECOND);
    let since = bench.clock.now();
    let twice = payment("twice", "tok_approve");
    done(bench.send(&twice).await);
    done(bench.send(&twice).await);
    let refund = step("r", Kind::Refund, &twice, 1);
    done(bench.send(&refund).await);
    let mut seen = Vec::new();
    let mut after: Option<Box<str>> = None;
    loop {
        let page = bench.acquirer.list(since, after.as_deref(), 2).await.unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.items.iter().map(|item| (item.operation_id, item.kind, item.created_at)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let id = |instruction: &Instruction| Some(instruction.subject.operation_id);
    assert_eq!(
        seen,
        [
            (id(&twice), Kind::Payment, since),
            (id(&twice), Kind::Payment, since),
            (id(&refund), Kind::Refund, since)
        ]
    );
    assert_eq!(listed(&bench, Time::MIN).await.len(), 4);
}

#[tokio::test]
async fn what_was_answered_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::File(folder.path().join("sandbox.db"));
    let payment = payment("k", "tok_pending");
    let open = || Sandbox::open(location.clone(), Options::default(), Behaviour::default()).unwrap();
    let sandbox = open();
    let acquirer = SandboxAcquirer::in_process(&sandbox, Secrets::random());
    let outgoing = acquirer.compose(&payment).unwrap();
    let first = acquirer.send(&payment.subject, &outgoing).await;
    sandbox.close().await;
    assert!(matches!(first, Answer::Pending(_)));
    assert!(matches!(acquirer.look_up(&payment.subject).await, Answer::CannotSay(_)), "its books are closed");

    let sandbox = open();
    let acquirer = SandboxAcquirer::in_process(&sandbox, Secrets::random());
    assert!(!matches!(acquirer.look_up(&payment.subject).await, Answer::NotFound));
    assert_eq!(sandbox.executed().await.unwrap(), [(payment.subject.operation_id, 1)]);
    sandbox.close().await;
}

/// A file of books with one authorised payment of 100.00 EUR in it.
async fn books() -> (tempfile::TempDir, rusqlite::Connection) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sandbox.db");
    let sandbox =
        Sandbox::open(Location::File(path.clone()), Options::default(), Behaviour::default()).unwrap();
    let acquirer = SandboxAcquirer::in_process(&sandbox, Secrets::random());
    let payment = authorized("p");
    done(acquirer.send(&payment.subject, &acquirer.compose(&payment).unwrap()).await);
    sandbox.close().await;
    (folder, rusqlite::Connection::open(path).unwrap())
}

#[tokio::test]
async fn no_tool_can_write_a_row_that_breaks_a_rule() {
    let (_folder, books) = books().await;
    for change in [
        "captured = 10001",
        "refunded = 1",
        "captured = 100, refunded = 101",
        "voided = 1, captured = 100",
        "voided = 2",
        "outcome = 'declined'",
        "decline_code = 'x'",
        "outcome = 'declined', decline_code = 'x', captured = 1",
        "kind = 'refund'",
        "payment = 1",
        "order_id = null",
        "amount = 0",
        "currency = 'eur'",
        "decided_at = created_at - 1",
        "operation = x'00'",
    ] {
        let refused = books.execute(&format!("update executions set {change}"), []);
        assert!(refused.is_err_and(|error| error.to_string().contains("CHECK")), "{change}");
    }
    books.execute("update executions set captured = 10000, refunded = 10000", []).unwrap();
    for event in [
        "x'00', 't', '{}', 1, 0, 1",
        "randomblob(16), 't', '{}', 1, 0, 0",
        "randomblob(16), 't', '{}', 1, 0, 3",
    ] {
        let insert = format!(
            "insert into events (event, tenant, body, due_at, failures, deliveries_left) values ({event})"
        );
        assert!(
            books.execute(&insert, []).is_err_and(|error| error.to_string().contains("CHECK")),
            "{event}"
        );
    }
}

#[tokio::test]
async fn the_description_of_the_format_names_every_column_of_the_sandbox() {
    let description = include_str!("../../../../docs/format.md");
    let (_, section) = description.split_once("## The sandbox acquirer's file").unwrap();
    let (_folder, books) = books().await;
    let sql = "select tables.name, columns.name from sqlite_schema as tables, pragma_table_info(tables.name) as columns
        where tables.name in ('executions', 'events')";
    let mut columns = books.prepare(sql).unwrap();
    let names: Vec<(String, String)> = columns
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(names.len(), 24);
    for (table, column) in names {
        assert!(section.contains(&format!("`{column}`")), "{table}.{column} is not described");
    }
}
