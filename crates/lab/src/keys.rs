//! Where a client's keys come from. Two policies are right; the others are the two mistakes people make.

use std::borrow::Cow;

use unavez_core::derive::derive;

use crate::Mutation;

/// How a client names its operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyPolicy {
    /// Derived from the order, once, before the first attempt (P29).
    Once,
    /// Random, once, before the first attempt (P29).
    Random,
    /// Made anew for every attempt.
    PerAttempt,
    /// Made from the amount.
    FromAmount,
}

impl KeyPolicy {
    /// The policy of a client from which this piece was taken out.
    pub(crate) fn without(mutation: Option<Mutation>) -> Self {
        match mutation {
            Some(Mutation::KeyPerAttempt) => Self::PerAttempt,
            Some(Mutation::KeyFromAmount) => Self::FromAmount,
            _ => Self::Once,
        }
    }

    /// The key of an operation; asked for once, outside the retry loop.
    pub(crate) fn operation_key(self, order_id: &str, amount: u64) -> String {
        let amount = amount.to_string();
        let subject = match self {
            Self::Random => return random_key(),
            Self::Once | Self::PerAttempt => order_id,
            Self::FromAmount => &amount,
        };
        derive("charge", &[subject])
            .expect("order ids and amounts are short and printable")
            .as_str()
            .to_owned()
    }

    /// What one attempt sends, the first being 1: the operation's key unchanged, unless that is the mistake.
    pub(crate) fn attempt_key(self, operation_key: &str, attempt: u32) -> Cow<'_, str> {
        match self {
            Self::Once | Self::Random | Self::FromAmount => Cow::Borrowed(operation_key),
            Self::PerAttempt => Cow::Owned(format!("{operation_key}:{attempt}")),
        }
    }
}

/// A part for order ids that no other run has used, so that a service that lives longer than a run can be measured.
/// Letters alone: digits could by chance look like a card number, which a service refuses.
pub(crate) fn run_nonce() -> String {
    let random = uuid::Uuid::new_v4();
    random.as_bytes()[..12].iter().map(|byte| char::from(b'a' + byte % 16)).collect()
}

/// A key that nobody has used and nobody can guess.
pub(crate) fn random_key() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// A key as one segment of a path.
pub(crate) fn as_segment(key: &str) -> String {
    percent_encoding::utf8_percent_encode(key, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(policy: KeyPolicy) -> Vec<String> {
        let orders = [("o-1", 500), ("o-2", 500)];
        let of = |(order_id, amount)| {
            let key = policy.operation_key(order_id, amount);
            (1..=2).map(move |attempt| policy.attempt_key(&key, attempt).into_owned()).collect::<Vec<_>>()
        };
        orders.into_iter().flat_map(of).collect()
    }

    #[test]
    fn p29_the_right_policy_names_operations_and_nothing_else() {
        assert_eq!(keys(KeyPolicy::Once), ["charge:o-1", "charge:o-1", "charge:o-2", "charge:o-2"]);
    }

    #[test]
    fn p29_a_random_key_names_one_operation_whatever_it_is_about() {
        let keys = keys(KeyPolicy::Random);
        assert!(keys[0] == keys[1] && keys[2] == keys[3] && keys[0] != keys[2], "{keys:?}");
    }

    #[test]
    fn the_mistakes_name_attempts_or_amounts() {
        assert_eq!(
            keys(KeyPolicy::PerAttempt),
            ["charge:o-1:1", "charge:o-1:2", "charge:o-2:1", "charge:o-2:2"]
        );
        assert_eq!(keys(KeyPolicy::FromAmount), ["charge:500"; 4]);
    }

    #[test]
    fn a_key_is_one_segment() {
        assert_eq!(as_segment("charge:o-1/2?"), "charge%3Ao%2D1%2F2%3F");
    }

    #[test]
    fn runs_do_not_share_a_nonce() {
        let nonce = run_nonce();
        assert!(nonce.len() == 12 && nonce.bytes().all(|byte| byte.is_ascii_lowercase()), "{nonce}");
        assert_ne!(run_nonce(), run_nonce());
    }
}
