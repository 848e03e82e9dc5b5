//! Addresses to listen on.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

use tokio::net::TcpListener;

use crate::exit::Failure;

/// `ADDR:PORT` with all addresses its name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    given: String,
    addresses: Vec<SocketAddr>,
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let addresses: Vec<_> = text
            .to_socket_addrs()
            .map_err(|error| format!("{error}; expected ADDR:PORT, such as 127.0.0.1:8080 or [::1]:8080"))?
            .collect();
        Ok(Self { given: text.to_owned(), addresses })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

impl Listen {
    /// Whether nobody on another machine can reach it.
    pub(crate) fn is_loopback(&self) -> bool {
        self.addresses.iter().all(|address| address.ip().to_canonical().is_loopback())
    }

    /// Takes the address.
    pub(crate) async fn bind(&self) -> Result<TcpListener, Failure> {
        TcpListener::bind(&*self.addresses).await.map_err(|error| {
            let failure = Failure::unavailable(format!("{self}: cannot be listened on: {error}"));
            match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    failure.with_help("another program has this port; --listen names another one")
                }
                std::io::ErrorKind::PermissionDenied => {
                    failure.with_help("ports below 1024 need a privilege")
                }
                _ => failure,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_alone_are_loopback() {
        for (text, loopback) in [
            ("127.0.0.1:0", true),
            ("127.8.9.10:1", true),
            ("[::1]:8080", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("localhost:1", true),
            ("0.0.0.0:8080", false),
            ("[::]:8080", false),
            ("10.0.0.1:1", false),
            ("[::ffff:10.0.0.1]:1", false),
        ] {
            assert_eq!(text.parse::<Listen>().expect(text).is_loopback(), loopback, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_an_example() {
        for text in ["8080", "127.0.0.1", "127.0.0.1:99999", ""] {
            let refused = text.parse::<Listen>().expect_err(text);
            assert!(refused.contains("expected ADDR:PORT"), "{text}: {refused}");
        }
    }
}
