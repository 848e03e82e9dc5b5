//! What each test does to a service, and what the service must answer. What the ledger must show is checked by the
//! caller, the same way for all.

use std::{sync::Arc, time::Duration};

use http::{StatusCode, header::RETRY_AFTER};
use tokio::{
    sync::{Barrier, watch},
    time::timeout,
};

use super::{
    Promise, abroad,
    order::{CHARGES_PATH, Order, Orders, Sent, answer_of, charge, charge_at, send},
    stage::Stage,
};
use crate::{
    Error, Lang, Said,
    keys::KeyPolicy,
    servers::{Lesson, ONE_COMMIT_PATH, SLOW_PATH, Step},
    wire::{Answer, Cut},
};

/// How many equal requests race where nothing forces their meeting; more of them meet more surely.
const RACERS: usize = 16;

/// How many race where their meeting is forced.
const RACERS_HELD: usize = 2;

/// How long a test waits for something that must happen. Far beyond anything a working service needs: it ends a test,
/// it never decides one.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a test saw the service answer: as promised, or not.
pub(super) type Seen = Result<Said, Complaint>;

/// Who was answered, in both languages.
pub(super) type Who = (&'static str, &'static str);

pub(super) const THE_FIRST: Who = ("the first request", "la primera solicitud");

/// Why a promise does not hold, or cannot be tested.
#[derive(Debug)]
pub(super) enum Complaint {
    /// What was seen instead.
    Broken(Said),
    /// The test could not be made.
    Unmade(Error),
}

impl From<Error> for Complaint {
    fn from(error: Error) -> Self {
        Self::Unmade(error)
    }
}

impl From<Cut> for Complaint {
    fn from(cut: Cut) -> Self {
        let cut = cut.said();
        Self::Broken(Said::new(
            format!("the connection was cut: {}", cut.say(Lang::En)),
            format!("se cortó la conexión: {}", cut.say(Lang::Es)),
        ))
    }
}

fn broken<T>(what: impl Into<Said>) -> Result<T, Complaint> {
    Err(Complaint::Broken(what.into()))
}

/// Does to the service what the promise is about.
pub(super) async fn play(promise: Promise, stage: &mut Stage, keys: KeyPolicy) -> Seen {
    let orders = Orders::new(stage, keys);
    let played = async {
        match promise {
            Promise::RetriesSameKey => retries_same_key(stage, &orders).await,
            Promise::DistinctOperations => distinct_operations(stage, &orders).await,
            Promise::ConcurrentRace => concurrent_race(stage, &orders).await,
            Promise::SameKeyOtherBody => same_key_other_body(stage, &orders).await,
            Promise::RepeatInProgress => repeat_in_progress(stage, &orders).await,
            Promise::AfterRestart | Promise::AfterKill => after_the_end(stage, &orders).await,
            Promise::TwoTenants => two_tenants(stage, &orders).await,
            Promise::LostOwner => lost_owner(stage, &orders).await,
            Promise::LateOwner => late_owner(stage, &orders).await,
            outside => abroad::play(outside, stage, &orders).await,
        }
    };
    timeout(PATIENCE, played).await.unwrap_or_else(|_| {
        let seconds = PATIENCE.as_secs();
        broken(Said::new(format!("no end after {seconds} s"), format!("sin final tras {seconds} s")))
    })
}

async fn retries_same_key(stage: &Stage, orders: &Orders) -> Seen {
    let (caller, order) = (stage.caller(), orders.order_by_policy(1));
    let mut answers = Vec::with_capacity(3);
    for attempt in 1..=3 {
        let key = orders.keys.attempt_key(&order.key, attempt);
        answers.push(charge_at(&caller, CHARGES_PATH, &key, &order).await?);
    }
    must_be(&answers[0], StatusCode::CREATED, ("attempt 1", "el intento 1"))?;
    must_repeat(&answers[0], &answers[1], ("attempt 2", "el intento 2"))?;
    must_repeat(&answers[0], &answers[2], ("attempt 3", "el intento 3"))?;
    Ok(("three attempts, one answer", "tres intentos, una respuesta").into())
}

async fn distinct_operations(stage: &Stage, orders: &Orders) -> Seen {
    let caller = stage.caller();
    let first = charge(&caller, &orders.order_by_policy(1)).await?;
    must_be(&first, StatusCode::CREATED, ("the first order", "el primer pedido"))?;
    let second = charge(&caller, &orders.order_by_policy(2)).await?;
    let who = ("the second order of the same amount", "el segundo pedido del mismo monto");
    must_be(&second, StatusCode::CREATED, who)?;
    if first.body == second.body {
        return broken((
            "the second order was answered with the first one's charge",
            "al segundo pedido se le respondió con el cobro del primero",
        ));
    }
    Ok(("two orders of one amount, two charges", "dos pedidos de un mismo monto, dos cobros").into())
}

/// On the lesson server the racers are made to meet: no claim is written before all want to write theirs, and no work
/// goes on before each of them is inside or answered.
async fn concurrent_race(stage: &Stage, orders: &Orders) -> Seen {
    match stage.lesson() {
        None => race(stage, &orders.order(1)).await,
        Some(lesson) => race_held(stage, lesson, Step::Claim, &orders.order(1)).await,
    }
}

/// Equal requests, each over a connection of its own, at one moment.
async fn race(stage: &Stage, order: &Order) -> Seen {
    let mut running = start_race(stage, order, RACERS);
    let mut answers = Vec::with_capacity(RACERS);
    collect(&mut running, &mut answers).await?;
    one_winner(&answers)
}

/// Equal requests to the lesson server, which meet before their step is written, and whose work waits until each is
/// inside or answered.
async fn race_held(stage: &Stage, lesson: &Lesson, step: Step, order: &Order) -> Seen {
    lesson.meeting().expect(step, RACERS_HELD);
    lesson.floor().hold();
    let mut entered = lesson.floor().entered();
    let already = *entered.borrow_and_update();
    let mut running = start_race(stage, order, RACERS_HELD);
    let mut answers = Vec::with_capacity(RACERS_HELD);
    while answers.len() + (*entered.borrow_and_update() - already) < RACERS_HELD {
        tokio::select! {
            Some(answer) = running.join_next() => answers.push(answer_of(Some(answer))?),
            changed = entered.changed() => changed.map_err(gone)?,
        }
    }
    lesson.floor().open();
    collect(&mut running, &mut answers).await?;
    one_winner(&answers)
}

fn start_race(stage: &Stage, order: &Order, racers: usize) -> Sent {
    let start = Arc::new(Barrier::new(racers));
    let mut running = Sent::new();
    for _ in 0..racers {
        let (caller, order, start) = (stage.caller(), order.clone(), Arc::clone(&start));
        running.spawn(async move {
            start.wait().await;
            charge(&caller, &order).await
        });
    }
    running
}

async fn collect(running: &mut Sent, answers: &mut Vec<Answer>) -> Result<(), Complaint> {
    while let Some(answer) = running.join_next().await {
        answers.push(answer_of(Some(answer))?);
    }
    Ok(())
}

/// One of the racers was charged; the others were told so, or that it is being done.
fn one_winner(answers: &[Answer]) -> Seen {
    let (done, told): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == StatusCode::CREATED);
    let in_progress = |answer: &&&Answer| answer.problem_code().as_deref() == Some("operation-in-progress");
    if let Some(odd) = told.iter().find(|answer| !in_progress(answer)) {
        return answered(odd, ("a racer", "un competidor"));
    }
    let Some(first) = done.first() else {
        return broken(("no racer was charged", "a ningún competidor se le cobró"));
    };
    for other in &done[1..] {
        must_repeat(first, other, ("another racer", "otro competidor"))?;
    }
    let (racers, done, told) = (answers.len(), done.len(), told.len());
    Ok(Said::new(
        format!("{racers} racers, one charge: {done} answered with it, {told} told that it is in progress"),
        format!(
            "{racers} a la vez, un cobro: respuesta con él para {done}, aviso de que está en curso para {told}"
        ),
    ))
}

async fn same_key_other_body(stage: &Stage, orders: &Orders) -> Seen {
    let (caller, order) = (stage.caller(), orders.order(1));
    must_be(&charge(&caller, &order).await?, StatusCode::CREATED, THE_FIRST)?;
    let other = charge(&caller, &order.dearer()).await?;
    let who = ("the key with another amount", "la clave con otro monto");
    must_be(&other, StatusCode::UNPROCESSABLE_ENTITY, who)?;
    let refused = shown(&other);
    Ok(Said::new(
        format!("the other body was refused: {refused}"),
        format!("el otro cuerpo fue rechazado: {refused}"),
    ))
}

/// The first request is kept at work until the repeat is answered, or is seen at work itself.
async fn repeat_in_progress(stage: &Stage, orders: &Orders) -> Seen {
    let lesson = stage.lesson().ok_or_else(|| Error::broken("only the lesson server has a slow route"))?;
    let order = orders.order(1);
    lesson.floor().hold();
    let mut entered = lesson.floor().entered();
    let mut first = send(stage.caller(), SLOW_PATH, &order);
    entered.wait_for(|&count| count == 1).await.map_err(gone)?;

    let mut repeat = send(stage.caller(), SLOW_PATH, &order);
    let answered_meanwhile = tokio::select! {
        answer = repeat.join_next() => Some(answer_of(answer)?),
        also_at_work = entered.wait_for(|&count| count == 2) => also_at_work.map(|_| None).map_err(gone)?,
    };
    lesson.floor().open();
    let first = answer_of(first.join_next().await)?;
    let Some(repeat) = answered_meanwhile else {
        answer_of(repeat.join_next().await)?;
        return broken((
            "the repeat ran while the first request was at work",
            "la repetición se ejecutó mientras la primera solicitud trabajaba",
        ));
    };

    must_be(&first, StatusCode::CREATED, THE_FIRST)?;
    must_be(
        &repeat,
        StatusCode::CONFLICT,
        ("the repeat during the work", "la repetición durante el trabajo"),
    )?;
    if !repeat.headers.contains_key(RETRY_AFTER) {
        return broken((
            "the repeat during the work was not told when to retry",
            "a la repetición no se le dijo cuándo reintentar",
        ));
    }
    let later = charge_at(&stage.caller(), SLOW_PATH, &order.key, &order).await?;
    must_repeat(&first, &later, ("the repeat after the work", "la repetición tras el trabajo"))?;
    let during = shown(&repeat);
    Ok(Said::new(
        format!("during the work {during}, afterwards the answer"),
        format!("durante el trabajo {during}, después la respuesta"),
    ))
}

/// Restarted in order, or killed and started again: the repeat gets the first answer.
async fn after_the_end(stage: &mut Stage, orders: &Orders) -> Seen {
    let order = orders.order(1);
    let first = charge(&stage.caller(), &order).await?;
    must_be(&first, StatusCode::CREATED, THE_FIRST)?;
    let (how, como) = stage.end_and_start_again().await?;
    let repeat = charge(&stage.caller(), &order).await?;
    must_repeat(&first, &repeat, ("the repeat afterwards", "la repetición posterior"))?;
    Ok(Said::new(format!("{how}, and the same answer"), format!("{como}, y la misma respuesta")))
}

async fn two_tenants(stage: &Stage, orders: &Orders) -> Seen {
    let order = orders.order(1);
    let first = charge(&stage.caller(), &order).await?;
    must_be(&first, StatusCode::CREATED, ("the first tenant", "el primer inquilino"))?;
    let second = charge(&stage.other_tenant(), &order).await?;
    let who = ("the other tenant with the same key", "el otro inquilino con la misma clave");
    must_be(&second, StatusCode::CREATED, who)?;
    if first.body == second.body {
        return broken((
            "the other tenant was given the first one's charge",
            "al otro inquilino se le dio el cobro del primero",
        ));
    }
    Ok(("one key, two tenants, two charges", "una clave, dos inquilinos, dos cobros").into())
}

/// The owner breaks down before it has done anything, and two repeats want to take over at one moment.
async fn lost_owner(stage: &Stage, orders: &Orders) -> Seen {
    let lesson =
        stage.lesson().ok_or_else(|| Error::broken("only the lesson server breaks down on request"))?;
    let order = orders.order(1);
    lesson.floor().break_down_once();
    let lost = charge(&stage.caller(), &order).await?;
    if !lost.status.is_server_error() {
        return answered(&lost, ("the request whose owner broke down", "la solicitud cuyo dueño falló"));
    }
    race_held(stage, lesson, Step::TakeOver, &order).await
}

/// The owner is slow, counts as lost, is overtaken, and comes back when the other one is done.
async fn late_owner(stage: &Stage, orders: &Orders) -> Seen {
    let lesson =
        stage.lesson().ok_or_else(|| Error::broken("only the lesson server's clock can be advanced"))?;
    let order = orders.order(1);
    lesson.floor().hold_next();
    let mut entered = lesson.floor().entered();
    let mut late = send(stage.caller(), ONE_COMMIT_PATH, &order);
    entered.wait_for(|&count| count == 1).await.map_err(gone)?;
    lesson.pass_the_operation_timeout()?;

    let repeat = charge_at(&stage.caller(), ONE_COMMIT_PATH, &order.key, &order).await?;
    lesson.floor().open();
    let late = answer_of(late.join_next().await)?;
    must_be(&repeat, StatusCode::CREATED, ("the repeat that took over", "la repetición que tomó el relevo"))?;
    must_repeat(&repeat, &late, ("the late owner's caller", "el cliente del dueño tardío"))?;
    Ok(Said::new(
        "the late owner's charge was rolled back, and its caller got the other one's answer",
        "el cobro del dueño tardío se deshizo, y su cliente recibió la respuesta del otro",
    ))
}

fn gone(_: watch::error::RecvError) -> Error {
    Error::broken("the lesson server ended")
}

pub(super) fn must_be(answer: &Answer, status: StatusCode, who: Who) -> Result<(), Complaint> {
    if answer.status == status { Ok(()) } else { answered(answer, who) }
}

/// P18: the same status, the same bytes.
pub(super) fn must_repeat(first: &Answer, repeat: &Answer, who: Who) -> Result<(), Complaint> {
    if repeat.status != first.status {
        return answered(repeat, who);
    }
    if repeat.body != first.body {
        let ((who, quien), answer) = (who, shown(repeat));
        return broken(Said::new(
            format!("{who} was answered {answer} with another body"),
            format!("{quien} recibió {answer} con otro cuerpo"),
        ));
    }
    Ok(())
}

/// Complains of an answer.
pub(super) fn answered<T>(answer: &Answer, (who, quien): Who) -> Result<T, Complaint> {
    let answer = shown(answer);
    broken(Said::new(format!("{who} was answered {answer}"), format!("{quien} recibió {answer}")))
}

/// An answer in a few words: its status, and its code if it is a refusal.
fn shown(answer: &Answer) -> String {
    match answer.problem_code() {
        Some(code) => format!("{} {code}", answer.status.as_u16()),
        None => answer.status.as_u16().to_string(),
    }
}
