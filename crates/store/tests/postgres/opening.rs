//! What a database must be like, and how its tables come about.

use test_postgres::{Database, Server};
use unavez_core::identity::Realm;
use unavez_store::Store;
use unavez_store::postgres::{Migrate, OpenError, Options, Warning};

use crate::support::{claim, id, open, open_at, open_with};

/// The words of a refusal to open.
async fn refusal(database: &Database<'_>, options: Options) -> String {
    open_with(&database.url(), options).await.unwrap_err().to_string()
}

fn auto() -> Options {
    Options { migrate: Migrate::Auto, ..Options::default() }
}

#[tokio::test]
async fn c114_a_server_that_can_take_back_what_it_acknowledged_is_refused() {
    let database = Server::shared().database_with(&["synchronous_commit = off"]);
    assert_eq!(
        refusal(&database, auto()).await,
        "the database has synchronous_commit = off, so a crash can take back what it acknowledged; \
         set it to on, for example `alter role … set synchronous_commit = on`"
    );
    let server = Server::start(&["fsync = off"]);
    assert_eq!(
        refusal(&server.database(), auto()).await,
        "the database has fsync = off, so a crash can take back what it acknowledged; \
         set `fsync = on` in postgresql.conf and restart the server"
    );
}

#[tokio::test]
async fn c114_also_at_a_connection_that_is_made_later() {
    let database = Server::shared().database();
    let store = open(&database).await;
    database.query(&format!("alter database {} set synchronous_commit = off", database.name()));
    let ended =
        "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'unavez'";
    assert_eq!(database.query(ended), "1");
    let refused = store.load(id("k1")).await.unwrap_err();
    assert!(refused.to_string().contains("synchronous_commit = off"), "{refused}");
}

#[tokio::test]
async fn c114_standbys_that_nobody_waits_for_are_told() {
    let server = Server::start(&["wal_level = replica", "max_wal_senders = 2"]);
    let database = server.database();
    assert_eq!(open(&database).await.warnings(), []);
    // Receives the log as a standby does, and ends with the server at the latest.
    let mut standby = server.command("pg_receivewal");
    standby.args(["--no-loop", "--username=postgres", "--directory"]).arg(server.folder());
    let mut standby = standby.arg("--host").arg(server.folder()).spawn().unwrap();
    while database.query("select count(*) from pg_stat_replication where state = 'streaming'") == "0" {}
    let store = open(&database).await;
    assert_eq!(store.warnings(), [Warning::AsynchronousStandbys { standbys: 1 }]);
    assert!(store.warnings()[0].to_string().contains("synchronous_standby_names"), "{:?}", store.warnings());
    standby.kill().unwrap();
    standby.wait().unwrap();
}

#[tokio::test]
async fn tables_are_made_only_when_asked_and_by_one_of_many() {
    let database = Server::shared().database();
    assert_eq!(
        refusal(&database, Options::default()).await,
        "database lacks migrations of store: it has 0, this program needs 1; open it once with `Migrate::Auto`"
    );
    let url = database.url();
    let (a, b, c, d) = tokio::join!(open_at(&url), open_at(&url), open_at(&url), open_at(&url));
    let stores = [a.unwrap(), b.unwrap(), c.unwrap(), d.unwrap()];
    let new = stores.iter().flat_map(|store| store.migrations()).filter(|migration| migration.is_new);
    assert_eq!(new.count(), 1);
    let realms: Vec<_> = stores.iter().map(Store::realm).collect();
    assert!(realms.iter().all(|realm| realm.is_some() && *realm == realms[0]), "{realms:?}");
    open_with(&url, Options::default()).await.unwrap();
}

#[tokio::test]
async fn the_sum_of_the_migrations_is_the_schema() {
    let (migrated, whole) = (Server::shared().database(), Server::shared().database());
    drop(open(&migrated).await);
    whole.query(include_str!("../../src/postgres/schema/schema.sql"));
    assert_eq!(dump(&migrated), dump(&whole));
}

/// The schema as statements, without what is random about a dump.
fn dump(database: &Database<'_>) -> Vec<String> {
    let mut dump = Server::shared().command("pg_dump");
    dump.arg("--schema-only").arg("--host").arg(Server::shared().folder()).args(["--username=postgres"]);
    let text = String::from_utf8(dump.arg(database.name()).output().unwrap().stdout).unwrap();
    assert!(text.contains("CREATE TABLE public.idempotency_records"), "{text}");
    text.lines()
        .filter(|line| !line.starts_with('\\') && !line.starts_with("--"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn a_database_of_another_program_version_or_deployment_is_refused() {
    let database = Server::shared().database();
    drop(
        open_with(&database.url(), Options { realm: Some(Realm::parse("shop").unwrap()), ..auto() })
            .await
            .unwrap(),
    );
    let other = Options { realm: Some(Realm::parse("other").unwrap()), ..auto() };
    assert_eq!(refusal(&database, other).await, "database belongs to realm `shop`, not to `other`");

    database.query("update unavez_migrations set checksum = 'edited'");
    let edited = open_at(&database.url()).await.unwrap_err();
    assert!(matches!(edited, OpenError::Corrupt(_)), "{edited}");
    database.query("insert into unavez_migrations values ('store', 2, 'future', 'x', 0)");
    assert_eq!(
        refusal(&database, auto()).await,
        "database is newer than this program: migration 2 of store, known up to 1"
    );
}

#[tokio::test]
async fn a_row_that_breaks_a_rule_is_refused_by_the_database_too() {
    let database = Server::shared().database();
    let store = open(&database).await;
    store.swap(id("k1"), None, claim("k1", 1)).await.unwrap();
    for broken in
        ["state = 'done'", "deadline = null", "expires_at = 1", "version = 0", "body = ''", "tenant = ''"]
    {
        let tried = format!(
            "do $$ begin update idempotency_records set {broken}; raise 'it was taken'; \
             exception when check_violation then null; end $$"
        );
        database.query(&tried);
    }
}

#[tokio::test]
async fn nobody_there_is_said_at_once() {
    let url = "postgres://postgres@127.0.0.1:1/t";
    let refused = open_at(url).await.unwrap_err();
    assert!(refused.to_string().starts_with("no connection to the database: "), "{refused}");
}

#[tokio::test]
async fn the_sql_of_the_format_page_runs() {
    let database = Server::shared().database();
    let _store = open(&database).await;
    let page = include_str!("../../../../docs/format.md");
    let blocks = page.split("```postgresql\n").skip(1).filter_map(|rest| rest.split("```").next());
    let statements: Vec<_> =
        blocks.flat_map(|block| block.split_inclusive(';')).filter(|sql| sql.contains("select")).collect();
    assert!(!statements.is_empty());
    for sql in statements {
        assert_eq!(database.query(sql), "", "nothing is in progress");
    }
}
