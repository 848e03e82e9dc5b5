//! The acquirer's list against the books: what is reported, and what is not.

use std::sync::Arc;

use unavez_core::identity::OperationId;
use unavez_core::time::Time;
use unavez_payments::acquirer::{Kind, Listed, Standing};
use unavez_payments::money::Amount;
use unavez_payments::reconcile::{Finding, Report, Source, Stopped, Stretch, reconcile};
use unavez_store::clock::Clock as _;
use unavez_store::sqlite::Viewer;

use super::scripted::{Endless, Plan, Scripted};
use super::{HOUR, captured, later, operation, start};
use crate::support::{B1, Service};

async fn compare(service: &Service, acquirer: &Arc<Scripted>) -> Result<Report, Stopped> {
    let viewer = Viewer::open(&service.folder().join("unavez.db")).unwrap();
    let source = Source::acquirer(Arc::clone(acquirer) as _);
    let stretch = Stretch { since: Time::from_micros(0), now: service.setup_clock().now() };
    reconcile(&viewer, Some(&source), stretch, |_| {}).await
}

async fn findings(service: &Service, acquirer: &Arc<Scripted>) -> Vec<Finding> {
    compare(service, acquirer).await.unwrap().findings
}

fn words(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(Finding::as_str).collect()
}

/// A service with one captured charge, an hour ago, and the line it has in the acquirer's list.
async fn one_charge() -> (Service, Arc<Scripted>, Listed) {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    captured(&service, "K1").await;
    later(&service, HOUR).await;
    let line = acquirer.listed(operation(&service, "K1").await);
    (service, acquirer, line)
}

fn amount(minor_units: i64) -> Amount {
    Amount::of_minor_units(minor_units).unwrap()
}

#[tokio::test]
async fn books_that_agree_are_clean_however_the_list_is_cut() {
    let (service, acquirer, line) = one_charge().await;
    // Later pages may hold earlier entries, and an entry twice.
    acquirer.list_as(vec![vec![], vec![line.clone()], vec![line]]);
    let report = compare(&service, &acquirer).await.unwrap();
    assert_eq!((words(&report.findings), report.compared), (vec![], 2));
}

#[tokio::test]
async fn half_a_list_is_no_list() {
    let (service, acquirer, _) = one_charge().await;
    let stopped = compare(&service, &acquirer).await;
    assert!(matches!(stopped, Err(Stopped::Acquirer(_))), "{stopped:?}");
}

#[tokio::test]
async fn what_one_side_alone_knows_is_found() {
    let (service, acquirer, line) = one_charge().await;
    let foreign = OperationId::parse("op_00000000000000000000000000000001").unwrap();
    acquirer.list_as(vec![vec![Listed { operation_id: Some(foreign), ..line.clone() }]]);
    let found = findings(&service, &acquirer).await;
    assert_eq!(words(&found), ["only_there", "only_here"]);
    let Finding::OnlyHere(missing) = &found[1] else { unreachable!() };
    assert_eq!(Some(missing.operation_id), line.operation_id);

    acquirer.list_as(vec![vec![line.clone(), Listed { operation_id: None, ..line }]]);
    let report = compare(&service, &acquirer).await.unwrap();
    assert_eq!((words(&report.findings), report.without_id), (vec![], 1), "made by others");
}

#[tokio::test]
async fn what_is_under_way_is_not_missed() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    captured(&service, "K1").await;
    acquirer.list_as(vec![vec![]]);
    assert_eq!(words(&findings(&service, &acquirer).await), Vec::<&str>::new());
    later(&service, HOUR).await;
    assert_eq!(words(&findings(&service, &acquirer).await), ["only_here"]);
}

#[tokio::test]
async fn executions_are_told_apart_by_the_acquirers_names() {
    let (service, acquirer, line) = one_charge().await;
    let second = Listed { reference: Some("another".into()), ..line.clone() };
    acquirer.list_as(vec![vec![line], vec![second]]);
    let found = findings(&service, &acquirer).await;
    assert_eq!(words(&found), ["doubled"]);
    let Finding::Doubled { references, .. } = &found[0] else { unreachable!() };
    assert_eq!(references.len(), 2);
}

#[tokio::test]
async fn every_difference_is_named() {
    let (service, acquirer, line) = one_charge().await;
    for (changed, what) in [
        (Listed { amount: amount(2499), ..line.clone() }, "amount"),
        (Listed { kind: Kind::Refund, ..line.clone() }, "kind"),
        (Listed { standing: Standing::Declined, ..line.clone() }, "standing"),
        (
            Listed {
                payment: Some(OperationId::parse("op_00000000000000000000000000000001").unwrap()),
                ..line
            },
            "payment",
        ),
    ] {
        let is_done = changed.standing == Standing::Done;
        acquirer.list_as(vec![vec![changed]]);
        let found = findings(&service, &acquirer).await;
        let Finding::Differs { differences, .. } = &found[0] else { panic!("{found:?}") };
        assert_eq!(differences.iter().map(|it| it.what).collect::<Vec<_>>(), [what]);
        assert_eq!(
            found.len(),
            if is_done { 1 } else { 2 },
            "what is declined there was not executed: {found:?}"
        );
    }
}

#[tokio::test]
async fn what_is_decided_there_and_open_here_is_found_after_some_patience() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Lose]);
    service.charge("K1", B1).await;
    let line = acquirer.listed(operation(&service, "K1").await);
    acquirer.list_as(vec![vec![line]]);
    assert_eq!(words(&findings(&service, &acquirer).await), Vec::<&str>::new());
    acquirer.look(super::scripted::Look::Down);
    later(&service, HOUR).await;
    assert_eq!(words(&findings(&service, &acquirer).await), ["unsettled"]);
}

#[tokio::test]
async fn refunds_without_ids_are_compared_by_their_sums() {
    let (service, acquirer, line) = one_charge().await;
    let refund = Listed {
        operation_id: None,
        kind: Kind::Refund,
        amount: amount(700),
        payment: line.operation_id,
        reference: Some("refund-1".into()),
        ..line.clone()
    };
    acquirer.list_as(vec![vec![line, refund]]);
    let found = findings(&service, &acquirer).await;
    assert!(matches!(found[..], [Finding::PaidBack { here: 0, there: 700, .. }]), "{found:?}");
}

#[tokio::test]
async fn one_order_under_two_keys_is_found_until_it_is_paid_back() {
    let (service, acquirer, first) = one_charge().await;
    let second = captured(&service, "K2").await;
    later(&service, HOUR).await;
    let line = acquirer.listed(operation(&service, "K2").await);
    acquirer.list_as(vec![vec![first.clone(), line.clone()]]);
    let found = findings(&service, &acquirer).await;
    let [Finding::SameOrder(group)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(group.charges.len(), 2);
    assert_eq!(group.charges[1].id.to_string(), second, "the later one last");

    let path = format!("/v1/charges/{second}/refunds");
    let refund =
        service.call(http::Method::POST, &path).key(&format!("refund:dup:{second}")).json("{}").send().await;
    assert_eq!(refund.status, 201, "{refund:?}");
    let back = acquirer.listed(operation(&service, &format!("refund:dup:{second}")).await);
    acquirer.list_as(vec![vec![first, line, back]]);
    assert_eq!(words(&findings(&service, &acquirer).await), Vec::<&str>::new());
}

#[tokio::test]
async fn a_charge_that_does_not_agree_with_the_ledger_is_found() {
    let (service, acquirer, line) = one_charge().await;
    acquirer.list_as(vec![vec![line]]);
    let meddle = rusqlite::Connection::open(service.folder().join("unavez.db")).unwrap();
    assert_eq!(meddle.execute("update charges set amount_refunded = 100", []).unwrap(), 1);
    let found = findings(&service, &acquirer).await;
    let [Finding::Unbooked(unbooked)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((unbooked.row, unbooked.ledger, unbooked.operations), ((2500, 100), (2500, 0), (2500, 0)));
}

#[tokio::test]
async fn a_list_without_an_end_is_told_and_not_read_for_ever() {
    let (service, acquirer, line) = one_charge().await;
    for (endless, said) in [
        (Endless::Empty, "without an entry"),
        (Endless::Circle(line.clone()), "leads back to itself"),
        (Endless::Fresh(line), "more than 10000 pages"),
    ] {
        acquirer.list_for_ever(endless);
        let Err(Stopped::Acquirer(why)) = compare(&service, &acquirer).await else {
            panic!("it ended: {said}")
        };
        assert!(why.to_string().contains(said), "{why}");
    }
}
