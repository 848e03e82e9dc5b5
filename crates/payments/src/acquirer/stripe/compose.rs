//! Requests to Stripe: forms, built from the instruction alone.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{API_VERSION, money};
use crate::acquirer::{Instruction, Kind, Outgoing, Reason, Subject, Unsendable};

/// Metadata: the operation that made an object.
pub(super) const OPERATION_ID: &str = "unavez_operation_id";
/// Metadata: whose it is.
pub(super) const TENANT: &str = "unavez_tenant";
/// Metadata: the operation that captured a payment.
pub(super) const CAPTURE_ID: &str = "unavez_capture_id";

/// What stands unescaped in a form, besides letters and digits.
const UNESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A form in the order its fields were added.
#[derive(Default)]
struct Form(String);

impl Form {
    fn with(mut self, name: &str, value: &str) -> Self {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(name);
        self.0.push('=');
        self.0.extend(utf8_percent_encode(value, UNESCAPED));
        self
    }
}

/// Stripe's own name of the payment that a step belongs to.
pub(super) fn reference(subject: &Subject) -> Result<&str, Reason> {
    let reference = subject.payment.as_ref().and_then(|payment| payment.reference.as_deref());
    let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    reference.filter(is_name).ok_or_else(|| Reason("Stripe's own name of the payment is not known".into()))
}

pub(super) fn compose(instruction: &Instruction) -> Result<Outgoing, Unsendable> {
    let subject = &instruction.subject;
    let amount = money::write(subject.amount, subject.currency)?.to_string();
    let id = subject.operation_id.to_string();
    let (path, form) = match subject.kind {
        Kind::Payment => ("/v1/payment_intents".to_owned(), payment(instruction, &amount)?),
        Kind::Capture => {
            let form = Form::default().with("amount_to_capture", &amount);
            (step(subject, "capture")?, form.with("metadata[unavez_capture_id]", &id))
        }
        Kind::Void => (step(subject, "cancel")?, Form::default()),
        Kind::Refund => {
            let payment = reference(subject).map_err(unnamed)?;
            let form = Form::default().with("payment_intent", payment).with("amount", &amount);
            ("/v1/refunds".to_owned(), marked(form, subject))
        }
    };
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("idempotency-key", &id),
        ("stripe-version", API_VERSION),
    ];
    Ok(Outgoing {
        method: "POST".into(),
        path: path.into(),
        headers: headers.map(|(name, value)| (name.into(), value.into())).into(),
        body: form.0.into(),
    })
}

fn payment(instruction: &Instruction, amount: &str) -> Result<Form, Unsendable> {
    let method = instruction.payment_method.as_deref().ok_or_else(|| Unsendable {
        member: "payment_method",
        detail: "payment_method is missing; Stripe charges one of its own, such as pm_1N…".into(),
    })?;
    let subject = &instruction.subject;
    let form = Form::default()
        .with("amount", amount)
        .with("currency", &subject.currency.code().to_lowercase())
        .with("payment_method", method)
        .with("confirm", "true")
        .with("capture_method", if instruction.captures_at_once { "automatic" } else { "manual" })
        // There is no page of ours that a customer could be sent back to.
        .with("automatic_payment_methods[enabled]", "true")
        .with("automatic_payment_methods[allow_redirects]", "never")
        .with("metadata[order_id]", instruction.order_id.as_str());
    Ok(marked(form, subject))
}

fn marked(form: Form, subject: &Subject) -> Form {
    form.with("metadata[unavez_operation_id]", &subject.operation_id.to_string())
        .with("metadata[unavez_tenant]", subject.tenant.as_str())
}

fn step(subject: &Subject, action: &str) -> Result<String, Unsendable> {
    let payment = reference(subject).map_err(unnamed)?;
    Ok(format!("/v1/payment_intents/{payment}/{action}"))
}

fn unnamed(Reason(why): Reason) -> Unsendable {
    Unsendable { member: "payment", detail: why }
}
