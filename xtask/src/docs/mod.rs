//! `cargo xtask docs`: references that a program writes, and checks on the pages that people write.
//!
//! 1. `docs/cli.md` is the help of every subcommand and `docs/problems.md` the table of problem codes, both asked
//!    from the built binary, so that neither can promise what it does not do. With `--check` they are compared.
//! 2. Every link between pages leads somewhere, headings included.
//! 3. Every test that `docs/why.md` names exists.

mod links;
mod reference;
mod why;

pub(crate) use crate::docs::reference::Binary;
use crate::failure::Failure;
use crate::workspace::{Text, Workspace};

/// Write the generated references, docs/cli.md and docs/problems.md
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; exit 1 if a reference is out of date, a link is broken, or docs/why.md names a test that is not there
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<(), Failure> {
    if args.check {
        check_pages(&workspace.texts()?)?;
        return check_references(workspace, &Binary::build(workspace)?);
    }
    for page in reference::pages(&Binary::build(workspace)?)? {
        let path = workspace.root.join(page.name);
        std::fs::write(&path, page.body).map_err(|error| Failure::file("write", &path, &error))?;
        println!("wrote {}", page.name);
    }
    Ok(())
}

/// The checks that need no build.
pub(crate) fn check_pages(texts: &[Text]) -> Result<(), Failure> {
    let mut wrong = links::broken(texts);
    wrong.extend(why::unguarded(texts));
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::check(format!("in the pages:\n  {}", wrong.join("\n  "))))
}

pub(crate) fn check_references(workspace: &Workspace, binary: &Binary) -> Result<(), Failure> {
    for page in reference::pages(binary)? {
        let stored = workspace.read(page.name).unwrap_or_default();
        if let Some(difference) = first_difference(&stored, &page.body) {
            return Err(Failure::check(format!(
                "{} is out of date, {difference}\nwrite it anew with `cargo xtask docs`",
                page.name
            )));
        }
    }
    Ok(())
}

/// Where two texts part, in words; None if they are equal.
fn first_difference(stored: &str, current: &str) -> Option<String> {
    if stored == current {
        return None;
    }
    let (mut old, mut new) = (stored.lines(), current.lines());
    for number in 1.. {
        match (old.next(), new.next()) {
            (Some(old), Some(new)) if old == new => {}
            (None, None) => break,
            (old, new) => {
                let show = |line: Option<&str>| line.map_or("nothing".to_owned(), |line| format!("`{line}`"));
                return Some(format!("line {number}: stored {}, now {}", show(old), show(new)));
            }
        }
    }
    Some("only in its line ends".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_named_by_its_first_line() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n").unwrap(), "line 2: stored `b`, now `c`");
        assert_eq!(first_difference("a\n", "a\nc\n").unwrap(), "line 2: stored nothing, now `c`");
        assert_eq!(first_difference("a", "a\n").unwrap(), "only in its line ends");
    }
}
