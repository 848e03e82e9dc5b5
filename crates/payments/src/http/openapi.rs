//! The OpenAPI document: made of the handlers' own annotations, checked in as `docs/openapi.json`.

use serde::Serialize;
use unavez_core::problem::Code;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{IntoParams, Modify, OpenApi, ToResponse, ToSchema};

use super::{charges, keys, ledger, ops, steps, webhooks};

/// The document as it is served.
pub(crate) fn document_json() -> String {
    let mut json =
        Document::openapi().to_pretty_json().expect("the document has text keys and no failing members");
    json.push('\n');
    json
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "unavez payments",
        description = "Charges that take effect once. Every POST carries an `Idempotency-Key`; repeating it with the \
                       same key and body is always safe, and answers with the first outcome.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    paths(
        charges::create,
        charges::list,
        charges::show,
        steps::capture,
        steps::void,
        steps::refund,
        steps::show_refund,
        ledger::entries,
        ledger::summary,
        keys::show,
        keys::find,
        keys::cancel,
        webhooks::receive,
        ops::health,
        ops::ready,
        ops::metrics,
        ops::openapi
    ),
    components(schemas(ProblemDocument, ProblemCode), responses(ProblemResponse)),
    modifiers(&ApiKeys),
    security((), ("api_key" = [])),
    tags(
        (name = "charges", description = "Charging"),
        (name = "refunds", description = "Paying back"),
        (name = "ledger", description = "What moved"),
        (name = "keys", description = "What became of a key"),
        (name = "operations", description = "For machines that watch")
    )
)]
struct Document;

/// `Authorization: Bearer KEY`, where there are API keys.
struct ApiKeys;

impl Modify for ApiKeys {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("api_key", SecurityScheme::Http(scheme));
    }
}

/// The header of every POST.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes a header")]
pub(super) struct IdempotencyKey {
    /// The caller's name for this operation: 1 to 255 printable ASCII characters, bare or as a quoted string. Never
    /// used for another operation.
    #[param(rename = "Idempotency-Key", required = true, example = "8e03978e-40d5-43dd-bc93-6894a57f9324")]
    idempotency_key: String,
}

/// The parameters of every list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes parameters")]
pub(super) struct PageParameters {
    /// Items of the page.
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u8>,
    /// `next` of the page before.
    after: Option<String>,
}

/// What is to be charged. Further members and `null` are refused.
#[derive(Serialize, ToSchema)]
#[schema(as = ChargeRequest)]
#[serde(deny_unknown_fields)]
pub(super) struct ChargeRequestDocument {
    /// The caller's order: printable characters. What looks like a card number is refused.
    #[schema(example = "o-1001", min_length = 1, max_length = 128)]
    order_id: String,
    /// Minor units, written as a whole number: neither `5.0` nor `1e3` nor `"5"`.
    #[schema(example = 2500, minimum = 1, maximum = 999_999_999_999_i64)]
    amount: i64,
    /// ISO 4217, upper case.
    #[schema(example = "EUR", pattern = "^[A-Z]{3}$")]
    currency: String,
    /// What pays: a token of the acquirer's. The ledger knows `tok_approve` and `tok_decline`, the sandbox some more;
    /// with both, none means `tok_approve`.
    #[schema(example = "tok_approve", min_length = 1, max_length = 255, nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_method: Option<String>,
    /// Whether the money moves at once.
    #[schema(default = true, nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    capture: Option<bool>,
    /// At most 20 strings of at most 500 characters.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<std::collections::BTreeMap<String, String>>,
}

/// How much of it. Further members and `null` are refused; no body at all is `{}`.
#[derive(Serialize, ToSchema)]
#[schema(as = StepRequest)]
#[serde(deny_unknown_fields)]
pub(super) struct StepRequestDocument {
    /// Minor units; without it all there is.
    #[schema(example = 2500, minimum = 1, maximum = 999_999_999_999_i64, nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<i64>,
}

/// Why a request was refused (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct ProblemDocument {
    /// `https://unavez.dev/problems/` and the code.
    #[serde(rename = "type")]
    kind: String,
    #[schema(value_type = ProblemCode)]
    code: String,
    title: String,
    status: u16,
    /// What happened this time: names the member, its shape and the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Whether the same request with the same key may be repeated; `Retry-After` says when.
    retryable: bool,
    /// What differs from the first request with this key: names, never values.
    #[serde(skip_serializing_if = "Option::is_none")]
    differs: Option<Vec<String>>,
    /// Which member or parameter breaks a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<String>,
    /// Where the key's state can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_status: Option<String>,
    /// What the problem is about, such as the declined charge's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Every code a problem can have.
#[expect(dead_code, reason = "describes the codes, whose list is core's")]
pub(super) struct ProblemCode(Code);

impl utoipa::PartialSchema for ProblemCode {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some("A stable name for a refusal"))
            .enum_values(Some(Code::ALL.into_iter().map(Code::as_str)))
            .into()
    }
}

impl ToSchema for ProblemCode {}

/// A refusal.
#[derive(ToResponse)]
#[response(description = "Refused", content_type = "application/problem+json")]
#[expect(dead_code, reason = "describes a response")]
pub(super) struct ProblemResponse(#[to_schema] ProblemDocument);
