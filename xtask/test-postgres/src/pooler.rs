//! PgBouncer before a server, in transaction mode: each transaction may get another session of two.

use std::fs;

use crate::Database;
use crate::keeper::Keeper;

/// `$2`: the server's folder. Gone with the pipe, as the server is.
const SCRIPT: &str = r#"
pgbouncer --quiet "$2/pooler.ini" >>"$2/log" 2>&1 </dev/null &
pooler=$!
until "$1/pg_isready" --quiet --host "$2" --port 6432; do
    kill -0 $pooler 2>/dev/null || { echo down; break; }
    sleep 0.03
done
echo up
read -r word
kill $pooler 2>/dev/null
wait $pooler
"#;

/// A running pooler. Dropping it ends it.
#[derive(Debug)]
pub struct Pooler<'s> {
    database: Database<'s>,
    _keeper: Keeper,
}

impl<'s> Pooler<'s> {
    /// Puts a pooler before the server of this database.
    ///
    /// # Panics
    /// Where PgBouncer is not installed or does not start, with its own words.
    pub fn before(database: Database<'s>) -> Self {
        let cluster = &database.server.cluster;
        let folder = cluster.folder.display();
        let settings = format!(
            "[databases]\n* = host={folder} user=postgres\n\
             [pgbouncer]\nlisten_addr =\nunix_socket_dir = {folder}\nlisten_port = 6432\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 100\n"
        );
        fs::write(cluster.folder.join("pooler.ini"), settings).expect("the folder is ours");
        let keeper = Keeper::of(cluster, SCRIPT);
        Self { database, _keeper: keeper }
    }

    /// The database's connection string, through the pooler.
    pub fn url(&self) -> String {
        self.database.url_at(6432)
    }

    /// The database without the pooler.
    pub const fn database(&self) -> &Database<'s> {
        &self.database
    }
}
