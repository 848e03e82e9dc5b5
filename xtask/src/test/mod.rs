//! `cargo xtask test`: the one gate.
//!
//! 1. Sections run in order, the quick ones first; the first that fails ends the gate, with what failed and the
//!    command that repeats just that section.
//! 2. Whatever a section starts, it stops; ports are free ones and files are in throw-away folders, so a service that
//!    was already running is never touched.
//! 3. The last line is `N passed, N failed, N skipped`: the sections and the tests inside them together.

mod golden;
mod sections;
mod tally;
mod words;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::test::sections::{Gate, SECTIONS, Section};
use crate::test::tally::Tally;
use crate::workspace::Workspace;

/// Run the gate: every check and every test
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only what needs no installation and no release build: under a minute once built
    #[arg(long)]
    quick: bool,

    /// Only this section; may be repeated
    #[arg(long, value_name = "SECTION", value_parser = names(), conflicts_with = "quick")]
    only: Vec<String>,
}

fn names() -> Vec<&'static str> {
    SECTIONS.iter().map(|section| section.name).collect()
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<(), Failure> {
    let chosen: Vec<&Section> = SECTIONS.iter().filter(|section| is_chosen(section, args)).collect();
    let started = Instant::now();
    let mut total = Tally::default();
    let mut failure = None;
    for (section, number) in chosen.iter().zip(1..) {
        heading(&format!("[{number}/{}] {}: {}", chosen.len(), section.name, section.about));
        let began = Instant::now();
        let ended = (section.run)(workspace, &mut total);
        println!("{} {} after {}", section.name, verdict(&ended), elapsed(began.elapsed()));
        total.count(ended.is_ok());
        if let Err(reason) = ended {
            failure = Some((section, reason, chosen.len() - number));
            break;
        }
    }
    heading(&format!("the gate, {}", elapsed(started.elapsed())));
    if let Some((section, reason, not_run)) = &failure {
        println!("failed: {}\n{reason}\n", section.name);
        println!("repeat it with: cargo xtask test --only {}", section.name);
        // What was not reached is no pass: it counts as skipped.
        total.skipped += not_run;
    }
    println!("{total}");
    failure.map_or(Ok(()), |(_, reason, _)| Err(reason.told()))
}

fn is_chosen(section: &Section, args: &Args) -> bool {
    if args.quick {
        section.gate != Gate::Whole
    } else if args.only.is_empty() {
        section.gate != Gate::Quick
    } else {
        args.only.iter().any(|name| name == section.name)
    }
}

fn heading(text: &str) {
    let rule = "─".repeat(100_usize.saturating_sub(text.chars().count() + 4));
    if colours() {
        println!("\n\x1b[1m── {text} {rule}\x1b[0m")
    } else {
        println!("\n── {text} {rule}")
    }
}

fn verdict(ended: &Result<(), Failure>) -> &'static str {
    match (ended, colours()) {
        (Ok(()), true) => "\x1b[32mpassed\x1b[0m",
        (Ok(()), false) => "passed",
        (Err(_), true) => "\x1b[31mfailed\x1b[0m",
        (Err(_), false) => "failed",
    }
}

/// Colours only where a person looks, and not where they said no.
fn colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn chosen(args: &Args) -> Vec<&'static str> {
        SECTIONS.iter().filter(|section| is_chosen(section, args)).map(|section| section.name).collect()
    }

    #[test]
    fn section_names_are_unique_so_that_only_means_one() {
        assert_eq!(names().iter().collect::<HashSet<_>>().len(), SECTIONS.len());
    }

    #[test]
    fn quick_installs_nothing_and_builds_no_release() {
        let quick = chosen(&Args { quick: true, only: Vec::new() });
        assert!(quick.contains(&"layers"), "{quick:?}");
        for slow in ["tools", "licences", "release", "fleet"] {
            assert!(!quick.contains(&slow), "{quick:?}");
        }
    }

    #[test]
    fn only_takes_just_what_is_named() {
        let args = Args { quick: false, only: vec!["fleet".to_owned(), "format".to_owned()] };
        assert_eq!(chosen(&args), ["format", "fleet"]);
    }

    #[test]
    fn times_read_well() {
        assert_eq!(elapsed(Duration::from_millis(1_240)), "1.2 s");
        assert_eq!(elapsed(Duration::from_secs(125)), "2 min 05 s");
    }
}
