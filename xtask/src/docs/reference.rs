//! The references that the binary itself writes.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use crate::failure::Failure;
use crate::shell;
use crate::workspace::Workspace;

/// A generated page: its path from the root, and its text.
pub(crate) struct Page {
    pub(crate) name: &'static str,
    pub(crate) body: String,
}

/// Asks the binary for both pages.
pub(crate) fn pages(binary: &Binary) -> Result<[Page; 2], Failure> {
    Ok([
        Page { name: "docs/cli.md", body: cli_page(binary)? },
        Page { name: "docs/problems.md", body: problems_page(&problems(binary)?) },
    ])
}

/// The built program, asked in a way that gives the same answer on every machine: a width of its own, no variable or
/// configuration file of the caller's.
pub(crate) struct Binary {
    path: PathBuf,
    /// A folder without an `unavez.toml`.
    folder: PathBuf,
}

impl Binary {
    /// Builds it for development, which is quick after a change.
    pub(crate) fn build(workspace: &Workspace) -> Result<Self, Failure> {
        shell::run(&mut workspace.cargo(&["build", "--quiet", "--locked", "--package", "unavez"]))?;
        Ok(Self { path: workspace.target.join("debug/unavez"), folder: workspace.target.clone() })
    }

    /// The one that is shipped, as it was built last.
    pub(crate) fn released(workspace: &Workspace) -> Self {
        Self { path: workspace.target.join("release/unavez"), folder: workspace.target.clone() }
    }

    fn ask(&self, arguments: &[&str]) -> Result<String, Failure> {
        let mut command = Command::new(&self.path);
        command.args(arguments).current_dir(&self.folder).env("COLUMNS", "100").env("NO_COLOR", "1");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("UNAVEZ_") {
                command.env_remove(name);
            }
        }
        shell::capture(&mut command)
    }
}

fn cli_page(binary: &Binary) -> Result<String, Failure> {
    let mut page = String::from(
        "# The command line\n\nWritten by `cargo xtask docs` from the program's own help; edit the help, not this page.\n",
    );
    let mut waiting = vec![Vec::new()];
    while let Some(words) = waiting.pop() {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let help = binary.ask(&[words.as_slice(), &["--help"]].concat())?;
        let title = [&["unavez"], words.as_slice()].concat().join(" ");
        write!(page, "\n## {title}\n\n```text\n{}\n```\n", trim_lines(&help)).ok();
        // Last in, first out: in reverse, so that the page keeps the order of the help.
        let deeper = subcommands(&help);
        waiting.extend(
            deeper.iter().rev().map(|next| words.iter().chain([next]).map(|w| (*w).to_owned()).collect()),
        );
    }
    Ok(page)
}

/// The names under `Commands:` in a help text, without the `help` that clap adds.
fn subcommands(help: &str) -> Vec<&str> {
    let block = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    block
        .take_while(|line| !line.trim().is_empty())
        // A description that is continued on the next line stands further in.
        .filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

fn trim_lines(text: &str) -> String {
    text.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// One code, as `unavez explain --format json` lists them all.
#[derive(Deserialize)]
struct Problem {
    code: String,
    title: String,
    happened: String,
    safe: String,
    next: String,
    /// Status and repetition in words, which the list does not hold: some codes have more than one status.
    #[serde(skip)]
    told: Told,
}

/// The second line of `unavez explain CODE`: `409; repeat with the same key after 1 s`.
#[derive(Default)]
struct Told {
    status: String,
    repeat: String,
}

#[derive(Deserialize)]
struct Problems {
    problems: Vec<Problem>,
}

fn problems(binary: &Binary) -> Result<Vec<Problem>, Failure> {
    let json = binary.ask(&["explain", "--format", "json"])?;
    let mut listed: Problems = serde_json::from_str(&json).map_err(|error| {
        Failure::check(format!("`unavez explain --format json` is not as expected: {error}"))
    })?;
    for problem in &mut listed.problems {
        let page = binary.ask(&["explain", &problem.code])?;
        problem.told = told(&page).ok_or_else(|| {
            Failure::check(format!(
                "`unavez explain {}` has no line `STATUS; REPEAT` under its title",
                problem.code
            ))
        })?;
    }
    Ok(listed.problems)
}

fn told(page: &str) -> Option<Told> {
    let (status, repeat) = page.lines().nth(1)?.split_once("; ")?;
    Some(Told { status: status.to_owned(), repeat: repeat.to_owned() })
}

fn problems_page(problems: &[Problem]) -> String {
    let mut page = String::from(
        "# Problem codes\n\n\
         Every refusal is `application/problem+json` with one of these codes. Written by `cargo xtask docs`\n\
         from `unavez explain`; edit the texts there, not this page.\n\n\
         | code | status | may it be repeated? |\n|---|---|---|\n",
    );
    for Problem { code, told, .. } in problems {
        writeln!(page, "| [`{code}`](#{code}) | {} | {} |", told.status, told.repeat).ok();
    }
    for Problem { code, title, happened, safe, next, .. } in problems {
        write!(
            page,
            "\n## {code}\n\n*{title}*\n\n**What happened.** {happened}\n\n**What is safe.** {safe}\n\n**What to do.** {next}\n"
        )
        .ok();
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "\
The service.

Usage: unavez <COMMAND>

Commands:
  serve     Run the service
  api-keys  Add, list
            and revoke
  help      Print this message

Options:
  -h, --help
";

    #[test]
    fn subcommands_are_read_from_the_help() {
        assert_eq!(subcommands(HELP), ["serve", "api-keys"]);
        assert_eq!(subcommands("Usage: unavez serve\n\nOptions:\n  -h, --help\n"), Vec::<&str>::new());
    }

    #[test]
    fn a_problem_is_a_row_and_a_section() {
        let explained = "outcome-unknown  (the outcome is not known)\n409, or 504; repeat with the same key\n\nWhat happened\n";
        let problem = Problem {
            code: "outcome-unknown".to_owned(),
            title: "the outcome is not known".to_owned(),
            happened: "Nobody knows.".to_owned(),
            safe: "The same key is.".to_owned(),
            next: "Repeat.".to_owned(),
            told: told(explained).unwrap(),
        };
        let page = problems_page(&[problem]);
        let row = "| [`outcome-unknown`](#outcome-unknown) | 409, or 504 | repeat with the same key |\n";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("\n## outcome-unknown\n\n*the outcome is not known*\n"), "{page}");
        assert!(page.ends_with("**What is safe.** The same key is.\n\n**What to do.** Repeat.\n"), "{page}");
    }

    #[test]
    fn a_page_in_another_form_is_refused() {
        assert!(told("outcome-unknown\n").is_none());
        assert!(told("outcome-unknown\n409\n").is_none());
    }
}
