//! Where the server is, and whether the way there is encrypted.
//!
//! 1. `rediss://` is encrypted and verified; what switches the verification off is refused.
//! 2. `redis://` is in clear, and outside this machine that is told as a warning: Redis has no way to ask for more.
//! 3. Several nodes of a cluster may be named, divided by commas; any of them tells of the others.

use std::fmt;
use std::net::IpAddr;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _};

use super::{OpenError, Warning};

/// A connection string that was understood.
#[derive(Clone)]
pub struct Location {
    pub(super) nodes: Vec<ConnectionInfo>,
}

impl Location {
    /// Reads `redis://user:password@host:port/database`, `rediss://…` (encrypted) or `redis+unix:///path?db=0`; `valkey` may
    /// stand for `redis`. Further nodes of a cluster follow, each after a comma.
    ///
    /// # Errors
    /// [`OpenError::Url`].
    pub fn parse(urls: &str) -> Result<Self, OpenError> {
        let nodes = urls.split(',').map(node).collect::<Result<_, _>>()?;
        Ok(Self { nodes })
    }

    /// Whether anything between here and there can read along.
    pub(super) fn warning(&self) -> Option<Warning> {
        let far_and_clear = |node: &ConnectionInfo| match node.addr() {
            ConnectionAddr::Tcp(host, _) if !is_near(host) => Some(host.clone()),
            _ => None,
        };
        self.nodes.iter().find_map(far_and_clear).map(|host| Warning::ClearText { host })
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.addr(), ConnectionAddr::TcpTls { .. }))
    }
}

fn node(url: &str) -> Result<ConnectionInfo, OpenError> {
    // The driver's words can repeat what they are about, and that can be the password.
    let node = url
        .into_connection_info()
        .map_err(|_| OpenError::Url("it is not like redis://user:password@host:port/database".to_owned()))?;
    match node.addr() {
        ConnectionAddr::TcpTls { insecure: true, .. } => {
            Err(OpenError::Url("#insecure believes any server; leave it out".to_owned()))
        }
        _ => Ok(node),
    }
}

/// A host that no network lies before.
fn is_near(host: &str) -> bool {
    host == "localhost"
        || host.trim_matches(['[', ']']).parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

impl fmt::Debug for Location {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<String> = self.nodes.iter().map(|node| node.addr().to_string()).collect();
        f.debug_struct("Location").field("nodes", &nodes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_text_over_a_network_is_told_and_blind_trust_refused() {
        let warning = |url: &str| Location::parse(url).unwrap().warning();
        for near in [
            "redis://localhost",
            "redis://[::1]:7000",
            "valkey://127.0.0.1/1",
            "redis+unix:///run/redis.sock",
        ] {
            assert_eq!(warning(near), None, "{near}");
        }
        assert_eq!(warning("rediss://cache.example"), None);
        let far = Warning::ClearText { host: "b.example".to_owned() };
        assert_eq!(warning("redis://localhost:1,redis://b.example:2"), Some(far));
        let refusal = Location::parse("rediss://cache.example/#insecure").unwrap_err();
        assert!(refusal.to_string().contains("leave it out"), "{refusal}");
    }

    #[test]
    fn nothing_shows_a_password() {
        let location = Location::parse("redis://u:s3cret@localhost/1").unwrap();
        assert!(!format!("{location:?}").contains("s3cret"), "{location:?}");
        let refusal = Location::parse("postgres://u:s3cret@localhost/d").unwrap_err();
        assert!(!format!("{refusal:?} {refusal}").contains("s3cret"), "{refusal}");
    }
}
