//! Where one test plays: a service of its own, or one that runs somewhere, and how its ledger is counted.

use std::{path::Path, time::Duration};

use serde::Deserialize;

use super::{Ground, Promise, process::Process};
use crate::{
    Error, Mutation, Remote,
    money::{CENTS, CURRENCY},
    servers::{Abroad, Bank, Executed, Lesson, Meeting, Payments},
    wire::{Call, Route, Wire},
};

/// A service, and how tests reach and count it.
pub(super) struct Stage {
    place: Place,
    /// What the ledger showed before the test; only of interest where others charge, too.
    before: Counts,
    orders: Vec<String>,
}

enum Place {
    Product(Payments, Bearers),
    Lesson(Lesson),
    Abroad(Abroad),
    Process(Process),
    Target(Remote),
}

/// Whose API keys the tests show.
#[derive(Clone, Default)]
struct Bearers {
    one: Option<String>,
    other: Option<String>,
}

/// A client: whose it is and where it sends to.
#[derive(Clone)]
pub(super) struct Caller {
    authority: String,
    pub(super) bearer: Option<String>,
}

impl Caller {
    /// A new connection.
    pub(super) fn wire(&self) -> Wire {
        Wire::new(Route::Direct(self.authority.clone()))
    }
}

/// Charges at a ledger, in cents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) charges: u64,
    pub(super) captured: u64,
}

/// What is asked for the sums, as an error names it.
const THE_SUMMARY: (&str, &str) = ("the ledger's summary", "el resumen del libro mayor");

/// Why a test cannot be made at a place, in both languages.
pub(super) type Skip = (&'static str, &'static str);

#[derive(Deserialize)]
struct Summary {
    currencies: Vec<Currency>,
}

#[derive(Deserialize)]
struct Currency {
    currency: String,
    charges: u64,
    captured: u64,
}

#[derive(Deserialize)]
struct Charges {
    data: Vec<Charge>,
}

#[derive(Deserialize)]
struct Charge {
    amount_captured: u64,
}

impl Stage {
    /// Starts what the test needs, or says why it cannot be made.
    pub(super) async fn set(promise: Promise, ground: Ground<'_>) -> Result<Result<Self, Skip>, Error> {
        let place = match Place::find(promise, ground).await? {
            Ok(place) => place,
            Err(skip) => return Ok(Err(skip)),
        };
        let mut stage = Self { place, before: Counts::default(), orders: Vec::new() };
        stage.before = stage.summary().await?;
        Ok(Ok(stage))
    }

    /// The lesson server, if the test plays there.
    pub(super) fn lesson(&self) -> Option<&Lesson> {
        match &self.place {
            Place::Lesson(lesson) => Some(lesson),
            _ => None,
        }
    }

    /// The bank, where charges are made at one.
    pub(super) fn bank(&self) -> Result<&Bank, Error> {
        let bank = match &self.place {
            Place::Product(payments, _) => payments.bank(),
            Place::Abroad(abroad) => Some(abroad.bank()),
            _ => None,
        };
        bank.ok_or_else(|| Error::broken("only what charges at a bank can lose its answers"))
    }

    /// The lesson server's meeting, where charges are made at a bank.
    pub(super) fn meeting_abroad(&self) -> Option<&Meeting> {
        match &self.place {
            Place::Abroad(abroad) => Some(abroad.meeting()),
            _ => None,
        }
    }

    /// Moves the clock of the service and its bank.
    pub(super) fn pass(&self, time: Duration) {
        match &self.place {
            Place::Product(payments, _) => payments.pass(time),
            Place::Abroad(abroad) => abroad.pass(time),
            _ => {}
        }
    }

    /// Has the bank send what is due, once.
    pub(super) async fn deliver(&self) -> Result<(), Error> {
        self.bank()?.deliver(&self.authority()).await
    }

    /// A client of every replica.
    pub(super) fn callers(&self) -> Vec<Caller> {
        match &self.place {
            Place::Abroad(abroad) => {
                let caller = |authority: &str| Caller { authority: authority.to_owned(), bearer: None };
                abroad.authorities().map(caller).to_vec()
            }
            _ => vec![self.caller()],
        }
    }

    /// A client of the first tenant.
    pub(super) fn caller(&self) -> Caller {
        let bearer = match &self.place {
            Place::Product(_, bearers) => bearers.one.clone(),
            Place::Target(remote) => remote.api_key.clone(),
            Place::Lesson(_) | Place::Abroad(_) | Place::Process(_) => None,
        };
        Caller { authority: self.authority(), bearer }
    }

    /// A client of another tenant.
    pub(super) fn other_tenant(&self) -> Caller {
        let bearer = match &self.place {
            Place::Product(_, bearers) => bearers.other.clone(),
            Place::Target(remote) => remote.other_tenants_api_key.clone(),
            Place::Lesson(_) | Place::Abroad(_) | Place::Process(_) => Some("other".into()),
        };
        Caller { authority: self.authority(), bearer }
    }

    fn authority(&self) -> String {
        match &self.place {
            Place::Product(payments, _) => payments.running().authority().to_owned(),
            Place::Lesson(lesson) => lesson.running().authority().to_owned(),
            Place::Abroad(abroad) => abroad.authorities()[0].to_owned(),
            Place::Process(process) => process.authority().to_owned(),
            Place::Target(remote) => remote.targets.first().expect("a remote has an address").authority(),
        }
    }

    /// Names the orders the test will place, so that only they are counted where others charge, too.
    pub(super) fn counts_orders(&mut self, orders: Vec<String>) {
        self.orders = orders;
    }

    /// Ends the service - in order, or by SIGKILL where it is a process - and starts it again on the same files.
    /// Says what it did, in both languages.
    pub(super) async fn end_and_start_again(&mut self) -> Result<(&'static str, &'static str), Error> {
        let restarted = ("restarted", "reiniciado");
        match &mut self.place {
            Place::Product(payments, _) => payments.restart().await.map(|()| restarted),
            Place::Lesson(lesson) => lesson.restart().await.map(|()| restarted),
            Place::Process(process) => {
                let killed = ("killed with SIGKILL, started again", "matado con SIGKILL, iniciado de nuevo");
                process.kill_and_start_again().await.map(|()| killed)
            }
            Place::Abroad(abroad) => abroad.restart().await.map(|()| restarted),
            Place::Target(_) => Err(Error::broken("a running service is not ours to restart")),
        }
    }

    /// What the test's orders cost, by the service's ledger.
    pub(super) async fn ledger(&self) -> Result<Counts, Error> {
        if let Place::Target(_) = self.place
            && let Some(counts) = self.own_orders().await?
        {
            return Ok(counts);
        }
        let now = self.summary().await?;
        let counts = Counts {
            charges: now.charges.saturating_sub(self.before.charges),
            captured: now.captured.saturating_sub(self.before.captured),
        };
        match self.bank() {
            Ok(bank) => Ok(counts.or_more(bank.executed().await?)),
            Err(_) => Ok(counts),
        }
    }

    /// Everything at the ledger, of both tenants where there are two.
    async fn summary(&self) -> Result<Counts, Error> {
        let mut counts = Counts::default();
        for caller in self.tenants() {
            let call = Call::get("/v1/ledger/summary").authorized(caller.bearer.as_deref());
            let answer = caller.wire().send(&call).await.map_err(|cut| Error::cut(THE_SUMMARY, &cut))?;
            if !answer.status.is_success() {
                return Err(Error::answered(THE_SUMMARY, &answer));
            }
            let summary: Summary = answer.json()?;
            for sum in summary.currencies.iter().filter(|sum| sum.currency == CURRENCY) {
                counts.charges += sum.charges;
                counts.captured += sum.captured;
            }
        }
        Ok(counts)
    }

    /// The charges of the test's own orders, if the service lists charges by order.
    async fn own_orders(&self) -> Result<Option<Counts>, Error> {
        let mut counts = Counts::default();
        for caller in self.tenants() {
            let mut wire = caller.wire();
            for order in &self.orders {
                let path = format!("/v1/charges?order_id={order}&limit=100");
                let call = Call::get(&path).authorized(caller.bearer.as_deref());
                let answer =
                    wire.send(&call).await.map_err(|cut| Error::cut((path.as_str(), path.as_str()), &cut))?;
                let Ok(listed) = answer.json::<Charges>() else { return Ok(None) };
                counts.charges += listed.data.len() as u64;
                counts.captured += listed.data.iter().map(|charge| charge.amount_captured).sum::<u64>();
            }
        }
        Ok(Some(counts))
    }

    fn tenants(&self) -> impl Iterator<Item = Caller> {
        let (one, other) = (self.caller(), self.other_tenant());
        let other = (one.bearer != other.bearer && !matches!(self.place, Place::Process(_))).then_some(other);
        let other = other.filter(|other| other.bearer.is_some());
        [one].into_iter().chain(other)
    }

    /// Stops what was started.
    pub(super) async fn strike(self) {
        match self.place {
            Place::Product(payments, _) => payments.stop().await,
            Place::Lesson(lesson) => lesson.stop().await,
            Place::Abroad(abroad) => abroad.stop().await,
            Place::Process(process) => process.stop().await,
            Place::Target(_) => {}
        }
    }
}

impl Counts {
    /// A charge in one of two books is a charge: the larger of both sides counts.
    fn or_more(self, executed: Executed) -> Self {
        let Executed { charges, captured } = executed;
        Self { charges: self.charges.max(charges), captured: self.captured.max(captured) }
    }

    pub(super) fn dollars(self) -> u64 {
        self.captured / CENTS
    }
}

/// What a running service cannot be asked to do.
fn missing_at_a_target(promise: Promise, remote: &Remote) -> Option<Skip> {
    match promise {
        Promise::RepeatInProgress => Some((
            "needs the lab's slow route; a running service cannot be held at work",
            "necesita la ruta lenta del laboratorio; un servicio en marcha no se deja detener",
        )),
        Promise::AfterRestart => Some((
            "a running service is not ours to restart",
            "un servicio en marcha no es nuestro para reiniciarlo",
        )),
        Promise::AfterKill => Some((
            "a running service is not ours to kill",
            "un servicio en marcha no es nuestro para matarlo",
        )),
        Promise::LostOwner => Some((
            "a running service cannot be made to break down",
            "a un servicio en marcha no se le puede pedir que falle",
        )),
        Promise::LateOwner => Some((
            "a running service's clock cannot be advanced",
            "el reloj de un servicio en marcha no se puede adelantar",
        )),
        outside if outside.is_about_the_outside() => Some((
            "needs an acquirer that can be made to fail",
            "necesita un adquirente al que se le pueda pedir que falle",
        )),
        Promise::TwoTenants if remote.other_tenants_api_key.is_none() => {
            Some(("needs a second tenant's API key", "necesita la clave de API de un segundo inquilino"))
        }
        _ => None,
    }
}

impl Place {
    /// Starts the service a test plays at.
    async fn find(promise: Promise, ground: Ground<'_>) -> Result<Result<Self, Skip>, Error> {
        match ground {
            Ground::Target(remote) => Ok(match missing_at_a_target(promise, remote) {
                Some(missing) => Err(missing),
                None => Ok(Self::Target(remote.clone())),
            }),
            Ground::Lesson(_) if promise == Promise::AfterKill => Ok(Err((
                "the lesson server is no process of its own",
                "el servidor de la lección no es un proceso propio",
            ))),
            Ground::Lesson(Some(mutation))
                if promise.is_about_the_outside() && !mutation.is_about_the_outside() =>
            {
                Ok(Err((
                    "this lesson server calls no acquirer",
                    "este servidor de la lección no llama a ningún adquirente",
                )))
            }
            Ground::Lesson(mutation) => Self::lesson(promise, mutation).await.map(Ok),
            Ground::Product(executable) => Self::find_own(promise, executable).await,
        }
    }

    async fn lesson(promise: Promise, mutation: Option<Mutation>) -> Result<Self, Error> {
        if promise.is_about_the_outside() {
            return Abroad::start(mutation).await.map(Self::Abroad);
        }
        Ok(Self::Lesson(match promise {
            Promise::LateOwner => Lesson::start_with_clock(mutation).await?,
            _ => Lesson::start(mutation).await?,
        }))
    }

    /// The product; where the work must be held or break down, the lesson server with nothing missing.
    async fn find_own(promise: Promise, executable: Option<&Path>) -> Result<Result<Self, Skip>, Error> {
        Ok(Ok(match promise {
            Promise::RepeatInProgress | Promise::LostOwner | Promise::LateOwner => {
                Self::lesson(promise, None).await?
            }
            Promise::AfterKill => match executable {
                Some(executable) => Self::Process(Process::start(executable).await?),
                None => {
                    return Ok(Err((
                        "no unavez executable was named to start and kill",
                        "no se indicó un ejecutable unavez para iniciar y matar",
                    )));
                }
            },
            Promise::TwoTenants => {
                let (payments, one, other) = Payments::start_for_two_tenants().await?;
                Self::Product(payments, Bearers { one: Some(one), other: Some(other) })
            }
            outside if outside.is_about_the_outside() => {
                Self::Product(Payments::start_at_a_bank().await?, Bearers::default())
            }
            _ => Self::Product(Payments::start().await?, Bearers::default()),
        }))
    }
}
