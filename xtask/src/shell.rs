//! Running other programs, so that a failure names the command in the form a person can paste.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::failure::Failure;

/// Runs the command with our own input and output.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() { Ok(()) } else { Err(ended_badly(command, &status.to_string(), "")) }
}

/// Runs the command and returns what it wrote to standard output; its standard error is shown only when it fails.
pub(crate) fn capture(command: &mut Command) -> Result<String, Failure> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| cannot_start(command, &error))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(ended_badly(command, &output.status.to_string(), errors.trim()));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| Failure::check(format!("`{}` wrote something that is not UTF-8", render(command))))
}

/// Runs the command and hands every line it writes, on either stream, to `see` after showing it.
/// Standard output is read here and standard error by a thread: one pipe left unread would stall the child.
pub(crate) fn watch(command: &mut Command, see: impl Fn(&str) + Sync) -> Result<(), Failure> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_start(command, &error))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        if let Some(stderr) = stderr {
            scope.spawn(|| show_lines(BufReader::new(stderr), &mut std::io::stderr(), &see));
        }
        if let Some(stdout) = stdout {
            show_lines(BufReader::new(stdout), &mut std::io::stdout(), &see);
        }
    });
    let status = child.wait().map_err(|error| cannot_start(command, &error))?;
    if status.success() { Ok(()) } else { Err(ended_badly(command, &status.to_string(), "")) }
}

/// A terminal that went away is no reason to stop reading: the child would block on its full pipe.
fn show_lines(lines: impl BufRead, shown: &mut impl Write, see: &impl Fn(&str)) {
    for line in lines.lines().map_while(Result::ok) {
        writeln!(shown, "{line}").ok();
        see(&line);
    }
}

/// Whether the program is there and answers.
pub(crate) fn answers(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command as one types it: variables, program by its name, arguments quoted where a shell needs it.
pub(crate) fn render(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        // The search path is the machine's, with a folder of tools behind it: long, and no help.
        let value = value.filter(|_| name != "PATH")?;
        Some(format!("{}={}", name.to_string_lossy(), quote(&value.to_string_lossy())))
    });
    let program = command.get_program().to_string_lossy();
    // Cargo hands us its own full path, which nobody types.
    let program = if program.ends_with("/cargo") { "cargo".to_owned() } else { quote(&program) };
    let arguments = command.get_args().map(|argument| quote(&argument.to_string_lossy()));
    variables.chain([program]).chain(arguments).collect::<Vec<_>>().join(" ")
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Failure {
    Failure::lacking(format!("cannot run `{}`: {error}", render(command)))
}

fn ended_badly(command: &Command, status: &str, errors: &str) -> Failure {
    let gap = if errors.is_empty() { "" } else { "\n" };
    Failure::check(format!("`{}` ended with {status}{gap}{errors}", render(command)))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("/somewhere/bin/cargo");
        command
            .args(["test", "--", "two words", "it's"])
            .env("RUSTDOCFLAGS", "-D warnings")
            .env_remove("HOME");
        assert_eq!(render(&command), r"RUSTDOCFLAGS='-D warnings' cargo test -- 'two words' 'it'\''s'");
    }

    #[test]
    fn both_streams_are_watched_and_a_bad_end_names_the_command() {
        let seen = Mutex::new(Vec::new());
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let failure = watch(&mut command, |line| seen.lock().unwrap().push(line.to_owned())).unwrap_err();
        let mut seen = seen.into_inner().unwrap();
        seen.sort();
        assert_eq!(seen, ["err", "out"]);
        assert!(failure.to_string().contains("exit status: 3"), "{failure}");
        assert!(failure.to_string().starts_with("`sh -c "), "{failure}");
    }

    #[test]
    fn what_a_failed_command_said_is_in_the_failure() {
        let failure =
            capture(Command::new("sh").args(["-c", "echo broken pipe organ >&2; exit 1"])).unwrap_err();
        assert!(failure.to_string().ends_with("broken pipe organ"), "{failure}");
        assert!(matches!(failure, Failure::Check(_)));
    }

    #[test]
    fn a_program_that_is_not_there_is_lacking_not_failed() {
        let failure = run(&mut Command::new("no-such-program-anywhere")).unwrap_err();
        assert!(matches!(failure, Failure::Lacking(_)), "{failure}");
    }
}
