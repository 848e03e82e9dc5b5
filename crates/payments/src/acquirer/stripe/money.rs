//! Amounts as Stripe counts them. Mostly that is ISO 4217's minor unit; where it is not, a wrong factor is a hundredfold
//! charge.
//!
//! 1. Three digits (BHD, JOD, KWD, OMR, TND): the last one must be 0. An amount that has another is refused, not rounded.
//! 2. ISK has no minor unit, but is sent with two zeros.
//! 3. MGA has a fifth of an ariary as its minor unit in ISO 4217 and none at Stripe: whole ariary only.
//! 4. UGX is refused: their pages count it both with two digits and without. So are four digits, and currencies of three
//!    digits that are not listed.

use crate::acquirer::Unsendable;
use crate::money::{Amount, Currency};

/// How an amount in minor units becomes Stripe's: times, divided by, and what it must be divisible by.
struct Scale {
    times: i64,
    per: i64,
    step: i64,
}

const PLAIN: Scale = Scale { times: 1, per: 1, step: 1 };

fn scale(currency: Currency) -> Option<Scale> {
    match (currency.code(), currency.minor_digits()) {
        ("ISK", _) => Some(Scale { times: 100, ..PLAIN }),
        ("MGA", _) => Some(Scale { per: 100, step: 100, ..PLAIN }),
        ("UGX", _) => None,
        ("BHD" | "JOD" | "KWD" | "OMR" | "TND", 3) => Some(Scale { step: 10, ..PLAIN }),
        (_, 0 | 2) => Some(PLAIN),
        _ => None,
    }
}

/// The number that is sent for an amount.
pub(super) fn write(amount: Amount, currency: Currency) -> Result<i64, Unsendable> {
    let scale = scale(currency).ok_or_else(|| Unsendable {
        member: "currency",
        detail: format!("currency is {currency}, which this adapter cannot count as Stripe does").into(),
    })?;
    let units = amount.minor_units();
    if units % scale.step != 0 {
        let detail =
            format!("amount in {currency} is not a multiple of {}, which Stripe asks for", scale.step);
        return Err(Unsendable { member: "amount", detail: detail.into() });
    }
    Ok(units * scale.times / scale.per)
}

/// The amount that a number of Stripe's is, with its currency in lower case.
pub(super) fn read(number: i64, currency: &str) -> Option<(Amount, Currency)> {
    let is_lower = currency.bytes().all(|letter| letter.is_ascii_lowercase());
    let currency = Currency::parse(&currency.to_ascii_uppercase()).filter(|_| is_lower)?;
    let scale = scale(currency)?;
    if number % scale.times != 0 {
        return None;
    }
    let units = (number / scale.times).checked_mul(scale.per)?;
    Some((Amount::of_minor_units(units)?, currency))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(minor_units: i64, code: &str) -> Result<i64, &'static str> {
        let currency = Currency::parse(code).unwrap();
        write(Amount::of_minor_units(minor_units).unwrap(), currency).map_err(|refused| refused.member)
    }

    #[test]
    fn c99_every_currency_is_counted_as_stripe_does() {
        for (minor_units, code, expected) in [
            (80, "JPY", Ok(80)),
            (1234, "EUR", Ok(1234)),
            (1230, "KWD", Ok(1230)),
            (1234, "KWD", Err("amount")),
            (5, "ISK", Ok(500)),
            (500, "MGA", Ok(5)),
            (501, "MGA", Err("amount")),
            (5, "UGX", Err("currency")),
            (10_000, "CLF", Err("currency")),
            (1000, "LYD", Err("currency")),
        ] {
            assert_eq!(written(minor_units, code), expected, "{minor_units} {code}");
        }
    }

    #[test]
    fn what_was_written_reads_back() {
        for currency in Currency::all() {
            let amount = Amount::of_minor_units(1000).unwrap();
            if let Ok(number) = write(amount, currency) {
                let code = currency.code().to_lowercase();
                assert_eq!(read(number, &code), Some((amount, currency)), "{code}");
            }
        }
        for (number, currency) in
            [(0, "eur"), (-1, "eur"), (1, "EUR"), (1, "zzz"), (550, "isk"), (i64::MAX, "mga")]
        {
            assert_eq!(read(number, currency), None, "{number} {currency}");
        }
    }
}
