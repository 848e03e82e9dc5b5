//! Everything an account executed since a time: payments with their captures, oldest first, then refunds, oldest first.
//!
//! Stripe's lists are newest first. The oldest object of the time is found by walking to the list's end once; from there
//! on pages are asked for backwards. A cursor is the newest object seen so far.

use unavez_core::identity::{OperationId, Tenant};
use unavez_core::time::Time;

use super::compose::TENANT;
use super::object::{Object, Page, PaymentIntent, Refund};
use super::reading::{read_capture, standing_of, standing_of_refund};
use super::{PAGE_MAX, Stripe, money, seconds};
use crate::acquirer::{Kind, ListPage, Listed, Reason, Standing};

/// Pages that are walked to find the oldest object: a million payments.
const WALK_MAX: usize = 10_000;

/// What stands in front of a cursor among refunds, whose part comes second.
const REFUNDS: &str = "refunds:";

pub(super) async fn list(
    stripe: &Stripe,
    since: Time,
    after: Option<&str>,
    limit: usize,
) -> Result<ListPage, Reason> {
    let limit = limit.clamp(1, PAGE_MAX);
    if let Some(after) = after.and_then(|after| after.strip_prefix(REFUNDS)) {
        let after = Some(after).filter(|after| !after.is_empty());
        let (refunds, next) = page::<Refund>(stripe, "/v1/refunds", since, after, limit).await?;
        let items = flat(refunds.iter().map(listed_refund))?;
        return Ok(ListPage { items, next: next.map(|next| format!("{REFUNDS}{next}").into()) });
    }
    let (intents, next) = page::<PaymentIntent>(stripe, "/v1/payment_intents", since, after, limit).await?;
    let items = flat(intents.iter().map(listed_payment))?;
    Ok(ListPage { items, next: Some(next.unwrap_or_else(|| REFUNDS.to_owned()).into()) })
}

fn flat(listed: impl Iterator<Item = Result<Vec<Listed>, Reason>>) -> Result<Vec<Listed>, Reason> {
    listed.collect::<Result<Vec<_>, _>>().map(|items| items.concat())
}

/// One page, oldest first, and the cursor behind it if there is more.
async fn page<T: Object>(
    stripe: &Stripe,
    path: &str,
    since: Time,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<T>, Option<String>), Reason> {
    let filter = format!("{path}?created[gte]={}", seconds(since).max(0));
    let (mut objects, more) = match after {
        None => oldest(stripe, &filter, limit).await?,
        Some(after) => {
            let page: Page<T> =
                stripe.get(&format!("{filter}&limit={limit}&ending_before={}", plain(after)?)).await?;
            (page.data, page.has_more)
        }
    };
    objects.reverse();
    let next = objects.last().filter(|_| more).map(|newest| newest.id().to_owned());
    Ok((objects, next))
}

/// A cursor comes back from outside.
fn plain(cursor: &str) -> Result<&str, Reason> {
    let is_name = cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name { Ok(cursor) } else { Err(Reason("after is none of this list's".into())) }
}

/// The oldest objects, newest of them first, and whether there are newer ones.
async fn oldest<T: Object>(stripe: &Stripe, filter: &str, limit: usize) -> Result<(Vec<T>, bool), Reason> {
    let mut seen: Vec<T> = Vec::new();
    let mut dropped = false;
    let mut after = String::new();
    for _ in 0..WALK_MAX {
        let page: Page<T> = stripe.get(&format!("{filter}&limit={PAGE_MAX}{after}")).await?;
        let more = page.has_more && !page.data.is_empty();
        seen.extend(page.data);
        let surplus = seen.len().saturating_sub(limit);
        dropped |= surplus > 0;
        seen.drain(..surplus);
        match seen.last() {
            Some(last) if more => after = format!("&starting_after={}", last.id()),
            _ => return Ok((seen, dropped)),
        }
    }
    Err(Reason("there is more since that time than can be walked through; ask since a later one".into()))
}

/// A payment, and the capture that was made of it. Those of others are listed too, without an id of ours.
fn listed_payment(intent: &PaymentIntent) -> Result<Vec<Listed>, Reason> {
    let payment = listed(intent, Kind::Payment, standing_of(intent)?, intent.amount, &intent.currency);
    let capture = match read_capture(intent) {
        Ok((Standing::Done, report)) => payment.as_ref().map(|payment| Listed {
            operation_id: Some(report.operation_id),
            kind: Kind::Capture,
            amount: report.amount,
            payment: report.payment,
            reference: Some(format!("{}:capture", intent.id).into()),
            ..payment.clone()
        }),
        _ => None,
    };
    Ok(payment.into_iter().chain(capture).collect())
}

fn listed_refund(refund: &Refund) -> Result<Vec<Listed>, Reason> {
    let listed = listed(refund, Kind::Refund, standing_of_refund(refund)?, refund.amount, &refund.currency);
    Ok(listed.into_iter().collect())
}

/// `None`: its currency is counted in a way that is not known here, so it was not made here either.
fn listed(
    object: &impl Object,
    kind: Kind,
    standing: Standing,
    amount: i64,
    currency: &str,
) -> Option<Listed> {
    let Some((amount, currency)) = money::read(amount, currency) else {
        tracing::warn!(id = object.id(), currency, "left out of the list: an amount that cannot be read");
        return None;
    };
    Some(Listed {
        operation_id: object.operation_id().and_then(|id| OperationId::parse(id).ok()),
        kind,
        standing,
        tenant: object.metadata().get(TENANT).and_then(|tenant| Tenant::parse(tenant).ok()),
        amount,
        currency,
        payment: None,
        reference: Some(object.id().into()),
        created_at: Time::from_micros(object.created().saturating_mul(1_000_000)),
    })
}
