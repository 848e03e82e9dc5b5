//! Which acquirer, and how it is reached: the flags that every command has which speaks to one.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use unavez_payments::acquirer::http::BaseUrl;
use unavez_payments::money::Currency;
use unavez_payments::{AcquirerKind, Settings, Vendor};

use crate::duration;

/// The flags below "Acquirer".
#[derive(Args, Debug)]
pub(crate) struct AcquirerFlags {
    /// Where money moves: ledger (the service's own books are the whole effect), sandbox (a test acquirer in this process,
    /// its database beside --store), http://HOST:PORT (that one in a process of its own), stripe or mercadopago
    #[arg(long, value_name = "ACQUIRER", default_value = "sandbox", value_parser = acquirer, help_heading = "Acquirer")]
    acquirer: AcquirerKind,

    /// Where the API of stripe or mercadopago is; their own address, unless given
    #[arg(long, value_name = "URL", help_heading = "Acquirer")]
    acquirer_url: Option<BaseUrl>,

    /// Secret key of the account at stripe or mercadopago
    #[arg(long, value_name = "FILE", help_heading = "Acquirer")]
    acquirer_key_file: Option<PathBuf>,

    /// Names that account, such as acct_1234; stored with every claim and never changed
    #[arg(long, value_name = "NAME", help_heading = "Acquirer")]
    acquirer_account: Option<Box<str>>,

    /// The one currency of an account at mercadopago, such as BRL
    #[arg(long, value_name = "CODE", value_parser = currency, help_heading = "Acquirer")]
    acquirer_currency: Option<Currency>,

    /// How long the acquirer may take to answer; cut down, with a warning, to what an attempt has room for
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse_positive, help_heading = "Acquirer")]
    acquirer_timeout: Duration,

    /// After this time a lost request can no longer arrive and take effect, and every executed one is found; the adapter's
    /// own, unless given
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Acquirer")]
    visibility_delay: Option<Duration>,

    /// Secrets that the acquirer signs its webhooks with, one a line: whsec_BASE64, or TENANT whsec_BASE64; without it they are
    /// refused
    #[arg(long, value_name = "FILE", help_heading = "Acquirer")]
    webhook_secret_file: Option<PathBuf>,
}

impl AcquirerFlags {
    /// Settings that differ from the defaults in the acquirer alone.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            acquirer: self.acquirer.clone(),
            vendor: Vendor {
                url: self.acquirer_url.clone(),
                key_file: self.acquirer_key_file.clone(),
                account: self.acquirer_account.clone(),
                currency: self.acquirer_currency,
            },
            acquirer_timeout: self.acquirer_timeout,
            visibility_delay: self.visibility_delay,
            webhook_secret_file: self.webhook_secret_file.clone(),
            ..Settings::default()
        }
    }
}

fn currency(code: &str) -> Result<Currency, String> {
    Currency::parse(code).ok_or_else(|| "expected an ISO 4217 code such as EUR".to_owned())
}

fn acquirer(name: &str) -> Result<AcquirerKind, String> {
    name.parse().map_err(|_| "expected ledger, sandbox, http://HOST:PORT, stripe or mercadopago".to_owned())
}
