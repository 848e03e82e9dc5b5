//! The way to the server: one connection for all calls, made anew when it has broken.
//!
//! The driver itself never repeats a call: one whose answer was lost may have happened, and its repeat would meet itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, Value, cmd, from_redis_value};
use tokio::sync::{Mutex, Semaphore};
use unavez_core::identity::Realm;
use unavez_core::time::Time;
use uuid::Uuid;

use super::error::{Failure, ends_the_session, is_moved, is_unknown_script};
use super::layout::REALM;
use super::scripts::Call;
use super::settings::Settings;
use super::{Location, OpenError, Warning};

/// How long to wait for a node before the next one is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a call follows a slot that moves.
const MOVES_MAX: u32 = 5;

/// Calls, and the connection they share.
pub(super) struct Link {
    location: Location,
    answer_timeout: Duration,
    calls: Semaphore,
    calls_max: usize,
    /// Attempts to connect, begun so far.
    attempts: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    live: Option<Live>,
    /// The latest attempt that failed, and why.
    failed: Option<(u64, Arc<str>)>,
}

/// A session, and the number of the attempt that made it.
#[derive(Clone)]
struct Live {
    session: Session,
    number: u64,
}

impl Link {
    /// Connects and checks the server.
    pub(super) async fn open(
        location: Location,
        answer_timeout: Duration,
        calls_max: usize,
    ) -> Result<(Self, Vec<Warning>), OpenError> {
        let (session, mut warnings) = Session::open(&location, answer_timeout).await?;
        warnings.extend(location.warning());
        let calls_max = calls_max.clamp(1, Semaphore::MAX_PERMITS);
        let link = Self {
            location,
            answer_timeout,
            calls: Semaphore::new(calls_max),
            calls_max,
            attempts: AtomicU64::new(0),
            state: Mutex::new(State { live: Some(Live { session, number: 0 }), failed: None }),
        };
        Ok((link, warnings))
    }

    /// Makes a call that may write.
    pub(super) async fn call(&self, call: &Call) -> Result<Value, Failure> {
        let overloaded = |_| Failure::Overloaded { waiting: self.calls_max };
        let _permit = self.calls.try_acquire().map_err(overloaded)?;
        let live = self.live().await?;
        let mut moves = 0;
        loop {
            let mut answer = live.session.send(&call.by_digest()).await;
            if answer.as_ref().is_err_and(is_unknown_script) {
                answer = live.session.send(&call.by_text()).await;
            }
            match answer {
                Err(error) if is_moved(&error) && moves < MOVES_MAX => moves += 1,
                Err(error) => return Err(self.failed(&live, &error).await),
                Ok(answer) => return Ok(answer),
            }
        }
    }

    /// Makes a call that only reads. One that was cut off is made again, once: nothing can have happened.
    pub(super) async fn read(&self, call: &Call) -> Result<Value, Failure> {
        match self.call(call).await {
            Err(Failure::CutOff(_)) => self.call(call).await,
            ended => ended,
        }
    }

    /// The server's time; of a cluster, one of its nodes'.
    pub(super) async fn time(&self) -> Result<Time, OpenError> {
        let answer = self.command(&cmd("TIME")).await?;
        let (seconds, micros): (i64, i64) =
            from_redis_value(answer).map_err(|error| OpenError::Corrupt(error.to_string()))?;
        Ok(Time::from_micros(seconds * 1_000_000 + micros))
    }

    /// The stored realm, named first where there is none.
    pub(super) async fn realm(&self, named: Option<&Realm>) -> Result<Realm, OpenError> {
        let random = || format!("r-{}", Uuid::new_v4().simple());
        let name = named.map_or_else(random, |realm| realm.as_str().to_owned());
        self.command(cmd("SET").arg(REALM).arg(name).arg("NX")).await?;
        let stored: String = from_redis_value(self.command(cmd("GET").arg(REALM)).await?)
            .map_err(|error| OpenError::Corrupt(error.to_string()))?;
        let stored = Realm::parse(&stored).map_err(|error| OpenError::Corrupt(error.to_string()))?;
        match named {
            Some(named) if *named != stored => Err(OpenError::RealmMismatch { stored, named: named.clone() }),
            _ => Ok(stored),
        }
    }

    async fn command(&self, command: &Cmd) -> Result<Value, Failure> {
        let live = self.live().await?;
        match live.session.send(command).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.failed(&live, &error).await),
        }
    }

    /// The session, connected first if there is none. Whoever comes while an attempt runs shares what becomes of the next
    /// one, so that a silent server holds nobody up for longer than two.
    async fn live(&self) -> Result<Live, Failure> {
        let begun = self.attempts.load(Ordering::SeqCst);
        let mut state = self.state.lock().await;
        if let Some(live) = &state.live {
            return Ok(live.clone());
        }
        if let Some((_, why)) = state.failed.as_ref().filter(|(number, _)| *number > begun) {
            return Err(Failure::Unreached(Arc::clone(why)));
        }
        let number = self.attempts.fetch_add(1, Ordering::SeqCst) + 1;
        match Session::open(&self.location, self.answer_timeout).await {
            Ok((session, _)) => {
                let live = Live { session, number };
                state.live = Some(live.clone());
                Ok(live)
            }
            Err(error) => {
                let why: Arc<str> = error.to_string().into();
                state.failed = Some((number, Arc::clone(&why)));
                Err(Failure::Unreached(why))
            }
        }
    }

    /// What is known of a call that failed; its session is left where it is of no further use.
    async fn failed(&self, live: &Live, error: &RedisError) -> Failure {
        if ends_the_session(error) {
            let mut state = self.state.lock().await;
            if state.live.take_if(|current| current.number == live.number).is_some() {
                tracing::warn!(error = %error, "connection to Redis left");
            }
        }
        Failure::of(error)
    }
}

/// An open connection. Clones share it.
#[derive(Clone)]
enum Session {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Session {
    /// Connects, and refuses a server that loses records by itself. Every connection is checked: after a failover it is
    /// another server.
    async fn open(location: &Location, answer_timeout: Duration) -> Result<(Self, Vec<Warning>), OpenError> {
        if location.is_encrypted() && rustls::crypto::CryptoProvider::get_default().is_none() {
            // Lost against another thread, there is one all the same.
            rustls::crypto::ring::default_provider().install_default().ok();
        }
        let single = Self::first_that_answers(location, answer_timeout).await?;
        let info = single.about_itself().await?;
        if !info.settings().is_cluster() {
            return Ok((single, info.settings().check()?));
        }
        let cluster = Self::cluster(location, answer_timeout).await?;
        let mut warnings = Vec::new();
        for master in cluster.about_masters().await? {
            warnings.extend(master.settings().check()?);
        }
        warnings.dedup();
        Ok((Self::Cluster(cluster.0), warnings))
    }

    async fn first_that_answers(location: &Location, answer_timeout: Duration) -> Result<Self, OpenError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(answer_timeout));
        let mut refused = OpenError::Url("it names no server".to_owned());
        for node in &location.nodes {
            let client =
                Client::open(node.clone()).map_err(|error| OpenError::Url(error.category().to_owned()))?;
            match client.get_multiplexed_async_connection_with_config(&config).await {
                Ok(connection) => return Ok(Self::Single(connection)),
                Err(error) => refused = OpenError::Connect(error.to_string()),
            }
        }
        Err(refused)
    }

    async fn cluster(location: &Location, answer_timeout: Duration) -> Result<Masters, OpenError> {
        let client = ClusterClient::builder(location.nodes.clone())
            .retries(0)
            .connection_timeout(CONNECT_TIMEOUT)
            .response_timeout(answer_timeout)
            .build();
        let connect = |error: RedisError| OpenError::Connect(error.to_string());
        client.map_err(connect)?.get_async_connection().await.map(Masters).map_err(connect)
    }

    async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        let answer = match self {
            Self::Single(connection) => connection.clone().req_packed_command(command).await,
            Self::Cluster(connection) => connection.clone().req_packed_command(command).await,
        };
        // The driver hands a refusal of the server over as a value.
        answer?.extract_error()
    }

    async fn about_itself(&self) -> Result<About, OpenError> {
        let info = self.send(&cmd("INFO")).await.map_err(|error| Failure::unreached(&error))?;
        let appendfsync = self.send(cmd("CONFIG").arg("GET").arg("appendfsync")).await.ok();
        About::read(info, appendfsync)
    }
}

/// A cluster, asked node by node.
struct Masters(ClusterConnection);

impl Masters {
    async fn about_masters(&self) -> Result<Vec<About>, OpenError> {
        let infos = self.each(cmd("INFO")).await?;
        let mut config = cmd("CONFIG");
        config.arg("GET").arg("appendfsync");
        let mut settings = self.each(config).await.unwrap_or_default();
        let abouts = infos.into_iter().map(|(node, info)| {
            let at = settings.iter().position(|(other, _)| *other == node);
            About::read(info, at.map(|at| settings.swap_remove(at).1))
        });
        abouts.collect()
    }

    /// Every master's answer.
    async fn each(&self, command: Cmd) -> Result<Vec<(Value, Value)>, OpenError> {
        let masters = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        match self.0.clone().route_command(command, masters).await {
            Ok(Value::Map(answers)) => Ok(answers),
            Ok(_) => Err(OpenError::Corrupt("the cluster does not tell its nodes apart".to_owned())),
            Err(error) => Err(Failure::unreached(&error).into()),
        }
    }
}

/// What a server said of itself.
struct About {
    info: String,
    appendfsync: Option<String>,
}

impl About {
    fn read(info: Value, appendfsync: Option<Value>) -> Result<Self, OpenError> {
        let info = from_redis_value(info).map_err(|error| OpenError::Corrupt(error.to_string()))?;
        let pair = appendfsync.and_then(|value| from_redis_value::<Vec<String>>(value).ok());
        Ok(Self { info, appendfsync: pair.and_then(|mut pair| pair.pop()) })
    }

    fn settings(&self) -> Settings<'_> {
        Settings { info: &self.info, appendfsync: self.appendfsync.as_deref() }
    }
}
