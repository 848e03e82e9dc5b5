//! Opens the sandbox's books, serves until it is asked to stop, and closes them.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use unavez_payments::acquirer::http::{BaseUrl, Client};
use unavez_payments::acquirer::sandbox::{Deliveries, HttpCourier, Sandbox, SandboxService};
use unavez_payments::acquirer::signature::Secrets;
use unavez_payments::server;
use unavez_store::sqlite::Options;

use super::AcquirerArgs;
use crate::exit::{Exit, Failure};
use crate::serve::{Stop, drain_on, signals_failed, store_failure, until};

/// How long a shutdown waits for running requests. Answers that never come are given up at once.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs `unavez acquirer`.
pub(crate) fn run(args: &AcquirerArgs) -> Result<Exit, Failure> {
    check(args)?;
    let post = Post::of(args)?;
    args.log.start()?;
    // What it does is done by its books' one thread; more threads than one before that would only wake each other.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::unavailable(format!("the runtime cannot start: {error}")))?;
    let done = runtime.block_on(serve(args, post));
    // A thread that still waits for the database's lock must not hold up the end.
    runtime.shutdown_background();
    done
}

/// Refuses flags that contradict each other, without opening anything.
pub(crate) fn check(args: &AcquirerArgs) -> Result<(), Failure> {
    args.log.check()?;
    match (&args.webhook_url, &args.webhook_secret_file) {
        (Some(url), _) if !url.is_private() => Err(exposed(url)),
        (Some(_), None) => {
            Err(Failure::usage("--webhook-url is given without --webhook-secret-file").with_help(
                "receivers believe signed webhooks only; `echo whsec_$(openssl rand -base64 32) > FILE` makes a secret",
            ))
        }
        (None, Some(_)) => Err(Failure::usage("--webhook-secret-file is given without --webhook-url")),
        _ => Ok(()),
    }
}

fn exposed(url: &BaseUrl) -> Failure {
    Failure::usage(format!("--webhook-url {url}: what is posted there can be read and changed on its way"))
        .with_help("use https, or http on this machine: http://127.0.0.1:8080/v1/webhooks/acquirer")
}

/// Where webhooks go, and what signs them.
struct Post {
    courier: HttpCourier,
    secrets: Secrets,
}

impl Post {
    fn of(args: &AcquirerArgs) -> Result<Option<Self>, Failure> {
        let (Some(url), Some(file)) = (&args.webhook_url, &args.webhook_secret_file) else { return Ok(None) };
        let secrets = Secrets::read(file).map_err(|error| Failure::usage(error.to_string()))?;
        let courier = HttpCourier::new(client(url.clone())?).ok_or_else(|| exposed(url))?;
        Ok(Some(Self { courier, secrets }))
    }
}

fn client(url: BaseUrl) -> Result<Client, Failure> {
    Client::new(url).map_err(|error| {
        Failure::unavailable(format!("the system's certificates cannot be used: {error}"))
            .with_help("on Debian: apt install ca-certificates")
    })
}

async fn serve(args: &AcquirerArgs, post: Option<Post>) -> Result<Exit, Failure> {
    let mut stop = Stop::listen().map_err(signals_failed)?;
    let (location, behaviour) = (args.store.0.clone(), args.behaviour());
    let options = Options { lock_wait: args.lock_wait, ..Options::default() };
    let opening = tokio::task::spawn_blocking(move || Sandbox::open(location, options, behaviour));
    let sandbox = tokio::select! {
        opened = opening => opened
            .map_err(|_| Failure::unavailable("opening the books was interrupted"))?
            .map_err(|error| store_failure(&error))?,
        () = stop.asked() => return Ok(Exit::Done),
    };
    let served = accept(args, &sandbox, post, stop).await;
    sandbox.close().await;
    served.map(|()| Exit::Done)
}

async fn accept(
    args: &AcquirerArgs,
    sandbox: &Sandbox,
    post: Option<Post>,
    stop: Stop,
) -> Result<(), Failure> {
    let listener = args.listen.bind().await?;
    let address = listener
        .local_addr()
        .map_err(|error| Failure::unavailable(format!("the listener has no address: {error}")))?;
    if !args.listen.is_loopback() {
        tracing::warn!(%address, "others can reach this acquirer, and it approves whoever asks");
    }
    let draining = drain_on(stop);
    announce(address);
    let deliveries = post.map(|Post { courier, secrets }| {
        tokio::spawn(Deliveries::new(sandbox.clone(), secrets, Arc::new(courier)).run())
    });
    let limits = server::Limits { drain_timeout: DRAIN_TIMEOUT, ..server::Limits::default() };
    let shutdown = async {
        until(draining).await;
        sandbox.stop_waiting();
    };
    server::serve(listener, SandboxService::new(sandbox.clone()), limits, shutdown).await;
    if let Some(deliveries) = deliveries {
        // What is not delivered is in the books, and is sent by the next start.
        deliveries.abort();
    }
    Ok(())
}

/// Prints the first line scripts wait for, then what a person needs to try it. Nobody has to be reading.
fn announce(address: SocketAddr) {
    let dim = anstyle::Style::new().dimmed();
    let mut out = anstream::stdout().lock();
    let _ = writeln!(
        out,
        "listening on http://{address}\n\n\
         {dim}# a service that charges through it{dim:#}\nunavez serve --acquirer http://{address}\n\
         {dim}# how often each operation was executed{dim:#}\ncurl -s http://{address}/stats"
    );
    let _ = out.flush();
}
