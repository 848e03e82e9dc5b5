//! The flags of `unavez serve`, and the settings they make.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use unavez_core::identity::{Realm, Tenant};
use unavez_core::time::Time;
use unavez_core::timing::{Contradiction, Timings};
use unavez_payments::{AcquirerKind, Limits, SameOrder, Settings, server};
use unavez_store::sqlite::{Location, OpenError};

use super::acquirer_flags::AcquirerFlags;
use super::listen::Listen;
use super::log::LogFlags;
use crate::exit::Failure;
use crate::{duration, number};

/// Flags of `unavez serve`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez serve
  unavez serve --listen 127.0.0.1:0 --store memory:
      any free port, everything forgotten at the end
  unavez serve --listen 0.0.0.0:8080 --api-keys-file keys --admin-listen 127.0.0.1:9100
      for others to reach; console and metrics stay on this machine

When it is ready, `listening on http://IP:PORT` is the first line on standard output.
SIGTERM or Ctrl-C: stop accepting, finish what runs, exit 0; a second one ends it at once.
SIGHUP: read the API key file anew.
One process owns a database file: a second `serve` waits --lock-wait for it and then exits 3.")]
pub(crate) struct ServeArgs {
    /// Address and port; port 0 takes any free one. Without API keys only loopback addresses
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080", help_heading = "Where")]
    pub(super) listen: Listen,

    /// An address of its own for console and /metrics, which then are not on --listen
    #[arg(long, value_name = "ADDR:PORT", help_heading = "Where")]
    pub(super) admin_listen: Option<Listen>,

    /// Certificate chain in PEM; with --tls-key the service speaks HTTPS
    #[arg(long, value_name = "FILE", help_heading = "Where")]
    pub(super) tls_cert: Option<PathBuf>,

    /// Private key of the certificate in PEM
    #[arg(long, value_name = "FILE", help_heading = "Where")]
    pub(super) tls_key: Option<PathBuf>,

    /// sqlite:PATH, or memory: which is forgotten with the process
    #[arg(long, value_name = "STORE", default_value = "sqlite:unavez.db", help_heading = "What is kept")]
    pub(super) store: StoreLocation,

    /// Name of this deployment, part of every operation id; it is fixed when the database is created
    #[arg(long, value_name = "NAME", value_parser = realm, help_heading = "What is kept")]
    pub(super) realm: Option<Realm>,

    /// How long to wait for another process to let go of the database file
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse, help_heading = "What is kept")]
    pub(super) lock_wait: Duration,

    /// Encrypts stored answers: one `NAME KEY` a line, the key 64 hex digits; the first line seals, all open
    #[arg(long, value_name = "FILE", help_heading = "What is kept")]
    pub(super) seal_key_file: Option<PathBuf>,

    #[command(flatten)]
    pub(super) acquirer: AcquirerFlags,

    /// After a restore: ask the acquirer before the first send of every new claim, up to this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Acquirer")]
    pub(super) ask_first_until: Option<Time>,

    /// A second charge of one order under another key: allow, warn (run, count and log it), or refuse
    #[arg(
        long,
        value_enum,
        value_name = "RULE",
        default_value = "warn",
        hide_possible_values = true,
        help_heading = "Charges"
    )]
    pub(super) same_order: SameOrderRule,

    /// How far back an earlier charge of the order counts for --same-order
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration::parse_positive, help_heading = "Charges")]
    pub(super) same_order_window: Duration,

    /// How long an attempt may take before its owner counts as lost
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse_positive, help_heading = "Charges")]
    pub(super) operation_timeout: Duration,

    /// How long a finished answer is repeated
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration::parse_positive, help_heading = "Charges")]
    pub(super) response_ttl: Duration,

    /// How long one call of the store may take before the caller is answered 503
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse_positive, help_heading = "Charges")]
    pub(super) store_timeout: Duration,

    /// One API key a line, made by `unavez api-keys add`; without it every caller is tenant `default`
    #[arg(long, value_name = "FILE", help_heading = "Who may call")]
    pub(super) api_keys_file: Option<PathBuf>,

    /// The tenant that owns what was charged before there were API keys
    #[arg(long, value_name = "TENANT", value_parser = tenant, help_heading = "Who may call")]
    pub(super) default_tenant: Option<Tenant>,

    /// Requests inside the service at once; above: 503 `overloaded`
    #[arg(long, value_name = "N", default_value = "1024", value_parser = number::within(1..=1_000_000_usize), help_heading = "Limits")]
    pub(super) max_in_flight: usize,

    /// Open connections at once; above: 503 `overloaded`
    #[arg(long, value_name = "N", default_value = "4096", value_parser = number::within(1..=1_000_000_usize), help_heading = "Limits")]
    pub(super) max_connections: usize,

    #[command(flatten)]
    pub(super) log: LogFlags,
}

/// [`SameOrder`] as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SameOrderRule {
    /// It runs
    Allow,
    /// It runs, is counted and logged
    Warn,
    /// It is refused
    Refuse,
}

impl ServeArgs {
    /// The settings of the service, if they do not contradict each other (P13).
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let timings = Timings {
            operation_timeout: self.operation_timeout,
            response_ttl: self.response_ttl,
            store_timeout: self.store_timeout,
            outside_timeout: Duration::ZERO,
        };
        let settings = Settings {
            timings,
            ask_first_until: self.ask_first_until,
            limits: Limits { in_flight_max: self.max_in_flight, ..Limits::default() },
            same_order: match self.same_order {
                SameOrderRule::Allow => SameOrder::Allow,
                SameOrderRule::Warn => SameOrder::Warn,
                SameOrderRule::Refuse => SameOrder::Refuse,
            },
            same_order_window: self.same_order_window,
            api_keys_file: self.api_keys_file.clone(),
            default_tenant: self.default_tenant.clone(),
            seal_key_file: self.seal_key_file.clone(),
            ..self.acquirer.settings()
        };
        let checked = match settings.acquirer {
            AcquirerKind::Ledger => timings.check(),
            _ => settings.timings_outside().map(drop),
        };
        checked.map_err(|contradiction| {
            Failure::usage(format!(
                "the timings of `serve` contradict each other: {}",
                in_flags(&contradiction)
            ))
            .with_help(format!(
                "{}; unavez config serve shows where each value comes from",
                flags_of(&contradiction)
            ))
        })?;
        Ok(settings)
    }

    /// Limits of the connections, with certificate and key read, and the threads they are driven on.
    pub(super) fn connection_limits(&self, settings: &Settings) -> Result<server::Limits, Failure> {
        Ok(server::Limits {
            connections_max: self.max_connections,
            drain_timeout: settings.timings.attempt_deadline(),
            tls: self.tls()?,
            lanes: server::Lanes::start().map_err(|error| {
                Failure::unavailable(format!("threads for connections cannot start: {error}"))
            })?,
            ..server::Limits::default()
        })
    }

    fn tls(&self) -> Result<Option<server::Tls>, Failure> {
        match (&self.tls_cert, &self.tls_key) {
            (None, None) => Ok(None),
            (Some(cert), Some(key)) => server::Tls::from_pem_files(cert, key)
                .map(Some)
                .map_err(|error| Failure::usage(error.to_string())),
            (Some(_), None) => Err(Failure::usage("--tls-cert is given without --tls-key")),
            (None, Some(_)) => Err(Failure::usage("--tls-key is given without --tls-cert")),
        }
    }
}

/// The contradiction by the names of the flags that make it.
fn in_flags(contradiction: &Contradiction) -> String {
    match contradiction {
        Contradiction::OperationTimeoutTooShort { operation_timeout } => {
            format!("--operation-timeout {operation_timeout:?} is below 1ms")
        }
        Contradiction::ResponseTtlTooShort { response_ttl, operation_timeout } => format!(
            "--response-ttl {response_ttl:?} is below --operation-timeout {operation_timeout:?}: an answer must be repeated at \
             least as long as its attempt may take"
        ),
        Contradiction::DoesNotFit { needed, attempt_deadline } => format!(
            "--acquirer-timeout and twice --store-timeout need {needed:?}, but an attempt stops after {attempt_deadline:?} \
             (5/6 of --operation-timeout)"
        ),
    }
}

/// What can be done about timings that contradict each other, by the names of their flags.
fn flags_of(contradiction: &Contradiction) -> &'static str {
    match contradiction {
        Contradiction::OperationTimeoutTooShort { .. } => "raise --operation-timeout",
        Contradiction::ResponseTtlTooShort { .. } => "raise --response-ttl or lower --operation-timeout",
        Contradiction::DoesNotFit { .. } => {
            "raise --operation-timeout, or lower --acquirer-timeout or --store-timeout"
        }
    }
}

/// `sqlite:PATH` or `memory:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreLocation(pub(crate) Location);

impl FromStr for StoreLocation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected sqlite:PATH or memory:";
        match text.split_once(':') {
            Some(("sqlite", "")) => Err("the path behind sqlite: is empty".to_owned()),
            Some(("sqlite", path)) => Ok(Self(Location::File(path.into()))),
            Some(("memory", "")) => Ok(Self(Location::Memory)),
            Some(("memory", _)) => Err("nothing stands behind memory:".to_owned()),
            Some(("redis" | "rediss" | "redis+unix" | "valkey" | "valkeys" | "valkey+unix", _)) => {
                Err(format!(
                    "Redis cannot be the only record of money: a failover takes back what it acknowledged, and a repeat then \
                     charges again; {EXPECTED}"
                ))
            }
            Some((scheme, _)) => Err(format!("`{scheme}:` is not a store of this version; {EXPECTED}")),
            None => Err(EXPECTED.to_owned()),
        }
    }
}

/// `sqlite:PATH`: a database that other processes can see, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseFile(pub(crate) PathBuf);

impl FromStr for DatabaseFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected sqlite:PATH";
        match text.split_once(':') {
            Some(("sqlite", "")) => Err("the path behind sqlite: is empty".to_owned()),
            Some(("sqlite", path)) => Ok(Self(path.into())),
            Some(("memory", _)) => {
                Err(format!("a database in memory is seen by its own process alone; {EXPECTED}"))
            }
            Some((scheme, _)) => Err(format!("`{scheme}:` is not a store of this version; {EXPECTED}")),
            None => Err(EXPECTED.to_owned()),
        }
    }
}

/// What kept a database from being opened, for a person: exit 3, or 2 where the flags are at fault.
pub(crate) fn store_failure(error: &OpenError) -> Failure {
    let message = error.to_string();
    match error {
        OpenError::Locked { .. } => Failure::unavailable(message).with_help(
            "one process owns a database file; end the other one, or wait longer with --lock-wait",
        ),
        OpenError::Newer { .. } => Failure::unavailable(message)
            .with_help("a newer unavez wrote this file; use that version or a later one"),
        OpenError::Outdated { .. } => {
            Failure::unavailable(message).with_help("unavez migrate brings the file up to date")
        }
        OpenError::RealmMismatch { .. } => Failure::usage(message)
            .with_help("the realm is fixed when the database is created; leave --realm away to use it"),
        _ => Failure::unavailable(message),
    }
}

fn realm(name: &str) -> Result<Realm, String> {
    Realm::parse(name).map_err(|error| error.to_string())
}

fn tenant(name: &str) -> Result<Tenant, String> {
    Tenant::parse(name).map_err(|error| error.to_string())
}

fn time(text: &str) -> Result<Time, String> {
    let stamp: jiff::Timestamp =
        text.parse().map_err(|_| "expected a time such as 2026-12-01T08:00:00Z".to_owned())?;
    Ok(Time::from_micros(stamp.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_named_by_their_scheme() {
        let parse = |text: &str| text.parse::<StoreLocation>().map(|store| store.0);
        assert_eq!(parse("sqlite:unavez.db"), Ok(Location::File("unavez.db".into())));
        assert_eq!(parse("sqlite:/var/lib/un:avez.db"), Ok(Location::File("/var/lib/un:avez.db".into())));
        assert_eq!(parse("memory:"), Ok(Location::Memory));
        let file = |text: &str| text.parse::<DatabaseFile>();
        assert_eq!(file("sqlite:unavez.db"), Ok(DatabaseFile("unavez.db".into())));
        for text in ["postgres://h/db", "unavez.db", "memory:"] {
            let refused = file(text).expect_err(text);
            assert!(refused.ends_with("expected sqlite:PATH"), "{text}: {refused}");
        }
        for (text, reason) in [
            ("postgres://h/db", "`postgres:` is not a store of this version"),
            ("redis://h", "Redis cannot be the only record of money"),
            ("valkeys://h:1/2", "a repeat then charges again"),
            ("unavez.db", "expected sqlite:PATH"),
            ("sqlite:", "empty"),
            ("memory:x", "nothing stands behind"),
        ] {
            let refused = parse(text).expect_err(text);
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
