//! One connection: made when it is needed, checked before it is used, and left as soon as it is not to be trusted.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Row};

use super::error::{Failure, is_doubt, words};
use super::{Location, OpenError, Warning};

/// A parameter with its type: so typed, a statement needs neither a name on the server nor a second round trip,
/// and a pooler may give each statement another server.
pub(super) type Param<'p> = (&'p (dyn ToSql + Sync), Type);

/// A connection that is made anew when it has broken. One task uses it.
pub(super) struct Link {
    location: Arc<Location>,
    session: Option<Arc<Session>>,
}

impl Link {
    pub(super) fn new(location: Arc<Location>) -> Self {
        Self { location, session: None }
    }

    /// Beginning with a session that is there.
    pub(super) fn with(location: Arc<Location>, session: Session) -> Self {
        Self { location, session: Some(Arc::new(session)) }
    }

    /// The session, connected first if there is none.
    pub(super) async fn session(&mut self) -> Result<Arc<Session>, Failure> {
        if let Some(session) = self.session.as_ref().filter(|session| session.is_usable()) {
            return Ok(Arc::clone(session));
        }
        self.session = None;
        let connected = Session::open(&self.location).await;
        let (session, _) = connected.map_err(|error| Failure::Unreached(error.to_string().into()))?;
        let session = Arc::new(session);
        self.session = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Uses the session no more.
    pub(super) fn leave(&self) {
        if let Some(session) = &self.session {
            session.leave();
        }
    }
}

/// An open connection.
pub(super) struct Session {
    client: Client,
    driver: JoinHandle<()>,
    /// Commits that may stand on this server alone.
    doubts: Arc<AtomicU64>,
    /// Set once an answer was lost or the server turned out not to take writes.
    left: AtomicU64,
}

impl Session {
    /// Connects, and refuses a server that acknowledges what it can lose. Every connection is checked: after a failover
    /// it is another server.
    pub(super) async fn open(location: &Location) -> Result<(Self, Option<Warning>), OpenError> {
        let session = match &location.tls {
            None => {
                let (client, connection) =
                    location.config.connect(NoTls).await.map_err(|error| OpenError::connect(&error))?;
                Self::driven(client, connection)
            }
            Some(tls) => {
                let (client, connection) =
                    location.config.connect(tls.clone()).await.map_err(|error| OpenError::connect(&error))?;
                Self::driven(client, connection)
            }
        };
        let warning = session.check_settings().await?;
        Ok((session, warning))
    }

    fn driven<S, T>(client: Client, mut connection: Connection<S, T>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let doubts = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&doubts);
        let driver = tokio::spawn(async move {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    // Counted before the answer behind it reaches its caller, since both come through here.
                    Ok(AsyncMessage::Notice(notice)) if is_doubt(&notice) => {
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::warn!(error = &*words(&error), "connection to the database ended");
                        break;
                    }
                }
            }
        });
        Self { client, driver, doubts, left: AtomicU64::new(0) }
    }

    /// What acknowledged means on this server.
    async fn check_settings(&self) -> Result<Option<Warning>, OpenError> {
        let row = self.client.query_typed_one(include_str!("sql/settings.sql"), &[]).await?;
        let setting = |column| row.try_get::<_, Option<String>>(column).map(Option::unwrap_or_default);
        let (fsync, commit) = (setting(0)?, setting(1)?);
        if fsync == "off" {
            let remedy = "set `fsync = on` in postgresql.conf and restart the server";
            return Err(OpenError::Unsafe { setting: "fsync", value: fsync, remedy });
        }
        if commit == "off" {
            let remedy = "set it to on, for example `alter role … set synchronous_commit = on`";
            return Err(OpenError::Unsafe { setting: "synchronous_commit", value: commit, remedy });
        }
        let standbys: i64 = row.try_get(3)?;
        let waits_for_none = setting(2)?.is_empty() || commit == "local";
        Ok((standbys > 0 && waits_for_none)
            .then_some(Warning::AsynchronousStandbys { standbys: standbys.unsigned_abs() }))
    }

    fn is_usable(&self) -> bool {
        !self.client.is_closed() && self.left.load(Ordering::Relaxed) == 0
    }

    /// Uses it no more: what it was asked last may still be done, and nothing new shall be behind that.
    pub(super) fn leave(&self) {
        self.left.store(1, Ordering::Relaxed);
        self.driver.abort();
    }

    /// Reads.
    pub(super) async fn read(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        self.client.query_typed(sql, params).await.map_err(|error| self.failure(&error))
    }

    /// Writes, in a transaction of its own. A success that a standby may not have is no success (P12).
    pub(super) async fn write(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        let before = self.doubts.load(Ordering::Relaxed);
        let rows = self.read(sql, params).await?;
        if self.doubts.load(Ordering::Relaxed) != before {
            return Err(Failure::CutOff("committed here, and the wait for a standby was broken off".into()));
        }
        Ok(rows)
    }

    /// Several statements without parameters.
    pub(super) async fn execute(&self, sql: &str) -> Result<(), Failure> {
        self.client.batch_execute(sql).await.map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &tokio_postgres::Error) -> Failure {
        let failure = Failure::of(error);
        match &failure {
            // A server that takes no writes any more has become a standby: the next connection finds the other one.
            Failure::Refused(refusal) if refusal.is_read_only() => self.leave(),
            Failure::Refused(_) => {}
            Failure::CutOff(_) | Failure::Unreached(_) => self.leave(),
        }
        failure
    }
}
