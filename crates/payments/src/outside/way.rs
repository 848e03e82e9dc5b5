//! Which acquirer the settings name, and what it takes to reach it.

use std::fmt;
use std::sync::Arc;

use crate::acquirer::http::BaseUrl;
use crate::acquirer::mercadopago::{MercadoPago, MercadoPagoOptions};
use crate::acquirer::sandbox::{SandboxAcquirer, Terms};
use crate::acquirer::signature::Secrets;
use crate::acquirer::stripe::{Stripe, StripeOptions};
use crate::acquirer::vendor::{ApiKey, SharedSecrets};
use crate::acquirer::{Account, Acquirer};
use crate::open_error::OpenError;
use crate::settings::{AcquirerKind, Settings, Vendor};

/// Where money moves.
pub(crate) enum Way {
    /// Nowhere but here.
    Ledger,
    /// Outside.
    Outside(Arc<dyn Acquirer>),
    /// To the sandbox in this process, once the database is open that it lies beside.
    Sandbox,
}

/// How the deployment's name came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RealmName {
    /// By the operator.
    Given,
    /// From the database, or by chance.
    Left,
}

/// A setting that the acquirer cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    acquirer: &'static str,
    what: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "acquirer {} needs {}", self.acquirer, self.what)
    }
}

impl Way {
    pub(crate) fn of(settings: &Settings, realm: RealmName) -> Result<Self, OpenError> {
        Ok(match &settings.acquirer {
            AcquirerKind::Ledger => Self::Ledger,
            AcquirerKind::Sandbox => Self::Sandbox,
            AcquirerKind::SandboxAt(url) => Self::Outside(Arc::new(sandbox_at(url.clone(), settings)?)),
            AcquirerKind::Stripe => Self::Outside(Arc::new(stripe(settings, realm)?)),
            AcquirerKind::MercadoPago => Self::Outside(Arc::new(mercado_pago(settings, realm)?)),
        })
    }
}

fn sandbox_at(url: BaseUrl, settings: &Settings) -> Result<SandboxAcquirer, OpenError> {
    let secrets = match &settings.webhook_secret_file {
        Some(path) => Secrets::read(path).map_err(OpenError::WebhookSecrets)?,
        // One that nobody knows: every webhook is refused.
        None => Secrets::random(),
    };
    SandboxAcquirer::over_http(url, Terms::default(), secrets).map_err(OpenError::Acquirer)
}

fn stripe(settings: &Settings, realm: RealmName) -> Result<Stripe, OpenError> {
    let access = Access::of("stripe", settings, realm)?;
    let mut options = StripeOptions::new(access.account, access.key, access.secrets);
    options.base = settings.vendor.url.clone().unwrap_or(options.base);
    options.visibility_delay = settings.visibility_delay.unwrap_or(options.visibility_delay);
    Stripe::new(options).map_err(OpenError::Acquirer)
}

fn mercado_pago(settings: &Settings, realm: RealmName) -> Result<MercadoPago, OpenError> {
    const NAME: &str = "mercadopago";
    let access = Access::of(NAME, settings, realm)?;
    let currency = settings.vendor.currency;
    let currency = currency.ok_or(missing(NAME, "the currency of the account: --acquirer-currency"))?;
    let mut options = MercadoPagoOptions::new(access.account, access.key, access.secrets, currency);
    options.base = settings.vendor.url.clone().unwrap_or(options.base);
    options.visibility_delay = settings.visibility_delay.unwrap_or(options.visibility_delay);
    MercadoPago::new(options).map_err(OpenError::Acquirer)
}

/// What opens an account.
struct Access {
    account: Account,
    key: ApiKey,
    secrets: SharedSecrets,
}

impl Access {
    fn of(name: &'static str, settings: &Settings, realm: RealmName) -> Result<Self, OpenError> {
        let Vendor { key_file, account, .. } = &settings.vendor;
        if realm == RealmName::Left {
            return Err(missing(
                name,
                "a realm that is named: --realm; two deployments of one name would share operation ids",
            ));
        }
        let key_file = key_file.as_deref().ok_or(missing(name, "its secret key: --acquirer-key-file"))?;
        let account = account.as_deref().ok_or(missing(
            name,
            "a name for the account: --acquirer-account; what was sent under another one is never sent again",
        ))?;
        let webhook_file = settings.webhook_secret_file.as_deref();
        let webhook_file =
            webhook_file.ok_or(missing(name, "the secret of its webhooks: --webhook-secret-file"))?;
        Ok(Self {
            account: Account::parse(&format!("{name}:{account}"))
                .ok_or(missing(name, "an account's name of at most 100 characters without space"))?,
            key: ApiKey::read(key_file).map_err(OpenError::AcquirerKey)?,
            secrets: SharedSecrets::read(webhook_file).map_err(OpenError::WebhookSecrets)?,
        })
    }
}

const fn missing(acquirer: &'static str, what: &'static str) -> OpenError {
    OpenError::Missing(Missing { acquirer, what })
}
