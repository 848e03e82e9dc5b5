//! Why a service is not opened.

use std::fmt;
use std::path::PathBuf;

use unavez_core::seal::SealKeyId;
use unavez_core::timing::Contradiction;
use unavez_store::StoreError;
use unavez_store::sqlite;

use crate::acquirer::signature::SecretsError;
use crate::auth::KeyFileError;
use crate::outside::way::Missing;
use crate::owner::OwnerConflict;

/// Why the service was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// Settings that contradict each other.
    Contradiction(Contradiction),
    /// The database cannot be opened.
    Store(sqlite::OpenError),
    /// The API key file cannot be read.
    ApiKeys(KeyFileError),
    /// The file with the sealing keys cannot be read.
    SealKeys {
        /// Which file.
        path: PathBuf,
        /// Why; never what stands in it.
        why: String,
    },
    /// The database was written with another sealing key of this id.
    SealKeyChanged {
        /// Which.
        id: SealKeyId,
    },
    /// A sealing key is not there, and records that are open or still promised need it.
    SealKeyMissing {
        /// Which.
        id: String,
        /// How many records need it.
        records: u64,
    },
    /// The API keys do not fit what the tenant `default` has stored.
    DefaultTenant(OwnerConflict),
    /// The sandbox's database cannot be opened.
    Sandbox(sqlite::OpenError),
    /// A setting is not there that the acquirer cannot do without.
    Missing(Missing),
    /// The file with the acquirer's secret key cannot be read.
    AcquirerKey(SecretsError),
    /// The file with the webhook secrets cannot be read.
    WebhookSecrets(SecretsError),
    /// The acquirer's connection cannot be set up.
    Acquirer(std::io::Error),
    /// The database could not be asked.
    Read(StoreError),
    /// The runtime is shutting down.
    Interrupted,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contradiction(contradiction) => contradiction.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::ApiKeys(error) => write!(f, "API keys: {error}"),
            Self::SealKeys { path, why } => write!(f, "sealing keys: {}: {why}", path.display()),
            Self::SealKeyChanged { id } => write!(
                f,
                "sealing keys: `{id}` is not the key of this id that the database was written with; put its line back as \
                 it was, and give a new key a new id"
            ),
            Self::SealKeyMissing { id, records } => write!(
                f,
                "sealing keys: `{id}` is not there, and {records} open or unexpired records need it; keep its line in \
                 the file of --seal-key-file until they are gone"
            ),
            Self::DefaultTenant(conflict) => conflict.fmt(f),
            Self::Sandbox(error) => write!(f, "sandbox: {error}"),
            Self::Missing(missing) => missing.fmt(f),
            Self::AcquirerKey(error) => write!(f, "key of the acquirer: {error}"),
            Self::WebhookSecrets(error) => write!(f, "webhook secrets: {error}"),
            Self::Acquirer(error) => write!(f, "acquirer: {error}"),
            Self::Read(error) => error.fmt(f),
            Self::Interrupted => f.write_str("interrupted while opening the database"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<Contradiction> for OpenError {
    fn from(contradiction: Contradiction) -> Self {
        Self::Contradiction(contradiction)
    }
}

impl From<sqlite::OpenError> for OpenError {
    fn from(error: sqlite::OpenError) -> Self {
        Self::Store(error)
    }
}

impl From<KeyFileError> for OpenError {
    fn from(error: KeyFileError) -> Self {
        Self::ApiKeys(error)
    }
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        Self::Read(error)
    }
}
