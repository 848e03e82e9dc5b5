//! Where the acquirer's list comes from.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use unavez_core::time::Time;

use crate::OpenError;
use crate::acquirer::sandbox::{SandboxAcquirer, SandboxBooks};
use crate::acquirer::{Account, Acquirer, CannotSay, Kind, ListPage, Reason};
use crate::outside::way::{RealmName, Way};
use crate::settings::Settings;

/// An acquirer's list.
pub struct Source {
    account: Account,
    visibility_delay: Duration,
    list: List,
}

enum List {
    Acquirer(Arc<dyn Acquirer>),
    /// Of the sandbox in the service's process, read beside it.
    Sandbox(SandboxBooks),
}

impl Source {
    /// The list of the acquirer that a service with these settings and this database has; `None`: the ledger, which has
    /// none but its own.
    ///
    /// # Errors
    /// What the settings name is missing or cannot be read.
    pub fn of(settings: &Settings, database: &Path) -> Result<Option<Self>, OpenError> {
        let source = match Way::of(settings, RealmName::Given)? {
            Way::Ledger => return Ok(None),
            Way::Outside(acquirer) => Self::acquirer(acquirer),
            Way::Sandbox => Self {
                account: Account::parse(SandboxAcquirer::IN_PROCESS).expect("a printable constant"),
                visibility_delay: Duration::ZERO,
                list: List::Sandbox(SandboxBooks::of_service(database).map_err(OpenError::Sandbox)?),
            },
        };
        let visibility_delay = settings.visibility_delay.unwrap_or(source.visibility_delay);
        Ok(Some(Self { visibility_delay, ..source }))
    }

    /// The list of this acquirer.
    #[must_use]
    pub fn acquirer(acquirer: Arc<dyn Acquirer>) -> Self {
        let delays = Kind::ALL.map(|kind| acquirer.promise(kind).visibility_delay);
        Self {
            account: acquirer.account().clone(),
            visibility_delay: delays.into_iter().max().unwrap_or_default(),
            list: List::Acquirer(acquirer),
        }
    }

    /// Whose list it is.
    #[must_use]
    pub const fn account(&self) -> &Account {
        &self.account
    }

    pub(super) const fn visibility_delay(&self) -> Duration {
        self.visibility_delay
    }

    pub(super) fn lists(&self, kind: Kind) -> bool {
        match &self.list {
            List::Acquirer(acquirer) => acquirer.lists(kind),
            List::Sandbox(_) => true,
        }
    }

    pub(super) async fn page(
        &self,
        since: Time,
        now: Time,
        after: Option<&str>,
    ) -> Result<ListPage, CannotSay> {
        const PAGE: usize = 100;
        match &self.list {
            List::Acquirer(acquirer) => acquirer.list(since, after, PAGE).await,
            List::Sandbox(books) => books
                .list(since, now, after, PAGE)
                .map_err(|error| CannotSay(Reason(format!("the sandbox's books: {error}").into()))),
        }
    }
}
