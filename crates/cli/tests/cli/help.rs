//! Help texts, word for word: a change of a flag shows here and has to be meant.

use crate::support::{folder, run};

const COMMANDS: [&str; 29] = [
    "",
    "serve",
    "acquirer",
    "lab",
    "lab fleet",
    "lab accept",
    "lab break",
    "lab day",
    "lab herd",
    "lab breaker",
    "lab keys",
    "lab all",
    "api-keys",
    "api-keys add",
    "api-keys list",
    "api-keys revoke",
    "keys",
    "keys list",
    "keys show",
    "keys settle",
    "keys purge",
    "trace",
    "reconcile",
    "explain",
    "backup",
    "restore",
    "migrate",
    "call",
    "bench",
];

#[test]
fn help_texts() {
    let folder = folder();
    for command in COMMANDS.into_iter().chain(["config"]) {
        let help = run(folder.path(), command.split_whitespace().chain(["--help"]));
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{command}");
        assert!(help.stdout.lines().all(|line| line.chars().count() <= 100), "{command} is too wide");
        let is_group = help.stdout.contains("\nCommands:\n");
        assert!(is_group || help.stdout.contains("\nExamples:\n"), "{command} has no example");
        let name = format!("help {command}").trim_end().replace(' ', "-");
        insta::assert_snapshot!(name, help.stdout);
    }
}

#[test]
fn names_kept_for_later_are_refused_like_any_unknown_one() {
    let folder = folder();
    for name in ["proxy", "verify", "sim", "copy", "x"] {
        run(folder.path(), [name]).fails_with(2, &["unrecognized subcommand", name]);
    }
}

#[test]
fn help_needs_no_valid_configuration() {
    let folder = folder();
    crate::support::write(folder.path(), "unavez.toml", "[[[");
    assert_eq!(run(folder.path(), ["serve", "--help"]).code, Some(0));
    assert_eq!(run(folder.path(), ["--version"]).code, Some(0));
    run(folder.path(), ["explain"]).fails_with(2, &["unavez.toml: ", "TOML parse error"]);
}

#[test]
fn explain_tells_every_code_and_refuses_others() {
    let folder = folder();
    let all = run(folder.path(), ["explain", "--format", "json"]).json(0);
    let codes: Vec<&str> =
        all["problems"].as_array().unwrap().iter().map(|it| it["code"].as_str().unwrap()).collect();
    assert_eq!(codes.len(), 24);
    for code in codes {
        let one = run(folder.path(), ["explain", code, "--format", "json"]).json(0);
        assert_eq!(one["type"], format!("https://unavez.dev/problems/{code}"));
        assert!(run(folder.path(), ["explain", code]).stdout.contains("What is safe"));
    }
    run(folder.path(), ["explain", "outcome-unknwon"]).fails_with(2, &["the nearest is `outcome-unknown`"]);
}

#[test]
fn colours_are_for_terminals_only() {
    let folder = folder();
    let piped = run(folder.path(), ["explain", "not-found"]);
    assert!(!piped.stdout.contains('\u{1b}'));
    let wanted = crate::support::unavez(folder.path())
        .args(["explain", "not-found"])
        .env("CLICOLOR_FORCE", "1")
        .output()
        .unwrap();
    assert!(String::from_utf8(wanted.stdout).unwrap().contains('\u{1b}'));
    let refused = crate::support::unavez(folder.path())
        .args(["explain", "not-found"])
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    assert!(!String::from_utf8(refused.stdout).unwrap().contains('\u{1b}'));
}
