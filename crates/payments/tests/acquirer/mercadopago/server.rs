//! A server that answers as Mercado Pago's documentation says: decimal amounts, errors with causes, a search that lags.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use unavez_core::time::Time;

pub(crate) const KEY: &str = "TEST-0123456789";

/// What the server does instead of answering as usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 429.
    RateLimit,
    /// 400, code 2001: the same was posted a minute ago.
    PostedBefore,
    /// 400, code 2004: a gateway of theirs failed.
    Gateway,
    /// 500 before anything happened.
    ErrorBefore,
    /// Executed, and 500.
    ErrorAfter,
    /// The next refund stays in process.
    SlowRefund,
}

/// The server, and what tests may do with it. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct MercadoPagoServer(Arc<Mutex<Books>>);

/// A payment, with its amounts in cents: the wire's decimals are made when it is told.
#[derive(Clone)]
struct Paid {
    document: Value,
    cents: i64,
    refunds: Vec<(i64, Value)>,
}

#[derive(Default)]
struct Books {
    now: i64,
    payments: Vec<Paid>,
    answered: HashMap<String, (String, u16, String)>,
    indexed: usize,
    fault: Option<Fault>,
    seen: Vec<(String, String)>,
}

type Answer = (u16, String);

impl MercadoPagoServer {
    /// Starts on a free port of this machine; its address.
    pub(crate) async fn start(&self) -> String {
        self.books().now = 1_767_268_800;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(serve).with_state(self.clone());
        #[expect(clippy::disallowed_methods, reason = "a server of a test needs no limits")]
        tokio::spawn(async move { axum::serve(listener, router).await });
        base
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap()
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_micros(self.books().now * 1_000_000)
    }

    pub(crate) fn pass(&self, seconds: i64) {
        self.books().now += seconds;
    }

    pub(crate) fn fail_next(&self, fault: Fault) {
        self.books().fault = Some(fault);
    }

    /// The search catches up, and what is pending is decided.
    pub(crate) fn settle(&self) {
        let mut books = self.books();
        for paid in &mut books.payments {
            if paid.document["status"] == "pending" {
                paid.document["status"] = "approved".into();
            }
        }
        books.indexed = books.payments.len();
    }

    /// How often something took effect under this key.
    pub(crate) fn executed(&self, operation: &str) -> u64 {
        let books = self.books();
        let paid = books.payments.iter().filter(|it| it.document["external_reference"] == operation).count();
        let steps = books
            .answered
            .get(operation)
            .filter(|(asked, ..)| !asked.starts_with("POST /v1/payments "))
            .iter()
            .count();
        (paid + steps) as u64
    }

    /// Changes a payment behind everybody's back.
    pub(crate) fn edit(&self, number: usize, member: &str, value: impl Into<Value>) {
        self.books().payments[number].document[member] = value.into();
    }

    /// The name of an operation's payment.
    pub(crate) fn id_of(&self, operation: &str) -> String {
        let books = self.books();
        let paid = books.payments.iter().find(|it| it.document["external_reference"] == operation).unwrap();
        paid.document["id"].to_string()
    }

    pub(crate) fn seen(&self) -> Vec<(String, String)> {
        self.books().seen.clone()
    }
}

async fn serve(State(server): State<MercadoPagoServer>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    let header =
        |name: &str| head.headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned();
    let target = head.uri.path_and_query().unwrap().as_str().to_owned();
    let in_process = header("x-render-in-process-refunds") == "true";
    let (status, document) = if header("authorization") != format!("Bearer {KEY}") {
        (
            401,
            json!({"message": "invalid access token", "error": "unauthorized", "status": 401, "cause": []})
                .to_string(),
        )
    } else {
        server.books().answer(&head.method, &target, &header("x-idempotency-key"), &body, in_process)
    };
    let mut response = Response::new(document.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

fn error(status: u16, code: u32, description: &str) -> Answer {
    let cause = json!([{"code": code, "description": description, "data": null}]);
    let body = json!({"message": description, "error": "bad_request", "status": status, "cause": cause});
    (status, body.to_string())
}

/// The cents of a decimal number as it was sent.
fn cents(body: &str, member: &str) -> i64 {
    let members: HashMap<String, Box<RawValue>> = serde_json::from_str(body).unwrap();
    let token = members[member].get();
    let (whole, fraction) = token.split_once('.').unwrap_or((token, "00"));
    assert_eq!(fraction.len(), 2, "two digits of EUR: {token}");
    format!("{whole}{fraction}").parse().unwrap()
}

/// As their pages show them: without trailing zeros.
fn decimal(cents: i64) -> String {
    let text = format!("{}.{:02}", cents / 100, cents % 100);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn stamp(seconds: i64) -> String {
    let utc = jiff::Timestamp::from_second(seconds - 3 * 3600).unwrap().to_string();
    utc.replace('Z', ".000-03:00")
}

impl Paid {
    fn is_named(&self, id: &str) -> bool {
        self.document["id"].as_u64() == id.parse().ok()
    }

    /// The document with its amounts, which no float may have touched.
    fn told(&self) -> String {
        let refunds: Vec<String> =
            self.refunds.iter().map(|(cents, refund)| with_amount(refund, "amount", *cents)).collect();
        let whole = with_amount(&self.document, "transaction_amount", self.cents);
        let open = whole.strip_suffix('}').unwrap();
        format!("{open},\"refunds\":[{}]}}", refunds.join(","))
    }

    fn refunded(&self) -> i64 {
        self.refunds.iter().map(|(cents, _)| cents).sum()
    }
}

fn with_amount(document: &Value, member: &str, cents: i64) -> String {
    let text = document.to_string();
    format!("{},\"{member}\":{}}}", text.strip_suffix('}').unwrap(), decimal(cents))
}

impl Books {
    fn answer(&mut self, method: &Method, target: &str, key: &str, body: &str, in_process: bool) -> Answer {
        self.seen.push((format!("{method} {target}"), body.to_owned()));
        let fault = self.fault.take();
        match fault {
            Some(Fault::RateLimit) => {
                return (429, json!({"message": "too many requests", "status": 429}).to_string());
            }
            Some(Fault::PostedBefore) => {
                return error(400, 2001, "Already posted the same request in the last minute.");
            }
            Some(Fault::Gateway) => return error(400, 2004, "POST to Gateway Transactions API fail."),
            Some(Fault::ErrorBefore) => {
                return (500, json!({"message": "internal", "status": 500}).to_string());
            }
            _ => {}
        }
        if method == Method::GET {
            return self.tell(target);
        }
        assert!(!key.is_empty(), "a key is required");
        let asked = format!("{method} {target} {body}");
        if let Some((before, status, answer)) = self.answered.get(key) {
            return if *before == asked { (*status, answer.clone()) } else { error(400, 1, "Params Error.") };
        }
        let (status, answer) =
            self.execute(method, target, body, fault == Some(Fault::SlowRefund) && in_process);
        if matches!(status, 200 | 201) {
            self.answered.insert(key.to_owned(), (asked, status, answer.clone()));
        }
        if fault == Some(Fault::ErrorAfter) { (500, "{\"status\":500}".to_owned()) } else { (status, answer) }
    }

    fn execute(&mut self, method: &Method, path: &str, body: &str, slow: bool) -> Answer {
        if path == "/v1/payments" {
            return self.create(body);
        }
        let mut segments = path.trim_start_matches("/v1/payments/").split('/');
        let id = segments.next().unwrap();
        let Some(at) = self.payments.iter().position(|it| it.is_named(id)) else {
            return error(404, 2000, "Payment not found");
        };
        match (method, segments.next()) {
            (&Method::POST, Some("refunds")) => self.refund(at, body, slow),
            _ => self.change(at, body),
        }
    }

    fn create(&mut self, body: &str) -> Answer {
        let asked: Value = serde_json::from_str(body).unwrap();
        assert!(asked["payer"]["email"].as_str().unwrap().contains('@'));
        let (status, detail) = match (asked["payment_method_id"].as_str().unwrap(), asked["token"].as_str()) {
            ("pix", None) => ("pending", "pending_waiting_transfer"),
            ("visa", Some("APRO")) if asked["capture"] == false => ("authorized", "pending_capture"),
            ("visa", Some("APRO")) => ("approved", "accredited"),
            ("visa", Some("FUND")) => ("rejected", "cc_rejected_insufficient_amount"),
            _ => return error(400, 2006, "Card Token not found."),
        };
        let document = json!({
            "id": 1_000_000 + self.payments.len(), "status": status, "status_detail": detail, "currency_id": "EUR",
            "external_reference": asked["external_reference"], "date_created": stamp(self.now),
            "captured": status == "approved", "metadata": asked["metadata"], "live_mode": false,
            "point_of_interaction": if status == "pending" { json!({"type": "PIX"}) } else { Value::Null },
        });
        let cents = cents(body, "transaction_amount");
        let paid = Paid { document, cents, refunds: Vec::new() };
        self.payments.push(paid.clone());
        (201, paid.told())
    }

    fn change(&mut self, at: usize, body: &str) -> Answer {
        let asked: Value = serde_json::from_str(body).unwrap();
        let paid = &mut self.payments[at];
        if paid.document["status"] != "authorized" {
            return error(400, 2063, "The action requested is not valid for the current payment state");
        }
        if asked["status"] == "cancelled" {
            paid.document["status"] = "cancelled".into();
            return (200, paid.told());
        }
        let cents = cents(body, "transaction_amount");
        if cents > paid.cents {
            return error(400, 4020, "Invalid transaction_amount");
        }
        paid.cents = cents;
        paid.document["status"] = "approved".into();
        paid.document["captured"] = true.into();
        (200, paid.told())
    }

    fn refund(&mut self, at: usize, body: &str, slow: bool) -> Answer {
        let cents = cents(body, "amount");
        let (number, now) = (self.answered.len(), self.now);
        let paid = &mut self.payments[at];
        if paid.document["status"] != "approved" || paid.refunded() + cents > paid.cents {
            return error(400, 2063, "The action requested is not valid for the current payment state");
        }
        let status = if slow { "in_process" } else { "approved" };
        let refund = json!({
            "id": 5_000_000 + number, "payment_id": paid.document["id"], "status": status,
            "date_created": stamp(now), "unique_sequence_number": null,
        });
        paid.refunds.push((cents, refund.clone()));
        (201, with_amount(&refund, "amount", cents))
    }

    fn tell(&self, target: &str) -> Answer {
        let Some(query) = target.strip_prefix("/v1/payments/search?") else {
            let id = target.trim_start_matches("/v1/payments/");
            let found = self.payments.iter().find(|it| it.is_named(id));
            return found.map_or_else(|| error(404, 2000, "Payment not found"), |paid| (200, paid.told()));
        };
        let parameters: HashMap<&str, &str> =
            query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        let number = |name: &str, default| parameters.get(name).map_or(default, |it| it.parse().unwrap());
        let begin = parameters.get("begin_date").map(|it| it.parse::<jiff::Timestamp>().unwrap());
        let admitted: Vec<&Paid> = self.payments[..self.indexed]
            .iter()
            .filter(|it| {
                parameters.get("external_reference").is_none_or(|id| it.document["external_reference"] == *id)
            })
            .filter(|it| {
                let made: jiff::Timestamp = it.document["date_created"].as_str().unwrap().parse().unwrap();
                begin.is_none_or(|begin| made >= begin)
            })
            .collect();
        let (offset, limit) = (number("offset", 0), number("limit", 30));
        let page: Vec<String> = admitted.iter().skip(offset).take(limit).map(|paid| paid.told()).collect();
        let paging = json!({"total": admitted.len(), "limit": limit, "offset": offset});
        (200, format!("{{\"paging\":{paging},\"results\":[{}]}}", page.join(",")))
    }
}
