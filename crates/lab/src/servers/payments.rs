//! The product, in this process.

use std::{fs, path::Path, sync::Arc, time::Duration};

use tempfile::TempDir;
use unavez_core::{identity::Tenant, timing::Timings};
use unavez_payments::{
    Payments as Service, Settings,
    auth::{self, Roles},
};
use unavez_store::{
    Store,
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
    place: Place,
}

/// Where the service charges, and whose clock it goes by.
#[derive(Default)]
struct Place {
    /// An acquirer that a test holds in its hands; without it, the ledger is the whole effect.
    bank: Option<Arc<Bank>>,
    /// A clock that stands still until it is told otherwise; without it, the machine's.
    clock: Option<ManualClock>,
}

impl Payments {
    /// Starts it with the settings a fresh `unavez serve` has.
    pub(crate) async fn start() -> Result<Self, Error> {
        Self::start_in(throw_away_folder()?, Settings::default(), Place::default()).await
    }

    /// Starts it with another TTL, on a clock that stands still until it is told otherwise.
    pub(crate) async fn start_with_ttl(response_ttl: Duration) -> Result<Self, Error> {
        let timings = Timings { response_ttl, ..Timings::default() };
        let settings = Settings { timings, ..Settings::default() };
        let place = Place { bank: None, clock: Some(ManualClock::new()) };
        Self::start_in(throw_away_folder()?, settings, place).await
    }

    /// Starts it with the API keys of two tenants; returns a key of each.
    pub(crate) async fn start_for_two_tenants() -> Result<(Self, String, String), Error> {
        let folder = throw_away_folder()?;
        let (one, one_line) = auth::generate(tenant("one"), Roles::ALL, None);
        let (other, other_line) = auth::generate(tenant("other"), Roles::ALL, None);
        let api_keys_file = folder.path().join("api-keys");
        fs::write(&api_keys_file, format!("{one_line}\n{other_line}\n"))?;
        let settings = Settings { api_keys_file: Some(api_keys_file), ..Settings::default() };
        Ok((Self::start_in(folder, settings, Place::default()).await?, one, other))
    }

    /// Starts it with an acquirer that a test holds in its hands, on a clock that stands still until it is told otherwise.
    pub(crate) async fn start_at_a_bank() -> Result<Self, Error> {
        let clock = ManualClock::new();
        let place = Place { bank: Some(Bank::open(&clock).await?), clock: Some(clock) };
        Self::start_in(throw_away_folder()?, Settings::default(), place).await
    }

    async fn start_in(folder: TempDir, settings: Settings, place: Place) -> Result<Self, Error> {
        let service = place.open(folder.path(), &settings).await?;
        let running = Running::serve(service.router()).await?;
        Ok(Self { service, running, folder, settings, place })
    }

    /// The bank, if it charges at one.
    pub(crate) fn bank(&self) -> Option<&Bank> {
        self.place.bank.as_deref()
    }

    /// Moves the clock of the service and its bank, unless it is the machine's.
    pub(crate) fn pass(&self, time: Duration) {
        if let Some(clock) = &self.place.clock {
            clock.advance(time);
        }
    }

    /// Deletes what has expired now, and not when the night shift next looks around.
    pub(crate) async fn purge(&self) -> Result<(), Error> {
        let purged = self.service.store().purge(usize::MAX).await;
        purged
            .map(drop)
            .map_err(|error| Error::broken(format!("purging a private payments service: {error}")))
    }

    pub(crate) fn running(&self) -> &Running {
        &self.running
    }

    /// Stops it and starts it again on the same file.
    pub(crate) async fn restart(&mut self) -> Result<(), Error> {
        self.running.stop().await;
        self.service.close().await;
        self.service = self.place.open(self.folder.path(), &self.settings).await?;
        self.running = Running::serve(self.service.router()).await?;
        Ok(())
    }

    pub(crate) async fn stop(mut self) {
        self.running.stop().await;
        self.service.close().await;
        if let Some(bank) = &self.place.bank {
            bank.close().await;
        }
    }
}

impl Place {
    /// Opens the service's database in a folder.
    async fn open(&self, folder: &Path, settings: &Settings) -> Result<Service, Error> {
        let clock = self.clock.clone().map(|clock| Arc::new(clock) as Arc<dyn Clock>);
        let options = Options { clock, ..Options::default() };
        let location = Location::File(folder.join("unavez.db"));
        let opened = match &self.bank {
            Some(bank) => {
                Service::open_with(location, options, settings.clone(), Arc::clone(bank) as _).await
            }
            None => Service::open(location, options, settings.clone()).await,
        };
        opened.map_err(|error| Error::broken(format!("a private payments service: {error}")))
    }
}

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).expect("a short word is a tenant's name")
}
