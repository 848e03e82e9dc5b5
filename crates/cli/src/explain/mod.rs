//! `unavez explain [CODE]`: what a problem code means, what is safe now, and what to do.

mod texts;

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use unavez_core::problem::{Code, Repeat, TYPE_PREFIX};

use crate::exit::{Exit, Failure};
use crate::output::{Output, columns, print_json, print_line};
use crate::settings::near;

/// Flags of `unavez explain`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez explain                           every code
  unavez explain 409                       those of one HTTP status
  unavez explain operation-in-progress
  unavez explain https://unavez.dev/problems/outcome-unknown --format json")]
pub(crate) struct ExplainArgs {
    /// The `code` of a problem, its `type`, or an HTTP status; without it all codes are listed
    #[arg(value_name = "CODE")]
    code: Option<String>,

    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Explanation {
    code: &'static str,
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    retryable: bool,
    retry_after_seconds: Option<u64>,
    happened: &'static str,
    safe: &'static str,
    next: &'static str,
}

#[derive(Serialize)]
struct Document {
    problems: Vec<Explanation>,
}

/// Runs `unavez explain`.
pub(crate) fn run(args: &ExplainArgs) -> Result<Exit, Failure> {
    if let Some(codes) = args.code.as_deref().and_then(of_status) {
        let codes = codes?;
        return match args.output.is_json() {
            true => print_json(&Document { problems: codes.into_iter().map(explanation).collect() }),
            false => print_line(&list(codes)),
        }
        .map(|()| Exit::Done);
    }
    match args.code.as_deref().map(find).transpose()? {
        Some(code) if args.output.is_json() => print_json(&explanation(code))?,
        Some(code) => print_line(&page(code))?,
        None if args.output.is_json() => {
            print_json(&Document { problems: Code::ALL.into_iter().map(explanation).collect() })?;
        }
        None => print_line(&list(Code::ALL.to_vec()))?,
    }
    Ok(Exit::Done)
}

fn find(text: &str) -> Result<Code, Failure> {
    let name = text.trim().strip_prefix(TYPE_PREFIX).unwrap_or(text.trim()).to_ascii_lowercase();
    Code::parse(&name).ok_or_else(|| {
        let near = near(&name, Code::ALL.into_iter().map(Code::as_str));
        let near = near.map_or(String::new(), |near| format!("; the nearest is `{near}`"));
        Failure::usage(format!("no problem has the code `{text}`{near}"))
            .with_help("unavez explain lists every code, unavez explain 409 those of one HTTP status")
    })
}

/// The codes of an HTTP status, if the text is one.
fn of_status(text: &str) -> Option<Result<Vec<Code>, Failure>> {
    let status: u16 = text.trim().parse().ok()?;
    let has = |code: &Code| code.status() == status || (status == 504 && *code == Code::OutcomeUnknown);
    let codes: Vec<Code> = Code::ALL.into_iter().filter(has).collect();
    Some(match codes.is_empty() {
        true => Err(Failure::usage(format!("no problem has the status {status}"))
            .with_help("unavez explain lists every code with its status")),
        false => Ok(codes),
    })
}

fn explanation(code: Code) -> Explanation {
    let texts::Text { happened, safe, next } = texts::text(code);
    Explanation {
        code: code.as_str(),
        kind: format!("{TYPE_PREFIX}{code}"),
        title: code.title(),
        status: code.status(),
        retryable: code.is_retryable(),
        retry_after_seconds: retry_after(code).map(|wait| wait.as_secs()),
        happened,
        safe,
        next,
    }
}

fn retry_after(code: Code) -> Option<Duration> {
    match code.repeat() {
        Repeat::After(wait) => Some(wait),
        Repeat::Never | Repeat::SameKey => None,
    }
}

fn repeat(code: Code) -> String {
    match code.repeat() {
        Repeat::Never => "do not repeat unchanged".to_owned(),
        Repeat::SameKey => "repeat with the same key".to_owned(),
        Repeat::After(wait) => format!("repeat with the same key after {} s", wait.as_secs()),
    }
}

/// The status as callers see it.
fn status(code: Code) -> String {
    match code {
        Code::OutcomeUnknown => "409, or 504 to the caller whose own attempt ended so".to_owned(),
        Code::ResponseNotKept => "the first answer's status".to_owned(),
        code => code.status().to_string(),
    }
}

fn page(code: Code) -> String {
    let bold = anstyle::Style::new().bold();
    let texts::Text { happened, safe, next } = texts::text(code);
    format!(
        "{bold}{code}{bold:#}  ({title})\n{status}; {repeat}\n\n{bold}What happened{bold:#}\n{}\n\n{bold}What is safe{bold:#}\n{}\n\n\
         {bold}What to do{bold:#}\n{}",
        wrapped(happened),
        wrapped(safe),
        wrapped(next),
        title = code.title(),
        status = status(code),
        repeat = repeat(code),
    )
}

fn list(codes: Vec<Code>) -> String {
    let row = |code: Code| {
        let status = match code {
            Code::OutcomeUnknown => "409/504".to_owned(),
            Code::ResponseNotKept => "first".to_owned(),
            code => code.status().to_string(),
        };
        [code.as_str().to_owned(), status, repeat(code), code.title().to_owned()]
    };
    let rows: Vec<_> = codes.into_iter().map(row).collect();
    format!("{}\nunavez explain CODE says what happened, what is safe, and what to do.", columns(&rows))
}

/// Breaks a paragraph into indented lines that fit a terminal of 80 columns.
pub(crate) fn wrapped(text: &str) -> String {
    let mut lines = vec![String::from(" ")];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is a line from the start");
        if last.chars().count() + 1 + word.chars().count() > 80 {
            lines.push(format!("  {word}"));
        } else {
            last.push(' ');
            last.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_three_answers_of_its_own() {
        let mut seen = std::collections::HashSet::new();
        for code in Code::ALL {
            let texts::Text { happened, safe, next } = texts::text(code);
            for text in [happened, safe, next] {
                assert!(text.ends_with('.') && !text.contains("  "), "{code}: {text}");
            }
            assert!(seen.insert(happened), "{code} shares its text");
        }
    }

    #[test]
    fn a_retryable_problem_tells_to_keep_the_key() {
        for code in Code::ALL.into_iter().filter(|code| code.is_retryable()) {
            let texts::Text { safe, next, .. } = texts::text(code);
            let told = format!("{safe} {next}").to_lowercase();
            assert!(told.contains("same key"), "{code}: {told}");
        }
    }

    #[test]
    fn codes_are_found_by_name_and_by_type_and_mistakes_name_the_nearest() {
        assert_eq!(find("not-found").expect("a code"), Code::NotFound);
        assert_eq!(
            find("https://unavez.dev/problems/outcome-unknown").expect("a type"),
            Code::OutcomeUnknown
        );
        let far = find("nope").expect_err("no code").to_string();
        assert!(!far.contains("nearest"), "{far}");
        let refused = find("outcome-unknwon").expect_err("misspelled").to_string();
        assert!(refused.contains("the nearest is `outcome-unknown`"), "{refused}");
    }

    #[test]
    fn a_persons_word_is_not_explained_as_the_acquirers() {
        let texts::Text { happened, safe, next } = texts::text(Code::ChargeDeclined);
        assert!(happened.contains("settled_by_hand") && safe.contains("money may have moved"), "{safe}");
        assert!(next.contains("no new key before") && next.contains("unavez reconcile"), "{next}");
    }

    #[test]
    fn a_status_lists_all_its_codes() {
        for code in Code::ALL.into_iter().filter(|code| *code != Code::ResponseNotKept) {
            let codes = of_status(&code.status().to_string()).expect("a status").expect("it has a code");
            assert!(codes.contains(&code), "{code}");
        }
        assert!(of_status("504").expect("a status").expect("codes").contains(&Code::OutcomeUnknown));
        assert!(of_status("418").expect("a status").is_err() && of_status("not-found").is_none());
    }

    #[test]
    fn pages_fit_a_terminal() {
        for code in Code::ALL {
            assert!(page(code).lines().skip(2).all(|line| line.chars().count() <= 90), "{code}");
        }
    }
}
