//! Money: whole minor units, and the currencies of ISO 4217.
//!
//! 1. An amount is read from its JSON token, `[1-9][0-9]*`, and never passes through a float: `5.0`, `1e3`, `"5"`, `0`,
//!    `-0` and `-5` are refused, not rounded.
//! 2. Nothing wraps: the limit is compared digit by digit, and sums are made in 128 bits.

use std::fmt;

mod iso4217;

/// The largest amount of one charge: twelve digits of minor units.
pub const AMOUNT_MAX: i64 = 999_999_999_999;

/// 1 to [`AMOUNT_MAX`] minor units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i64);

impl Amount {
    /// The amount of so many minor units, if it is within the limits.
    #[must_use]
    pub const fn of_minor_units(units: i64) -> Option<Self> {
        match units {
            1..=AMOUNT_MAX => Some(Self(units)),
            _ => None,
        }
    }

    /// Reads a JSON token.
    ///
    /// # Errors
    /// The token's shape, for anything but `[1-9][0-9]*` up to [`AMOUNT_MAX`].
    pub fn parse_token(token: &str) -> Result<Self, AmountFault> {
        let digits = token.as_bytes();
        match digits {
            [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => {}
            [b'0'] => return Err(AmountFault::Zero),
            [b'-', ..] => return Err(AmountFault::Negative),
            [b'0'..=b'9', ..] => return Err(AmountFault::NotWhole),
            _ => return Err(AmountFault::NotANumber),
        }
        let too_large = AmountFault::TooLarge { digits: digits.len() };
        if digits.len() > AMOUNT_DIGITS_MAX {
            return Err(too_large);
        }
        let units = digits.iter().fold(0, |units, digit| units * 10 + i64::from(digit - b'0'));
        Self::of_minor_units(units).ok_or(too_large)
    }

    /// Minor units: cents of EUR, yen of JPY.
    #[must_use]
    pub const fn minor_units(self) -> i64 {
        self.0
    }
}

const AMOUNT_DIGITS_MAX: usize = 12;

/// The shape of a token that is no amount. Says what it is, never its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmountFault {
    /// `0`.
    Zero,
    /// Begins with a minus sign, `-0` included.
    Negative,
    /// Has a fraction or an exponent, even one that comes out whole.
    NotWhole,
    /// More than [`AMOUNT_MAX`].
    TooLarge {
        /// How many digits it has.
        digits: usize,
    },
    /// No number at all.
    NotANumber,
}

impl fmt::Display for AmountFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("is zero"),
            Self::Negative => f.write_str("is negative"),
            Self::NotWhole => f.write_str("is a number with a fraction or an exponent"),
            Self::TooLarge { digits } => write!(f, "is a number of {digits} digits"),
            Self::NotANumber => f.write_str("is not a number"),
        }
    }
}

/// A currency of ISO 4217 that has minor units.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Currency(u8);

impl Currency {
    /// The currency with this code: three upper-case letters.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        let found = iso4217::TABLE.binary_search_by_key(&code, |(code, _)| code).ok()?;
        u8::try_from(found).ok().map(Self)
    }

    /// Every currency, in the order of their codes.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).take(iso4217::TABLE.len()).map(Self)
    }

    /// `EUR`.
    #[must_use]
    pub fn code(self) -> &'static str {
        self.row().0
    }

    /// How many digits stand behind the decimal point: 2 for EUR, 0 for JPY, 3 for KWD.
    #[must_use]
    pub fn minor_digits(self) -> u8 {
        self.row().1
    }

    /// For people: `12.34` for 1234 minor units of EUR, `80` for 80 of JPY.
    #[must_use]
    pub fn format(self, minor_units: i128) -> String {
        let digits = usize::from(self.minor_digits());
        let sign = if minor_units < 0 { "-" } else { "" };
        let text = format!("{:0>width$}", minor_units.unsigned_abs(), width = digits + 1);
        match text.split_at(text.len() - digits) {
            (whole, "") => format!("{sign}{whole}"),
            (whole, fraction) => format!("{sign}{whole}.{fraction}"),
        }
    }

    fn row(self) -> &'static (&'static str, u8) {
        &iso4217::TABLE[usize::from(self.0)]
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c100_each_spelling_has_one_reading() {
        let check = |token: &str, expected: Result<i64, AmountFault>| {
            assert_eq!(Amount::parse_token(token).map(Amount::minor_units), expected, "{token}");
        };
        check("1", Ok(1));
        check("1999", Ok(1999));
        check("999999999999", Ok(999_999_999_999));
        check("1000000000000", Err(AmountFault::TooLarge { digits: 13 }));
        check("9223372036854775807", Err(AmountFault::TooLarge { digits: 19 }));
        check("9223372036854775808", Err(AmountFault::TooLarge { digits: 19 }));
        check("18446744073709551617", Err(AmountFault::TooLarge { digits: 20 }));
        check("0", Err(AmountFault::Zero));
        check("-0", Err(AmountFault::Negative));
        check("-5", Err(AmountFault::Negative));
        check("19.99", Err(AmountFault::NotWhole));
        check("5.0", Err(AmountFault::NotWhole));
        check("1e3", Err(AmountFault::NotWhole));
        check("05", Err(AmountFault::NotWhole));
        check("\"5\"", Err(AmountFault::NotANumber));
        check("null", Err(AmountFault::NotANumber));
        check("", Err(AmountFault::NotANumber));
    }

    #[test]
    fn the_table_is_sorted_for_its_search() {
        assert!(iso4217::TABLE.is_sorted_by_key(|(code, _)| *code));
        for currency in Currency::all() {
            assert_eq!(Currency::parse(currency.code()), Some(currency));
            assert!(currency.code().bytes().all(|letter| letter.is_ascii_uppercase()));
        }
        for code in ["", "eur", "EU", "EURO", "ZZZ", "XXX", "XAU"] {
            assert_eq!(Currency::parse(code), None, "{code}");
        }
    }

    #[test]
    fn c99_digits_behind_the_point_are_the_currency_s() {
        let check = |code: &str, minor_units, expected: &str| {
            assert_eq!(Currency::parse(code).unwrap().format(minor_units), expected);
        };
        check("JPY", 80, "80");
        check("EUR", 1234, "12.34");
        check("EUR", 5, "0.05");
        check("EUR", -5, "-0.05");
        check("KWD", 1234, "1.234");
        check("CLF", 1, "0.0001");
        check("JPY", 0, "0");
    }
}
