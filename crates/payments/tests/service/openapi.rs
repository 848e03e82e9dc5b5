//! The checked-in document is the served one.

use std::path::Path;

use crate::support::Service;

/// `UNAVEZ_REGENERATE=1 cargo nextest run -p unavez-payments openapi` writes the file anew.
#[tokio::test]
async fn the_checked_in_document_is_the_served_one() {
    let service = Service::start().await;
    let served = String::from_utf8(service.get("/openapi.json").await.body.to_vec()).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    if std::env::var_os("UNAVEZ_REGENERATE").is_some() {
        std::fs::write(&path, &served).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        served == checked_in,
        "docs/openapi.json is not the served document: run with UNAVEZ_REGENERATE=1"
    );
}

#[tokio::test]
async fn every_route_schema_and_code_is_in_the_document() {
    let service = Service::start().await;
    let document = service.get("/openapi.json").await.json();
    for (path, method) in [
        ("/v1/charges", "post"),
        ("/v1/charges", "get"),
        ("/v1/charges/{id}", "get"),
        ("/v1/ledger/entries", "get"),
        ("/v1/ledger/summary", "get"),
        ("/v1/idempotency-keys", "get"),
        ("/v1/idempotency-keys/{key}", "get"),
        ("/v1/idempotency-keys/{key}/cancel", "post"),
        ("/healthz", "get"),
        ("/readyz", "get"),
        ("/metrics", "get"),
        ("/openapi.json", "get"),
    ] {
        let operation = &document["paths"][path][method];
        assert!(operation["responses"].is_object(), "{method} {path}");
        let has_key = operation["parameters"].as_array().is_some_and(|parameters| {
            parameters
                .iter()
                .any(|parameter| parameter["name"] == "Idempotency-Key" && parameter["required"] == true)
        });
        assert_eq!(has_key, method == "post", "{method} {path}");
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for schema in
        ["Charge", "ChargeRequest", "ChargeList", "Entry", "EntryList", "Summary", "KeyStatus", "Problem"]
    {
        assert!(schemas.contains_key(schema), "{schema} is not among {:?}", schemas.keys());
    }
    let codes = schemas["ProblemCode"]["enum"].as_array().unwrap();
    for code in unavez_core::problem::Code::ALL {
        assert!(codes.contains(&code.as_str().into()), "{code}");
    }
}
