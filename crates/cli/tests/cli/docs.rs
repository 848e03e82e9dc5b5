//! What the documentation says can be typed, is typed.

use rusqlite::Connection;

use crate::support::{Serve, folder};

/// The statements of a page's `sql` blocks.
fn statements(page: &str) -> Vec<String> {
    let blocks = page.split("```sql\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    blocks
        .flat_map(|block| block.split_inclusive(';'))
        .filter(|it| it.contains("select"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_sql_of_the_pages_runs_on_a_database() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    assert_eq!(serve.charge("key-1", "order-1").status, 201);
    let database = Connection::open(folder.path().join("unavez.db")).unwrap();
    let run = |sql: &str| {
        let mut statement = database.prepare(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
        let mut rows = statement.query([]).unwrap();
        let mut count = 0;
        while rows.next().unwrap_or_else(|error| panic!("{error}: {sql}")).is_some() {
            count += 1;
        }
        count
    };
    let count = |page: &str| statements(page).iter().map(|sql| run(sql)).collect::<Vec<_>>();
    assert_eq!(
        count(include_str!("../../../../docs/choosing.md")),
        [1, 1, 1, 1, 1],
        "all that there is of one charge"
    );
    assert_eq!(count(include_str!("../../../../docs/operating.md")), [0, 0], "nothing needs a person");
    assert_eq!(count(include_str!("../../../../docs/format.md")), [0, 0]);
}
