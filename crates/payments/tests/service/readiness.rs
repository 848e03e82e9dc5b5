//! `/readyz` says whether a charge can be made, not whether a file can be read.

use crate::support::{B1, Reply, Service, Setup, refused};

/// Asks once the start-up scan is done. Not before a fault is there: what was found out holds for a second.
async fn readiness(service: &Service) -> Reply {
    loop {
        let reply = service.get("/readyz").await;
        if !reply.detail().contains("start-up scan") {
            return reply;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_service_that_commits_is_ready() {
    let service = Service::start().await;
    let ready = readiness(&service).await;
    assert_eq!((ready.status.as_u16(), ready.json()["status"].as_str()), (200, Some("ready")));
    assert_eq!(service.rows().await, [0, 0, 0]);
}

#[tokio::test]
async fn a_service_whose_file_is_full_is_not_ready() {
    let setup = Setup { file_bytes_max: Some(256 * 1024), ..Setup::default() };
    let service = Service::start_with(setup).await;
    let full = loop {
        let rows = service.rows().await[1];
        let reply = service.charge(&format!("K{rows}"), B1).await;
        if reply.status != 201 {
            break reply;
        }
    };
    assert_eq!(full.refusal(), refused(503, "store-unavailable"));
    assert!(full.detail().contains("full"), "{full:?}");
    let not_ready = readiness(&service).await;
    assert_eq!(not_ready.refusal(), refused(503, "store-unavailable"));
    assert!(not_ready.detail().contains("room for"), "{not_ready:?}");
}

#[tokio::test]
async fn a_service_whose_file_another_process_has_taken_over_is_not_ready() {
    let service = Service::start().await;
    assert_eq!(service.charge("K1", B1).await.status, 201);
    let beside = rusqlite::Connection::open(service.folder().join("unavez.db")).unwrap();
    beside.execute("update unavez_store set epoch = epoch + 1", []).unwrap();
    let not_ready = readiness(&service).await;
    assert_eq!(not_ready.refusal(), refused(503, "store-unavailable"));
    assert!(not_ready.detail().contains("another process"), "{not_ready:?}");
    let charge = service.charge("K2", B1).await;
    assert_eq!(charge.refusal(), refused(503, "store-unavailable"));
    assert!(charge.detail().contains("another process"), "{charge:?}");
}
