//! The classroom's servers, graded as a class would see it. Needs `python3`, which the gate provides.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{folder, run};

/// A running program of `examples/classroom`. Killed when dropped.
struct Lesson {
    child: Child,
    target: String,
}

impl Lesson {
    /// Starts it on any free port; `None`: there is no Python here.
    fn start(program: &str) -> Option<Self> {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/classroom");
        let spawned = Command::new("python3")
            .args(["-B", program, "0"])
            .current_dir(examples)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = spawned else {
            println!("skipped: python3 is not on this machine");
            return None;
        };
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let target = first.trim_end().strip_prefix("listening on ").unwrap_or_else(|| panic!("{first:?}"));
        Some(Self { target: target.to_owned(), child })
    }

    fn grade(&self, code: i32) -> Value {
        run(folder().path(), ["lab", "accept", "--target", &self.target, "--format", "json"]).json(code)
    }
}

impl Drop for Lesson {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The tests of this result, by name.
fn tests<'a>(report: &'a Value, result: &str) -> Vec<&'a str> {
    let tests = report["tests"].as_array().unwrap().iter();
    tests.filter(|test| test["result"] == result).map(|test| test["name"].as_str().unwrap()).collect()
}

#[test]
fn the_server_without_memory_fails_where_it_should() {
    let Some(raw) = Lesson::start("raw.py") else { return };
    let report = raw.grade(1);
    assert_eq!(tests(&report, "failed"), ["retries-same-key", "concurrent-race", "same-key-other-body"]);
    assert_eq!(tests(&report, "passed"), ["distinct-operations"]);
    let retries = &report["tests"][0];
    assert_eq!((&retries["charges"], &retries["total"]), (&3.into(), &1500.into()));
}

#[test]
fn the_server_with_a_memory_passes_all_that_can_be_asked_of_it() {
    let Some(idempotent) = Lesson::start("idempotent.py") else { return };
    let report = idempotent.grade(0);
    assert_eq!(tests(&report, "failed"), Vec::<&str>::new());
    let passed = ["retries-same-key", "distinct-operations", "concurrent-race", "same-key-other-body"];
    assert_eq!(tests(&report, "passed"), passed);
}
