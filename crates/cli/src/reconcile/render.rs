//! Findings in words, each with what could be done, and as one JSON document.

use serde::Serialize;
use unavez_payments::acquirer::{Listed, Standing};
use unavez_payments::books::{OperationHistory, OperationStanding, SameOrder, Unbooked};
use unavez_payments::money::Currency;
use unavez_payments::reconcile::{Difference, Finding, Report, Stretch};

use crate::explain::wrapped;
use crate::remedy::Desk;
use crate::time::rfc3339;

/// The one JSON document. Amounts stand in the texts as people read them; ids are members.
#[derive(Serialize)]
pub(super) struct Document {
    since: String,
    until: String,
    acquirer: Option<String>,
    compared: u64,
    without_id: u64,
    findings: Vec<Told>,
}

/// One finding.
#[derive(Serialize)]
struct Told {
    finding: &'static str,
    operation_ids: Vec<String>,
    charge_ids: Vec<String>,
    /// The acquirer's own names.
    references: Vec<String>,
    detail: String,
    proposal: String,
    /// What could be typed; nothing of it is done.
    commands: Vec<String>,
}

impl Document {
    pub(super) fn new(stretch: Stretch, report: &Report, desk: &Desk) -> Self {
        Self {
            since: rfc3339(stretch.since),
            until: rfc3339(stretch.now),
            acquirer: report.account.as_ref().map(|account| account.as_str().to_owned()),
            compared: report.compared,
            without_id: report.without_id,
            findings: report.findings.iter().map(|finding| Told::of(finding, desk)).collect(),
        }
    }
}

/// The page for people.
pub(super) fn page(stretch: Stretch, report: &Report, desk: &Desk) -> String {
    let bold = anstyle::Style::new().bold();
    let whose = report.account.as_ref().map_or("the ledger alone".to_owned(), ToString::to_string);
    let entries = if report.compared == 1 { "entry" } else { "entries" };
    let headline = match report.findings.len() {
        0 => "Both sides agree.".to_owned(),
        1 => "1 thing does not agree.".to_owned(),
        several => format!("{several} things do not agree."),
    };
    let mut text = format!(
        "{bold}{headline}{bold:#}\n\n  {whose} since {}: {} {entries} compared\n",
        rfc3339(stretch.since),
        report.compared,
    );
    if report.without_id > 0 {
        text.push_str(&format!(
            "  {} more carry no id of this service: made by others or by hand, and not compared\n",
            report.without_id
        ));
    }
    for (at, told) in report.findings.iter().map(|finding| Told::of(finding, desk)).enumerate() {
        text.push_str(&format!("\n{bold}{}. {}{bold:#}\n{}\n", at + 1, told.finding, wrapped(&told.detail)));
        text.push_str(&format!("{}\n", wrapped(&format!("-> {}", told.proposal))));
        for command in &told.commands {
            text.push_str(&format!("     {command}\n"));
        }
    }
    text.trim_end().to_owned()
}

impl Told {
    fn of(finding: &Finding, desk: &Desk) -> Self {
        let told = match finding {
            Finding::OnlyThere(entry) => only_there(entry),
            Finding::OnlyHere(operation) => Self::about(
                operation,
                format!("{}: done here, and the acquirer does not list it", described(operation)),
                "look it up at the acquirer: if it is not there, the customer was not charged, and the books say otherwise",
            ),
            Finding::Doubled { operation, references } => Self {
                references: references.iter().map(ToString::to_string).collect(),
                ..Self::about(
                    operation,
                    format!(
                        "{}: executed {} times at the acquirer, as {}",
                        described(operation),
                        references.len(),
                        references.join(", ")
                    ),
                    "void or refund the others at the acquirer: the books know of one",
                )
            },
            Finding::Differs { operation, differences, entry } => differs(operation, differences, entry),
            Finding::Unsettled { operation, there } => Self::about(
                operation,
                format!(
                    "{}: {} at the acquirer, and {} here",
                    described(operation),
                    word(*there),
                    operation.standing.as_str()
                ),
                "the service's next question settles it; if the service runs and it stays, trace it",
            ),
            Finding::PaidBack { payment, currency, here, there } => Self {
                operation_ids: vec![payment.to_string()],
                ..Self::plain(
                    format!(
                        "payment {payment}: paid back are {} here and {} at the acquirer",
                        money(*currency, *here),
                        money(*currency, *there)
                    ),
                    "a refund was made by hand at the acquirer, or one of here is missing there: look it up",
                )
            },
            Finding::Unbooked(unbooked) => of_unbooked(unbooked),
            Finding::SameOrder(group) => same_order(group, desk),
        };
        Self { finding: finding.as_str(), ..told }
    }

    fn plain(detail: String, proposal: impl Into<String>) -> Self {
        Self {
            finding: "",
            operation_ids: Vec::new(),
            charge_ids: Vec::new(),
            references: Vec::new(),
            detail,
            proposal: proposal.into(),
            commands: Vec::new(),
        }
    }

    fn about(operation: &OperationHistory, detail: String, proposal: impl Into<String>) -> Self {
        Self {
            operation_ids: vec![operation.operation_id.to_string()],
            charge_ids: vec![operation.charge.to_string()],
            references: operation.reference.iter().map(ToString::to_string).collect(),
            commands: vec![format!("unavez trace {}", operation.operation_id)],
            ..Self::plain(detail, proposal)
        }
    }
}

/// What undoes a difference depends on where the money is: a refund here needs a charge that was captured here.
fn differs(operation: &OperationHistory, differences: &[Difference], entry: &Listed) -> Told {
    let there = entry.reference.as_deref().map_or(String::new(), |it| format!(" as {it}"));
    let proposal = match (operation.standing, entry.standing) {
        (OperationStanding::Declined | OperationStanding::Released, Standing::Done) => format!(
            "it took effect there{there}, and its caller was told that it did not: undo it at the acquirer by that name. A \
             refund here is refused, since nothing was captured here",
        ),
        (OperationStanding::Done, Standing::Declined) => {
            "it did not take effect there, and its caller was told that it did: look it up at the acquirer; a refund here \
             would pay back what was never taken"
                .to_owned()
        }
        _ => format!(
            "find out which side is right; money is put right at the acquirer{there} or by a refund here, never by a change \
             of the books",
        ),
    };
    let ruled = operation.ruling.as_ref().map_or(String::new(), |ruling| {
        format!("; {} ruled {}: {}", ruling.operator, ruling.ruling.as_str(), ruling.reason)
    });
    let told = Told::about(
        operation,
        format!("{}: {}{ruled}", described(operation), in_words(differences)),
        proposal,
    );
    let named =
        operation.reference.is_none().then(|| entry.reference.as_deref().map(str::to_owned)).flatten();
    Told { references: told.references.iter().cloned().chain(named).collect(), ..told }
}

fn only_there(entry: &Listed) -> Told {
    let id = entry.operation_id.map(|id| id.to_string());
    Told {
        operation_ids: id.iter().cloned().collect(),
        references: entry.reference.iter().map(ToString::to_string).collect(),
        ..Told::plain(
            format!(
                "{} {} of {}, {}, made there at {}{}: the books have no such operation",
                entry.kind.as_str(),
                id.unwrap_or_default(),
                money(entry.currency, entry.amount.minor_units()),
                word(entry.standing),
                rfc3339(entry.created_at),
                entry.reference.as_deref().map_or(String::new(), |it| format!(" as {it}")),
            ),
            "another deployment with the same realm sent it, or this database was restored from before it: refund or void it \
             there if nobody is owed for it",
        )
    }
}

fn of_unbooked(unbooked: &Unbooked) -> Told {
    let shown = |minor_units| money(unbooked.currency, minor_units);
    let pair =
        |(captured, refunded)| format!("{} captured and {} refunded", shown(captured), shown(refunded));
    Told {
        charge_ids: vec![unbooked.charge.to_string()],
        commands: vec![format!("unavez trace {}", unbooked.charge)],
        ..Told::plain(
            format!(
                "charge {}: its row says {}, the ledger {}, its operations {}",
                unbooked.charge,
                pair(unbooked.row),
                pair(unbooked.ledger),
                pair(unbooked.operations)
            ),
            "somebody changed the database by hand, or the file is damaged: compare it with a backup before anything else",
        )
    }
}

fn same_order(group: &SameOrder, desk: &Desk) -> Told {
    let order = group.charges.first().map(|charge| charge.order_id.to_string()).unwrap_or_default();
    let value = group.charges.first().map(|charge| money(charge.currency, charge.amount.minor_units()));
    Told {
        operation_ids: group.charges.iter().map(|charge| charge.id.operation_id().to_string()).collect(),
        charge_ids: group.charges.iter().map(|charge| charge.id.to_string()).collect(),
        commands: group.charges.iter().skip(1).filter_map(|charge| desk.give_back(charge)).collect(),
        ..Told::plain(
            format!(
                "order {order} of tenant {}: {} charges of {} under {} keys",
                group.tenant.as_str(),
                group.charges.len(),
                value.unwrap_or_default(),
                group.charges.len()
            ),
            "if it was one purchase, give the later ones back; the keys make a second try harmless",
        )
    }
}

fn described(operation: &OperationHistory) -> String {
    format!(
        "{} {} of {} of tenant {}",
        operation.kind.as_str(),
        operation.operation_id,
        money(operation.currency, operation.amount.minor_units()),
        operation.tenant.as_str()
    )
}

fn in_words(differences: &[Difference]) -> String {
    let words: Vec<String> = differences
        .iter()
        .map(|it| format!("{} is {} here and {} there", it.what, it.here, it.there))
        .collect();
    words.join(", ")
}

const fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Done => "done",
        Standing::Declined => "declined",
        Standing::Pending => "pending",
    }
}

fn money(currency: Currency, minor_units: i64) -> String {
    format!("{} {}", currency.format(minor_units.into()), currency.code())
}
