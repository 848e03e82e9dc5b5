//! How the two programs are set up, and what is between them.

use std::net::SocketAddr;
use std::time::Duration;

use super::process::free_address;
use super::proxy::Proxy;
use super::weather::Weather;
use crate::failure::Failure;

/// Signs webhooks. Known to everybody, and good for a folder that is thrown away.
pub(super) const WEBHOOK_SECRET: &str = "whsec_dW5hdmV6LWNyYXNoLWhhcm5lc3Mtd2ViaG9vay1zZWNyZXQ=";

/// How the two are set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// What the acquirer is told: `forever`, or `off`. The service relies on deduplication either way, so that with `off`
    /// every request that is sent twice is executed twice.
    pub(crate) dedupe: &'static str,
    /// V (P16).
    pub(crate) visibility_delay: Duration,
}

/// Where the two listen, and what is between them.
pub(crate) struct Network {
    pub(super) serve: SocketAddr,
    pub(super) acquirer: SocketAddr,
    /// On the way to the service, and on the way to the acquirer.
    proxies: Option<[Proxy; 2]>,
}

impl Network {
    /// Nothing between them.
    pub(crate) fn direct() -> Result<Self, Failure> {
        Ok(Self { serve: free_address()?, acquirer: free_address()?, proxies: None })
    }

    /// A proxy each way.
    pub(crate) fn through(to_serve: Weather, to_acquirer: Weather) -> Result<Self, Failure> {
        let direct = Self::direct()?;
        let proxies = [Proxy::open(direct.serve, to_serve)?, Proxy::open(direct.acquirer, to_acquirer)?];
        Ok(Self { proxies: Some(proxies), ..direct })
    }

    pub(super) fn serve_seen(&self) -> SocketAddr {
        self.proxies.as_ref().map_or(self.serve, |[to_serve, _]| to_serve.address)
    }

    pub(super) fn acquirer_seen(&self) -> SocketAddr {
        self.proxies.as_ref().map_or(self.acquirer, |[_, to_acquirer]| to_acquirer.address)
    }

    /// Waits until whatever is held up has arrived.
    pub(super) fn wait_until_quiet(&self) {
        for proxy in self.proxies.iter().flatten() {
            proxy.wait_until_quiet();
        }
    }
}

/// An attempt has a second and a quarter, of which the acquirer may take the half.
pub(super) fn serve_arguments(terms: Terms, acquirer: SocketAddr) -> Vec<String> {
    let visibility_delay = format!("{}ms", terms.visibility_delay.as_millis());
    let acquirer = format!("http://{acquirer}");
    let flags = [
        ["--store", "sqlite:unavez.db"],
        ["--realm", "crash"],
        ["--acquirer", &acquirer],
        ["--webhook-secret-file", "webhook-secret"],
        ["--operation-timeout", "1500ms"],
        ["--store-timeout", "250ms"],
        ["--acquirer-timeout", "600ms"],
        ["--visibility-delay", &visibility_delay],
        ["--log", "warn"],
    ];
    arguments("serve", &flags)
}

pub(super) fn acquirer_arguments(terms: Terms, serve: SocketAddr) -> Vec<String> {
    let webhook_url = format!("http://{serve}/v1/webhooks/acquirer");
    let flags = [
        ["--store", "sqlite:acquirer.db"],
        ["--webhook-url", &webhook_url],
        ["--webhook-secret-file", "webhook-secret"],
        ["--dedupe", terms.dedupe],
        ["--latency", "5ms"],
        ["--log", "warn"],
    ];
    arguments("acquirer", &flags)
}

fn arguments(subcommand: &str, flags: &[[&str; 2]]) -> Vec<String> {
    [subcommand].into_iter().chain(flags.iter().flatten().copied()).map(str::to_owned).collect()
}
