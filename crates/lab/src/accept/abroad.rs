//! The tests whose charges are made by an acquirer outside: what each does, and what must be answered.
//!
//! The acquirer is a bank that executes whatever it is sent, and whose answers are lost or held up as the test says.

use std::time::Duration;

use http::StatusCode;
use unavez_core::timing::Timings;

use super::{
    Promise,
    order::{Order, Orders, Sent, answer_of, charge},
    play::{Complaint, Seen, THE_FIRST, Who, answered, must_be, must_repeat},
    stage::Stage,
};
use crate::{
    Error,
    servers::{Fate, Step, VISIBILITY_DELAY},
    wire::Answer,
};

/// How many repeats race for a lost attempt.
const ZOMBIE_RETRIES: usize = 40;

/// How often they do at most, where nobody was let in: the worker of the service may have asked just before them.
const WAVES_MAX: usize = 10;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// The decision about a pending charge is made by then.
const DECIDED: Duration = Duration::from_secs(3);

const THE_REPEAT: Who = ("the repeat", "la repetición");

pub(super) async fn play(promise: Promise, stage: &mut Stage, orders: &Orders) -> Seen {
    match promise {
        Promise::OutcomeLost => outcome_lost(stage, orders).await,
        Promise::PendingThenWebhook => pending_then_webhook(stage, orders).await,
        Promise::DeclinedIsReplayed => declined_is_replayed(stage, orders).await,
        Promise::ZombieReclaimedOnce => zombie_reclaimed_once(stage, orders).await,
        Promise::LateArrival => late_arrival(stage, orders).await,
        inside => Err(Error::broken(format!("{} needs no bank", inside.name())).into()),
    }
}

/// Executed, and the answer is lost.
async fn outcome_lost(stage: &Stage, orders: &Orders) -> Seen {
    let order = orders.order(1);
    stage.bank()?.next([Fate::AnswerLost]);
    must_not_be_known(&charge(&stage.caller(), &order).await?)?;
    stage.pass(SECOND);
    is_found(stage, &order).await?;
    Ok((
        "the answer was lost, the repeat asked and found it",
        "la respuesta se perdió, la repetición preguntó y la encontró",
    )
        .into())
}

/// Undecided at first; the decision is told by webhooks, each of which arrives twice.
async fn pending_then_webhook(stage: &Stage, orders: &Orders) -> Seen {
    let order = orders.order(1).paid_with("tok_pending");
    let pending = charge(&stage.caller(), &order).await?;
    let meanwhile = charge(&stage.caller(), &order).await?;
    stage.pass(DECIDED);
    stage.deliver().await?;
    stage.pass(DECIDED);
    stage.deliver().await?;
    must_be(&pending, StatusCode::ACCEPTED, THE_FIRST)?;
    must_be_refused_as(
        &meanwhile,
        "outcome-pending",
        ("the repeat before the decision", "la repetición antes de la decisión"),
    )?;
    is_found(stage, &order).await?;
    Ok((
        "pending, told twice by webhook, charged once",
        "pendiente, avisado dos veces por webhook, cobrado una vez",
    )
        .into())
}

/// Declined; then there is money on the card, another key pays, and a late copy of the first request arrives.
async fn declined_is_replayed(stage: &Stage, orders: &Orders) -> Seen {
    let order = orders.order(1).paid_with("tok_decline");
    let declined = charge(&stage.caller(), &order).await?;
    must_be(&declined, StatusCode::PAYMENT_REQUIRED, THE_FIRST)?;
    stage.bank()?.top_up();
    let paid = charge(&stage.caller(), &order.under_another_key()).await?;
    must_be(&paid, StatusCode::CREATED, ("the other key", "la otra clave"))?;
    stage.pass(HOUR);
    let late = charge(&stage.caller(), &order).await?;
    must_repeat(&declined, &late, ("the late copy", "la copia tardía"))?;
    Ok((
        "declined, paid under another key, and the late copy is declined again",
        "rechazado, pagado con otra clave, y la copia tardía se rechaza de nuevo",
    )
        .into())
}

/// The attempt is lost before it arrives, forty repeats want to take it over, and the answer of the one that does is lost.
async fn zombie_reclaimed_once(stage: &mut Stage, orders: &Orders) -> Seen {
    let order = orders.order(1);
    stage.bank()?.next([Fate::RequestLost, Fate::AnswerLost]);
    must_not_be_known(&charge(&stage.caller(), &order).await?)?;
    stage.pass(lost_for_good());
    for _ in 0..WAVES_MAX {
        let answers = retry_at_once(stage, &order).await?;
        if let Some(odd) = answers.iter().find(|answer| !is_in_order(answer)) {
            return answered(odd, ("one of forty repeats", "una de cuarenta repeticiones"));
        }
        if answers.iter().any(|answer| answer.status != StatusCode::CONFLICT) {
            break;
        }
    }
    // Who took over dies, and nobody remembers what was asked just now.
    stage.end_and_start_again().await?;
    stage.pass(lost_for_good());
    is_found(stage, &order).await?;
    Ok((
        "forty repeats, one sent again, and its lost answer was found",
        "cuarenta repeticiones, una envió de nuevo, y su respuesta perdida se encontró",
    )
        .into())
}

/// When a question that says "not found" counts: after the latest possible send and everything that may follow it.
fn lost_for_good() -> Duration {
    Timings::default().operation_timeout + VISIBILITY_DELAY + SECOND
}

/// As many repeats as there are, at one moment. On the lesson server one of each replica meets the other's before either
/// takes over.
async fn retry_at_once(stage: &Stage, order: &Order) -> Result<Vec<Answer>, Complaint> {
    let callers = stage.callers();
    if let Some(meeting) = stage.meeting_abroad() {
        meeting.expect(Step::TakeOver, callers.len());
    }
    let mut running = Sent::new();
    for caller in callers.iter().cycle().take(ZOMBIE_RETRIES) {
        let (caller, order) = (caller.clone(), order.clone());
        running.spawn(async move { charge(&caller, &order).await });
    }
    let mut answers = Vec::with_capacity(ZOMBIE_RETRIES);
    while let Some(answer) = running.join_next().await {
        answers.push(answer_of(Some(answer))?);
    }
    Ok(answers)
}

/// Charged, in progress or not known yet.
fn is_in_order(answer: &Answer) -> bool {
    matches!(answer.status, StatusCode::CREATED | StatusCode::CONFLICT | StatusCode::GATEWAY_TIMEOUT)
}

/// The request is held up in the network, a question says "not found", and then it arrives.
async fn late_arrival(stage: &mut Stage, orders: &Orders) -> Seen {
    let order = orders.order(1);
    stage.bank()?.next([Fate::HeldUp]);
    let first = charge(&stage.caller(), &order).await?;
    stage.pass(SECOND);
    let early = charge(&stage.caller(), &order).await?;
    stage.bank()?.let_arrive().await;
    must_not_be_known(&first)?;
    must_be_refused_as(
        &early,
        "outcome-pending",
        ("the repeat before it arrived", "la repetición antes de que llegara"),
    )?;
    stage.end_and_start_again().await?;
    is_found(stage, &order).await?;
    Ok((
        "not found at first, and not sent again; it arrived and was found",
        "al principio no estaba, y no se envió de nuevo; llegó y se encontró",
    )
        .into())
}

/// The charge is there, and every further repeat gets the same answer.
async fn is_found(stage: &Stage, order: &Order) -> Result<(), Complaint> {
    let found = charge(&stage.caller(), order).await?;
    must_be(&found, StatusCode::CREATED, THE_REPEAT)?;
    let again = charge(&stage.caller(), order).await?;
    must_repeat(&found, &again, ("the repeat after it", "la repetición siguiente"))
}

fn must_not_be_known(answer: &Answer) -> Result<(), Complaint> {
    must_be(answer, StatusCode::GATEWAY_TIMEOUT, THE_FIRST)
}

fn must_be_refused_as(answer: &Answer, code: &str, who: Who) -> Result<(), Complaint> {
    if answer.problem_code().as_deref() == Some(code) { Ok(()) } else { answered(answer, who) }
}
