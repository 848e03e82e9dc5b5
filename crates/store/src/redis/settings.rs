//! What a server must be like to keep records, and what should be known about it.

use std::fmt;

use super::OpenError;

/// The oldest version whose scripts say what they do before they begin: a server out of memory, or a replica, then refuses
/// one whole instead of stopping it in the middle.
const VERSION_MIN: (u32, u32) = (7, 0);

/// Something about a server that is allowed and should be known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// It syncs once in a second.
    SyncsEverySecond,
    /// It does not tell when it syncs, as servers that are rented do not.
    SyncUnknown,
    /// It has replicas, and tells them after it has acknowledged.
    AsynchronousReplicas {
        /// How many are connected.
        replicas: u64,
    },
    /// Nothing on the way to it is encrypted, and it is not on this machine.
    ClearText {
        /// Where it is.
        host: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SyncsEverySecond => f.write_str(
                "the server has appendfsync = everysec: a machine that fails takes back about a second of acknowledged records; \
                 set appendfsync to always",
            ),
            Self::SyncUnknown => f.write_str(
                "the server does not tell its appendfsync (CONFIG GET is refused): unless it is `always`, a machine that fails \
                 takes back acknowledged records",
            ),
            Self::AsynchronousReplicas { replicas } => write!(
                f,
                "the server has {replicas} replicas and acknowledges before they know: a failover can take back acknowledged \
                 records, and a repeat of their keys runs again"
            ),
            Self::ClearText { host } => {
                write!(f, "answers and passwords go to {host} in clear text; write rediss:// in place of redis://")
            }
        }
    }
}

/// What a server says of itself.
pub(super) struct Settings<'a> {
    /// The answer to `INFO`.
    pub(super) info: &'a str,
    /// The value of `appendfsync`, if the server tells it.
    pub(super) appendfsync: Option<&'a str>,
}

impl Settings<'_> {
    pub(super) fn is_cluster(&self) -> bool {
        self.field("cluster_enabled") == Some("1")
    }

    /// Refuses what loses records by itself.
    pub(super) fn check(&self) -> Result<Vec<Warning>, OpenError> {
        self.check_version()?;
        self.refuse_unless("role", "master", "it takes no writes", "name the master")?;
        self.refuse_unless(
            "aof_enabled",
            "1",
            "a restart takes back what it acknowledged",
            "set `appendonly yes` and `appendfsync always`",
        )?;
        self.refuse_unless(
            "maxmemory_policy",
            "noeviction",
            "it may delete a record while its promise stands, and a repeat would run again",
            "set `maxmemory-policy noeviction`, and give records a server of their own",
        )?;
        let sync = match self.appendfsync {
            Some("always") => None,
            Some("everysec") => Some(Warning::SyncsEverySecond),
            None => Some(Warning::SyncUnknown),
            Some(other) => {
                return Err(OpenError::Unsafe {
                    setting: "appendfsync",
                    value: other.to_owned(),
                    consequence: "a machine that fails takes back what it acknowledged",
                    remedy: "set it to always, or to everysec where a second may be lost",
                });
            }
        };
        let replicas = self.field("connected_slaves").and_then(|text| text.parse().ok()).unwrap_or(0);
        let replicas = (replicas > 0).then_some(Warning::AsynchronousReplicas { replicas });
        Ok(sync.into_iter().chain(replicas).collect())
    }

    /// Valkey tells here which Redis it is like.
    fn check_version(&self) -> Result<(), OpenError> {
        let version = self.field("redis_version").unwrap_or("unknown");
        let mut numbers = version.split('.').map(|part| part.parse().ok());
        let (major, minor) = (numbers.next().flatten(), numbers.next().flatten());
        match major.zip(minor) {
            Some(version) if version >= VERSION_MIN => Ok(()),
            _ => Err(OpenError::TooOld { version: version.to_owned() }),
        }
    }

    fn refuse_unless(
        &self,
        setting: &'static str,
        wanted: &str,
        consequence: &'static str,
        remedy: &'static str,
    ) -> Result<(), OpenError> {
        match self.field(setting) {
            Some(value) if value == wanted => Ok(()),
            value => {
                let value = value.unwrap_or("unknown").to_owned();
                Err(OpenError::Unsafe { setting, value, consequence, remedy })
            }
        }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Server\r\nredis_version:7.0.15\r\nrole:master\r\nconnected_slaves:0\r\naof_enabled:1\r\n\
                        maxmemory_policy:noeviction\r\ncluster_enabled:0\r\n";

    fn check(info: &str, appendfsync: Option<&str>) -> String {
        match (Settings { info, appendfsync }).check() {
            Ok(warnings) => format!("{warnings:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_a_server_may_lose_is_refused_or_told() {
        assert_eq!(check(GOOD, Some("always")), "[]");
        assert_eq!(check(GOOD, Some("everysec")), "[SyncsEverySecond]");
        assert_eq!(check(GOOD, None), "[SyncUnknown]");
        let replicated = GOOD.replace("connected_slaves:0", "connected_slaves:2");
        assert_eq!(check(&replicated, Some("always")), "[AsynchronousReplicas { replicas: 2 }]");
        for (from, to, said) in [
            ("7.0.15", "6.2.14", "the server is version 6.2.14"),
            ("7.0.15", "7", "the server is version 7,"),
            ("role:master", "role:slave", "the server has role = slave"),
            ("aof_enabled:1", "aof_enabled:0", "the server has aof_enabled = 0"),
            ("noeviction", "volatile-lru", "the server has maxmemory_policy = volatile-lru"),
            ("maxmemory_policy", "other", "the server has maxmemory_policy = unknown"),
        ] {
            let said_so = check(&GOOD.replace(from, to), Some("always"));
            assert!(said_so.starts_with(said), "{from} -> {to}: {said_so}");
        }
        assert!(check(GOOD, Some("no")).starts_with("the server has appendfsync = no"));
    }
}
