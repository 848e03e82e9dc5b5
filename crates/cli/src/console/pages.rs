//! The pages' handlers: ask the books, render.

use std::time::Duration;

use askama::Template;
use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use unavez_core::identity::{OperationId, Tenant};
use unavez_core::key::Key;
use unavez_core::time::Time;
use unavez_payments::Payments;
use unavez_payments::acquirer::Kind;
use unavez_payments::auth::Caller;
use unavez_payments::books::trace::{charges_of_reference_on, charges_of_request_on};
use unavez_payments::books::{
    Anomaly, BooksError, ChargeFilter, EventKind, KeyStatus, Marked, OperationHistory, Reason,
};
use unavez_payments::charge::{Charge, ChargeId, RefundId, Status};
use unavez_store::Store as _;

use super::operations::{FindingRow, OperationRow};
use super::sign_in::{Transport, has_session};
use super::view::{
    self, ChargeRow, EntryRow, Filter, Frame, KeyCharge, KeyRow, LedgerTile, Meaning, Moment, Pill, Resource,
};
use crate::remedy;

/// Rows of a list page.
const PAGE_ROWS: usize = 50;

/// Rows of a list on the overview.
const LATEST_ROWS: usize = 10;

/// Open operations that are read to find the tenant's among them.
const OPEN_READ: usize = 1_000;

/// Findings that are read to find the tenant's among them.
const FINDINGS_READ: usize = 200;

/// What can be listed alone beside the statuses.
const MARKED: [(&str, Marked); 3] =
    [("unknown", Marked::Unknown), ("refunded", Marked::Refunded), ("duplicate", Marked::SuspectedDuplicate)];

/// The statuses of charges that can be listed alone.
const STATUSES: [Status; 6] = [
    Status::Captured,
    Status::Authorized,
    Status::Declined,
    Status::Pending,
    Status::Created,
    Status::Voided,
];

/// One request: who asks, and what to ask.
struct Desk {
    payments: Payments,
    tenant: Tenant,
    signed_in: bool,
    now: Time,
}

impl Desk {
    fn new(payments: Payments, caller: Caller, headers: &HeaderMap) -> Self {
        let now = payments.store().clock().now();
        Self { payments, tenant: caller.tenant, signed_in: has_session(headers), now }
    }

    fn frame(&self, place: &'static str, query: &str) -> Frame {
        Frame {
            place,
            query: query.to_owned(),
            tenant: self.tenant.as_str().to_owned(),
            realm: self.payments.store().realm().as_str().to_owned(),
            now: Moment::new(self.now, self.now),
            signed_in: self.signed_in,
        }
    }

    /// With the operations of those that are not decided: of them the charge says too little.
    async fn charge_rows(&self, charges: &[Charge]) -> Result<Vec<ChargeRow>, BooksError> {
        let is_open = |charge: &&Charge| matches!(charge.status, Status::Created | Status::Pending);
        let open: Vec<OperationId> =
            charges.iter().filter(is_open).map(|charge| charge.id.operation_id()).collect();
        let payments = match open.is_empty() {
            true => Vec::new(),
            false => self.payments.books().operations(open).await?,
        };
        let payment = |id| payments.iter().find(|history: &&OperationHistory| history.charge == id);
        Ok(charges.iter().map(|charge| ChargeRow::new(charge, payment(charge.id), self.now)).collect())
    }

    fn key_rows(&self, keys: &[KeyStatus]) -> Vec<KeyRow> {
        keys.iter().map(|key| KeyRow::new(key, self.now)).collect()
    }

    fn not_found(&self, detail: &str) -> Response {
        let page =
            view::Message { frame: self.frame("", ""), headline: "Not found", detail: detail.to_owned() };
        (StatusCode::NOT_FOUND, rendered(&page)).into_response()
    }
}

/// `GET /`
pub(super) async fn overview(
    State(payments): State<Payments>,
    Extension(caller): Extension<Caller>,
    Extension(transport): Extension<Transport>,
    headers: HeaderMap,
) -> Result<Response, StoreDown> {
    let desk = Desk::new(payments, caller, &headers);
    let books = desk.payments.books();
    let charges = books.charges(&desk.tenant, ChargeFilter::default(), None, LATEST_ROWS).await?;
    let keys = books.keys(&desk.tenant, None, None, LATEST_ROWS).await?;
    let keys = with_findings(&desk, keys.items).await?;
    let ledger = books.summary(&desk.tenant).await?;
    Ok(rendered(&view::Overview {
        frame: desk.frame("overview", ""),
        base: base(&headers, transport),
        ledger: ledger.iter().map(LedgerTile::new).collect(),
        open: open_operations(&desk).await?,
        findings: findings(&desk).await?,
        charges: desk.charge_rows(&charges.items).await?,
        keys: desk.key_rows(&keys),
    }))
}

/// The tenant's operations that are not decided, oldest first.
async fn open_operations(desk: &Desk) -> Result<Vec<OperationRow>, BooksError> {
    let undecided = desk.payments.books().undecided(Duration::ZERO, OPEN_READ).await?;
    let own = undecided.operations.iter().filter(|operation| operation.tenant == desk.tenant);
    let mut rows = Vec::new();
    for history in own.take(LATEST_ROWS) {
        let charge = desk.payments.books().charge(&desk.tenant, history.charge).await?;
        let order_id = charge.map(|charge| charge.order_id.to_string());
        rows.push(OperationRow { order_id, ..OperationRow::new(history, desk.now) });
    }
    Ok(rows)
}

/// What was found of the tenant's operations lately and may need a person; of no operation of ours, only where there is
/// one tenant. What was held and is decided by now needs nobody.
async fn findings(desk: &Desk) -> Result<Vec<FindingRow>, BooksError> {
    let found = desk.payments.books().latest_findings(FINDINGS_READ).await?;
    let is_shown = |(found, history): &&(Anomaly, Option<OperationHistory>)| match history {
        Some(history) => {
            let is_over = found.reason == Reason::Held && history.standing.is_decided();
            history.tenant == desk.tenant && !is_over
        }
        None => desk.payments.is_open_to_all(),
    };
    let row = |(found, history): &(Anomaly, Option<OperationHistory>)| {
        FindingRow::new(found, history.as_ref().map(|history| history.charge), desk.now)
    };
    Ok(found.iter().filter(is_shown).take(LATEST_ROWS).map(row).collect())
}

/// The address the browser used.
fn base(headers: &HeaderMap, transport: Transport) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:8080");
    match transport {
        Transport::Plain => format!("http://{host}"),
        Transport::Tls => format!("https://{host}"),
    }
}

#[derive(Deserialize)]
pub(super) struct ChargesQuery {
    order_id: Option<String>,
    status: Option<String>,
    after: Option<String>,
}

/// `GET /console/charges`
pub(super) async fn charges(
    State(payments): State<Payments>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Query(query): Query<ChargesQuery>,
) -> Result<Response, StoreDown> {
    let desk = Desk::new(payments, caller, &headers);
    let status = query.status.as_deref().and_then(Status::parse);
    let order_id: Option<Box<str>> = query.order_id.filter(|order| !order.is_empty()).map(Into::into);
    let after = query.after.as_deref().and_then(ChargeId::parse);
    let marked = MARKED.into_iter().find(|(word, _)| query.status.as_deref() == Some(*word));
    let filter = ChargeFilter { order_id: order_id.clone(), status };
    let books = desk.payments.books();
    let page = match marked {
        Some((_, marked)) => books.charges_marked(&desk.tenant, marked, after, PAGE_ROWS).await?,
        None => books.charges(&desk.tenant, filter, after, PAGE_ROWS).await?,
    };

    let order = order_id.as_deref();
    let chosen = marked.map(|(word, _)| word).or(status.map(Status::as_str));
    let all = Filter { word: "all", href: charges_href(order, None, None), chosen: chosen.is_none() };
    let one = |word: &'static str| Filter {
        word,
        href: charges_href(order, Some(word), None),
        chosen: chosen == Some(word),
    };
    let words = STATUSES.into_iter().map(Status::as_str).chain(MARKED.map(|(word, _)| word));
    Ok(rendered(&view::Charges {
        frame: desk.frame("charges", order.unwrap_or_default()),
        filters: [all].into_iter().chain(words.map(one)).collect(),
        charges: desk.charge_rows(&page.items).await?,
        next: page.next.map(|next| charges_href(order, chosen, Some(&next.to_string()))),
    }))
}

fn charges_href(order: Option<&str>, status: Option<&str>, after: Option<&str>) -> String {
    href("/console/charges", [("order_id", order), ("status", status), ("after", after)])
}

fn href<const N: usize>(path: &str, members: [(&str, Option<&str>); N]) -> String {
    let members =
        members.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", view::in_query(value?))));
    let query = members.collect::<Vec<_>>().join("&");
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// `GET /console/charges/{id}`
pub(super) async fn charge(
    State(payments): State<Payments>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Response, StoreDown> {
    let desk = Desk::new(payments, caller, &headers);
    let books = desk.payments.books();
    let found = match ChargeId::parse(&id) {
        Some(id) => books.charge(&desk.tenant, id).await?,
        None => None,
    };
    let Some(charge) = found else { return Ok(desk.not_found("This tenant has no such charge.")) };
    let entries = books.entries(&desk.tenant, Some(charge.id), None, PAGE_ROWS).await?;
    let key = key_of(&desk, charge.id).await?;
    let histories = histories_of(&desk, charge.id).await?;
    Ok(rendered(&view::OneCharge {
        frame: desk.frame("", ""),
        order_href: charges_href(Some(&charge.order_id), None, None),
        captured: view::money(charge.currency, charge.amount_captured),
        refunded: view::money(charge.currency, charge.amount_refunded),
        key: key.map(|key| KeyRow::new(&key, desk.now)),
        operation_id: charge.id.operation_id().to_string(),
        metadata: view::metadata(charge.metadata.as_deref()),
        entries: entries.items.iter().map(|entry| EntryRow::new(entry, desk.now)).collect(),
        nothing_booked: as_sentence(remedy::nothing_booked(&charge, &histories)),
        operations: histories.iter().map(|history| OperationRow::new(history, desk.now)).collect(),
        charge: ChargeRow::new(&charge, histories.iter().find(|it| it.kind == Kind::Payment), desk.now),
    }))
}

/// What went outside for a charge, or followed it, in the order of the claims.
async fn histories_of(desk: &Desk, charge: ChargeId) -> Result<Vec<OperationHistory>, BooksError> {
    desk.payments.books().operations_of_charge(charge).await
}

/// A fragment as a sentence.
fn as_sentence(fragment: &str) -> String {
    let (first, rest) = fragment.split_at(fragment.chars().next().map_or(0, char::len_utf8));
    format!("{}{rest}.", first.to_uppercase())
}

/// The key a charge was made under, while its record is there.
async fn key_of(desk: &Desk, charge: ChargeId) -> Result<Option<KeyStatus>, BooksError> {
    let loaded =
        desk.payments.store().load(charge.operation_id().record_id()).await.map_err(BooksError::Store)?;
    match loaded.record.filter(|record| record.tenant == desk.tenant) {
        Some(record) => desk.payments.books().key(&desk.tenant, &record.key).await,
        None => Ok(None),
    }
}

#[derive(Deserialize)]
pub(super) struct KeysQuery {
    after: Option<u64>,
}

/// `GET /console/keys`
pub(super) async fn keys(
    State(payments): State<Payments>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Query(query): Query<KeysQuery>,
) -> Result<Response, StoreDown> {
    let desk = Desk::new(payments, caller, &headers);
    let after = query.after.map(unavez_store::Cursor);
    let page = desk.payments.books().keys(&desk.tenant, None, after, PAGE_ROWS).await?;
    let items = with_findings(&desk, page.items).await?;
    let next = page.next.map(|next| next.0.to_string());
    Ok(rendered(&view::Keys {
        frame: desk.frame("keys", ""),
        keys: desk.key_rows(&items),
        next: next.map(|next| href("/console/keys", [("after", Some(next.as_str()))])),
    }))
}

/// The few that are open, with what was found of them.
async fn with_findings(desk: &Desk, keys: Vec<KeyStatus>) -> Result<Vec<KeyStatus>, BooksError> {
    let mut known = Vec::new();
    for key in keys {
        let found = match key.outcome {
            Some(_) => None,
            None => desk.payments.books().key(&desk.tenant, &key.key).await?,
        };
        known.push(found.unwrap_or(key));
    }
    Ok(known)
}

#[derive(Deserialize)]
pub(super) struct KeyQuery {
    key: String,
}

/// `GET /console/key?key=`
pub(super) async fn key(
    State(payments): State<Payments>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Query(query): Query<KeyQuery>,
) -> Result<Response, StoreDown> {
    let desk = Desk::new(payments, caller, &headers);
    let found = match Key::parse_path(&query.key) {
        Ok(key) => desk.payments.books().key(&desk.tenant, &key).await?,
        Err(_) => None,
    };
    let Some(key) = found else {
        return Ok(desk.not_found(
            "This key is not in use: it was never claimed, was released without effect, or its answer has expired.",
        ));
    };
    let moment = |time| Moment::new(time, desk.now);
    let operation_id = key.operation_id;
    let history = desk.payments.books().operation(operation_id).await?;
    let is_held = key.outcome.is_none() && key.findings.contains(&Reason::Held);
    let proposing = remedy::Desk { target: None, has_api_keys: !desk.payments.is_open_to_all() };
    Ok(rendered(&view::OneKey {
        frame: desk.frame("", ""),
        meaning: Meaning::of_key(&key),
        commands: match is_held {
            true => proposing.settle(key.key.as_str(), desk.tenant.as_str()),
            false => Vec::new(),
        },
        charge: charge_of_key(&desk, operation_id, history.as_ref()).await?,
        last_question: history.as_ref().and_then(|history| last_question(history, desk.now)),
        outcome: key.outcome.map(Pill::of_outcome),
        status: key.status,
        resource: key
            .resource_id
            .as_deref()
            .map(|id| Resource { id: id.to_owned(), href: format!("/console/charges/{}", charge_in(id)) }),
        attempts: key.attempts,
        finished: key.finished_at.map(moment),
        expires: key.expires_at.map(moment),
        operation_id: key.operation_id.to_string(),
        key: KeyRow::new(&key, desk.now),
    }))
}

/// The charge that a resource belongs to: of a refund, the one it gives back.
fn charge_in(resource: &str) -> String {
    RefundId::parse(resource).map_or_else(|| resource.to_owned(), |refund| refund.charge.to_string())
}

/// What a key made or changed. A charge of the ledger's has no operation of its own.
async fn charge_of_key(
    desk: &Desk,
    operation: OperationId,
    history: Option<&OperationHistory>,
) -> Result<Option<KeyCharge>, BooksError> {
    let id = history.map_or(ChargeId::of(operation), |history| history.charge);
    let charge = desk.payments.books().charge(&desk.tenant, id).await?;
    Ok(charge.map(|charge| KeyCharge {
        id: id.to_string(),
        order_id: charge.order_id.to_string(),
        order_href: charges_href(Some(&charge.order_id), None, None),
        kind: history.map_or(Kind::Payment, |history| history.kind).as_str(),
        amount: view::money(charge.currency, history.map_or(charge.amount, |it| it.amount).minor_units()),
        currency: charge.currency.code(),
    }))
}

/// What the acquirer said when it was asked last.
fn last_question(history: &OperationHistory, now: Time) -> Option<(String, Moment)> {
    let last = history.in_order().into_iter().rev().find(|event| event.kind == EventKind::Asked)?;
    let said = last.detail.as_deref().unwrap_or("no answer").to_owned();
    Some((said, Moment::new(last.at, now)))
}

#[derive(Deserialize)]
pub(super) struct SearchQuery {
    #[serde(default)]
    q: String,
}

/// `GET /console/search?q=`: what is found alone is shown at once.
pub(super) async fn search(
    State(payments): State<Payments>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Query(query): Query<SearchQuery>,
) -> Result<Response, StoreDown> {
    let desk = Desk::new(payments, caller, &headers);
    let books = desk.payments.books();
    let text = query.q.trim();
    if let Some(id) = named_charge(text)
        && books.charge(&desk.tenant, id).await?.is_some()
    {
        return Ok(Redirect::to(&format!("/console/charges/{id}")).into_response());
    }
    if let Some(id) = charge_of_request(&desk, text).await? {
        return Ok(Redirect::to(&format!("/console/charges/{id}")).into_response());
    }
    let key = match Key::parse_path(text) {
        Ok(key) => books.key(&desk.tenant, &key).await?,
        Err(_) => None,
    };
    let filter = ChargeFilter { order_id: Some(text.into()), status: None };
    let charges = books.charges(&desk.tenant, filter, None, PAGE_ROWS).await?;
    match (&key, charges.items.as_slice()) {
        (Some(key), []) => return Ok(Redirect::to(&view::key_href(key.key.as_str())).into_response()),
        (None, [charge]) => {
            return Ok(Redirect::to(&format!("/console/charges/{}", charge.id)).into_response());
        }
        (None, []) => {
            if let Some(id) = charge_of_reference(&desk, text).await? {
                return Ok(Redirect::to(&format!("/console/charges/{id}")).into_response());
            }
        }
        _ => {}
    }
    let headline = match (&key, charges.items.len()) {
        (None, 0) if text.is_empty() => "What are you looking for?".to_owned(),
        (None, 0) => format!("Nothing is called “{text}”"),
        _ => format!("Found for “{text}”"),
    };
    Ok(rendered(&view::Found {
        frame: desk.frame("", text),
        headline,
        keys: desk.key_rows(key.as_slice()),
        charges: desk.charge_rows(&charges.items).await?,
        next: charges.next.map(|next| charges_href(Some(text), None, Some(&next.to_string()))),
    }))
}

/// A charge id, the operation id it is made of, or the id of one of its refunds.
fn named_charge(text: &str) -> Option<ChargeId> {
    let refund = RefundId::parse(text).map(|refund| refund.charge);
    ChargeId::parse(text).or(refund).or_else(|| OperationId::parse(text).ok().map(ChargeId::of))
}

/// The tenant's charge that a request had to do with. Only ids of requests are looked for.
async fn charge_of_request(desk: &Desk, text: &str) -> Result<Option<ChargeId>, BooksError> {
    if !text.starts_with("req_") {
        return Ok(None);
    }
    let request_id = text.to_owned();
    let read = desk.payments.store().read(move |connection| charges_of_request_on(connection, &request_id));
    for id in read.await.map_err(BooksError::Store)? {
        if desk.payments.books().charge(&desk.tenant, id).await?.is_some() {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// The tenant's charge that the acquirer knows under this name of its own. Looked for last: it has no index.
async fn charge_of_reference(desk: &Desk, text: &str) -> Result<Option<ChargeId>, BooksError> {
    if text.is_empty() {
        return Ok(None);
    }
    let reference = text.to_owned();
    let read = desk.payments.store().read(move |connection| charges_of_reference_on(connection, &reference));
    for id in read.await.map_err(BooksError::Store)? {
        if desk.payments.books().charge(&desk.tenant, id).await?.is_some() {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// `GET` of anything else below `/console`.
pub(super) async fn nowhere(
    State(payments): State<Payments>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Response {
    Desk::new(payments, caller, &headers).not_found("The console has no such page.")
}

/// Templates only write to memory, so rendering cannot fail.
pub(super) fn rendered(page: &impl Template) -> Response {
    Html(page.render().expect("a template that only writes to memory has nothing to fail on")).into_response()
}

/// The books could not be read.
pub(super) struct StoreDown(BooksError);

impl From<BooksError> for StoreDown {
    fn from(error: BooksError) -> Self {
        Self(error)
    }
}

impl IntoResponse for StoreDown {
    fn into_response(self) -> Response {
        if matches!(self.0, BooksError::UnknownPosition) {
            return (StatusCode::NOT_FOUND, "this page of the list is not there any more\n").into_response();
        }
        tracing::warn!(error = %self.0, "the console cannot read the books");
        (StatusCode::SERVICE_UNAVAILABLE, "the books cannot be read just now; the log says why\n")
            .into_response()
    }
}
