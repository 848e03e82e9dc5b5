//! Running a fleet: servers up, orders through the lossy network, books read, servers down.

use std::{num::NonZeroUsize, sync::Arc};

use super::{
    Figures, Loss, Options, Sweep, World, audit,
    client::Client,
    draw::{Order, draw, intent},
    render::percent_of,
};
use crate::{
    Error,
    keys::KeyPolicy,
    link::Link,
    progress::Progress,
    servers::{Lesson, Payments, Raw, Running},
    target,
    wire::Route,
};

/// The most orders at each point of a sweep, and how many of them are at least under way at once: twenty fleets should
/// take seconds.
const SWEEP_ORDERS_MAX: u32 = 1_000;
const SWEEP_CONCURRENCY_MIN: NonZeroUsize = NonZeroUsize::new(16).expect("sixteen is not zero");

/// What is being measured, as the progress bar says it in both languages.
type Phase = (&'static str, &'static str);

/// Who may charge at a service, and how it is reached.
struct Service<'a> {
    authorities: Vec<String>,
    bearer: Option<&'a str>,
    keys: KeyPolicy,
}

/// Measures what the options ask for.
///
/// # Errors
///
/// Usage: no attempts, a piece taken out of a running service, a target that may move real money. Unreachable: the
/// target, or a place for the private servers' files. Broken: a server that answers what it should not.
pub async fn run(options: &Options, progress: &dyn Progress) -> Result<Figures, Error> {
    check(options)?;
    let orders = draw(options);
    let (before, after) = match &options.target {
        Some(remote) => {
            target::check(remote).await?;
            let service = Service {
                authorities: remote.targets.iter().map(target::Target::authority).collect(),
                bearer: remote.api_key.as_deref(),
                keys: KeyPolicy::without(options.mutation),
            };
            (None, measure(options, &orders, &service, (("target", "destino"), progress)).await?)
        }
        None => {
            let raw = Raw::start().await?;
            let before = measure_own(
                options,
                &orders,
                raw.running(),
                KeyPolicy::Once,
                (("before", "antes"), progress),
            )
            .await;
            raw.stop().await;
            (Some(before?), after(options, &orders, progress).await?)
        }
    };
    let Options { seed, orders: count, loss, attempts, mutation, .. } = *options;
    Ok(Figures { seed, orders: count, loss, attempts, mutation, intent: intent(&orders), before, after })
}

/// Measures overcharge against loss: a fleet at 0, 10, 20 … 90 %, each before and after.
///
/// # Errors
///
/// As [`run`].
pub async fn sweep(options: &Options, progress: &dyn Progress) -> Result<Sweep, Error> {
    let orders = options.orders.min(SWEEP_ORDERS_MAX);
    let concurrency = options.concurrency.max(SWEEP_CONCURRENCY_MIN);
    let mut points = Vec::new();
    for tenth in 0..10_u8 {
        let loss = Loss::new(f64::from(tenth) / 10.0).expect("tenths below one are shares");
        points.push(run(&Options { orders, loss, concurrency, ..options.clone() }, progress).await?);
    }
    Ok(Sweep { orders, points })
}

fn check(options: &Options) -> Result<(), Error> {
    if options.attempts == 0 {
        return Err(Error::usage((
            "attempts is 0; an order needs at least 1",
            "attempts es 0; un pedido necesita al menos 1",
        )));
    }
    match (&options.target, options.mutation) {
        (Some(_), Some(mutation)) if !mutation.is_in_the_client() => Err(target::cannot_be_broken(mutation)),
        (None, Some(mutation)) if mutation.is_about_the_outside() => Err(Error::usage((
            format!("{mutation} is missed where an acquirer charges; the fleet's charges stay in the house"),
            format!(
                "{mutation} se echa de menos donde cobra un adquirente; los cobros de la flota se quedan en casa"
            ),
        ))),
        _ => Ok(()),
    }
}

/// The idempotent side: the product, or the lesson server where a piece is missing.
async fn after(options: &Options, orders: &[Order], progress: &dyn Progress) -> Result<World, Error> {
    let keys = KeyPolicy::without(options.mutation);
    let Some(mutation) = options.mutation else {
        let payments = Payments::start().await?;
        let after =
            measure_own(options, orders, payments.running(), keys, (("after", "después"), progress)).await;
        payments.stop().await;
        return after;
    };
    let lesson = Lesson::start(Some(mutation)).await?;
    let after =
        measure_own(options, orders, lesson.running(), keys, ((mutation.name(), mutation.name()), progress))
            .await;
    lesson.stop().await;
    after
}

async fn measure_own(
    options: &Options,
    orders: &[Order],
    running: &Running,
    keys: KeyPolicy,
    progress: (Phase, &dyn Progress),
) -> Result<World, Error> {
    let service = Service { authorities: vec![running.authority().to_owned()], bearer: None, keys };
    measure(options, orders, &service, progress).await
}

/// One fleet against one service.
async fn measure(
    options: &Options,
    orders: &[Order],
    service: &Service<'_>,
    ((phase, fase), progress): (Phase, &dyn Progress),
) -> Result<World, Error> {
    let mut routes = Vec::with_capacity(service.authorities.len());
    for authority in &service.authorities {
        routes.push(Route::Through(Arc::new(Link::open(authority.clone()).await?), authority.clone()));
    }
    let direct = Route::Direct(service.authorities.first().expect("a service has an address").clone());
    let client = Arc::new(Client {
        keys: service.keys,
        attempts: options.attempts,
        concurrency: options.concurrency.get(),
        routes,
        bearer: service.bearer.map(str::to_owned),
    });

    let named = client.name(orders);
    let loss = percent_of(options.loss.share());
    let said = (format!("{phase}, {loss} lost"), format!("{fase}, {loss} perdidas"));
    progress.begin(&said.into(), orders.len() as u64);
    let belief = client.charge(&named, progress).await?;
    progress.end();
    let found = client.find_out(&named, &belief, &direct).await?;
    let ledger = audit::read(&named, &direct, service.bearer).await?;
    Ok(ledger.figures(intent(orders), belief.requests, belief.unconfirmed.len() as u64, found))
}
