//! API keys: who may do what, and whose keys and charges are whose.

use std::path::PathBuf;
use std::time::Duration;

use http::Method;
use tempfile::TempDir;
use unavez_core::identity::Tenant;
use unavez_payments::auth::{Roles, generate};
use unavez_payments::{OpenError, OwnerConflict, Settings};
use unavez_store::Store as _;
use unavez_store::clock::ManualClock;

use crate::support::{B1, B2, Reply, Service, Setup, open, refused};

struct Keys {
    file: PathBuf,
    _folder: tempfile::TempDir,
    lines: Vec<String>,
}

impl Keys {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { file: folder.path().join("api-keys"), _folder: folder, lines: Vec::new() }
    }

    fn add(&mut self, tenant: &str, roles: &str) -> String {
        let (key, line) = generate(Tenant::parse(tenant).unwrap(), Roles::parse(roles).unwrap(), None);
        self.lines.push(line.to_string());
        std::fs::write(&self.file, self.lines.join("\n")).unwrap();
        key
    }

    fn settings(&self) -> Settings {
        Settings { api_keys_file: Some(self.file.clone()), ..Settings::default() }
    }

    fn owned_by(&self, default_tenant: Option<&str>) -> Settings {
        let default_tenant = default_tenant.map(|name| Tenant::parse(name).unwrap());
        Settings { default_tenant, ..self.settings() }
    }

    async fn start(&self) -> Service {
        Service::start_with(Setup { settings: self.settings(), ..Setup::default() }).await
    }
}

async fn call(service: &Service, method: Method, path: &str, api_key: &str) -> Reply {
    service
        .call(method, path)
        .header("authorization", format!("Bearer {api_key}"))
        .key("K1")
        .json(B1)
        .send()
        .await
}

async fn charge(service: &Service, api_key: &str, key: &str, body: &str) -> Reply {
    let call = service.call(Method::POST, "/v1/charges").header("authorization", format!("Bearer {api_key}"));
    call.key(key).json(body).send().await
}

#[tokio::test]
async fn without_a_key_everything_but_health_is_401() {
    let mut keys = Keys::new();
    keys.add("shop", "charge");
    let service = keys.start().await;
    for path in ["/v1/charges", "/v1/ledger/summary", "/v1/idempotency-keys/K", "/metrics", "/nowhere"] {
        for header in [None, Some("Bearer wrong"), Some("Basic d3Jvbmc="), Some("Bearer")] {
            let call = service.call(Method::GET, path);
            let call =
                header.map_or(service.call(Method::GET, path), |value| call.header("authorization", value));
            let reply = call.send().await;
            assert_eq!(reply.refusal(), refused(401, "unauthorized"), "{path} {header:?}");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
    }
    // P7: who is not known is not told what is wrong with the rest.
    let all_wrong = service.call(Method::POST, "/v1/charges").body("nonsense".into()).send().await;
    assert_eq!(all_wrong.refusal(), refused(401, "unauthorized"));
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        assert_ne!(service.get(path).await.status, 401, "{path}");
    }
    assert_eq!(service.rows().await, [0, 0, 0]);
}

#[tokio::test]
async fn roles_open_their_routes_and_no_others() {
    let mut keys = Keys::new();
    let by_role = ["charge", "refund", "read", "operator"].map(|role| (role, keys.add("shop", role)));
    let service = keys.start().await;
    for (method, path, allowed) in [
        (Method::POST, "/v1/charges", &["charge"][..]),
        (Method::POST, "/v1/idempotency-keys/K2/cancel", &["charge"]),
        (Method::GET, "/v1/charges", &["read", "operator"]),
        (Method::GET, "/v1/charges/ch_0", &["read", "operator"]),
        (Method::GET, "/v1/ledger/entries", &["read", "operator"]),
        (Method::GET, "/v1/ledger/summary", &["read", "operator"]),
        (Method::GET, "/v1/idempotency-keys/K1", &["charge", "refund", "read", "operator"]),
        (Method::GET, "/v1/idempotency-keys?key=K1", &["charge", "refund", "read", "operator"]),
        (Method::GET, "/metrics", &["operator"]),
    ] {
        for (role, key) in &by_role {
            let reply = call(&service, method.clone(), path, key).await;
            let passed = reply.status != 403;
            assert_eq!(passed, allowed.contains(role), "{method} {path} as {role}: {reply:?}");
            if !passed {
                assert_eq!(reply.refusal(), refused(403, "forbidden"));
                assert!(reply.detail().contains(allowed[0]), "{reply:?}");
            }
        }
    }
}

#[tokio::test]
async fn c37_tenants_share_nothing() {
    let mut keys = Keys::new();
    let [a, b] = ["a", "b"].map(|tenant| keys.add(tenant, "charge,read"));
    let service = keys.start().await;
    let of_a = charge(&service, &a, "K1", B1).await;
    let of_b = charge(&service, &b, "K1", B2).await;
    assert_eq!((of_a.status.as_u16(), of_b.status.as_u16()), (201, 201), "{of_b:?}");
    assert!(!of_b.is_replayed());
    assert_ne!(of_a.json()["id"], of_b.json()["id"]);

    let id_of_a = of_a.json()["id"].as_str().unwrap().to_owned();
    for path in [format!("/v1/charges/{id_of_a}"), "/v1/idempotency-keys/only-a".to_owned()] {
        charge(&service, &a, "only-a", B1).await;
        assert_eq!(call(&service, Method::GET, &path, &a).await.status, 200, "{path}");
        assert_eq!(call(&service, Method::GET, &path, &b).await.status, 404, "{path}");
    }
    let listed = |path: &'static str, key: String| {
        let service = &service;
        async move { call(service, Method::GET, path, &key).await.json() }
    };
    assert_eq!(listed("/v1/charges", a.clone()).await["data"].as_array().unwrap().len(), 2);
    assert_eq!(listed("/v1/charges", b.clone()).await["data"].as_array().unwrap().len(), 1);
    assert_eq!(listed("/v1/ledger/entries", b.clone()).await["data"][0]["amount"], 9900);
    let summary = listed("/v1/ledger/summary", b.clone()).await;
    assert_eq!(summary["currencies"][0]["captured"], 9900);
    let foreign = format!("/v1/charges?after={id_of_a}");
    assert_eq!(call(&service, Method::GET, &foreign, &b).await.refusal(), refused(400, "validation"));
    let entries = format!("/v1/ledger/entries?charge_id={id_of_a}");
    assert_eq!(call(&service, Method::GET, &entries, &b).await.json()["data"], serde_json::json!([]));
}

/// Opens the folder with these keys and this owner of `default`, and says why not.
async fn conflict(folder: &TempDir, setup: Setup) -> OwnerConflict {
    match open(folder, &setup).await.map(drop) {
        Err(OpenError::DefaultTenant(conflict)) => conflict,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn p21_keys_are_not_added_to_charges_that_nobody_could_repeat() {
    let mut keys = Keys::new();
    let key = keys.add("shop", "charge");
    keys.add("other", "charge");
    let clock = ManualClock::new();
    let setup = |settings| Setup { settings, clock: Some(clock.clone()), ..Setup::default() };
    let owned_by = |name: Option<&str>| setup(keys.owned_by(name));
    let service = Service::start_with(setup(Settings::default())).await;
    let first = service.charge("K1", B1).await;
    // A charge lasts longer than its record: neither waiting nor purging frees the key.
    clock.advance(Duration::from_secs(48 * 3600));
    service.payments.store().purge(100).await.unwrap();
    let (folder, _) = service.stop().await;
    assert_eq!(conflict(&folder, owned_by(None)).await, OwnerConflict::Ownerless);

    let service = Service::start_in(folder, owned_by(Some("shop"))).await;
    let again = charge(&service, &key, "K1", B1).await;
    assert!(again.is_replayed(), "the owner has what was there");
    assert_eq!(again.json()["id"], first.json()["id"]);
    let (folder, _) = service.stop().await;

    let [owner, named] = ["shop", "other"].map(|name| Tenant::parse(name).unwrap());
    let another = OwnerConflict::AnotherOwner { owner, named };
    assert_eq!(conflict(&folder, owned_by(Some("other"))).await, another);
    let service = Service::start_in(folder, owned_by(None)).await;
    assert!(charge(&service, &key, "K1", B1).await.is_replayed(), "the owner is on record");
}

#[tokio::test]
async fn p4_no_tenant_gets_a_second_history() {
    let mut keys = Keys::new();
    let key = keys.add("shop", "charge");
    let service = keys.start().await;
    charge(&service, &key, "K1", B1).await;
    let (folder, _) = service.stop().await;
    let has_history = OwnerConflict::HasHistory { named: Tenant::parse("shop").unwrap() };
    let owned_by = |settings| Setup { settings, ..Setup::default() };
    assert_eq!(conflict(&folder, owned_by(keys.owned_by(Some("shop")))).await, has_history);

    keys.add("default", "charge");
    let both = open(&folder, &owned_by(keys.owned_by(Some("new")))).await.map(drop).unwrap_err();
    assert!(both.to_string().contains("tenant `default` belongs to new"), "{both}");
}

#[tokio::test]
async fn a_reload_changes_who_is_let_in() {
    let mut keys = Keys::new();
    let old = keys.add("shop", "charge");
    let service = keys.start().await;
    keys.lines.clear();
    let new = keys.add("shop", "charge");
    assert_eq!(charge(&service, &new, "K1", B1).await.status, 401);
    assert_eq!(service.payments.reload_api_keys().unwrap(), 1);
    assert_eq!(charge(&service, &new, "K1", B1).await.status, 201);
    assert_eq!(charge(&service, &old, "K1", B1).await.status, 401);

    std::fs::write(&keys.file, "shop charge 00").unwrap();
    assert_eq!(service.payments.reload_api_keys().unwrap_err().line, Some(1));
    assert!(charge(&service, &new, "K1", B1).await.is_replayed(), "a broken file changes nothing");
}

/// The amounts in a tenant's list, page by page.
async fn listed(service: &Service, api_key: &str, list: &str) -> Vec<u64> {
    let (mut amounts, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("{list}?limit=60{after}");
        let page = call(service, Method::GET, &path, api_key).await.json();
        amounts.extend(page["data"].as_array().unwrap().iter().map(|item| item["amount"].as_u64().unwrap()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return amounts,
        }
    }
}

/// Rows are listed by the blocks they stand in: a busy tenant has some in every block, a quiet one in few.
#[tokio::test]
async fn p4_each_tenant_lists_its_own_newest_first_through_all_blocks() {
    let mut keys = Keys::new();
    let tenants: Vec<_> = ["busy", "quiet", "rare"].map(|name| keys.add(name, "charge,read")).into();
    let (mut service, mut expected) = (keys.start().await, vec![Vec::new(); 3]);
    for number in 1..=640_u64 {
        let whose = if number % 300 == 0 { 2 } else { usize::from(number % 7 == 0) };
        let body = format!(r#"{{"order_id":"o-{number}","amount":{number},"currency":"EUR"}}"#);
        assert_eq!(charge(&service, &tenants[whose], &format!("K{number}"), &body).await.status, 201);
        expected[whose].insert(0, number);
        if number == 321 {
            service = service.restart().await;
        }
    }
    for (api_key, expected) in tenants.iter().zip(&expected) {
        assert_eq!(listed(&service, api_key, "/v1/charges").await, *expected);
        assert_eq!(listed(&service, api_key, "/v1/ledger/entries").await, *expected);
    }
}
