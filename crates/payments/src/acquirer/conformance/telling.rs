//! The cases of lists and webhooks.

use std::collections::HashSet;
use std::time::Duration;

use http::HeaderMap;
use unavez_core::time::Time;

use super::{Case, Rig, Wanted, amount, check};
use crate::acquirer::{Answer, EventRefusal, Instruction, Kind, Listed, News, Standing};

/// What the list of an account tells from that time on, page by page.
async fn listed<R: Rig + ?Sized>(rig: &R, since: Time, limit: usize) -> Vec<Listed> {
    const PAGES_MAX: usize = 100;
    let mut items = Vec::new();
    let mut after: Option<Box<str>> = None;
    for _ in 0..PAGES_MAX {
        let page =
            rig.acquirer().list(since, after.as_deref(), limit).await.expect("the list can be asked for");
        items.extend(page.items);
        after = page.next;
        if after.is_none() {
            return items;
        }
    }
    panic!("the list has no end")
}

/// Whatever the size of its pages.
pub async fn the_list_tells_everything_once_oldest_first<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let since = rig.now();
    let mut sent = Vec::new();
    for number in 0..5 {
        let payment = case.payment(&format!("p{number}"));
        case.done(&payment).await;
        sent.push(Some(payment.subject.operation_id));
        rig.pass_a_second().await;
    }
    rig.settle().await;
    for limit in [1, 2, 5, 100] {
        let items = listed(rig, since, limit).await;
        let payments = items.iter().filter(|item| item.kind == Kind::Payment);
        assert_eq!(payments.clone().map(|item| item.operation_id).collect::<Vec<_>>(), sent, "limit {limit}");
        assert!(items.is_sorted_by_key(|item| item.created_at), "limit {limit}");
        for item in payments {
            assert_eq!((item.amount, item.standing), (amount(10_000), Standing::Done));
        }
        let names: HashSet<_> = items.iter().map(|item| &item.reference).collect();
        assert_eq!(names.len(), items.len(), "each has a name of its own");
    }
}

/// What is older is left out.
pub async fn the_list_begins_at_its_time<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    case.done(&case.payment("before")).await;
    for _ in 0..2 {
        rig.pass_a_second().await;
    }
    let since = rig.now();
    let payment = case.payment("after");
    case.done(&payment).await;
    rig.settle().await;
    let all = listed(rig, Time::from_micros(0), 100).await;
    if all.iter().all(|item| item.created_at == all[0].created_at) {
        return;
    }
    let ids: Vec<_> = listed(rig, since, 100).await.into_iter().map(|item| item.operation_id).collect();
    assert_eq!(ids, [Some(payment.subject.operation_id)]);
}

/// A webhook about one operation, from an acquirer that sends them.
async fn event<R: Rig + ?Sized>(case: &Case<'_, R>) -> Option<(Instruction, HeaderMap, Vec<u8>)> {
    let instruction = case.try_payment("k", Wanted::Pending).unwrap_or_else(|| case.payment("k"));
    let answer = case.send(&instruction).await;
    assert!(matches!(answer, Answer::Done(_) | Answer::Pending(_)), "{answer:?}");
    case.rig.settle().await;
    let (headers, body) = case.rig.event(instruction.subject.operation_id).await?;
    Some((instruction, headers, body))
}

/// An event settles what a question would settle, with the same content.
pub async fn an_event_tells_what_a_question_is_told<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let Some((instruction, headers, body)) = event(&case).await else { return };
    let event = rig.acquirer().read_event(&headers, &body, rig.now()).await.expect("its signature is right");
    assert!(!event.id.is_empty());
    match event.news {
        News::Operation(Standing::Done, report) => check(&report, &instruction),
        other => panic!("it must tell that the operation is done, got {other:?}"),
    }
}

/// One byte more or less, another secret, another time: nothing of it is believed.
pub async fn a_tampered_event_is_not_signed<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let Some((_, headers, body)) = event(&case).await else { return };
    let mut changed = body.clone();
    if let Some(last) = changed.last_mut() {
        *last ^= 1;
    }
    let longer = [&body[..], b" "].concat();
    let now = rig.now();
    let later = now.plus(Duration::from_secs(3600));
    let unsigned = HeaderMap::new();
    let mut cases: Vec<(&HeaderMap, &[u8], Time)> = vec![
        (&headers, &changed, now),
        (&headers, b"", now),
        (&headers, &body, later),
        (&unsigned, &body, now),
    ];
    if rig.signs_bodies() {
        cases.push((&headers, &longer, now));
    }
    for (headers, body, now) in cases {
        let read = rig.acquirer().read_event(headers, body, now).await;
        assert!(matches!(read, Err(EventRefusal::NotSigned(_))), "{read:?}");
    }
}
