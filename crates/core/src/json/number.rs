//! Numbers as exact decimals of any size.

use alloc::vec::Vec;

/// A number as RFC 8259 splits it: digits before and behind the point, and an exponent. Any number of digits.
pub(super) struct Number<'a> {
    pub(super) negative: bool,
    pub(super) integer: &'a [u8],
    pub(super) fraction: &'a [u8],
    pub(super) exponent_negative: bool,
    pub(super) exponent: &'a [u8],
}

impl Number<'_> {
    /// Appends the one spelling of this value: `0`, or digits that neither begin nor end with 0, and the
    /// exponent unless it is 0.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        let start = out.len();
        if self.negative {
            out.push(b'-');
        }
        let digits_start = out.len();
        if self.integer != b"0" {
            out.extend_from_slice(self.integer);
        }
        let integer_is_zero = out.len() == digits_start;
        out.extend_from_slice(if integer_is_zero {
            without_leading_zeros(self.fraction)
        } else {
            self.fraction
        });
        let trailing_zeros = out[digits_start..].iter().rev().take_while(|&&digit| digit == b'0').count();
        out.truncate(out.len() - trailing_zeros);
        if out.len() == digits_start {
            out.truncate(start);
            out.push(b'0');
            return;
        }
        let shift = signed(trailing_zeros) - signed(self.fraction.len());
        self.write_exponent(shift, out);
    }

    /// Appends the exponent plus `shift`.
    fn write_exponent(&self, shift: i64, out: &mut Vec<u8>) {
        let digits = without_leading_zeros(self.exponent);
        if digits.len() <= SMALL_DIGITS_MAX {
            let magnitude = digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
            let exponent = if self.exponent_negative { -magnitude } else { magnitude } + shift;
            if exponent != 0 {
                out.push(b'e');
                write_decimal(exponent, out);
            }
            return;
        }
        // An exponent this large keeps its sign, since a shift is not longer than a text in memory.
        out.extend_from_slice(if self.exponent_negative { b"e-" } else { b"e" });
        let start = out.len();
        out.extend_from_slice(digits);
        add_to_digits(out, start, if self.exponent_negative { -shift } else { shift });
    }
}

/// Exponents of up to this many digits are added as an `i64`, longer ones digit by digit. 10^17 is far above
/// the length of any text, and 10^18 plus that length is in the range of an `i64`.
const SMALL_DIGITS_MAX: usize = 17;

/// Adds to the decimal digits from `start` to the end; the sum is not negative. No leading zeros remain.
fn add_to_digits(out: &mut Vec<u8>, start: usize, summand: i64) {
    let mut carry = summand;
    for digit in out[start..].iter_mut().rev() {
        if carry == 0 {
            break;
        }
        let sum = i64::from(*digit - b'0') + carry;
        *digit = decimal_digit(sum.rem_euclid(10));
        carry = sum.div_euclid(10);
    }
    // More than one digit in front would need a summand as long as the number.
    if carry > 0 {
        out.insert(start, decimal_digit(carry));
    }
    let zeros = out[start..].len() - without_leading_zeros(&out[start..]).len();
    out.drain(start..start + zeros);
}

fn write_decimal(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let start = out.len();
    let mut rest = value.abs();
    while rest > 0 {
        out.push(decimal_digit(rest % 10));
        rest /= 10;
    }
    out[start..].reverse();
}

fn decimal_digit(value: i64) -> u8 {
    b'0' + u8::try_from(value).expect("one digit is 0 to 9")
}

fn without_leading_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    &digits[zeros..]
}

fn signed(length: usize) -> i64 {
    i64::try_from(length).expect("a text in memory is shorter than 2^63 bytes")
}
