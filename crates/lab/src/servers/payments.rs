//! The product, in this process.

use std::{fs, path::Path, sync::Arc, time::Duration};

use tempfile::TempDir;
use unavez_core::identity::Tenant;
use unavez_payments::{
    Payments as Service, Settings,
    auth::{self, Roles},
};
use unavez_store::{
    clock::{Clock, ManualClock},
    sqlite::{Location, Options},
};

use super::{Bank, Running, throw_away_folder};
use crate::Error;

/// The payments service as `unavez serve` runs it, on a file of its own.
pub(crate) struct Payments {
    service: Service,
    running: Running,
    folder: TempDir,
    settings: Settings,
    abroad: Option<AtABank>,
}

/// A bank that the service charges at, and the clock of both.
struct AtABank {
    bank: Arc<Bank>,
    clock: ManualClock,
}

impl Payments {
    /// Starts it with the settings a fresh `unavez serve` has.
    pub(crate) async fn start() -> Result<Self, Error> {
        Self::start_in(throw_away_folder()?, Settings::default()).await
    }

    /// Starts it with the API keys of two tenants; returns a key of each.
    pub(crate) async fn start_for_two_tenants() -> Result<(Self, String, String), Error> {
        let folder = throw_away_folder()?;
        let (one, one_line) = auth::generate(tenant("one"), Roles::ALL, None);
        let (other, other_line) = auth::generate(tenant("other"), Roles::ALL, None);
        let api_keys_file = folder.path().join("api-keys");
        fs::write(&api_keys_file, format!("{one_line}\n{other_line}\n"))?;
        let settings = Settings { api_keys_file: Some(api_keys_file), ..Settings::default() };
        Ok((Self::start_in(folder, settings).await?, one, other))
    }

    /// Starts it with an acquirer that a test holds in its hands, on a clock that stands still until it is told otherwise.
    pub(crate) async fn start_at_a_bank() -> Result<Self, Error> {
        let (folder, settings, clock) = (throw_away_folder()?, Settings::default(), ManualClock::new());
        let abroad = AtABank { bank: Bank::open(&clock).await?, clock };
        let service = abroad.open(folder.path(), &settings).await?;
        let running = Running::serve(service.router()).await?;
        Ok(Self { service, running, folder, settings, abroad: Some(abroad) })
    }

    async fn start_in(folder: TempDir, settings: Settings) -> Result<Self, Error> {
        let service = open(folder.path(), &settings).await?;
        let running = Running::serve(service.router()).await?;
        Ok(Self { service, running, folder, settings, abroad: None })
    }

    /// The bank, if it charges at one.
    pub(crate) fn bank(&self) -> Option<&Bank> {
        self.abroad.as_ref().map(|abroad| &*abroad.bank)
    }

    /// Moves the clock of the service and its bank; without a bank it is the machine's.
    pub(crate) fn pass(&self, time: Duration) {
        if let Some(abroad) = &self.abroad {
            abroad.clock.advance(time);
        }
    }

    pub(crate) fn running(&self) -> &Running {
        &self.running
    }

    /// Stops it and starts it again on the same file.
    pub(crate) async fn restart(&mut self) -> Result<(), Error> {
        self.running.stop().await;
        self.service.close().await;
        self.service = match &self.abroad {
            Some(abroad) => abroad.open(self.folder.path(), &self.settings).await?,
            None => open(self.folder.path(), &self.settings).await?,
        };
        self.running = Running::serve(self.service.router()).await?;
        Ok(())
    }

    pub(crate) async fn stop(mut self) {
        self.running.stop().await;
        self.service.close().await;
        if let Some(abroad) = &self.abroad {
            abroad.bank.close().await;
        }
    }
}

impl AtABank {
    async fn open(&self, folder: &Path, settings: &Settings) -> Result<Service, Error> {
        let clock = Arc::new(self.clock.clone()) as Arc<dyn Clock>;
        let options = Options { clock: Some(clock), ..Options::default() };
        let location = Location::File(folder.join("unavez.db"));
        Service::open_with(location, options, settings.clone(), Arc::clone(&self.bank) as _)
            .await
            .map_err(|error| Error::broken(format!("a private payments service: {error}")))
    }
}

/// Opens the service's database in a folder.
pub(super) async fn open(folder: &Path, settings: &Settings) -> Result<Service, Error> {
    Service::open(Location::File(folder.join("unavez.db")), Options::default(), settings.clone())
        .await
        .map_err(|error| Error::broken(format!("a private payments service: {error}")))
}

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).expect("a short word is a tenant's name")
}
