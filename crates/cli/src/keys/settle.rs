//! `unavez keys settle`: a person says what became of an operation that nothing else will settle.

use std::path::PathBuf;

use clap::Args;
use http::StatusCode;
use unavez_core::identity::Tenant;
use unavez_core::key::Key;
use unavez_payments::Payments;
use unavez_store::sqlite::{Location, OpenError, Options};

use super::{existing_file, key, open, tenant};
use crate::client::{Answered, Service, read_api_key};
use crate::console::{RulingWord, SettleRefusal, SettleReport, SettleRequest, settle_one};
use crate::exit::{Exit, Failure};
use crate::output::{Output, print_json, print_line};
use crate::serve::{AcquirerFlags, DatabaseFile, open_failure};

/// Flags of `unavez keys settle`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez keys settle checkout-7 --as failed --reason 'not in their dashboard, ticket 4711'
  unavez keys settle checkout-7 --as done --acquirer-cannot-be-asked --reason 'payment 99 there'

The acquirer is asked first, and is never contradicted. `failed` needs its fresh \"not found\", asked
after the time in which a lost request can still arrive; `done` needs its yes. Where it cannot be
asked from here, look there yourself and say so with --acquirer-cannot-be-asked.
The ruling is kept with its reason among the operation's events; `unavez trace KEY` shows it. If the
acquirer tells otherwise later, that is kept as a contradiction and alarmed.

The running service is asked (with API keys it needs one with the operator role, and settles keys of
that key's tenant). Where none answers at --target, the file is opened, if no other process owns it;
then the acquirer's flags are needed as `serve` has them.
Exit 1 if the ruling is refused.")]
pub(crate) struct SettleArgs {
    /// The idempotency key, without quotes
    #[arg(value_name = "KEY", value_parser = key)]
    key: Key,

    /// What became of it: done (the money moved) or failed (it did not, and will not)
    #[arg(long = "as", value_enum, value_name = "RULING", hide_possible_values = true)]
    ruling: RulingWord,

    /// Why: kept with the operation
    #[arg(long, value_name = "TEXT")]
    reason: String,

    /// Who says so: kept with the operation
    #[arg(long, value_name = "NAME")]
    by: Option<String>,

    /// Whose key; the tenant of the API key, unless given
    #[arg(long, value_name = "TENANT", value_parser = tenant)]
    tenant: Option<Tenant>,

    /// The acquirer cannot be asked from here: I looked there by other means, and answer for it
    #[arg(long)]
    acquirer_cannot_be_asked: bool,

    /// The running service, or its --admin-listen address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = Service::parse)]
    target: Service,

    /// File with an API key on its first line
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,

    /// The database to open where no service answers: sqlite:PATH
    #[arg(long, value_name = "STORE", default_value = "sqlite:unavez.db")]
    store: DatabaseFile,

    /// The file with the keys that seal stored answers, if the service has one
    #[arg(long, value_name = "FILE")]
    seal_key_file: Option<PathBuf>,

    #[command(flatten)]
    acquirer: AcquirerFlags,

    #[command(flatten)]
    output: Output,
}

impl SettleArgs {
    fn request(&self) -> SettleRequest {
        SettleRequest {
            key: self.key.as_str().to_owned(),
            tenant: self.tenant.as_ref().map(|tenant| tenant.as_str().to_owned()),
            ruling: self.ruling,
            reason: self.reason.clone(),
            by: self.by.clone(),
            acquirer_cannot_be_asked: self.acquirer_cannot_be_asked,
        }
    }
}

pub(super) fn settle(args: &SettleArgs) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unavailable(format!("the runtime cannot start: {error}")))?;
    let report = runtime.block_on(through_service_or_file(args))?;
    let text = || {
        format!(
            "{} of key {} is settled as {}; the acquirer said: {}",
            report.resource_id, report.key, report.standing, report.acquirer_said
        )
    };
    if args.output.is_json() { print_json(&report) } else { print_line(&text()) }?;
    Ok(Exit::Done)
}

async fn through_service_or_file(args: &SettleArgs) -> Result<SettleReport, Failure> {
    let api_key = args.api_key_file.as_deref().map(read_api_key).transpose()?;
    if !args.target.is_answering().await? {
        return through_file(args).await;
    }
    let answered = args.target.post("/admin/keys/settle", &args.request(), api_key.as_deref()).await?;
    match answered {
        None => through_file(args).await,
        Some(Answered::Done(report)) => Ok(report),
        Some(Answered::Refused(status, body)) => match serde_json::from_slice(&body) {
            Ok(refusal) => Err(refused(status, refusal)),
            Err(_) => Err(args.target.refused(status, &body)),
        },
    }
}

fn refused(status: StatusCode, SettleRefusal { refused, help }: SettleRefusal) -> Failure {
    let failure = match status {
        StatusCode::CONFLICT => Failure::check_failed(format!("not settled: {refused}")),
        StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN => Failure::usage(refused),
        _ => Failure::unavailable(refused),
    };
    match help {
        Some(help) => failure.with_help(help),
        None => failure,
    }
}

/// Nobody answers: the file is ours if nobody owns it. It is opened as `serve` opens it, so that an acquirer in the same
/// process is there, too.
async fn through_file(args: &SettleArgs) -> Result<SettleReport, Failure> {
    let path = existing_file(&args.store)?;
    // What an acquirer needs a name for has it: the database's own.
    let realm = open(&args.store)?.realm().clone();
    let mut settings = args.acquirer.settings();
    settings.seal_key_file.clone_from(&args.seal_key_file);
    let options = Options { realm: Some(realm), ..Options::default() };
    let opened = Payments::open(Location::File(path.to_owned()), options, settings).await;
    let payments = opened.map_err(|error| match error {
        unavez_payments::OpenError::Store(OpenError::Locked { .. }) => {
            Failure::unavailable(format!("{error}, and nothing answers at {}", args.target))
                .with_help("--target names the address of the service that owns it")
        }
        error => open_failure(&error),
    })?;
    let tenant = args.tenant.clone().unwrap_or_else(Tenant::single);
    let settled = settle_one(&payments, tenant, args.request()).await;
    payments.close().await;
    settled.map_err(|(status, refusal)| refused(status, refusal))
}
