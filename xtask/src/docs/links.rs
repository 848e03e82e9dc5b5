//! Links between the project's pages. What leads outside is not asked for: the gate has no network.

use std::collections::{HashMap, HashSet};

use crate::workspace::Text;

/// Every link of a Markdown page to a file or heading that is not there.
pub(crate) fn broken(texts: &[Text]) -> Vec<String> {
    let files: HashSet<&str> = texts.iter().map(|text| text.name.as_str()).collect();
    let pages: HashMap<&str, &Text> =
        texts.iter().filter(|text| text.has_extension("md")).map(|text| (text.name.as_str(), text)).collect();
    let mut broken = Vec::new();
    let mut names: Vec<_> = pages.keys().copied().collect();
    names.sort_unstable();
    for name in names {
        for (line, target) in links(&pages[name].body) {
            if let Some(fault) = fault(name, target, &files, &pages) {
                broken.push(format!("{name}:{line}: {fault}"));
            }
        }
    }
    broken
}

fn fault(page: &str, target: &str, files: &HashSet<&str>, pages: &HashMap<&str, &Text>) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let file = if path.is_empty() { page.to_owned() } else { resolve(page, path) };
    let folder = format!("{}/", file.trim_end_matches('/'));
    if !files.contains(file.as_str()) && !files.iter().any(|known| known.starts_with(&folder)) {
        return Some(format!("no file {file}"));
    }
    let reached = pages.get(file.as_str())?;
    let missing = !heading.is_empty() && !headings(&reached.body).contains(heading);
    missing.then(|| format!("no heading #{heading} in {file}"))
}

/// The path a link means, from the root of the project.
fn resolve(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = if path.starts_with('/') { Vec::new() } else { page.split('/').collect() };
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Targets of `[text](target)` and `[name]: target`, with their line; code is not prose.
fn links(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(page) {
        if let Some((_, target)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
            found.push((number, target.split_whitespace().next().unwrap_or_default()));
            continue;
        }
        for (index, piece) in line.split("](").enumerate() {
            // A link inside `code` has an odd number of backticks before it.
            let before = line.split("](").take(index).map(|piece| piece.matches('`').count()).sum::<usize>();
            if index > 0 && before % 2 == 0 {
                let end = piece.find([')', ' ']).unwrap_or(piece.len());
                found.push((number, &piece[..end]));
            }
        }
    }
    found
}

/// The anchors of a page, spelled as the forges do: lower case, spaces to hyphens, other signs dropped, repeats numbered.
fn headings(page: &str) -> HashSet<String> {
    let mut seen = HashMap::<String, usize>::new();
    let titles = prose(page).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.trim())
    });
    titles
        .map(|title| {
            let anchor = anchor(title);
            let repeats = seen.entry(anchor.clone()).or_default();
            *repeats += 1;
            if *repeats == 1 { anchor } else { format!("{anchor}-{}", *repeats - 1) }
        })
        .collect()
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

/// The lines outside fenced code, numbered from 1.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(page: &str, expected: &[&str]) {
        let text = |name: &str, body: &str| Text { name: name.to_owned(), body: body.to_owned() };
        let texts = [
            text("docs/page.md", page),
            text("docs/protocol.md", "# The protocol\n## Key, and `request`\n## Twice\n## Twice\n"),
            text("README.md", ""),
            text("deploy/Dockerfile", ""),
        ];
        assert_eq!(broken(&texts), expected, "{page}");
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        check("# Here\n[a](protocol.md) ![b](../README.md) [c](#here) [d](../deploy) [e](../deploy/)", &[]);
        check("[a](protocol.md#key-and-request) [b](protocol.md#twice-1)\n[c]: ../README.md \"title\"", &[]);
        check("[a](https://nowhere.example/x) [b](mailto:a@b.example)", &[]);
    }

    #[test]
    fn links_that_lead_nowhere_are_named_with_their_line() {
        check("\n[a](missing.md)", &["docs/page.md:2: no file docs/missing.md"]);
        check("[a](../src/lib.rs) x", &["docs/page.md:1: no file src/lib.rs"]);
        check("[a](protocol.md#twice-2)", &["docs/page.md:1: no heading #twice-2 in docs/protocol.md"]);
        check("[a](#there)", &["docs/page.md:1: no heading #there in docs/page.md"]);
        check("[a]: gone.md", &["docs/page.md:1: no file docs/gone.md"]);
    }

    #[test]
    fn code_is_not_prose() {
        check("```sh\n[a](missing.md)\n# not a heading\n```\nand `[b](missing.md)`, too", &[]);
    }
}
