//! What the gate consists of, in order.

use std::io::IsTerminal;
use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;

use crate::failure::Failure;
use crate::test::golden;
use crate::test::tally::Tally;
use crate::test::words;
use crate::workspace::{Text, Workspace};
use crate::{crash, deps, docs, shell, tools};

/// A part of the gate that passes or fails as one.
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) gate: Gate,
    /// Adds the tests it ran to the tally; the section itself is counted by its caller.
    pub(crate) run: Run,
}

/// Which of the two gates a section belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    Both,
    Whole,
    Quick,
}

pub(crate) const SECTIONS: &[Section] = &[
    section("tools", "what the rest needs is there, or is brought", Gate::Whole, tools),
    section("format", "rustfmt has nothing to change", Gate::Both, format),
    section("layers", "packages use only what their layer may", Gate::Both, layers),
    section("pages", "links lead somewhere, named tests exist", Gate::Both, pages),
    section("words", "nothing that belongs to one machine", Gate::Both, words),
    section("examples", "short enough to be read at once", Gate::Both, examples),
    section("unit", "tests of core, store and the chores", Gate::Quick, unit),
    section("licences", "licences, bans and sources of dependencies", Gate::Whole, licences),
    section("lints", "clippy is silent with every feature on", Gate::Whole, lints),
    section("alone", "each package builds with its own features", Gate::Whole, alone),
    section("no-std", "core links into a program without std", Gate::Whole, no_std),
    section("tests", "every test of every package", Gate::Whole, tests),
    section("doctests", "the examples in the documentation run", Gate::Whole, doctests),
    section("rustdoc", "the documentation builds without a warning", Gate::Whole, rustdoc),
    section("release", "the binary as it is shipped", Gate::Whole, release),
    section("references", "docs/cli.md and docs/problems.md are current", Gate::Whole, references),
    section("unit-file", "systemd understands deploy/unavez.service", Gate::Whole, unit_file),
    section("fleet", "the published figures come out exactly", Gate::Whole, fleet),
    section("accept", "the promises hold on the released binary", Gate::Whole, accept),
    section("break", "each piece removed is missed by the right test", Gate::Whole, break_on_purpose),
    section("crash", "killed anywhere, both books say the same", Gate::Whole, killed_anywhere),
];

type Run = fn(&Workspace, &mut Tally) -> Result<(), Failure>;

const fn section(name: &'static str, about: &'static str, gate: Gate, run: Run) -> Section {
    Section { name, about, gate, run }
}

/// An example longer than this is no longer read at once.
const EXAMPLE_LINES_MAX: usize = 60;

/// But for these, with the most of one file: an adapter answers every question of its trait, whoever it is for.
const LONGER_EXAMPLES: &[(&str, usize)] = &[("examples/acquirer-minimal/", 180)];

fn example_lines_max(name: &str) -> usize {
    LONGER_EXAMPLES
        .iter()
        .find(|(folder, _)| name.starts_with(folder))
        .map_or(EXAMPLE_LINES_MAX, |(_, lines_max)| *lines_max)
}

fn tools(workspace: &Workspace, _: &mut Tally) -> Result<(), Failure> {
    tools::provide(workspace)
}

fn format(workspace: &Workspace, _: &mut Tally) -> Result<(), Failure> {
    shell::run(&mut workspace.cargo(&["fmt", "--all", "--check"]))
        .map_err(|failure| Failure::check(format!("{failure}\nmend it with: cargo fmt --all")))
}

fn layers(workspace: &Workspace, _: &mut Tally) -> Result<(), Failure> {
    deps::run(workspace, &deps::Args {})
}

fn pages(workspace: &Workspace, _: &mut Tally) -> Result<(), Failure> {
    docs::check_pages(&workspace.texts()?)
}

fn words(workspace: &Workspace, _: &mut Tally) -> Result<(), Failure> {
    none_of(words::forbidden(&workspace.texts()?))
}

fn examples(workspace: &Workspace, _: &mut Tally) -> Result<(), Failure> {
    none_of(long_examples(&workspace.texts()?))
}

fn long_examples(texts: &[Text]) -> Vec<String> {
    let sources = texts.iter().filter(|text| text.name.starts_with("examples/") && text.has_extension("rs"));
    sources
        .map(|source| (source, source.body.lines().count(), example_lines_max(&source.name)))
        .filter(|(_, lines, lines_max)| lines > lines_max)
        .map(|(source, lines, lines_max)| format!("{} has {lines} lines, at most {lines_max}", source.name))
        .collect()
}

fn unit(workspace: &Workspace, tally: &mut Tally) -> Result<(), Failure> {
    let packages = ["--package", "unavez-core", "--package", "unavez-store", "--package", "xtask"];
    let mut cargo = workspace.cargo(&[
        "test",
        "--quiet",
        "--locked",
        "--features",
        "unavez-store/sqlite,unavez-store/postgres",
    ]);
    counted(cargo.args(packages).args(["--lib", "--bins"]), tally)
}

fn licences(workspace: &Workspace, _: &mut Tally) -> Result<(), Failure> {
    // No advisories: their database is not in the crate registry, and the gate asks nobody else.
    let mut deny = tools::deny(workspace)?;
    shell::run(deny.args(["--locked", "check", "licenses", "bans", "sources"]))
}

fn lints(workspace: &Workspace, _: &mut Tally) -> Result<(), Failure> {
    let mut clippy =
        workspace.cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--all-features"]);
    shell::run(clippy.args(["--", "-D", "warnings"]))
}

/// In a workspace build one package's features leak into the next; a user takes one package without the others.
fn alone(workspace: &Workspace, _: &mut Tally) -> Result<(), Failure> {
    for package in [
        "unavez-core",
        "unavez-store",
        "unavez-tower",
        "example-axum-hello",
        "example-postgres-tx",
        "example-sqlite-tx",
    ] {
        shell::run(&mut workspace.cargo(&["check", "--locked", "--package", package]))?;
    }
    Ok(())
}

fn no_std(workspace: &Workspace, _: &mut Tally) -> Result<(), Failure> {
    let target = workspace.target.join("no-std-proof");
    let mut build =
        workspace.cargo(&["build", "--locked", "--manifest-path", "xtask/no-std-proof/Cargo.toml"]);
    shell::run(build.arg("--target-dir").arg(target))
}

/// What proptest draws its cases from.
const SEED: &str = "PROPTEST_RNG_SEED";

fn tests(workspace: &Workspace, tally: &mut Tally) -> Result<(), Failure> {
    let mut nextest = tools::nextest(workspace)?;
    nextest.args(["run", "--locked", "--workspace", "--all-features", "--no-fail-fast"]);
    // The gate says the same of the same commit. Without the gate, and with another seed, other cases are drawn.
    if std::env::var_os(SEED).is_none() {
        nextest.env(SEED, "1");
    }
    counted(nextest.args(["--status-level", "slow", "--show-progress", "none"]), tally)
}

fn doctests(workspace: &Workspace, tally: &mut Tally) -> Result<(), Failure> {
    counted(
        &mut workspace.cargo(&["test", "--quiet", "--locked", "--doc", "--workspace", "--all-features"]),
        tally,
    )
}

fn rustdoc(workspace: &Workspace, _: &mut Tally) -> Result<(), Failure> {
    let mut doc = workspace.cargo(&["doc", "--locked", "--workspace", "--no-deps", "--all-features"]);
    shell::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

fn references(workspace: &Workspace, tally: &mut Tally) -> Result<(), Failure> {
    release(workspace, tally)?;
    docs::check_references(workspace, &docs::Binary::released(workspace))
}

/// Called again by every section that asks the released binary: `--only fleet` must not judge yesterday's.
fn release(workspace: &Workspace, _: &mut Tally) -> Result<(), Failure> {
    shell::run(&mut workspace.cargo(&["build", "--quiet", "--locked", "--release", "--package", "unavez"]))?;
    crash::absent_from(&workspace.target.join("release/unavez"))
}

/// Systemd checks that the program exists too, so it is shown the unit with the one just built.
fn unit_file(workspace: &Workspace, tally: &mut Tally) -> Result<(), Failure> {
    if !shell::answers("systemd-analyze", &["--version"]) {
        println!("skipped: systemd-analyze is not on this machine");
        tally.skipped += 1;
        return Ok(());
    }
    release(workspace, tally)?;
    let binary = workspace.target.join("release/unavez").display().to_string();
    let unit = workspace.read("deploy/unavez.service")?.replace("/usr/bin/unavez", &binary);
    let folder = tempfile::tempdir_in(&workspace.target)
        .map_err(|error| Failure::file("make a folder in", &workspace.target, &error))?;
    let path = folder.path().join("unavez.service");
    std::fs::write(&path, unit).map_err(|error| Failure::file("write", &path, &error))?;
    shell::run(Command::new("systemd-analyze").args(["--man=no", "verify"]).arg(&path))
}

fn fleet(workspace: &Workspace, tally: &mut Tally) -> Result<(), Failure> {
    for row in golden::FLEET {
        let arguments = row.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        compared(workspace, &arguments, tally, |report| row.faults(report))?;
    }
    Ok(())
}

fn accept(workspace: &Workspace, tally: &mut Tally) -> Result<(), Failure> {
    compared(workspace, &["lab", "accept", "--format", "json"], tally, golden::accept_faults)
}

fn break_on_purpose(workspace: &Workspace, tally: &mut Tally) -> Result<(), Failure> {
    compared(workspace, &["lab", "break", "--format", "json"], tally, golden::break_faults)
}

fn killed_anywhere(workspace: &Workspace, _: &mut Tally) -> Result<(), Failure> {
    crash::run(workspace, &crash::Args::SHORT)
}

/// Runs the released binary and compares its one JSON document with what it must say.
fn compared(
    workspace: &Workspace,
    arguments: &[&str],
    tally: &mut Tally,
    faults: impl Fn(&Value) -> Vec<String>,
) -> Result<(), Failure> {
    release(workspace, tally)?;
    let mut binary = Command::new(workspace.target.join("release/unavez"));
    binary.args(arguments).current_dir(&workspace.target);
    let shown = format!("unavez {}", arguments.join(" "));
    let output = shell::capture(&mut binary)?;
    let report = serde_json::from_str(&output)
        .map_err(|error| Failure::check(format!("{shown}: not one JSON document: {error}")))?;
    let faults = faults(&report);
    tally.count(faults.is_empty());
    if !faults.is_empty() {
        return Err(Failure::check(format!("{shown}:\n  {}", faults.join("\n  "))));
    }
    println!("as it must be: {shown}");
    Ok(())
}

/// Runs a test runner and counts what it reports. No report at all is no pass: a changed format must not go unseen.
fn counted(command: &mut Command, tally: &mut Tally) -> Result<(), Failure> {
    if std::io::stdout().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let counted = Mutex::new(Vec::new());
    let ended = shell::watch(command, |line| {
        if let Some(found) = Tally::of_line(line) {
            counted.lock().expect("no reader panics while it counts").push(found);
        }
    });
    let counted = counted.into_inner().expect("the readers have ended");
    let silent = counted.is_empty();
    for found in counted {
        *tally += found;
    }
    ended?;
    if silent {
        Err(Failure::check(format!("`{}` reported no result", shell::render(command))))
    } else {
        Ok(())
    }
}

fn none_of(faults: Vec<String>) -> Result<(), Failure> {
    if faults.is_empty() { Ok(()) } else { Err(Failure::check(faults.join("\n"))) }
}

#[cfg(test)]
mod tests_of_sections {
    use super::*;

    #[test]
    fn an_example_over_its_length_is_named() {
        let example =
            |lines: usize| Text { name: "examples/hello/src/main.rs".to_owned(), body: "x\n".repeat(lines) };
        assert!(long_examples(&[example(60)]).is_empty());
        assert_eq!(long_examples(&[example(61)]), ["examples/hello/src/main.rs has 61 lines, at most 60"]);
    }

    #[test]
    fn a_runner_that_reports_nothing_does_not_pass() {
        let mut tally = Tally::default();
        let failure = counted(Command::new("sh").args(["-c", "echo done"]), &mut tally).unwrap_err();
        assert!(failure.to_string().contains("reported no result"), "{failure}");
        counted(Command::new("sh").args(["-c", "echo 'test result: ok. 2 passed; 0 failed'"]), &mut tally)
            .unwrap();
        assert_eq!(tally, Tally { passed: 2, failed: 0, skipped: 0 });
    }
}
