//! Reading the books: pages, filters, entries and sums.

use serde_json::Value;

use crate::support::{Service, refused};

async fn filled() -> Service {
    let service = Service::start().await;
    for at in 0..5 {
        let body = format!(r#"{{"order_id":"o-{}","amount":{},"currency":"EUR"}}"#, at % 2, at + 1);
        assert_eq!(service.charge(&format!("K{at}"), &body).await.status, 201);
    }
    for (key, method, capture) in [("D", "tok_decline", true), ("A", "tok_approve", false)] {
        let body = format!(
            r#"{{"order_id":"o-9","amount":7,"currency":"USD","payment_method":"{method}","capture":{capture}}}"#
        );
        service.charge(key, &body).await;
    }
    service
}

/// Walks all pages and returns what stands in them.
async fn walk(service: &Service, path: &str, member: &str) -> Vec<Value> {
    let mut seen = Vec::new();
    let mut next = None::<String>;
    loop {
        let after = next.map_or_else(String::new, |id| format!("&after={id}"));
        let page = service.get(&format!("{path}{after}")).await.json();
        seen.extend(page["data"].as_array().unwrap().iter().map(|item| item[member].clone()));
        match page["next"].as_str() {
            Some(id) => next = Some(id.to_owned()),
            None => return seen,
        }
    }
}

#[tokio::test]
async fn charges_are_listed_newest_first_in_pages_of_any_size() {
    let service = filled().await;
    for limit in [1, 2, 3, 7, 100] {
        let amounts = walk(&service, &format!("/v1/charges?limit={limit}"), "amount").await;
        assert_eq!(amounts, [7, 7, 5, 4, 3, 2, 1], "{limit}");
        let amounts = walk(&service, &format!("/v1/ledger/entries?limit={limit}"), "amount").await;
        assert_eq!(amounts, [5, 4, 3, 2, 1], "{limit}");
    }
}

#[tokio::test]
async fn filters_narrow_the_list() {
    let service = filled().await;
    for (filter, expected) in [
        ("order_id=o-0", &[5, 3, 1][..]),
        ("order_id=o-1&status=captured", &[4, 2]),
        ("order_id=o-1&status=declined", &[]),
        ("order_id=o-9&status=declined", &[7]),
        ("order_id=nobody", &[]),
        ("status=captured", &[5, 4, 3, 2, 1]),
        ("status=declined", &[7]),
        ("status=authorized", &[7]),
        ("status=voided", &[]),
    ] {
        let amounts = walk(&service, &format!("/v1/charges?limit=2&{filter}"), "amount").await;
        assert_eq!(amounts, expected, "{filter}");
    }
}

#[tokio::test]
async fn an_entry_is_a_balanced_pair_of_its_charge() {
    let service = filled().await;
    let charge = service.get("/v1/charges?order_id=o-0&limit=1").await.json()["data"][0].clone();
    let id = charge["id"].as_str().unwrap();
    let page = service.get(&format!("/v1/ledger/entries?charge_id={id}")).await.json();
    let entry_id = format!("{}_1", id.replace("ch_", "le_"));
    assert_eq!(
        page,
        serde_json::json!({"data": [{
            "id": entry_id, "charge_id": id, "kind": "capture", "debit": "customer", "credit": "merchant",
            "amount": 5, "currency": "EUR", "created_at": charge["created_at"],
        }], "next": null})
    );
}

#[tokio::test]
async fn the_summary_is_made_of_the_rows() {
    let service = filled().await;
    let expected = serde_json::json!({"currencies": [
        {"currency": "EUR", "charges": 5, "captured": 15, "refunded": 0, "balanced": true},
    ]});
    assert_eq!(service.get("/v1/ledger/summary").await.json(), expected, "nothing of USD ever moved");
    let service = service.restart().await;
    assert_eq!(service.get("/v1/ledger/summary").await.json(), expected);
    service.charge("K9", r#"{"order_id":"o","amount":3,"currency":"JPY"}"#).await;
    let summary = service.get("/v1/ledger/summary").await.json();
    assert_eq!(summary["currencies"][1]["captured"], 3);
}

#[tokio::test]
async fn a_missing_entry_shows_in_the_summary_and_no_entry_can_go_missing() {
    let service = filled().await;
    let write = |sql: &'static str| {
        let store = service.payments.store().clone();
        async move { store.transaction(move |tx| tx.execute(sql, [])).await }
    };
    for sql in
        ["delete from ledger_entries where id = 1", "update ledger_entries set amount = 9 where id = 1"]
    {
        let error = write(sql).await.unwrap_err();
        assert!(format!("{error:?}").contains("append-only"), "{error:?}");
    }
    // Somebody with a SQLite shell: money that moved without an entry.
    write("update charges set status = 'captured', amount_captured = 7 where status = 'authorized'")
        .await
        .unwrap();
    let service = service.restart().await;
    let summary = service.get("/v1/ledger/summary").await.json();
    assert_eq!(summary["currencies"][0]["balanced"], true);
    assert_eq!(
        summary["currencies"][1],
        serde_json::json!(
            {"currency": "USD", "charges": 0, "captured": 0, "refunded": 0, "balanced": false}
        )
    );
}

#[tokio::test]
async fn sums_are_right_beyond_64_bits() {
    let service = Service::start().await;
    service.charge("K1", r#"{"order_id":"o","amount":999999999999,"currency":"EUR"}"#).await;
    let fill = "
        with recursive more(n) as (select 2 union all select n + 1 from more where n < 200000)
        insert into charges (operation, tenant, order_id, amount, currency, status, amount_captured, amount_refunded,
            created_at, fingerprint, request_id)
        select randomblob(16), 1, 'o', 999999999999, 'EUR', 'captured', 999999999999, 0, 0, x'00', randomblob(16)
        from more;
        insert into ledger_entries (tenant, charge, number, kind, debit, credit, amount, currency, created_at)
        select 1, id, 1, 'capture', 'customer', 'merchant', amount, 'EUR', 0 from charges where id > 1;
    ";
    service.payments.store().transaction(move |tx| tx.execute_batch(fill)).await.unwrap();
    let books = service.payments.books();
    let summary = books.summary(&unavez_core::identity::Tenant::single()).await.unwrap();
    assert_eq!((summary[0].charges, summary[0].captured), (200_000, 999_999_999_999 * 200_000));
    assert!(summary[0].balanced);
}

#[tokio::test]
async fn bad_parameters_are_named() {
    let service = filled().await;
    for (path, member) in [
        ("/v1/charges?limit=0", "limit"),
        ("/v1/charges?limit=101", "limit"),
        ("/v1/charges?limit=x", "limit"),
        ("/v1/charges?status=paid", "status"),
        ("/v1/charges?order_id=", "order_id"),
        ("/v1/charges?after=K1", "after"),
        ("/v1/charges?after=ch_00000000000000000000000000000000", "after"),
        ("/v1/charges?limit=1&limit=1", "limit"),
        ("/v1/ledger/entries?charge_id=1", "charge_id"),
        ("/v1/ledger/entries?after=le_1", "after"),
        ("/v1/ledger/entries?after=le_00000000000000000000000000000000_1", "after"),
    ] {
        let reply = service.get(path).await;
        assert_eq!(reply.refusal(), refused(400, "validation"), "{path}");
        assert_eq!(reply.json()["member"], member, "{path}");
    }
    for path in ["/v1/charges?amount=1", "/v1/ledger/summary?x", "/v1/ledger/entries?limits=1"] {
        assert_eq!(service.get(path).await.refusal(), refused(400, "validation"), "{path}");
    }
    for path in ["/v1/charges/ch_00000000000000000000000000000000", "/v1/charges/1", "/v1/charges/%FF"] {
        assert_eq!(service.get(path).await.refusal(), refused(404, "not-found"), "{path}");
    }
}
