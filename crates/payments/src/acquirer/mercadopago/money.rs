//! Amounts as decimal numbers: `12.34` for 1234 minor units of EUR, `80` for 80 of JPY.
//!
//! 1. They are written and read as text. A reader that went through a float would take 0.1 + 0.2 for something else.
//! 2. More digits than the currency has are an error, unless they are zeros.
//! 3. Pesos of Colombia are whole at Mercado Pago, although ISO 4217 gives them two digits.

use crate::acquirer::Unsendable;
use crate::money::{Amount, Currency};

/// The JSON number of an amount.
pub(super) fn write(amount: Amount, currency: Currency) -> Result<String, Unsendable> {
    let units = amount.minor_units();
    if currency.code() != "COP" {
        return Ok(currency.format(units.into()));
    }
    if units % 100 != 0 {
        let detail = "amount in COP is not whole pesos, which Mercado Pago asks for";
        return Err(Unsendable { member: "amount", detail: detail.into() });
    }
    Ok((units / 100).to_string())
}

/// The amount that a JSON number is in a currency.
pub(super) fn read(token: &str, currency: Currency) -> Option<Amount> {
    let (whole, fraction) = token.split_once('.').unwrap_or((token, ""));
    if token.ends_with('.')
        || whole.is_empty()
        || !token.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return None;
    }
    let digits = usize::from(currency.minor_digits());
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > digits {
        return None;
    }
    let units: i64 = format!("{whole}{fraction:0<digits$}").parse().ok()?;
    Amount::of_minor_units(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn currency(code: &str) -> Currency {
        Currency::parse(code).unwrap()
    }

    #[test]
    fn c99_numbers_are_written_digit_by_digit() {
        let written = |units, code| {
            write(Amount::of_minor_units(units).unwrap(), currency(code)).map_err(|refused| refused.member)
        };
        assert_eq!(written(80, "JPY").as_deref(), Ok("80"));
        assert_eq!(written(1234, "EUR").as_deref(), Ok("12.34"));
        assert_eq!(written(1234, "KWD").as_deref(), Ok("1.234"));
        assert_eq!(written(5, "BRL").as_deref(), Ok("0.05"));
        assert_eq!(written(1200, "COP").as_deref(), Ok("12"));
        assert_eq!(written(1234, "COP"), Err("amount"));
    }

    #[test]
    fn c99_numbers_are_read_digit_by_digit() {
        let read = |token: &str, code: &str| read(token, currency(code)).map(Amount::minor_units);
        for (token, code, expected) in [
            ("80", "JPY", Some(80)),
            ("12.34", "EUR", Some(1234)),
            ("1.234", "KWD", Some(1234)),
            ("12.3", "EUR", Some(1230)),
            ("12", "EUR", Some(1200)),
            ("12.000", "EUR", Some(1200)),
            ("0.05", "EUR", Some(5)),
            ("12.345", "EUR", None),
            ("80.5", "JPY", None),
            ("1e2", "EUR", None),
            ("-1", "EUR", None),
            (".5", "EUR", None),
            ("5.", "EUR", None),
            ("1.2.3", "EUR", None),
            ("", "EUR", None),
            ("0", "EUR", None),
            ("\"12\"", "EUR", None),
            ("99999999999999999999", "EUR", None),
        ] {
            assert_eq!(read(token, code), expected, "{token} {code}");
        }
    }
}
