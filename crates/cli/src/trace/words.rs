//! The verdict in words: the answer, the reason, and what may be done.

use serde::Serialize;
use unavez_core::record::State;
use unavez_core::time::Time;
use unavez_payments::Confirmation;
use unavez_payments::books::trace::{ChargeTrace, How, Nothing, OrderTrace, Verdict};
use unavez_payments::books::{Anomaly, ByOperator, EventKind, OperationStanding, Reason};
use unavez_payments::charge::{Charge, ChargeId, Status};
use unavez_payments::money::Currency;

use crate::remedy::Desk;
use crate::time::{length, rfc3339};

/// What a verdict comes to, for a person.
#[derive(Debug)]
pub(super) struct Words {
    /// The answer.
    pub(super) headline: String,
    /// What happened, sentence by sentence.
    pub(super) why: Vec<String>,
    /// What may safely be done now.
    pub(super) next: Vec<Step>,
}

/// Something to do.
#[derive(Debug, Serialize)]
pub(super) struct Step {
    /// A sentence.
    pub(super) what: String,
    /// How, where it can be typed: each line a command of its own.
    pub(super) commands: Vec<String>,
}

impl From<&str> for Step {
    fn from(what: &str) -> Self {
        Self { what: what.to_owned(), commands: Vec::new() }
    }
}

impl Words {
    pub(super) fn of(order: &OrderTrace, verdict: &Verdict, desk: &Desk, now: Time) -> Self {
        let about = |id: &ChargeId| order.charges.iter().find(|it| it.charge.id == *id);
        match verdict {
            Verdict::ExecutedTwice(charge) => executed_twice(about(charge)),
            Verdict::Contradicted(charge) => contradicted(about(charge)),
            Verdict::SeveralKeys { charges, same_amount, given_back } => {
                let taken: Vec<&ChargeTrace> = charges.iter().filter_map(about).collect();
                several_keys(&taken, *same_amount, *given_back, desk)
            }
            Verdict::NotKnown { open, held, taken } => {
                let open: Vec<&ChargeTrace> = open.iter().filter_map(about).collect();
                not_known(&open, *held, taken.as_ref().and_then(about), (desk, now))
            }
            Verdict::OnlyRuled { ruled, taken } => only_ruled(about(ruled), taken.as_ref().and_then(about)),
            Verdict::Once(charge, how) => match about(charge) {
                Some(charge) => once(charge, *how),
                None => Self { headline: "NO: charged once".to_owned(), why: Vec::new(), next: Vec::new() },
            },
            Verdict::Nothing(Nothing::Ruled(charge)) => ruled_out(about(charge)),
            Verdict::Nothing(why) => nothing(*why),
        }
    }
}

const REPLAYED: &str =
    "Whoever repeated the request with the same key was given the stored answer; nothing ran again.";

fn executed_twice(charge: Option<&ChargeTrace>) -> Words {
    let findings = findings(charge, Reason::SecondPayment);
    Words {
        headline: "YES: the acquirer executed one charge twice".to_owned(),
        why: findings
            .iter()
            .map(|found| sentence(&found.detail))
            .chain([
                "It was sent under one operation id, so the acquirer did not deduplicate it as it promises."
                    .to_owned(),
            ])
            .collect(),
        next: proposals(&findings),
    }
}

fn contradicted(charge: Option<&ChargeTrace>) -> Words {
    let findings = findings(charge, Reason::Contradiction);
    let ruling = charge.and_then(ChargeTrace::ruling);
    let mut next = proposals(&findings);
    next.push("Until it is put right: no new key for this order.".into());
    Words {
        headline: "NOT CERTAIN: the acquirer and these books say different things about one charge"
            .to_owned(),
        why: findings
            .iter()
            .map(|found| sentence(&found.detail))
            .chain(ruling.map(|it| format!("What is stored is {}.", in_quotes(it))))
            .collect(),
        next,
    }
}

fn several_keys(taken: &[&ChargeTrace], same_amount: bool, given_back: bool, desk: &Desk) -> Words {
    let total = totals(taken);
    let back = if given_back { ", and all but one were paid back" } else { "" };
    let mut why = vec![
        "Every key is an operation of its own: a repeat is recognised by its key, and these came under different ones."
            .to_owned(),
    ];
    why.push(if same_amount {
        "All are of the same amount: usually a client that made a new key for a retry.".to_owned()
    } else {
        "The amounts differ: perhaps several purchases under one order id.".to_owned()
    });
    if taken.iter().any(|it| it.charge.suspected_duplicate_of.is_some()) {
        why.push("The service marked the later one as a suspected duplicate when it came.".to_owned());
    }
    let mut next = Vec::new();
    if !given_back {
        next.extend(taken.iter().skip(1).filter_map(|it| give_back(&it.charge, desk)));
    }
    next.push(
        "Mend the client: one key for each operation, made before its first attempt and kept with the order. \
         `unavez serve --same-order refuse` refuses such charges here."
            .into(),
    );
    Words {
        headline: format!("YES: {} charges under {} keys, {total} in all{back}", taken.len(), taken.len()),
        why,
        next,
    }
}

fn give_back(charge: &Charge, desk: &Desk) -> Option<Step> {
    let what = match charge.status {
        Status::Authorized => "If it was one purchase, give the later authorisation up:",
        _ => "If it was one purchase, pay the later one back:",
    };
    desk.give_back(charge).map(|command| Step { what: what.to_owned(), commands: vec![command] })
}

fn not_known(
    open: &[&ChargeTrace],
    held: bool,
    taken: Option<&ChargeTrace>,
    (desk, now): (&Desk, Time),
) -> Words {
    let headline = match (open, taken) {
        ([one], None) => format!("NO, at most once, and it is not known yet whether at all: {}", stands(one)),
        (_, None) => format!("NOT KNOWN YET: {} charges under different keys are not decided", open.len()),
        (_, Some(taken)) => format!(
            "NOT KNOWN YET: charged once, {}, and {} more under other keys not decided",
            value(&taken.charge),
            open.len()
        ),
    };
    let mut why = vec![open_reason(open).to_owned()];
    why.extend(open.iter().filter_map(|it| asked_in_vain(it, now)));
    let mut next: Vec<Step> = vec![
        "Repeat with the same key: the service asks the acquirer before it does anything again. Never use a new key, and \
         do not tell the customer that it failed."
            .into(),
    ];
    if held {
        why.extend(open.iter().flat_map(|it| held_because(it)));
        next = open.iter().filter(|it| it.is_held()).map(|it| settle(it, desk)).collect();
        next.push("Until then: never a new key, and do not tell the customer that it failed.".into());
    } else {
        next.push(
            "Or wait: the acquirer's webhook or the service's next question settles it without you.".into(),
        );
    }
    Words { headline, why, next }
}

/// The outage, as this operation met it.
fn asked_in_vain(charge: &ChargeTrace, now: Time) -> Option<String> {
    let events = &charge.payment()?.events;
    let questions: Vec<_> = events.iter().filter(|event| event.kind == EventKind::Asked).collect();
    let last = questions.last()?;
    let times = match questions.len() {
        1 => "once".to_owned(),
        several => format!("{several} times"),
    };
    let said = last.detail.as_deref().unwrap_or("no answer");
    let next = match charge.record.as_ref().map(|record| &record.state) {
        Some(State::Unknown { next_ask_at, .. }) if *next_ask_at > now => {
            format!("; the next question is due in {}", length(next_ask_at.since(now)))
        }
        _ => String::new(),
    };
    Some(format!("The acquirer was asked {times}, the last time at {}: {said}{next}.", rfc3339(last.at)))
}

fn stands(charge: &ChargeTrace) -> &'static str {
    match charge.payment().map(|payment| payment.standing) {
        _ if charge.is_held() => "it is held for a person",
        Some(OperationStanding::Pending) => "the acquirer has not decided",
        Some(OperationStanding::Open) => "an attempt is running, or its owner was lost",
        _ if is_only_asked(charge) => "the acquirer is asked first, and its answer does not count yet",
        _ => "its attempt ended without an answer",
    }
}

/// Whether nothing was sent for it from here: the database was put back from a copy, and the acquirer is asked first.
fn is_only_asked(charge: &ChargeTrace) -> bool {
    charge.payment().is_some_and(|payment| payment.is_asked_first() && payment.sends() == 0)
}

fn open_reason(open: &[&ChargeTrace]) -> &'static str {
    let standing =
        |wanted| open.iter().any(|it| it.payment().is_some_and(|payment| payment.standing == wanted));
    if open.iter().all(|it| is_only_asked(it)) {
        "This database was put back from a copy, so the acquirer is asked before anything is sent. It has not given an \
         answer that counts, and nothing was sent from here since; what was forgotten with the copy may have been sent."
    } else if standing(OperationStanding::Unknown) {
        "A request was sent to the acquirer and no definite answer came back: it may have been executed."
    } else if standing(OperationStanding::Pending) {
        "The acquirer has accepted it and not decided."
    } else {
        "An attempt began and has not ended."
    }
}

fn held_because(charge: &ChargeTrace) -> Vec<String> {
    let histories = charge.operations.iter().map(|(history, _)| history);
    let held = histories.flat_map(|history| &history.anomalies).filter(|it| it.reason == Reason::Held);
    held.map(|found| format!("It is held: {}.", found.detail)).collect()
}

fn settle(charge: &ChargeTrace, desk: &Desk) -> Step {
    let key = charge.record.as_ref().map_or("KEY", |record| record.key.as_str());
    let tenant = charge.record.as_ref().map_or("TENANT", |record| record.tenant.as_str());
    Step {
        what: format!(
            "Look it up at the acquirer under {}, then settle it, as what you saw there; it is refused where the acquirer says \
             otherwise:",
            charge.charge.id.operation_id()
        ),
        commands: desk.settle(key, tenant),
    }
}

fn once(trace: &ChargeTrace, how: How) -> Words {
    let charge = &trace.charge;
    let mut why = vec![how_in_words(trace, how)];
    let taken = match charge.status {
        Status::Authorized => format!("NO: authorised once, {}, and not captured", value(charge)),
        _ if charge.amount_refunded == charge.amount_captured => {
            format!("NO: charged once, {}, and paid back", money(charge.currency, charge.amount_captured))
        }
        _ if charge.amount_refunded > 0 => format!(
            "NO: charged once, {}, of which {} was paid back",
            money(charge.currency, charge.amount_captured),
            money(charge.currency, charge.amount_refunded)
        ),
        _ => format!("NO: charged once, {}", money(charge.currency, charge.amount_captured)),
    };
    if trace.is_captured_later() {
        why.push(
            "It was authorised first and captured by a step of its own: a statement may show two lines, and it is one \
             charge."
                .to_owned(),
        );
    }
    why.push(REPLAYED.to_owned());
    let next = vec![
        "Nothing has to be done. Repeating with the same key is safe; a new key is a new charge.".into(),
    ];
    Words { headline: taken, why, next }
}

fn how_in_words(trace: &ChargeTrace, how: How) -> String {
    match how {
        How::Booked if trace.entries.is_empty() => "Its key and the charge were written in one commit; an authorisation moves no \
                                                  money and has no line in the ledger."
            .to_owned(),
        How::Booked => "Its key and its line in the ledger were written in one commit.".to_owned(),
        How::Answered => "The acquirer answered the first attempt.".to_owned(),
        How::SentAgain => "An attempt had no answer. The acquirer was asked, did not have it, and the same operation was \
                           sent again under the same id."
            .to_owned(),
        How::Asked => "The acquirer executed it and its answer was lost. It was asked afterwards and knew the operation; \
                       nothing was sent again."
            .to_owned(),
        How::AskedFirst => "This database was put back from a copy, so the acquirer was asked before anything was sent: it \
                            had executed the operation already, and it was booked as that. Nothing was sent again."
            .to_owned(),
        How::SentAfterAsking => "This database was put back from a copy, so the acquirer was asked before anything was sent. \
                                 It did not have the operation, which was then sent once."
            .to_owned(),
        How::Told => "The acquirer decided later and told so by webhook.".to_owned(),
        How::Ruled => {
            let ruling = trace.ruling();
            let said = ruling.map_or("an operator's ruling".to_owned(), in_quotes);
            let since = match ruling.and_then(|it| it.confirmation) {
                Some((Confirmation::Agrees, _)) => "The acquirer agrees.",
                Some(_) => "What the acquirer says of it proves nothing any more.",
                None => "The acquirer has not been heard since: `unavez reconcile` compares with its list.",
            };
            format!("No answer of the acquirer's settled it: {said} says that it was done. {since}")
        }
    }
}

/// An operator's word, and nothing else: it may be wrong, and then a new key charges twice.
fn only_ruled(ruled: Option<&ChargeTrace>, taken: Option<&ChargeTrace>) -> Words {
    let ruling = ruled.and_then(ChargeTrace::ruling);
    let said = ruling.map_or("an operator's ruling".to_owned(), in_quotes);
    let headline = match taken {
        None => format!("NOT CHARGED according to {said}; the acquirer could not be asked"),
        Some(taken) => format!(
            "NOT CERTAIN: charged once, {}, and once more unless {said} is right; the acquirer could not be asked",
            value(&taken.charge)
        ),
    };
    let asked = match ruling.and_then(|it| it.confirmation) {
        Some(_) => "It has been asked since, and its answer proves nothing any more: it may have forgotten.",
        None => {
            "It has not answered since. The running service asks it until it does, and keeps what it says against the \
             ruling as a contradiction."
        }
    };
    Words {
        headline,
        why: vec![
            "The answer of the acquirer's was lost: the operation may have been executed there.".to_owned(),
            asked.to_owned(),
        ],
        next: vec![
            Step {
                what: "Compare with the acquirer's list before anything else:".to_owned(),
                commands: vec!["unavez reconcile --since 24h".to_owned()],
            },
            "Until it is confirmed: no new key, which would be a second charge if the ruling is wrong."
                .into(),
        ],
    }
}

fn ruled_out(charge: Option<&ChargeTrace>) -> Words {
    let ruling = charge.and_then(ChargeTrace::ruling).map_or("an operator's ruling".to_owned(), in_quotes);
    Words {
        headline: format!("NO: not charged at all, according to {ruling}; the acquirer agrees"),
        why: vec![
            "No money moved, and none will under this key: every repeat is given the same refusal."
                .to_owned(),
        ],
        next: vec!["If the customer pays otherwise, that is a new operation under a new key.".into()],
    }
}

/// `the ruling of ana ('ticket 4711')`.
fn in_quotes(ruling: &ByOperator) -> String {
    format!("the ruling of {} ('{}')", ruling.operator, ruling.reason)
}

fn nothing(why: Nothing) -> Words {
    let (headline, why, next) = match why {
        Nothing::Declined | Nothing::Ruled(_) => (
            "NO: not charged at all, the acquirer declined it",
            "No money moved, and none will under this key: every repeat is given the same refusal.",
            "If the customer pays otherwise, that is a new operation under a new key.",
        ),
        Nothing::Voided => (
            "NO: not charged, the authorisation was given up",
            "Nothing was captured. A statement may show the authorisation for some days.",
            "Nothing has to be done.",
        ),
        Nothing::NeverSent => (
            "NO: not charged at all, nothing was ever sent",
            "The acquirer could not be reached, so nothing left this service and the key is free again.",
            "Repeat with the same key.",
        ),
    };
    Words { headline: headline.to_owned(), why: vec![why.to_owned()], next: vec![next.into()] }
}

fn findings(charge: Option<&ChargeTrace>, reason: Reason) -> Vec<&Anomaly> {
    let histories = charge.into_iter().flat_map(|it| &it.operations).map(|(history, _)| history);
    histories.flat_map(|history| &history.anomalies).filter(|it| it.reason == reason).collect()
}

fn proposals(findings: &[&Anomaly]) -> Vec<Step> {
    let proposals = findings.iter().filter_map(|found| found.proposal.as_deref());
    proposals.map(|proposal| sentence(proposal).as_str().into()).collect()
}

/// A fragment as a sentence.
fn sentence(fragment: &str) -> String {
    let mut letters = fragment.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// `25.00 EUR`.
pub(super) fn money(currency: Currency, minor_units: impl Into<i128>) -> String {
    format!("{} {}", currency.format(minor_units.into()), currency.code())
}

/// What a charge is of.
pub(super) fn value(charge: &Charge) -> String {
    money(charge.currency, charge.amount.minor_units())
}

/// What charges took and hold, by currency.
fn totals(taken: &[&ChargeTrace]) -> String {
    let mut sums: Vec<(Currency, i128)> = Vec::new();
    for ChargeTrace { charge, .. } in taken {
        let held = match charge.status {
            Status::Authorized => charge.amount.minor_units(),
            _ => charge.amount_captured,
        };
        match sums.iter_mut().find(|(currency, _)| *currency == charge.currency) {
            Some((_, sum)) => *sum += i128::from(held),
            None => sums.push((charge.currency, held.into())),
        }
    }
    sums.iter().map(|(currency, sum)| money(*currency, *sum)).collect::<Vec<_>>().join(" and ")
}
