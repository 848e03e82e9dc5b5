//! `unavez keys list`: keys, newest first, and what of them is at risk.

use clap::Args;
use serde::Serialize;
use unavez_core::identity::Tenant;
use unavez_core::record::Record;
use unavez_core::time::Time;
use unavez_payments::books::{OperationHistory, Places, operation_on};
use unavez_payments::money::Currency;
use unavez_store::sqlite::{ReadError, Viewer};
use unavez_store::{Cursor, Filter};

use super::row::AtRisk;
use super::{Row, open, state, tenant, wall_clock};
use crate::exit::{Exit, Failure};
use crate::number;
use crate::output::{Output, Room, Width, fitted, print_json, print_line};
use crate::serve::DatabaseFile;

/// Flags of `unavez keys list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez keys list --state unknown
  unavez keys list --store sqlite:/var/lib/unavez/unavez.db --tenant shop --limit 100 --format json")]
pub(crate) struct ListArgs {
    /// The database: sqlite:PATH. Only read; the service may be running on it
    #[arg(long, value_name = "STORE", default_value = "sqlite:unavez.db")]
    store: DatabaseFile,

    /// Only this tenant's keys
    #[arg(long, value_name = "TENANT", value_parser = tenant)]
    tenant: Option<Tenant>,

    /// Only keys in this state: in_progress, pending, unknown, finished, abandoned
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<&'static str>,

    /// At most so many
    #[arg(long, value_name = "N", default_value = "20", value_parser = number::within(1..=10_000_usize))]
    limit: usize,

    /// Go on behind the page that ended with this `next`
    #[arg(long, value_name = "NEXT", value_parser = number::within(0..=u64::MAX))]
    after: Option<u64>,

    #[command(flatten)]
    width: Width,

    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Page {
    realm: String,
    keys: Vec<Row>,
    /// What may have moved of all open keys of this tenant and state, those of other pages included, by currency.
    at_risk: Vec<AtRisk>,
    /// How many those are.
    open_keys: u64,
    /// How long the oldest of them has been open.
    oldest_seconds: Option<u64>,
    next: Option<u64>,
}

pub(super) fn list(args: &ListArgs) -> Result<Exit, Failure> {
    let viewer = open(&args.store)?;
    let page = viewer.read(|connection| {
        let filter = Filter { tenant: args.tenant.clone(), state: args.state };
        let (records, next) = viewer.list(&filter, args.after.map(Cursor), args.limit)?;
        let (now, places) = (wall_clock(), Places::beside());
        let amount_of = |record: &Record| -> Result<Option<Amount>, ReadError> {
            let operation = operation_on(connection, &places, record.id.operation_id())?;
            Ok(operation.as_ref().map(amount))
        };
        let (mut keys, mut page) = (Vec::new(), Open::default());
        for record in &records {
            let mut row = Row::new(record, now);
            let history = match row.age_seconds {
                Some(_) => operation_on(connection, &places, record.id.operation_id())?,
                None => None,
            };
            let amount = page.count(&row, || Ok(history.as_ref().map(amount)))?;
            row = row.with_history(history.as_ref());
            row.at_risk = amount.map(|(currency, amount)| AtRisk::of(currency, amount));
            keys.push(row);
        }
        // A page that is all there is has been counted.
        let open = if next.is_some() || args.after.is_some() {
            Open::of(&viewer, &filter, now, amount_of)?
        } else {
            page
        };
        Ok(Page {
            realm: viewer.realm().as_str().to_owned(),
            keys,
            at_risk: open.sums.into_iter().map(|(currency, sum)| AtRisk::of(currency, sum)).collect(),
            open_keys: open.keys,
            oldest_seconds: open.oldest_seconds,
            next: next.map(|Cursor(position)| position),
        })
    });
    let page = page.map_err(|error| Failure::unavailable(error.to_string()))?;
    if args.output.is_json() { print_json(&page) } else { print_line(&table(&page, args.width.room())) }?;
    Ok(Exit::Done)
}

/// The states in which it is not known what became of a key.
const OPEN_STATES: [&str; 4] = ["in_progress", "pending", "unknown", "abandoned"];

/// How much, in minor units.
type Amount = (Currency, i128);

/// Open keys, counted and summed up.
#[derive(Default)]
struct Open {
    keys: u64,
    oldest_seconds: Option<u64>,
    sums: Vec<Amount>,
}

impl Open {
    /// All that a filter lets through.
    fn of(
        viewer: &Viewer,
        filter: &Filter,
        now: Time,
        amount_of: impl Fn(&Record) -> Result<Option<Amount>, ReadError>,
    ) -> Result<Self, ReadError> {
        const CHUNK: usize = 10_000;
        let mut open = Self::default();
        for state in OPEN_STATES.into_iter().filter(|state| filter.state.is_none_or(|only| only == *state)) {
            let filter = Filter { tenant: filter.tenant.clone(), state: Some(state) };
            let mut after = None;
            loop {
                let (records, next) = viewer.list(&filter, after, CHUNK)?;
                for record in &records {
                    open.count(&Row::new(record, now), || amount_of(record))?;
                }
                after = next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(open)
    }

    /// Counts a key, if it is open; the amount of its operation.
    fn count(
        &mut self,
        row: &Row,
        amount: impl FnOnce() -> Result<Option<Amount>, ReadError>,
    ) -> Result<Option<Amount>, ReadError> {
        let Some(age) = row.age_seconds else { return Ok(None) };
        self.keys += 1;
        self.oldest_seconds = self.oldest_seconds.max(Some(age));
        let Some((currency, amount)) = amount()? else { return Ok(None) };
        match self.sums.iter_mut().find(|(known, _)| *known == currency) {
            Some((_, sum)) => *sum += amount,
            None => self.sums.push((currency, amount)),
        }
        Ok(Some((currency, amount)))
    }
}

fn amount(operation: &OperationHistory) -> Amount {
    (operation.currency, operation.amount.minor_units().into())
}

/// What a narrow terminal does without, in this order: resource, outcome, HTTP, tenant, created.
const EXPENDABLE: [usize; 5] = [8, 3, 4, 0, 7];

fn table(page: &Page, room: Room) -> String {
    if page.keys.is_empty() {
        return "no keys".to_owned();
    }
    let head = ["TENANT", "KEY", "STATE", "OUTCOME", "HTTP", "AGE", "AT RISK", "CREATED", "RESOURCE"];
    let rows = page.keys.iter().map(cells);
    let rows: Vec<_> = [head.map(str::to_owned)].into_iter().chain(rows).collect();
    let (mut text, is_cut) = fitted(&rows, &EXPENDABLE, room);
    if let (Some(oldest), false) = (page.oldest_seconds, page.at_risk.is_empty()) {
        let sums: Vec<String> = page.at_risk.iter().map(money).collect();
        let keys = if page.open_keys == 1 {
            "1 open key".to_owned()
        } else {
            format!("{} open keys", page.open_keys)
        };
        text.push_str(&format!("at risk in {keys}: {}, the oldest {}\n", sums.join(" and "), age(oldest)));
    }
    if page.keys.iter().any(Row::is_held) {
        text.push_str("held: waits for a person; `unavez keys show KEY` says how it is settled\n");
    }
    if is_cut {
        text.push_str("--wide shows all columns\n");
    }
    if let Some(next) = page.next {
        text.push_str(&format!("more with --after {next}"));
    }
    text.trim_end().to_owned()
}

fn cells(row: &Row) -> [String; 9] {
    let dash = || "-".to_owned();
    [
        row.tenant.clone(),
        row.key.clone(),
        row.state_word(),
        row.outcome.map_or_else(dash, str::to_owned),
        row.status.map_or_else(dash, |status| status.to_string()),
        row.age_seconds.map_or_else(dash, age),
        row.at_risk.as_ref().map_or_else(dash, money),
        row.created_at.clone(),
        row.resource_id.clone().unwrap_or_else(dash),
    ]
}

fn money(at_risk: &AtRisk) -> String {
    format!("{} {}", at_risk.shown, at_risk.currency)
}

fn age(seconds: u64) -> String {
    crate::time::length(std::time::Duration::from_secs(seconds))
}
