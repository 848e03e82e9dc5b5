//! Rules that keep the same SQL running on a database that is spread over machines.

use std::fs;
use std::path::Path;

/// Statements of a request. Each names the records it touches by their distribution column.
const HOT: &[&str] = &["claim", "losers", "load", "finish", "update", "delete"];

/// Statements beside the requests, which may look at every part of the tables.
const EXEMPT: &[&str] =
    &["due", "list", "purge", "oldest_expiry", "last_position", "now", "realm", "name_realm", "settings"];

/// What a distributed database lacks, or what is one place that all of it asks.
const FORBIDDEN: &[&str] = &[
    "pg_advisory",
    "create trigger",
    "create sequence",
    "nextval",
    "serial",
    "references ",
    "foreign key",
    "listen ",
    "notify ",
    "ctid",
];

fn texts(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/postgres").join(folder);
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let sql = files.filter(|path| path.extension().is_some_and(|extension| extension == "sql"));
    sql.map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("--"));
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), code.collect::<Vec<_>>().join(" "))
    })
    .collect()
}

/// Whether a statement of a request says which records it is about.
fn is_routed(sql: &str) -> bool {
    sql.contains("r.id = c.id") || (sql.contains("insert into") && sql.contains("on conflict (id)"))
}

#[test]
fn every_statement_of_a_request_has_equality_on_the_distribution_column() {
    let mut seen = 0;
    for (name, sql) in texts("sql") {
        if HOT.contains(&name.as_str()) {
            assert!(is_routed(&sql), "{name}.sql touches records without naming their ids");
            assert!(!sql.contains("skip locked"), "{name}.sql skips locks");
            seen += 1;
        } else {
            assert!(EXEMPT.contains(&name.as_str()), "{name}.sql is new: is it of a request?");
        }
    }
    assert_eq!(seen, HOT.len());
}

#[test]
fn a_statement_that_scans_would_be_noticed() {
    assert!(!is_routed("update idempotency_records r set state = 'finished' where r.tenant = c.tenant"));
    assert!(!is_routed("insert into idempotency_records select 1 on conflict (tenant) do nothing"));
}

#[test]
fn nothing_needs_what_a_distributed_database_lacks() {
    for (name, sql) in texts("sql").into_iter().chain(texts("schema")).chain(texts("schema/migrations")) {
        for word in FORBIDDEN {
            assert!(!sql.contains(word), "{name}.sql has `{word}`");
        }
        if let Some((_, conflict)) = sql.split_once("on conflict") {
            assert!(!conflict.contains("clock_timestamp"), "{name}.sql reads a clock inside ON CONFLICT");
        }
    }
}

#[test]
fn every_unique_key_of_the_records_contains_their_id() {
    let (_, schema) = texts("schema/migrations").remove(0);
    let (_, records) = schema.split_once("create table idempotency_records").unwrap();
    assert!(records.contains("id uuid primary key"));
    assert_eq!(records.matches("primary key").count() + records.matches("unique").count(), 1);
}
