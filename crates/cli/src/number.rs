//! Whole numbers within a range, refused in words.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A parser for whole numbers in `range`. For clap's `value_parser`.
pub(crate) fn within<N>(
    range: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static
where
    N: Copy + Display + FromStr + PartialOrd + Send + Sync + 'static,
{
    move |text: &str| match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("expected a whole number from {} to {}", range.start(), range.end())),
    }
}

/// `1 charge`, `2 charges`.
pub(crate) fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_belong_to_the_range_and_the_refusal_names_them() {
        let parse = within(1_u16..=20_000);
        assert_eq!((parse("1"), parse("20000")), (Ok(1), Ok(20_000)));
        for text in ["0", "20001", "70000", "-1", "1.5", "1e3", "", "ten"] {
            assert_eq!(parse(text), Err("expected a whole number from 1 to 20000".to_owned()), "{text}");
        }
    }
}
