//! A breaker and its probes: what finding out whether a server is back costs, if the finding out is done with charges.
//!
//! A program's breaker opens when the server stops answering, and lets one attempt through now and then to see whether it
//! is back. That attempt goes to a server that may execute it and then fail to answer: of all attempts it is the one whose
//! answer is likeliest to be lost. Three worlds differ in nothing but what is sent as a probe and who remembers it:
//!
//! 1. charges, and the engine remembers: a probe that was executed is answered from its record when it is repeated;
//! 2. charges, and nobody remembers: every probe that was executed and lost is charged again;
//! 3. nobody remembers, and callers know it: core lets no charge be a probe, so programs ask for the server's health
//!    instead, and no charge is repeated whose answer was lost. Nobody is charged twice, and nobody knows who was charged.

mod render;
mod run;

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer};

pub use crate::crowd::{Fault, UnknownFault};
pub(crate) use render::lines;
pub use run::run;

use crate::{Lang, fleet::Loss};

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Draws when orders are placed, the jitter, and which answers are lost.
    pub seed: u64,
    /// Orders, spread evenly over the time before, during and after the outage.
    pub orders: u32,
    /// What goes wrong.
    pub fault: Fault,
    /// For how long. As long as that passes before it, and as long after it.
    pub outage: Duration,
    /// The share of answers that is lost on any day.
    pub loss: Loss,
    /// How long a caller waits for an answer.
    pub timeout: Duration,
    /// How long the breaker stays open.
    pub open_for: Duration,
    /// Failures in a row that open it.
    pub failures: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 42,
            orders: 900,
            fault: Fault::Silence,
            outage: Duration::from_secs(30),
            loss: Loss::new(0.0).expect("nothing is a share"),
            timeout: Duration::from_secs(1),
            open_for: Duration::from_secs(5),
            failures: 5,
        }
    }
}

impl Options {
    /// The command that gives the same figures again.
    pub fn command(&self) -> String {
        let Self { seed, orders, fault, loss, failures, .. } = self;
        let [outage, timeout, open_for] =
            [self.outage, self.timeout, self.open_for].map(|time| time.as_millis());
        format!(
            "unavez lab breaker --seed {seed} --orders {orders} --fault {fault} --outage {outage}ms \
             --loss {loss} --timeout {timeout}ms --open-for {open_for}ms --failures {failures}"
        )
    }
}

/// The measurement: exactly what `--format json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Draws everything.
    pub seed: u64,
    /// How many orders.
    pub orders: u32,
    /// What went wrong.
    pub fault: Fault,
    /// When it began.
    #[serde(rename = "outage_from_s", serialize_with = "seconds")]
    pub from: Duration,
    /// When it was over.
    #[serde(rename = "outage_until_s", serialize_with = "seconds")]
    pub until: Duration,
    /// The share of answers that was lost on top of that.
    pub loss: Loss,
    /// The three worlds.
    pub worlds: Vec<World>,
}

/// Who remembers, and what is sent as a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// Charges are probes, and the engine remembers them.
    WithEngine,
    /// Charges are probes, and nobody remembers them.
    WithoutEngine,
    /// Nobody remembers; the probe is a question about the server's health.
    HealthProbes,
}

/// What came of one world.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct World {
    /// Which.
    pub name: Setting,
    /// Charges in the ledger.
    pub charges: Phases,
    /// Charges beyond the first of each order.
    pub double_charges: u64,
    /// Those of them whose order was charged by a probe.
    pub double_charges_of_probes: u64,
    /// Orders of which nobody knows whether they were charged.
    pub unknown: u64,
    /// Of those, how many were charged.
    pub unknown_and_charged: u64,
    /// Orders that still waited when the watching ended.
    pub waiting: u64,
    /// Attempts that were sent.
    pub attempts: u64,
    /// Attempts that the breaker kept from being sent.
    pub held_back: u64,
    /// Probes that were sent.
    pub probes: u64,
    /// Charges that probes made.
    pub charged_by_probes: u64,
    /// When the breaker opened and closed.
    pub turns: Vec<Turn>,
    /// Each second: charges that were an order's first, and those that were not.
    pub charges_by_second: Vec<[u32; 2]>,
    /// When probes charged.
    #[serde(serialize_with = "all_seconds")]
    pub probe_charges_s: Vec<Duration>,
}

/// Charges before, during and after the outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Phases {
    /// Before it.
    pub before: u64,
    /// While it lasted.
    pub during: u64,
    /// After it.
    pub after: u64,
}

/// The breaker opened or closed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Turn {
    /// When.
    #[serde(rename = "at_s", serialize_with = "seconds")]
    pub at: Duration,
    /// It opened; otherwise it closed.
    pub opened: bool,
}

impl Setting {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::WithEngine, Self::WithoutEngine, Self::HealthProbes];

    /// As JSON calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::WithEngine => "with-engine",
            Self::WithoutEngine => "without-engine",
            Self::HealthProbes => "health-probes",
        }
    }

    /// As a table calls it.
    pub(crate) fn say(self, lang: Lang) -> &'static str {
        match self {
            Self::WithEngine => lang.say("charges probe, engine on", "sondas que cobran, con motor"),
            Self::WithoutEngine => lang.say("charges probe, no engine", "sondas que cobran, sin motor"),
            Self::HealthProbes => lang.say("health probes, no engine", "sondas de salud, sin motor"),
        }
    }

    /// What it is, in a sentence.
    pub(crate) fn explain(self, lang: Lang) -> &'static str {
        match self {
            Self::WithEngine => lang.say(
                "A probe is a charge with a key. If its answer is lost, the repeat gets the stored one.",
                "Una sonda es un cobro con clave. Si su respuesta se pierde, la repetición recibe la guardada.",
            ),
            Self::WithoutEngine => lang.say(
                "A probe is a charge, and the server forgets it. If its answer is lost, the repeat charges again.",
                "Una sonda es un cobro, y el servidor lo olvida. Si su respuesta se pierde, la repetición cobra de nuevo.",
            ),
            Self::HealthProbes => lang.say(
                "The server forgets, and callers know it: only a question may be a probe, and a charge whose answer was lost \
                 is never repeated. Nobody is charged twice; nobody knows who was charged.",
                "El servidor olvida, y los clientes lo saben: solo una pregunta puede ser sonda, y un cobro cuya respuesta se \
                 perdió nunca se repite. Nadie paga dos veces; nadie sabe quién pagó.",
            ),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl Serialize for Setting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Phases {
    /// All charges.
    pub fn total(&self) -> u64 {
        self.before + self.during + self.after
    }
}

impl Figures {
    /// Whether the server that remembers charged every order once, whatever was used as a probe.
    pub fn passed(&self) -> bool {
        let engine = self.of(Setting::WithEngine);
        engine.is_some_and(|world| {
            world.double_charges == 0 && world.charges.total() + world.waiting >= u64::from(self.orders)
        })
    }

    /// One world.
    pub fn of(&self, name: Setting) -> Option<&World> {
        self.worlds.iter().find(|world| world.name == name)
    }
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

fn all_seconds<S: Serializer>(times: &[Duration], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(times.iter().map(Duration::as_secs_f64))
}

/// A breaker whose one probe was charged again where nobody remembered it.
#[cfg(test)]
pub(crate) fn sample() -> Figures {
    let world = |name, again: u32, probes: &[u64]| World {
        name,
        charges: Phases { before: 10, during: 1, after: 9 + u64::from(again) },
        double_charges: u64::from(again),
        double_charges_of_probes: u64::from(again),
        unknown: u64::from(name == Setting::HealthProbes),
        unknown_and_charged: u64::from(name == Setting::HealthProbes),
        waiting: 0,
        attempts: 21,
        held_back: 7,
        probes: 1,
        charged_by_probes: probes.len() as u64,
        turns: vec![
            Turn { at: Duration::from_secs(11), opened: true },
            Turn { at: Duration::from_secs(21), opened: false },
        ],
        charges_by_second: [vec![[1, 0]; 10], vec![[0, 0]; 10], vec![[9, again]]].concat(),
        probe_charges_s: probes.iter().map(|&at| Duration::from_secs(at)).collect(),
    };
    Figures {
        seed: 42,
        orders: 20,
        fault: Fault::Silence,
        from: Duration::from_secs(10),
        until: Duration::from_secs(20),
        loss: Loss::new(0.0).expect("nothing is a share"),
        worlds: vec![
            world(Setting::WithEngine, 0, &[16]),
            world(Setting::WithoutEngine, 1, &[16]),
            world(Setting::HealthProbes, 0, &[]),
        ],
    }
}
