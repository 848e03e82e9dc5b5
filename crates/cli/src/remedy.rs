//! What a charge without a line in the ledger means, and what undoes one, ready to be typed: with a key that makes a second try harmless.

use unavez_payments::books::OperationHistory;
use unavez_payments::charge::{Charge, Status};

use crate::client::Service;

/// Where the proposed commands go, and what they have to carry.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    /// The service, as `--target` names it; a variable, where it is not named.
    pub(crate) target: Option<Service>,
    /// Whether callers need an API key.
    pub(crate) has_api_keys: bool,
}

impl Desk {
    /// The request that gives back what a charge took; `None` where it took nothing, or has given it back.
    pub(crate) fn give_back(&self, charge: &Charge) -> Option<String> {
        let id = charge.id;
        let (step, key) = match charge.status {
            Status::Authorized => ("void", "void"),
            Status::Captured if charge.amount_refunded < charge.amount_captured => ("refunds", "refund"),
            _ => return None,
        };
        let base = self.target.as_ref().map_or("\"$UNAVEZ_URL\"".to_owned(), ToString::to_string);
        let bearer = if self.has_api_keys { " -H \"Authorization: Bearer $KEY\"" } else { "" };
        Some(format!(
            "curl -X POST {base}/v1/charges/{id}/{step}{bearer} -H 'Idempotency-Key: {key}:dup:{id}' \
             -H 'Content-Type: application/json' -d '{{}}'"
        ))
    }

    /// Both rulings that settle a key, each a command of its own: one of them is right.
    pub(crate) fn settle(&self, key: &str, tenant: &str) -> Vec<String> {
        let target = self.target.as_ref().map_or(String::new(), |target| format!(" --target {target}"));
        let api_key = if self.has_api_keys { " --api-key-file FILE" } else { "" };
        let command = |ruling| {
            format!(
                "unavez keys settle {} --tenant {tenant} --as {ruling} --reason 'what you saw'{target}{api_key}",
                quoted(key)
            )
        };
        ["done", "failed"].map(command).into()
    }
}

/// The flags that name the acquirer of a stored account.
pub(crate) fn acquirer_flags(account: &str) -> String {
    match account.split_once(':') {
        Some(("sandbox", "in-process")) => "--acquirer sandbox".to_owned(),
        Some(("sandbox", address)) => format!("--acquirer http://{address}"),
        Some((vendor, name)) => format!("--acquirer {vendor} --acquirer-account {name}"),
        None => format!("--acquirer {account}"),
    }
}

/// A key as a shell takes it.
pub(crate) fn quoted(key: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/@+".contains(&byte);
    if key.bytes().all(is_plain) { key.to_owned() } else { format!("'{}'", key.replace('\'', r"'\''")) }
}

/// What it means that nothing is booked of a charge. Of one that is not decided it means nothing at all.
pub(crate) fn nothing_booked<'a>(
    charge: &Charge,
    operations: impl IntoIterator<Item = &'a OperationHistory>,
) -> &'static str {
    let may_have_moved = operations.into_iter().any(OperationHistory::may_have_moved);
    match charge.status {
        _ if may_have_moved => "nothing booked here yet; money may have moved",
        Status::Authorized => "nothing booked: authorised, and not captured",
        Status::Voided => "nothing booked: the authorisation was given up, no money moved",
        Status::Declined => "nothing booked: declined, no money moved",
        // Released: whatever may have been sent is not decided, and was said above.
        Status::Created | Status::Pending => "nothing booked: nothing was sent, no money moved",
        Status::Captured => "nothing booked, though it is captured: the books do not fit together",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_account_leads_back_to_its_flags() {
        for (account, flags) in [
            ("sandbox:in-process", "--acquirer sandbox"),
            ("sandbox:127.0.0.1:21090", "--acquirer http://127.0.0.1:21090"),
            ("stripe:acct_1", "--acquirer stripe --acquirer-account acct_1"),
        ] {
            assert_eq!(acquirer_flags(account), flags);
        }
    }

    #[test]
    fn what_is_proposed_can_be_pasted() {
        let open = Desk { target: None, has_api_keys: false };
        let guarded = Desk { target: Some(Service::parse("http://pay:81").unwrap()), has_api_keys: true };
        for desk in [&open, &guarded] {
            let commands = desk.settle("it's 7", "shop");
            assert_eq!(commands.len(), 2);
            assert!(
                commands.iter().all(|it| !it.contains('|') && it.contains(r"'it'\''s 7'")),
                "{commands:?}"
            );
        }
        assert!(!open.settle("k", "t")[0].contains("--target"));
        assert!(guarded.settle("k", "t")[1].ends_with("--target http://pay:81 --api-key-file FILE"));
    }
}
