//! The product, in this process.

use std::{fs, path::Path};

use tempfile::TempDir;
use unavez_core::identity::Tenant;
use unavez_payments::{
    Payments as Service, Settings,
    auth::{self, Roles},
};
use unavez_store::sqlite::{Location, Options};

use super::{Running, throw_away_folder};
use crate::Error;

/// The payments service as `unavez serve` runs it, on a file of its own.
pub(crate) struct Payments {
    service: Service,
    running: Running,
    folder: TempDir,
    settings: Settings,
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

    async fn start_in(folder: TempDir, settings: Settings) -> Result<Self, Error> {
        let service = open(folder.path(), &settings).await?;
        let running = Running::serve(service.router()).await?;
        Ok(Self { service, running, folder, settings })
    }

    pub(crate) fn running(&self) -> &Running {
        &self.running
    }

    /// Stops it and starts it again on the same file.
    pub(crate) async fn restart(&mut self) -> Result<(), Error> {
        self.running.stop().await;
        self.service.close().await;
        self.service = open(self.folder.path(), &self.settings).await?;
        self.running = Running::serve(self.service.router()).await?;
        Ok(())
    }

    pub(crate) async fn stop(mut self) {
        self.running.stop().await;
        self.service.close().await;
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
