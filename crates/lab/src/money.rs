//! Whole dollars: what the orders are made of and the reports speak in. The wire speaks cents.

/// The currency of every order the lab places.
pub(crate) const CURRENCY: &str = "USD";

/// What one whole dollar is on the wire, in minor units.
pub(crate) const CENTS: u64 = 100;

/// `1184` as `1,184`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `48139` as `$48,139`.
pub(crate) fn dollars(whole: u64) -> String {
    format!("${}", grouped(whole))
}

/// How much `part` is of `whole`, in percent to one decimal, halves up; 0 of nothing is 0.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    let tenths = (u128::from(part) * 1000 + u128::from(whole) / 2) / u128::from(whole);
    u32::try_from(tenths).map_or(f64::from(u32::MAX), f64::from) / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_thousands() {
        let shown = [0, 7, 999, 1_000, 25_000, 628_233, 1_000_000].map(grouped);
        assert_eq!(shown, ["0", "7", "999", "1,000", "25,000", "628,233", "1,000,000"]);
        assert_eq!(dollars(256_979), "$256,979");
    }

    #[test]
    fn percent_has_one_decimal() {
        assert_eq!(percent(48_139, 256_979), 18.7);
        assert_eq!(percent(628_233, 256_979), 244.5);
        assert_eq!(percent(0, 0), 0.0);
        assert_eq!(percent(1, 8), 12.5);
        assert_eq!(percent(5, 10_000), 0.1);
    }
}
