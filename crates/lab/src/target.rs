//! Services that are already running somewhere, as the person names them.

use std::{fmt, str::FromStr};

use http::Uri;
use serde_json::Value;

use crate::{
    Error, Mutation,
    wire::{Answer, Call, Route, Wire},
};

/// Where a service says how it is.
const HEALTH_PATH: &str = "/healthz";

/// A running service and how to be let in.
#[derive(Clone)]
pub struct Remote {
    /// Where it listens: one address, or several that share one database. Attempts take them in turn.
    pub targets: Vec<Target>,
    /// Sent as `Authorization: Bearer …` where the service wants a key. Never printed.
    pub api_key: Option<String>,
    /// A second tenant's key; without it nothing about two tenants can be tested from outside.
    pub other_tenants_api_key: Option<String>,
    /// Measure although the service does not say that its money is play money.
    pub i_know: bool,
}

impl fmt::Debug for Remote {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Remote")
            .field("targets", &self.targets)
            .field("i_know", &self.i_know)
            .finish_non_exhaustive()
    }
}

impl Remote {
    /// A service at one or more addresses that needs no API key.
    pub fn at(targets: Vec<Target>) -> Self {
        Self { targets, api_key: None, other_tenants_api_key: None, i_know: false }
    }

    /// The addresses as the command line takes them.
    pub(crate) fn named(&self) -> String {
        self.targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// Reads a comma-separated list of addresses.
    ///
    /// # Errors
    ///
    /// The first address that is not `http://HOST[:PORT]`.
    pub fn parse(list: &str) -> Result<Self, InvalidTarget> {
        list.split(',').map(|one| one.trim().parse()).collect::<Result<_, _>>().map(Self::at)
    }
}

/// The address of a running service: `http://HOST[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    host: String,
    port: u16,
}

impl Target {
    /// `host:port`, as a socket and the `Host` header want it.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "http://{}:{}", self.host, self.port)
    }
}

/// Refuses to measure at a service that may move real money (all addresses are asked).
pub(crate) async fn check(remote: &Remote) -> Result<(), Error> {
    for target in &remote.targets {
        let health = health(&target.authority(), HEALTH_PATH).await?;
        if !remote.i_know {
            insist_on_play_money(&target.authority(), &health)?;
        }
    }
    Ok(())
}

/// Why a piece of a server cannot be taken out of a running one.
pub(crate) fn cannot_be_broken(mutation: Mutation) -> Error {
    Error::usage((
        format!("{mutation} is taken out of a server; a running one cannot be broken from outside"),
        format!("{mutation} se quita de un servidor; uno en marcha no se puede romper desde fuera"),
    ))
}

/// Asks a service at `host:port` whether its money is play money; `path` is that of its `/healthz`.
///
/// # Errors
///
/// Usage: it does not say so. Unreachable: no answer within ten seconds.
pub async fn refuse_real_money(authority: &str, path: &str) -> Result<(), Error> {
    insist_on_play_money(authority, &health(authority, path).await?)
}

async fn health(authority: &str, path: &str) -> Result<Answer, Error> {
    let answer = Wire::new(Route::Direct(authority.to_owned())).send(&Call::get(path)).await;
    answer.map_err(|cut| {
        let what = (format!("target http://{authority}{path}"), format!("destino http://{authority}{path}"));
        Error::cut(what, &cut)
    })
}

fn insist_on_play_money(authority: &str, health: &Answer) -> Result<(), Error> {
    if says_play_money(health) {
        return Ok(());
    }
    let says = health.excerpt();
    Err(Error::usage((
        format!(
            "target http://{authority} does not say in /healthz that its acquirer is a sandbox or the ledger (it says {says}); \
             charging it may move real money, --i-know does it anyway"
        ),
        format!(
            "el destino http://{authority} no dice en /healthz que su adquirente sea un sandbox o el libro mayor (dice {says}); \
             cobrar ahí puede mover dinero real, --i-know lo hace de todos modos"
        ),
    )))
}

/// Whether a health answer names an acquirer behind which no money moves.
fn says_play_money(answer: &Answer) -> bool {
    let Ok(Value::Object(health)) = answer.json() else { return false };
    answer.status.is_success() && health.values().any(|value| value == "sandbox" || value == "ledger")
}

/// Text that does not name a service the lab can talk to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidTarget {
    given: String,
    why: &'static str,
}

impl fmt::Display for InvalidTarget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "target {:?}: {}; expected http://HOST[:PORT]", self.given, self.why)
    }
}

impl std::error::Error for InvalidTarget {}

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, InvalidTarget> {
        let refuse = |why| InvalidTarget { given: text.to_owned(), why };
        let uri: Uri = text.parse().map_err(|_| refuse("not a URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(refuse("the lab speaks plain http only")),
            _ => return Err(refuse("no http:// in front")),
        }
        if uri.path_and_query().is_some_and(|rest| rest.as_str() != "/") {
            return Err(refuse("a path or query behind the address"));
        }
        let authority = uri.authority().ok_or_else(|| refuse("no host"))?;
        if authority.as_str().contains('@') {
            return Err(refuse("a user name or password in the address"));
        }
        if authority.host().is_empty() {
            return Err(refuse("no host"));
        }
        let port = match authority.as_str().strip_prefix(authority.host()) {
            None | Some("") => 80,
            Some(port) => port[1..].parse().map_err(|_| refuse("the port is not a number up to 65535"))?,
        };
        Ok(Self { host: authority.host().to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses_and_says_what_is_wrong() {
        let shown = |text: &str| match text.parse::<Target>() {
            Ok(target) => target.to_string(),
            Err(refused) => refused.to_string(),
        };
        assert_eq!(shown("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
        assert_eq!(shown("http://localhost/"), "http://localhost:80");
        assert_eq!(shown("http://[::1]:99"), "http://[::1]:99");
        for wrong in [
            "",
            "8080",
            "127.0.0.1:8080",
            "https://x",
            "http://",
            "http://a:b",
            "http://a:70000",
            "http://a/v1",
            "http://u@a",
        ] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong:?} was taken");
        }
        assert_eq!(
            shown("https://pay.example"),
            "target \"https://pay.example\": the lab speaks plain http only; expected http://HOST[:PORT]"
        );
    }

    #[test]
    fn api_keys_are_not_printed() {
        let remote = Remote::parse("http://a:1").expect("an address");
        let remote = Remote {
            api_key: Some("uv_secret".into()),
            other_tenants_api_key: Some("uv_secret".into()),
            ..remote
        };
        assert!(!format!("{remote:?}").contains("secret"));
    }

    #[test]
    fn reads_a_list() {
        let remote = Remote::parse("http://a:1, http://b:2").expect("both are addresses");
        assert_eq!(remote.targets.iter().map(Target::authority).collect::<Vec<_>>(), ["a:1", "b:2"]);
        assert!(Remote::parse("http://a:1,").is_err());
    }
}
