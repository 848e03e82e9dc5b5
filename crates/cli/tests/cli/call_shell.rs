//! `unavez call` between a shell and its files: what cannot be written or read, and the commands that are printed.

use std::path::Path;
use std::process::Command;

use crate::call::{Server, answer, call};
use crate::support::{Ran, folder, run, unavez, write};

/// A line for the shell, in which `unavez` is the binary.
fn shell(folder: &Path, line: &str) -> Ran {
    let line = format!("unavez() {{ '{}' \"$@\"; }}\n{line}", env!("CARGO_BIN_EXE_unavez"));
    Ran::new(Command::new("sh").current_dir(folder).args(["-c", &line]).output().unwrap())
}

/// The command that asks again, as it was printed.
fn printed(ran: &Ran) -> &str {
    let command =
        ran.stderr.lines().find_map(|line| line.strip_prefix("  ").filter(|it| it.starts_with("unavez")));
    command.unwrap_or_else(|| panic!("{ran:?}"))
}

#[test]
fn p32_the_result_is_the_exit_code_where_nothing_can_be_said() {
    let full = "2>/dev/full";
    let folder = folder();
    for (answers, code) in [(answer(201, "", "{}"), 0), (answer(402, "", "{}"), 1), (String::new(), 4)] {
        let server = Server::start(&[&answers]);
        let ran =
            shell(folder.path(), &format!("unavez call --retries 0 POST {} -d '{{}}' {full}", server.url()));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(code), ""), "{ran:?}");
    }
    assert_eq!(shell(folder.path(), &format!("unavez call --again POST http://h/ {full}")).code, Some(2));
}

#[test]
fn an_answer_that_cannot_be_written_is_no_success_and_no_failure() {
    let folder = folder();
    for (status, said) in [(201, "done: 201"), (402, "refused: 402")] {
        let server = Server::start(&[&answer(status, "", "{}")]);
        let line = format!("unavez call --key k POST {} -d '{{}}' >/dev/full", server.url());
        shell(folder.path(), &line).fails_with(5, &[said, "cannot be written", "the same key"]);
    }
    let server = Server::start(&[&answer(201, "", &"x".repeat(1 << 20))]);
    let line = format!("{{ unavez call -q --key k POST {}; echo $? >code; }} | :", server.url());
    shell(folder.path(), &line);
    let code = std::fs::read_to_string(folder.path().join("code")).unwrap();
    assert_eq!(code, "0\n", "a reader that went away wants no more");
}

#[test]
fn p29_a_key_made_for_this_call_is_said_however_quiet_it_is() {
    let server = Server::start(&[&answer(201, "", "")]);
    let ran = call(&["-q", "POST", &server.url(), "-d", "{}"]);
    assert_eq!(ran.code, Some(0));
    assert_eq!(ran.stderr, format!("key {} (made for this call)\n", server.keys()[0]));
}

#[test]
fn p32_the_printed_command_parses_whatever_its_values_begin_with() {
    let server = Server::start(&["", &answer(201, "", "")]);
    let folder = folder();
    let arguments =
        ["--key=-k", "-d=-1", "-H=-x: 1", "-H", "accept: -", "--retries", "0", "POST", &server.url()];
    let lost = run(folder.path(), ["call"].iter().chain(&arguments));
    assert_eq!(lost.code, Some(4), "{lost:?}");
    let command = printed(&lost).replace("-x: …", "-x: 1");
    let found = shell(folder.path(), &command);
    assert_eq!(found.code, Some(0), "{command}: {found:?}");
    let requests = server.requests();
    assert_eq!(requests[0], requests[1]);
    assert!(requests[0].contains("idempotency-key: -k\r\n") && requests[0].ends_with("\r\n\r\n-1"));
}

#[test]
fn p23_what_may_be_a_secret_is_masked_and_has_to_be_filled_in() {
    let folder = folder();
    write(folder.path(), "api-key", "s3cret-file\n");
    let echoed = answer(422, "", "who is s3cret-file, and s3cret-bearer?");
    let server = Server::start(&[&echoed]);
    let url = format!("{}?order=1&api_key=s3cret-query", server.url());
    let run = |url: &str, headers: &[&str]| {
        let headers = headers.iter().flat_map(|header| ["-H", header]);
        let flags =
            ["call", "--retries", "0", "--again", "--key", "k", "--api-key-file", "api-key", "-d", "{}"];
        run(folder.path(), flags.into_iter().chain(headers).chain(["POST", url]))
    };
    let headers = [
        "Authorization: Bearer s3cret-bearer",
        "Cookie: s3cret-cookie",
        "X-Pin: s3cret-pin",
        "Stripe-Account: s3cret-account",
        "Accept: text/plain",
        "Prefer: wait=1",
    ];
    let ran = run(&url, &headers);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(!ran.stderr.contains("s3cret"), "{}", ran.stderr);
    for said in ["who is …, and …?", "x-pin: …", "accept: text/plain", "prefer: wait=1", "order=1&api_key=…"]
    {
        assert!(ran.stderr.contains(said), "{said:?}: {}", ran.stderr);
    }
    assert!(ran.stderr.lines().any(|line| line.starts_with("fill in what is shown as …")), "{}", ran.stderr);

    let server = Server::start(&[""]);
    let whole = run(&server.url(), &["Accept: text/plain"]);
    assert!(!whole.stderr.contains("fill in"), "nothing is missing: {}", whole.stderr);
}

#[test]
fn headers_of_the_connection_are_refused_by_name() {
    for name in
        ["Content-Length", "Transfer-Encoding", "Host", "Connection", "Expect", "TE", "Trailer", "Upgrade"]
    {
        let header = format!("{name}: 5");
        let lower = name.to_ascii_lowercase();
        call(&["-H", &header, "POST", "http://h/"])
            .fails_with(2, &[&format!("{lower} is for the connection")]);
    }
}

#[test]
fn a_body_has_an_end() {
    let folder = folder();
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    let large = std::fs::File::create(folder.path().join("large")).unwrap();
    large.set_len((64 << 20) + 1).unwrap();
    for (file, said) in [
        ("pipe", "no regular file"),
        ("/dev/zero", "no regular file"),
        (".", "no regular file"),
        ("large", "large holds more than 64 MiB"),
        ("none", "none cannot be read"),
    ] {
        let data = format!("@{file}");
        run(folder.path(), ["call", "POST", "http://h/", "-d", &data]).fails_with(2, &[said]);
    }
    shell(folder.path(), "unavez call POST http://h/ -d @- </dev/zero")
        .fails_with(2, &["standard input holds more than 64 MiB"]);
}

/// The loop as the help prints it, without its waits.
fn loop_of_help(folder: &Path, url: &str) -> String {
    let help = Ran::new(unavez(folder).args(["call", "--help"]).output().unwrap()).stdout;
    let start = help.find("  again=\n").unwrap();
    let call = "--key K POST URL";
    let script = help[start..].to_owned();
    assert!(script.contains(call) && script.contains("sleep 60"), "{script}");
    script.replace(call, &format!("--retries 0 --key k POST {url} -d '{{}}'")).replace("sleep 60", ":")
}

#[test]
fn p32_the_loop_of_the_help_ends_and_believes_what_may_be_believed() {
    let invalid = answer(422, "", "invalid");
    let unreceived = answer(429, "", "");
    for (answers, code) in [
        (vec![unreceived.as_str(), &invalid], 1),
        (vec!["", &invalid, &invalid, &invalid, &invalid, &invalid], 4),
        (vec!["", &unreceived, &answer(201, "", "{}")], 0),
    ] {
        let folder = folder();
        let server = Server::start(&answers);
        let ran = shell(folder.path(), &loop_of_help(folder.path(), &server.url()));
        assert_eq!(ran.code, Some(code), "{answers:?}: {ran:?}");
        assert_eq!(server.keys().len(), answers.len().min(5));
    }
}
