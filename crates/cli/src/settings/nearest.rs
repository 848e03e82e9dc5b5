//! Which known name a mistyped one is nearest to.

/// The candidate with the smallest edit distance to `name`; the first of equals.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates.into_iter().min_by_key(|candidate| distance(name, candidate))
}

/// As [`nearest`], where it is near enough to be meant: at most two mistakes, or a third of the name.
pub(crate) fn near<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let found = nearest(name, candidates)?;
    let mistakes_max = 2.max(name.chars().count() / 3);
    let is_meant = distance(name, found) <= mistakes_max && distance(name, found) < name.chars().count();
    is_meant.then_some(found)
}

/// Levenshtein distance in characters, case ignored, `_` equal to `-`.
fn distance(a: &str, b: &str) -> usize {
    let fold = |c: char| if c == '_' { '-' } else { c.to_ascii_lowercase() };
    let b: Vec<char> = b.chars().map(fold).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().map(fold).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &b) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_insertions_deletions_and_substitutions() {
        for (a, b, expected) in
            [("", "", 0), ("abc", "", 3), ("listn", "listen", 1), ("kitten", "sitting", 3), ("a_b", "A-b", 0)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn what_is_far_is_not_suggested() {
        let known = ["not-found", "internal", "overloaded"];
        assert_eq!(near("not-fuond", known), Some("not-found"));
        for far in ["nope", "x", "", "something-else"] {
            assert_eq!(near(far, known), None, "{far}");
        }
    }

    #[test]
    fn names_the_nearest() {
        assert_eq!(nearest("respons_ttl", ["listen", "response-ttl", "store"]), Some("response-ttl"));
        assert_eq!(nearest("x", []), None);
    }
}
