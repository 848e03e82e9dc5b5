//! A server that answers as Stripe's documentation says: forms in, objects and errors out, idempotency keys, lists with
//! cursors, lists that lag.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use unavez_core::time::Time;

pub(crate) const KEY: &str = "sk_test_0123456789";

/// What the server does instead of answering as usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 429, code `rate_limit`.
    RateLimit,
    /// 429, code `lock_timeout`.
    LockTimeout,
    /// 409: the key is in use by a request that runs.
    KeyInUse,
    /// 500 before anything happened.
    ErrorBefore,
    /// Executed, and 500.
    ErrorAfter,
}

/// The server, and what tests may do with it. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct StripeServer(Arc<Mutex<Books>>);

#[derive(Default)]
struct Books {
    now: i64,
    intents: Vec<Value>,
    refunds: Vec<Value>,
    /// Requests by key, with what they asked for and were answered.
    answered: HashMap<String, (String, u16, Value)>,
    /// How many objects of each list are indexed.
    indexed: (usize, usize),
    fault: Option<Fault>,
    seen: Vec<(String, String)>,
}

type Form = Vec<(String, String)>;
type Answer = (u16, Value);

impl StripeServer {
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

    /// The next request is met by a fault.
    pub(crate) fn fail_next(&self, fault: Fault) {
        self.books().fault = Some(fault);
    }

    /// Lists catch up, and what is pending is decided.
    pub(crate) fn settle(&self) {
        let mut books = self.books();
        for intent in &mut books.intents {
            if intent["status"] == "requires_action" {
                intent["status"] = "succeeded".into();
                intent["amount_received"] = intent["amount"].clone();
                intent["next_action"] = Value::Null;
            }
        }
        books.indexed = (books.intents.len(), books.refunds.len());
    }

    /// How many objects carry this operation's id, or were captured or cancelled under it.
    pub(crate) fn executed(&self, operation: &str) -> u64 {
        let books = self.books();
        let made = books.intents.iter().chain(&books.refunds);
        let marked = made.filter(|it| it["metadata"]["unavez_operation_id"] == operation).count();
        let captured =
            books.intents.iter().filter(|it| it["metadata"]["unavez_capture_id"] == operation).count();
        let voided =
            books.answered.get(operation).filter(|(asked, ..)| asked.contains("/cancel ")).iter().count();
        (marked + captured + voided) as u64
    }

    /// Changes the only PaymentIntent behind everybody's back.
    pub(crate) fn edit(&self, member: &str, value: impl Into<Value>) {
        self.books().intents[0][member] = value.into();
    }

    /// The event about an operation's object.
    pub(crate) fn event(&self, operation: &str, kind: &str) -> Vec<u8> {
        let books = self.books();
        let mut objects = books.intents.iter().chain(&books.refunds);
        let object = objects.find(|it| it["metadata"]["unavez_operation_id"] == operation).unwrap();
        let event = json!({
            "id": "evt_1", "object": "event", "type": kind, "created": books.now, "livemode": false,
            "data": {"object": object},
        });
        event.to_string().into_bytes()
    }

    /// Method and path of every request so far, each with its body.
    pub(crate) fn seen(&self) -> Vec<(String, String)> {
        self.books().seen.clone()
    }
}

async fn serve(State(server): State<StripeServer>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let header =
        |name: &str| head.headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned();
    let target = head.uri.path_and_query().unwrap().as_str().to_owned();
    let (status, document) = if header("authorization") != format!("Bearer {KEY}") {
        (401, error("invalid_request_error", None, "Invalid API Key provided"))
    } else if header("stripe-version").is_empty() {
        (400, error("invalid_request_error", None, "tests want a pinned version"))
    } else {
        server.books().answer(&head.method, &target, &header("idempotency-key"), &body)
    };
    let mut response = Response::new(document.to_string().into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

fn error(kind: &str, code: Option<&str>, message: &str) -> Value {
    let mut error = json!({"error": {"type": kind, "message": message, "doc_url": "https://example.com"}});
    if let Some(code) = code {
        error["error"]["code"] = code.into();
    }
    error
}

fn decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned()
}

fn form(text: &str) -> Form {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

fn field<'a>(form: &'a Form, name: &str) -> Option<&'a str> {
    form.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

fn number(form: &Form, name: &str) -> Option<i64> {
    field(form, name)?.parse().ok()
}

fn metadata(form: &Form) -> Value {
    let members = form.iter().filter_map(|(name, value)| {
        Some((name.strip_prefix("metadata[")?.strip_suffix(']')?.to_owned(), Value::from(value.as_str())))
    });
    Value::Object(members.collect())
}

impl Books {
    fn answer(&mut self, method: &Method, target: &str, key: &str, body: &Bytes) -> Answer {
        let text = String::from_utf8(body.to_vec()).unwrap();
        self.seen.push((format!("{method} {target}"), text.clone()));
        let fault = self.fault.take();
        match fault {
            Some(Fault::RateLimit) => {
                return (429, error("invalid_request_error", Some("rate_limit"), "Too many"));
            }
            Some(Fault::LockTimeout) => {
                return (
                    429,
                    error("invalid_request_error", Some("lock_timeout"), "This object cannot be accessed"),
                );
            }
            Some(Fault::KeyInUse) => {
                let message = "There is currently another in-progress request using this Idempotent Key";
                return (409, error("idempotency_error", Some("idempotency_key_in_use"), message));
            }
            Some(Fault::ErrorBefore) => return (500, error("api_error", None, "Something went wrong")),
            Some(Fault::ErrorAfter) | None => {}
        }
        if method == Method::GET {
            return self.tell(target);
        }
        let asked = format!("{target} {text}");
        if let Some((before, status, answer)) = self.answered.get(key) {
            let message = "Keys for idempotent requests can only be used with the same parameters";
            return if *before == asked {
                (*status, answer.clone())
            } else {
                (400, error("idempotency_error", None, message))
            };
        }
        let (status, answer) = self.execute(target, &form(&text));
        // Requests that were not valid are not remembered.
        if matches!(status, 200 | 402) {
            self.answered.insert(key.to_owned(), (asked, status, answer.clone()));
        }
        if fault == Some(Fault::ErrorAfter) {
            (500, error("api_error", None, "Something went wrong"))
        } else {
            (status, answer)
        }
    }

    fn execute(&mut self, path: &str, form: &Form) -> Answer {
        let segments: Vec<&str> = path.trim_start_matches("/v1/").split('/').collect();
        match segments[..] {
            ["payment_intents"] => self.create(form),
            ["payment_intents", id, action] => {
                let Some(at) = self.intents.iter().position(|it| it["id"] == id) else {
                    return (
                        404,
                        error("invalid_request_error", Some("resource_missing"), "No such payment_intent"),
                    );
                };
                if action == "capture" { self.capture(at, form) } else { self.cancel(at) }
            }
            ["refunds"] => self.refund(form),
            _ => (404, error("invalid_request_error", None, "Unrecognized request URL")),
        }
    }

    fn create(&mut self, form: &Form) -> Answer {
        let method = field(form, "payment_method").unwrap();
        let amount = number(form, "amount").unwrap();
        assert_eq!(field(form, "confirm"), Some("true"));
        let status = match (method, field(form, "capture_method").unwrap()) {
            ("pm_card_chargeDeclined", _) => "requires_payment_method",
            ("pm_card_threeDSecure2Required", _) => "requires_action",
            ("pm_card_visa", "manual") => "requires_capture",
            ("pm_card_visa", _) => "succeeded",
            _ => {
                let message = format!("No such PaymentMethod: '{method}'");
                return (400, error("invalid_request_error", Some("resource_missing"), &message));
            }
        };
        let received = if status == "succeeded" { amount } else { 0 };
        let mut intent = json!({
            "id": format!("pi_{}", self.intents.len() + 1), "object": "payment_intent", "amount": amount,
            "amount_capturable": 0, "amount_received": received, "currency": field(form, "currency").unwrap(),
            "status": status, "capture_method": field(form, "capture_method").unwrap(), "created": self.now,
            "metadata": metadata(form), "cancellation_reason": null, "last_payment_error": null, "next_action": null,
            "livemode": false, "client_secret": "pi_secret",
        });
        let declined = json!({"type": "card_error", "code": "card_declined", "decline_code": "generic_decline", "message": "Declined."});
        match status {
            "requires_payment_method" => intent["last_payment_error"] = declined.clone(),
            "requires_action" => {
                intent["next_action"] = json!({"type": "use_stripe_sdk", "use_stripe_sdk": {}})
            }
            _ => {}
        }
        self.intents.push(intent.clone());
        if status == "requires_payment_method" {
            let mut error = declined;
            error["payment_intent"] = intent;
            return (402, json!({"error": error}));
        }
        (200, intent)
    }

    fn capture(&mut self, at: usize, form: &Form) -> Answer {
        let amount = number(form, "amount_to_capture").unwrap();
        let intent = &mut self.intents[at];
        if intent["status"] != "requires_capture" {
            return unexpected_state(intent);
        }
        if amount > intent["amount"].as_i64().unwrap() {
            return (
                400,
                error("invalid_request_error", Some("amount_too_large"), "The amount is too large"),
            );
        }
        intent["status"] = "succeeded".into();
        intent["amount_received"] = amount.into();
        for (name, value) in metadata(form).as_object().unwrap() {
            intent["metadata"][name] = value.clone();
        }
        (200, intent.clone())
    }

    fn cancel(&mut self, at: usize) -> Answer {
        let intent = &mut self.intents[at];
        if intent["status"] != "requires_capture" {
            return unexpected_state(intent);
        }
        intent["status"] = "canceled".into();
        (200, intent.clone())
    }

    fn refund(&mut self, form: &Form) -> Answer {
        let (payment, amount) = (field(form, "payment_intent").unwrap(), number(form, "amount").unwrap());
        let refunded: i64 = self
            .refunds
            .iter()
            .filter(|it| it["payment_intent"] == payment)
            .map(|it| it["amount"].as_i64().unwrap())
            .sum();
        let intent = self.intents.iter().find(|it| it["id"] == payment).unwrap();
        if refunded + amount > intent["amount_received"].as_i64().unwrap() {
            let message = "Refund amount is greater than unrefunded amount on charge";
            return (400, error("invalid_request_error", None, message));
        }
        let refund = json!({
            "id": format!("re_{}", self.refunds.len() + 1), "object": "refund", "amount": amount,
            "currency": intent["currency"], "payment_intent": payment, "status": "succeeded", "created": self.now,
            "metadata": metadata(form), "failure_reason": null,
        });
        self.refunds.push(refund.clone());
        (200, refund)
    }

    fn tell(&self, target: &str) -> Answer {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query = form(query);
        let visible =
            |all: &[Value], indexed: usize| all[..indexed].iter().rev().cloned().collect::<Vec<_>>();
        match path {
            "/v1/payment_intents" => (200, list(&visible(&self.intents, self.indexed.0), &query)),
            "/v1/refunds" => (200, list(&visible(&self.refunds, self.indexed.1), &query)),
            _ => {
                let id = path.trim_start_matches("/v1/payment_intents/");
                match self.intents.iter().find(|it| it["id"] == id) {
                    Some(intent) => (200, intent.clone()),
                    None => (
                        404,
                        error("invalid_request_error", Some("resource_missing"), "No such payment_intent"),
                    ),
                }
            }
        }
    }
}

fn unexpected_state(intent: &Value) -> Answer {
    let message = "This PaymentIntent has a status that does not allow this";
    let mut answer = error("invalid_request_error", Some("payment_intent_unexpected_state"), message);
    answer["error"]["payment_intent"] = intent.clone();
    (400, answer)
}

/// One page, newest first, of what a query admits.
fn list(newest_first: &[Value], query: &Form) -> Value {
    let bound = |name: &str, default| number(query, name).unwrap_or(default);
    let (from, to) = (bound("created[gte]", i64::MIN), bound("created[lte]", i64::MAX));
    let admitted: Vec<Value> = newest_first
        .iter()
        .filter(|it| (from..=to).contains(&it["created"].as_i64().unwrap()))
        .filter(|it| field(query, "payment_intent").is_none_or(|id| it["payment_intent"] == id))
        .cloned()
        .collect();
    let limit = usize::try_from(bound("limit", 10)).unwrap();
    let position = |name: &str| {
        field(query, name)
            .map(|id| admitted.iter().position(|it| it["id"] == id).expect("a cursor of this list"))
    };
    let (page, has_more) = match (position("starting_after"), position("ending_before")) {
        (None, Some(before)) => (&admitted[before.saturating_sub(limit)..before], before > limit),
        (after, _) => {
            let start = after.map_or(0, |at| at + 1);
            let end = admitted.len().min(start + limit);
            (&admitted[start..end], end < admitted.len())
        }
    };
    json!({"object": "list", "url": "/v1/x", "has_more": has_more, "data": page})
}
