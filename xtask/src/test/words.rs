//! Text that belongs to one machine or one day has no place in the project: a reader elsewhere cannot follow it.

use crate::workspace::Text;

/// What must not stand in any file, cut in two so that this file obeys its own rule.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("/wor", "k/", "a folder of one machine"),
    ("/ro", "ot/", "a folder of one machine"),
    ("/home", "/", "a folder of one machine"),
    ("static.", "crates.io", "a registry's host; cargo knows it"),
    ("index.", "crates.io", "a registry's host; cargo knows it"),
    ("registry.", "npmjs.org", "a registry's host; the build needs no npm"),
    ("pypi.", "org", "a registry's host; the build needs no Python"),
    ("proxy.", "golang.org", "a registry's host; the build needs no Go"),
    ("TO", "DO", "a note to oneself; do it, or describe the limit in the docs"),
    ("FIX", "ME", "a note to oneself; do it, or describe the limit in the docs"),
];

/// Every forbidden word with its place.
pub(crate) fn forbidden(texts: &[Text]) -> Vec<String> {
    let mut found = Vec::new();
    for text in texts {
        for (line, number) in text.body.lines().zip(1..) {
            let words = FORBIDDEN.iter().map(|(head, tail, why)| (format!("{head}{tail}"), why));
            found.extend(
                words
                    .filter(|(word, _)| stands_alone(line, word))
                    .map(|(word, why)| format!("{}:{number}: `{word}` is {why}", text.name)),
            );
        }
    }
    found
}

/// Whether the line has the word, not as the end of a longer one (`mastodon` is no note, `network/` no folder).
fn stands_alone(line: &str, word: &str) -> bool {
    let letter = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        let glued_before = before.is_some_and(letter);
        let glued_after = after.is_some_and(letter) && word.chars().next_back().is_some_and(letter);
        !glued_before && !glued_after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: usize) {
        let text = Text { name: "README.md".to_owned(), body: format!("\n{line}\n") };
        let found = forbidden(&[text]);
        assert_eq!(found.len(), expected, "{line}: {found:?}");
        assert!(found.iter().all(|fault| fault.starts_with("README.md:2: `")), "{found:?}");
    }

    #[test]
    fn text_of_one_machine_is_found() {
        check(concat!("see /wor", "k/main/target"), 1);
        check(concat!("(https://static.", "crates.io/crates)"), 1);
        check(concat!("// TO", "DO: later"), 1);
    }

    #[test]
    fn ordinary_text_passes() {
        check("the network/ folder, hard work, a crate from crates.io", 0);
        check("GET /rooted, /homes, a METHOD", 0);
        check(concat!("let TO", "DO_COUNT = 1;"), 0);
    }
}
