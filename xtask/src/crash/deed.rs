//! What the harness does: charges and steps under keys of their own, and what it was told about each.

use serde_json::{Value, json};

use super::dice::Dice;
use crate::wire::Message;

/// In minor units: enough for many partial refunds.
const CHARGE_AMOUNT: u64 = 2_500;
const REFUND_AMOUNT: u64 = 100;

/// What an operation does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Charge { token: &'static str, capture: bool },
    Capture,
    Void,
    Refund,
}

impl Deed {
    /// The acquirer's word for it.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Charge { .. } => "payment",
            Self::Capture => "capture",
            Self::Void => "void",
            Self::Refund => "refund",
        }
    }

    const fn amount(&self) -> u64 {
        match self {
            Self::Refund => REFUND_AMOUNT,
            Self::Charge { .. } | Self::Capture | Self::Void => CHARGE_AMOUNT,
        }
    }

    /// The status of its final answer, whatever happens on the way.
    fn ends_with(&self) -> u16 {
        match self {
            Self::Charge { token: "tok_decline" | "tok_pending_decline", .. } => 402,
            _ => 201,
        }
    }
}

/// A charge of a token, captured at once.
pub(crate) const fn charge(token: &'static str) -> Deed {
    Deed::Charge { token, capture: true }
}

/// A charge by any way a payment can go that ends.
pub(crate) fn any_charge(dice: &mut Dice) -> Deed {
    let token = dice.pick(&[
        "tok_approve",
        "tok_approve",
        "tok_decline",
        "tok_lost",
        "tok_error_after",
        "tok_slow_200",
        "tok_pending",
        "tok_pending_decline",
    ]);
    Deed::Charge { token, capture: token != "tok_approve" || !dice.one_in(2) }
}

/// One operation, from its first request to its final answer.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) key: String,
    pub(crate) path: String,
    pub(crate) body: String,
    pub(crate) deed: Deed,
    pub(crate) amount: u64,
    /// Not repeated: the service has to find its end by itself.
    pub(crate) left_alone: bool,
    /// The first final answer.
    pub(crate) told: Option<Message>,
    /// Its name at the acquirer, once that is known.
    pub(crate) operation_id: Option<String>,
}

impl Operation {
    /// `name` is its own; `charge`: the one a step is for.
    pub(crate) fn new(name: &str, deed: Deed, charge: Option<&str>) -> Self {
        let amount = deed.amount();
        let (path, body) = match (&deed, charge.unwrap_or_default()) {
            (Deed::Charge { token, capture }, _) => {
                ("/v1/charges".to_owned(), charge_body(name, amount, token, *capture))
            }
            (Deed::Capture, charge) => (format!("/v1/charges/{charge}/capture"), json!({})),
            (Deed::Void, charge) => (format!("/v1/charges/{charge}/void"), json!({})),
            (Deed::Refund, charge) => (format!("/v1/charges/{charge}/refunds"), json!({ "amount": amount })),
        };
        let key = format!("key-{name}");
        Self {
            key,
            path,
            body: body.to_string(),
            deed,
            amount,
            left_alone: false,
            told: None,
            operation_id: None,
        }
    }

    /// Takes an answer in.
    ///
    /// # Errors
    /// It must not be: another final answer than the first, the wrong one, or one that no open operation has.
    pub(crate) fn hear(&mut self, answer: &Message) -> Result<(), String> {
        match answer.status() {
            201 | 402 => self.hear_the_end(answer),
            202 => Ok(()),
            409 | 503 | 504 if answer.json()["retryable"] == true => Ok(()),
            _ => Err(format!("{}: nothing here can be answered {}", self.key, answer.shown())),
        }
    }

    fn hear_the_end(&mut self, answer: &Message) -> Result<(), String> {
        let ends_with = self.deed.ends_with();
        if answer.status() != ends_with {
            return Err(format!(
                "{}: {:?} ends with {ends_with}, not {}",
                self.key,
                self.deed,
                answer.shown()
            ));
        }
        let first = self.told.get_or_insert_with(|| answer.clone());
        if (first.status(), &first.body) == (answer.status(), &answer.body) {
            return Ok(());
        }
        Err(format!("{}: told {}, and then {}", self.key, first.shown(), answer.shown()))
    }

    /// A member of the final answer.
    pub(crate) fn told_member(&self, name: &str) -> Option<String> {
        self.told.as_ref()?.json()[name].as_str().map(str::to_owned)
    }
}

fn charge_body(order: &str, amount: u64, token: &str, capture: bool) -> Value {
    json!({ "order_id": order, "amount": amount, "currency": "EUR", "payment_method": token, "capture": capture })
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn answer(status: u16, body: &str) -> Message {
        let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        Message::read(&mut BufReader::new(text.as_bytes())).unwrap().unwrap()
    }

    #[test]
    fn one_operation_has_one_final_answer() {
        let mut operation = Operation::new("a", charge("tok_approve"), None);
        operation.hear(&answer(504, r#"{"retryable":true}"#)).unwrap();
        assert_eq!(operation.told, None);
        operation.hear(&answer(201, "{}")).unwrap();
        operation.hear(&answer(201, "{}")).unwrap();
        operation.hear(&answer(409, r#"{"retryable":true}"#)).unwrap();
        let other = operation.hear(&answer(201, "{ }")).unwrap_err();
        assert_eq!(other, "key-a: told 201 {}, and then 201 { }");
    }

    #[test]
    fn an_approved_charge_is_never_told_to_be_declined() {
        let mut operation = Operation::new("a", charge("tok_lost"), None);
        let declined = operation.hear(&answer(402, "{}")).unwrap_err();
        assert!(declined.contains("ends with 201, not 402"), "{declined}");
        let refused = operation.hear(&answer(409, r#"{"retryable":false}"#)).unwrap_err();
        assert!(refused.contains("nothing here can be answered 409"), "{refused}");
    }
}
