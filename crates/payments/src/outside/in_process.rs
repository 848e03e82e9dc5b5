//! The sandbox in the service's own process: its database beside the service's, its webhooks without a socket between.

use std::sync::Arc;

use unavez_store::clock::Clock;
use unavez_store::sqlite::{Location, Options};

use super::Outside;
use super::webhook::Received;
use crate::acquirer::sandbox::{Behaviour, Courier, Deliveries, Letter, Sandbox, SandboxAcquirer, beside};
use crate::acquirer::signature::Secrets;
use crate::acquirer::{Acquirer, BoxFuture, EventRefusal, Reason};
use crate::open_error::OpenError;

/// A sandbox and the secrets between it and the service.
#[derive(Clone, Debug)]
pub(crate) struct InProcess {
    sandbox: Sandbox,
    secrets: Secrets,
}

impl InProcess {
    /// Opens the sandbox's books beside the service's.
    pub(crate) async fn open(location: &Location, clock: Option<Arc<dyn Clock>>) -> Result<Self, OpenError> {
        let beside = match location {
            Location::Memory => Location::Memory,
            Location::File(path) => Location::File(beside(path)),
        };
        let options = Options { clock, ..Options::default() };
        let opened =
            tokio::task::spawn_blocking(move || Sandbox::open(beside, options, Behaviour::default()));
        let sandbox = opened.await.map_err(|_| OpenError::Interrupted)?.map_err(OpenError::Sandbox)?;
        Ok(Self { sandbox, secrets: Secrets::random() })
    }

    pub(crate) const fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    pub(crate) fn acquirer(&self) -> Arc<dyn Acquirer> {
        Arc::new(SandboxAcquirer::in_process(&self.sandbox, self.secrets.clone()))
    }

    /// Webhooks take the same way as those from outside, signature included.
    pub(crate) fn deliveries(&self, outside: Arc<Outside>) -> Deliveries {
        Deliveries::new(self.sandbox.clone(), self.secrets.clone(), Arc::new(InHouse(outside)))
    }

    pub(crate) async fn close(&self) {
        self.sandbox.close().await;
    }
}

struct InHouse(Arc<Outside>);

impl Courier for InHouse {
    fn deliver<'a>(&'a self, letter: &'a Letter) -> BoxFuture<'a, Result<(), Reason>> {
        Box::pin(async {
            let outside = &self.0;
            let now = outside.now();
            let received = match outside.acquirer.read_event(&letter.headers, &letter.body, now).await {
                Ok(event) => outside.receive(event).await,
                Err(EventRefusal::Malformed(reason)) => outside.keep_malformed(None, reason.0.into()).await,
                Err(EventRefusal::NotSigned(reason) | EventRefusal::Unavailable(reason)) => {
                    return Err(reason);
                }
            };
            match received {
                Received::Acknowledged => Ok(()),
                Received::Again => Err(Reason("the store did not take it".into())),
            }
        })
    }
}
