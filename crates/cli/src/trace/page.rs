//! The page: verdict, reason, what to do, and then what all of it stands on.

use unavez_core::record::Record;
use unavez_payments::books::trace::{Around, ChargeTrace, OrderTrace, Trace, Verdict};
use unavez_payments::books::{Anomaly, Entry, OperationHistory, OperationStanding};

use super::words::{Step, Words, money, value};
use crate::explain::wrapped;
use crate::keys;
use crate::output::{Room, described, fitted};
use crate::remedy::{self, Desk};
use crate::time::rfc3339;

/// The whole page.
pub(super) fn page(name: &str, trace: &Trace, desk: &Desk, room: Room) -> String {
    let sheet = Sheet { read: trace, desk, room };
    let orders = trace.orders.iter().map(|order| of_order(order, &sheet));
    let keys = trace.keys.iter().map(|record| of_key(record, &sheet));
    let parts: Vec<String> = orders.chain(keys).collect();
    match parts.len() {
        1 => parts.concat(),
        several => format!("{several} things go by the name `{name}`.\n\n{}", parts.join("\n")),
    }
    .trim_end()
    .to_owned()
}

/// What every part of the page is written with.
struct Sheet<'a> {
    read: &'a Trace,
    desk: &'a Desk,
    room: Room,
}

impl Sheet<'_> {
    /// The room inside an indented block.
    fn inside(&self) -> Room {
        Room(self.room.0.map(|room| room.saturating_sub(2)))
    }
}

fn of_order(order: &OrderTrace, sheet: &Sheet<'_>) -> String {
    let bold = anstyle::Style::new().bold();
    let verdict = Verdict::of(order);
    let Words { headline, why, next } = Words::of(order, &verdict, sheet.desk, sheet.read.now);
    let mut text = format!(
        "Was order {} of tenant {} charged twice?\n\n  {bold}{headline}.{bold:#}\n\n{bold}Why{bold:#}\n{}\n\n\
         {bold}What may be done now{bold:#}\n",
        order.order_id,
        order.tenant.as_str(),
        wrapped(&why.join(" ")),
    );
    for step in &next {
        text.push_str(&of_step(step));
    }
    for (at, charge) in order.charges.iter().enumerate() {
        text.push_str(&format!("\n{bold}Charge {} of {}{bold:#}\n", at + 1, order.charges.len()));
        text.push_str(&of_charge(charge, sheet));
    }
    if let Some(around) = &order.around {
        text.push_str(&format!("\n{bold}Others at the time{bold:#}\n{}\n", wrapped(&others(around))));
    }
    text
}

/// A command stands on a line of its own, unbroken, to be copied.
fn of_step(step: &Step) -> String {
    let what = wrapped(&step.what).replace("\n", "\n  ");
    let commands: String = step.commands.iter().map(|command| format!("      {command}\n")).collect();
    format!("  - {}\n{commands}", what.trim_start())
}

fn of_charge(trace: &ChargeTrace, sheet: &Sheet<'_>) -> String {
    let read = sheet.read;
    let charge = &trace.charge;
    let mut rows = vec![
        row("charge", format!("{}, {}, {}", charge.id, value(charge), charge.status)),
        row("key", of_record(trace.record.as_ref(), trace.payment(), read)),
        row("claimed", format!("{} by {}", rfc3339(charge.created_at), trace.request_id)),
        row(
            "went to",
            trace.account.as_ref().map_or("the ledger here".to_owned(), |it| it.as_str().to_owned()),
        ),
    ];
    if let Some(first) = charge.suspected_duplicate_of {
        rows.push(row("suspected", format!("duplicate of {first}")));
    }
    rows.extend(trace.entries.iter().map(|entry| row("ledger", of_entry(entry))));
    if trace.entries.is_empty() {
        let histories = trace.operations.iter().map(|(history, _)| history);
        rows.push(row("ledger", remedy::nothing_booked(charge, histories).to_owned()));
    }
    let mut text = indented(&described(&rows, sheet.inside()));
    for (history, record) in &trace.operations {
        text.push_str(&of_operation(history, record.as_ref(), sheet));
    }
    text
}

fn row(name: &str, value: String) -> [String; 2] {
    [name.to_owned(), value]
}

fn of_record(record: Option<&Record>, history: Option<&OperationHistory>, read: &Trace) -> String {
    let Some(record) = record else {
        let is_free = history.is_some_and(|it| it.standing == OperationStanding::Released);
        return match is_free {
            true => "free again: nothing was sent under it, and a repeat of the request runs it",
            false => "not kept any more; the operation answers for it, and a repeat runs nothing",
        }
        .to_owned();
    };
    let row = keys::Row::new(record, read.now).with_history(history);
    let attempts =
        if record.attempts == 1 { "1 attempt".to_owned() } else { format!("{} attempts", record.attempts) };
    let mut parts = vec![record.key.as_str().to_owned(), row.state_word(), attempts];
    parts.extend(row.outcome.map(str::to_owned));
    parts.extend(row.status.map(|status| format!("HTTP {status} is repeated")));
    parts.push(format!("hash {}", record.key.log_hash()));
    parts.join(", ")
}

fn of_entry(entry: &Entry) -> String {
    format!(
        "{} {} from {} to {} at {}",
        entry.kind.as_str(),
        money(entry.currency, entry.amount.minor_units()),
        entry.debit.as_str(),
        entry.credit.as_str(),
        rfc3339(entry.created_at)
    )
}

fn of_operation(history: &OperationHistory, record: Option<&Record>, sheet: &Sheet<'_>) -> String {
    let reference = history.reference.as_deref().map_or(String::new(), |it| format!(", there {it}"));
    let code = history.decline_code.as_deref().map_or(String::new(), |it| format!(", because: {it}"));
    let mut text = format!(
        "\n  {} {}: {}, {}{reference}{code}\n",
        history.kind.as_str(),
        history.operation_id,
        money(history.currency, history.amount.minor_units()),
        history.standing.as_str(),
    );
    if history.operation_id != history.charge.operation_id() {
        let key = row("key", of_record(record, Some(history), sheet.read));
        text.push_str(&indented(&described(&[key], sheet.inside())));
    }
    if !history.events.is_empty() {
        text.push_str(&indented(&events(history, sheet.inside())));
    }
    for anomaly in &history.anomalies {
        text.push_str(&format!("  ! {}\n", of_anomaly(anomaly)));
    }
    text
}

/// What a narrow terminal does without, in this order: instance, version, request, caller.
const EXPENDABLE: [usize; 4] = [6, 4, 7, 5];

/// In the order in which things happened.
fn events(history: &OperationHistory, room: Room) -> String {
    let dash = || "-".to_owned();
    let head =
        ["TIME", "WHAT", "DETAIL", "ATTEMPT", "VERSION", "CALLER", "INSTANCE", "REQUEST"].map(str::to_owned);
    let rows = history.in_order().into_iter().map(|event| {
        [
            rfc3339(event.at),
            event.kind.as_str().to_owned(),
            event.detail.as_deref().map_or_else(dash, str::to_owned),
            event.attempt.map_or_else(dash, |it| it.to_string()),
            event.version.map_or_else(dash, |it| it.to_string()),
            event.caller.as_deref().map_or_else(dash, str::to_owned),
            event.instance.to_string(),
            event.request_id.as_deref().map_or_else(dash, str::to_owned),
        ]
    });
    let (text, is_cut) = fitted(&[head].into_iter().chain(rows).collect::<Vec<_>>(), &EXPENDABLE, room);
    if is_cut { text + "(--wide shows all columns)\n" } else { text }
}

fn of_anomaly(anomaly: &Anomaly) -> String {
    let proposal = anomaly.proposal.as_deref().map_or(String::new(), |it| format!("; {it}"));
    format!(
        "{} {}: {}, heard in the {}{proposal}",
        rfc3339(anomaly.found_at),
        anomaly.reason.as_str(),
        anomaly.detail,
        anomaly.heard.as_str()
    )
}

fn others(around: &Around) -> String {
    let stretch = format!("between {} and {}", rfc3339(around.since), rfc3339(around.until));
    match (around.operations, around.first_at) {
        (0, _) | (_, None) => format!("Nobody else: every other operation {stretch} had a definite answer."),
        (1, Some(first)) => format!(
            "1 other operation had no definite answer {stretch}, at {}; it is {} decided.",
            rfc3339(first),
            if around.undecided == 0 { "by now" } else { "still not" }
        ),
        (count, Some(first)) => {
            let open = match around.undecided {
                0 => "all of them are decided by now".to_owned(),
                1 => "1 of them is still not decided".to_owned(),
                open => format!("{open} of them are still not decided"),
            };
            format!(
                "{count} other operations had no definite answer {stretch}, the first at {}; {open}.",
                rfc3339(first)
            )
        }
    }
}

/// A key that made no charge.
fn of_key(record: &Record, sheet: &Sheet<'_>) -> String {
    format!(
        "Key {} of tenant {} made no charge.\n\n{}",
        record.key.as_str(),
        record.tenant.as_str(),
        indented(&keys::page(&keys::Row::new(record, sheet.read.now), sheet.inside()))
    )
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
