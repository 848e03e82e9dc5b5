//! Opens the service, serves until it is asked to stop, and closes it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use unavez_payments::{OpenError, Payments, Settings, server};
use unavez_store::sqlite::Options;

use super::announce::{self, Place};
use super::args::{ServeArgs, store_failure};
use super::listen::Listen;
use super::one_address::OneAddress;
use super::signals::{self, Stop};
use crate::console::{self, Transport, with_sign_in};
use crate::exit::{Exit, Failure};

/// Runs `unavez serve`.
pub(crate) fn run(args: &ServeArgs) -> Result<Exit, Failure> {
    check(args)?;
    args.log.start()?;
    let settings = args.settings()?;
    let limits = args.connection_limits(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unavailable(format!("the runtime cannot start: {error}")))?;
    let done = runtime.block_on(serve(args, settings, limits));
    // A thread that still waits for the database's lock must not hold up the end.
    runtime.shutdown_background();
    done
}

/// Refuses flags that contradict each other, without opening anything.
pub(crate) fn check(args: &ServeArgs) -> Result<(), Failure> {
    args.settings()?;
    args.log.check()?;
    refuse_strangers(args)
}

/// Without API keys everybody who can reach the service may charge, so nobody else may reach it.
fn refuse_strangers(args: &ServeArgs) -> Result<(), Failure> {
    let mut addresses = [Some(&args.listen), args.admin_listen.as_ref()].into_iter().flatten();
    match addresses.find(|listen| !listen.is_loopback()) {
        Some(listen) if args.api_keys_file.is_none() => Err(Failure::usage(format!(
            "{listen} can be reached from other machines, and without API keys everybody may charge"
        ))
        .with_help("make one with `unavez api-keys add TENANT --role charge --file KEYS` and name it: --api-keys-file KEYS")),
        _ => Ok(()),
    }
}

async fn serve(args: &ServeArgs, settings: Settings, limits: server::Limits) -> Result<Exit, Failure> {
    let mut stop = Stop::listen().map_err(signals_failed)?;
    // The database comes first: a successor waits for its predecessor's lock, and by then the port is free too.
    let payments = tokio::select! {
        opened = Payments::open(args.store.0.clone(), options(args), settings) => opened.map_err(|error| open_failure(&error))?,
        () = stop.asked() => return Ok(Exit::Done),
    };
    let served = accept(args, &payments, &limits, stop).await;
    // What connections have left running needs their threads, which `limits` holds.
    payments.close().await;
    drop(limits);
    served.map(|()| Exit::Done)
}

async fn accept(
    args: &ServeArgs,
    payments: &Payments,
    limits: &server::Limits,
    stop: Stop,
) -> Result<(), Failure> {
    let public = args.listen.bind().await?;
    let admin = bind(args.admin_listen.as_ref()).await?;
    let address = local(&public)?;
    let place = Place {
        address,
        admin: admin.as_ref().map_or(Ok(address), local)?,
        tls: limits.tls.is_some(),
        api_keys: !payments.is_open_to_all(),
    };
    reload_on_hang_up(payments)?;
    let draining = drain_on(stop);
    announce::print(place, &uuid::Uuid::new_v4().simple().to_string()[..8]);

    let transport = if place.tls { Transport::Tls } else { Transport::Plain };
    let guarded = with_sign_in(payments.admin_router(console::router(payments, transport)), transport);
    let cut = match admin {
        None => {
            let both = OneAddress { public: payments.router(), guarded };
            server::serve(public, both, limits.clone(), until(draining)).await.cut
        }
        Some(admin) => {
            let (public, admin) = tokio::join!(
                server::serve(public, payments.router(), limits.clone(), until(draining.clone())),
                server::serve(admin, guarded, limits.clone(), until(draining)),
            );
            public.cut + admin.cut
        }
    };
    if cut > 0 {
        tracing::warn!(connections = cut, "connections were still busy at the end of the drain and were cut");
    }
    Ok(())
}

fn options(args: &ServeArgs) -> Options {
    Options {
        lock_wait: args.lock_wait,
        on_lock_wait: Box::new(tell_who_is_waited_for(args.lock_wait)),
        realm: args.realm.clone(),
        ..Options::default()
    }
}

/// The store tells once a second; a person wants to hear it at once and then now and again.
fn tell_who_is_waited_for(wait: Duration) -> impl Fn(Option<u32>) + Send {
    const SECONDS_BETWEEN: u64 = 10;
    let told = AtomicU64::new(0);
    move |pid| {
        if told.fetch_add(1, Ordering::Relaxed).is_multiple_of(SECONDS_BETWEEN) {
            let holder = pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
            tracing::warn!("the database file is owned by {holder}; waiting up to {wait:?} for it");
        }
    }
}

async fn bind(listen: Option<&Listen>) -> Result<Option<TcpListener>, Failure> {
    match listen {
        Some(listen) => listen.bind().await.map(Some),
        None => Ok(None),
    }
}

fn local(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    listener.local_addr().map_err(|error| Failure::unavailable(format!("a listener has no address: {error}")))
}

fn reload_on_hang_up(payments: &Payments) -> Result<(), Failure> {
    let mut hang_up = signals::hang_up().map_err(signals_failed)?;
    let _file_size_exceeded = signals::file_size_exceeded().map_err(signals_failed)?;
    let payments = payments.clone();
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            match payments.reload_api_keys() {
                Ok(keys) => tracing::info!(keys, "API keys read anew"),
                Err(error) => tracing::error!(%error, "API keys not read anew; those in force stay"),
            }
        }
    });
    Ok(())
}

/// Turns true at the first request to stop. A second one ends the process where it stands: what runs then is found out
/// by the next start, as after a power cut.
pub(crate) fn drain_on(mut stop: Stop) -> watch::Receiver<bool> {
    let (drain, draining) = watch::channel(false);
    tokio::spawn(async move {
        stop.asked().await;
        tracing::info!(
            "stopping: no new connections, running operations finish; a second signal ends it at once"
        );
        drain.send_replace(true);
        stop.asked().await;
        tracing::warn!("ended at once by a second signal");
        end_at_once();
    });
    draining
}

#[expect(clippy::disallowed_methods, reason = "asked for: what is not committed yet is as after a power cut")]
fn end_at_once() -> ! {
    std::process::exit(Exit::CheckFailed as i32)
}

pub(crate) async fn until(mut draining: watch::Receiver<bool>) {
    // A closed channel means that the runtime is going down, which is a reason to stop as well.
    let _ = draining.wait_for(|draining| *draining).await;
}

pub(crate) fn open_failure(error: &OpenError) -> Failure {
    match error {
        OpenError::Store(error) | OpenError::Sandbox(error) => store_failure(error),
        OpenError::Read(_) | OpenError::Interrupted => Failure::unavailable(error.to_string()),
        _ => Failure::usage(error.to_string()),
    }
}

pub(crate) fn signals_failed(error: std::io::Error) -> Failure {
    Failure::unavailable(format!("signals cannot be listened for: {error}"))
}
