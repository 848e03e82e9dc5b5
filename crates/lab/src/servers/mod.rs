//! The servers the lab measures, each started on a free loopback port with real files in a folder that is thrown away.
//!
//! | server | remembers | ledger |
//! |---|---|---|
//! | [`Raw`] | nothing: every POST charges | append-only, without unique ids |
//! | [`Payments`] | the product: one commit per charge | the product's |
//! | [`Lesson`] | through the engine, over any store | append-only, without unique ids |
//! | [`Abroad`] | through the engine, over any store and any acquirer, in two replicas | append-only, without unique ids |
//!
//! [`Bank`] is the acquirer of [`Abroad`], and of the product where it charges at one.

mod abroad;
mod bank;
mod floor;
mod ledger;
mod lesson;
mod payments;
mod raw;

use std::net::Ipv4Addr;

use axum::Router;
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};
use unavez_payments::server::{self, Limits};

use crate::Error;

pub(crate) use self::{
    abroad::Abroad,
    bank::{Bank, Executed, Fate, VISIBILITY_DELAY},
    floor::{Meeting, Step},
    lesson::{Lesson, ONE_COMMIT_PATH, SLOW_PATH},
    payments::Payments,
    raw::Raw,
};

/// A server that answers on a loopback port until it is stopped.
#[derive(Debug)]
pub(crate) struct Running {
    authority: String,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
}

impl Running {
    /// Serves a router by the product's accept loop.
    pub(crate) async fn serve(router: Router) -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let authority = listener.local_addr()?.to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            // Dropped without a word is also a reason to stop.
            let until = async { stopped.await.unwrap_or_default() };
            server::serve(listener, router, Limits::default(), until).await;
        });
        Ok(Self { authority, stop: Some(stop), served })
    }

    /// `host:port`.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Stops accepting and waits for what runs. Once stopped, stays stopped.
    pub(crate) async fn stop(&mut self) {
        if self.stop.take().is_some_and(|stop| stop.send(()).is_ok()) {
            // A server that panicked has nothing left to wait for.
            let _ = (&mut self.served).await;
        }
    }
}

/// A folder for a server's files, gone when it is dropped.
pub(crate) fn throw_away_folder() -> Result<TempDir, Error> {
    tempfile::Builder::new().prefix("unavez-lab-").tempdir().map_err(|error| {
        Error::unreachable((
            format!("no folder for a private server's files: {error}"),
            format!("no hay carpeta para los archivos de un servidor propio: {error}"),
        ))
    })
}
