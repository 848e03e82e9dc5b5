//! `docs/why.md` answers each failure with a decision and the test that guards it. A name there that no test bears
//! would be a promise nobody keeps, so every name is looked up in the sources.
//!
//! The third column of each table holds the names in backticks: `crate::module::a_test` or `a_test` for a test
//! function, `a-test` for one of the lab's own tests, which bear their name as a string.

use crate::workspace::Text;

const PAGE: &str = "docs/why.md";

/// Every row of the page whose guard is missing, and a page that guards nothing.
pub(crate) fn unguarded(texts: &[Text]) -> Vec<String> {
    let Some(page) = texts.iter().find(|text| text.name == PAGE) else {
        return vec![format!("{PAGE} is not there")];
    };
    let sources: Vec<&Text> = texts.iter().filter(|text| text.has_extension("rs")).collect();
    let rows = rows(&page.body);
    if rows.is_empty() {
        return vec![format!("{PAGE} has no table row: the page's form changed, or it guards nothing")];
    }
    rows.iter().flat_map(|row| faults(row, &sources)).collect()
}

/// A row of a table: the names in its third column.
struct Row<'a> {
    line: usize,
    guards: Vec<&'a str>,
}

/// The rows below a table's ruler; what stands above it is the header.
fn rows(page: &str) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    let mut below_ruler = false;
    for (line, number) in page.lines().zip(1..) {
        let Some(cells) = cells(line) else {
            below_ruler = false;
            continue;
        };
        if below_ruler {
            let third = cells.get(2).copied().unwrap_or_default();
            rows.push(Row { line: number, guards: third.split('`').skip(1).step_by(2).collect() });
        }
        below_ruler |=
            cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| matches!(c, '-' | ':')));
    }
    rows
}

fn cells(line: &str) -> Option<Vec<&str>> {
    Some(line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect())
}

fn faults(row: &Row<'_>, sources: &[&Text]) -> Vec<String> {
    if row.guards.is_empty() {
        return vec![format!("{PAGE}:{}: the third column names no test", row.line)];
    }
    let missing = row.guards.iter().filter(|guard| !exists(guard, sources));
    missing.map(|guard| format!("{PAGE}:{}: no test `{guard}` in the sources", row.line)).collect()
}

fn exists(guard: &str, sources: &[&Text]) -> bool {
    if guard.contains('-') {
        let literal = format!("\"{guard}\"");
        return sources.iter().any(|source| source.body.contains(&literal));
    }
    let name = guard.rsplit("::").next().unwrap_or(guard);
    sources.iter().any(|source| has_test(&source.body, name))
}

/// Whether the source has a function of that name that a test attribute stands before.
fn has_test(source: &str, name: &str) -> bool {
    let signature = format!("fn {name}(");
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    lines.iter().enumerate().filter(|(_, line)| line.contains(&signature)).any(|(index, _)| {
        let above =
            lines[..index].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        above.into_iter().any(|line| line.starts_with("#[") && line.contains("test"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
        #[test]
        fn a_lost_answer_is_replayed() {}

        // Not a test, though it is called like one.
        fn a_helper() {}

        #[tokio::test(start_paused = true)]
        // P11
        #[expect(clippy::unwrap_used, reason = \"a test\")]
        async fn a_late_owner_is_refused() {}

        const NAMES: [&str; 1] = [\"retries-same-key\"];
    ";

    fn check(guards: &str, expected: &[&str]) {
        let page = format!("| failure | decision | the test |\n|---|---|:-:|\n| a | b | {guards} |\n");
        let texts = [
            Text { name: "crates/core/src/lib.rs".to_owned(), body: SOURCE.to_owned() },
            Text { name: PAGE.to_owned(), body: page },
        ];
        assert_eq!(unguarded(&texts), expected, "{guards}");
    }

    #[test]
    fn names_of_tests_pass_in_each_of_their_forms() {
        check("`a_lost_answer_is_replayed`", &[]);
        check("`core::record::a_late_owner_is_refused` and `retries-same-key`", &[]);
    }

    #[test]
    fn a_name_no_test_bears_fails() {
        check("`a_lost_answer`", &["docs/why.md:3: no test `a_lost_answer` in the sources"]);
        check("`core::a_helper`", &["docs/why.md:3: no test `core::a_helper` in the sources"]);
        check("`retries-other-key`", &["docs/why.md:3: no test `retries-other-key` in the sources"]);
    }

    #[test]
    fn a_row_that_names_nothing_fails() {
        check("see the tests", &["docs/why.md:3: the third column names no test"]);
        check("", &["docs/why.md:3: the third column names no test"]);
    }

    #[test]
    fn a_page_without_rows_fails() {
        let texts = [Text { name: PAGE.to_owned(), body: "# Why\n".to_owned() }];
        assert_eq!(unguarded(&texts).len(), 1);
        assert_eq!(unguarded(&[]), ["docs/why.md is not there"]);
    }
}
