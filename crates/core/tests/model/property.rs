//! What is claimed of every state, and what must be reachable for the claims to mean something.

use stateright::{Model, Property};
use unavez_core::recovery::Held;

use crate::healing::{Known, Rest};
use crate::step::{Action, Protocol};
use crate::world::World;

pub(crate) const MONEY_ONCE: &str = "money moves at most once";
pub(crate) const ONE_ANSWER: &str = "no caller is told two different final answers";
pub(crate) const TRUE_ANSWER: &str = "what callers are told is true";
pub(crate) const OWN_ANSWER: &str = "another request is never answered from the record";
pub(crate) const LEGAL_WRITES: &str = "core's table names every write whose fence is right";
pub(crate) const NO_CONTRADICTION: &str = "no truth contradicts a final state";
pub(crate) const RECORDED: &str = "no payment stays unrecorded at rest";
pub(crate) const ENDS: &str = "nothing stays open for ever once the network heals";

/// A condition on states with its name.
pub(crate) type Named = (&'static str, fn(&Explored, &World) -> bool);

const CLAIMS: [Named; 8] = [
    (MONEY_ONCE, |_, world| world.acquirer.executed() <= 1),
    (ONE_ANSWER, |_, world| !(world.callers.done && world.callers.failed)),
    (TRUE_ANSWER, |_, world| {
        let money_moved = world.acquirer.executed() > 0;
        if money_moved { !world.callers.failed } else { !world.callers.done }
    }),
    (OWN_ANSWER, |_, world| !world.callers.other),
    (LEGAL_WRITES, |_, world| !world.alarms.illegal),
    (NO_CONTRADICTION, |_, world| !world.alarms.contradiction),
    (RECORDED, |model, world| model.rests(world).into_iter().all(is_recorded)),
    (ENDS, |model, world| model.rests(world).into_iter().all(|rest| rest != Rest::Open)),
];

/// The protocol as stateright sees it.
#[derive(Debug)]
pub(crate) struct Explored {
    pub(crate) protocol: Protocol,
    /// What must be reachable, or the exploration proves little.
    pub(crate) reached: &'static [Named],
    known: Known,
}

impl Explored {
    pub(crate) fn new(protocol: Protocol, reached: &'static [Named]) -> Self {
        Self { protocol, reached, known: Known::default() }
    }

    pub(crate) fn rests(&self, world: &World) -> [Rest; 2] {
        self.known.rests(&self.protocol, world)
    }
}

impl Model for Explored {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.protocol.possible(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        self.protocol.after(world, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let always = |(name, holds): &Named| Property::always(name, *holds);
        let sometimes = |(name, is_there): &Named| Property::sometimes(name, *is_there);
        CLAIMS.iter().map(always).chain(self.reached.iter().map(sometimes)).collect()
    }
}

/// A final record says what happened. A hold for want of a memory outside may have a payment behind it, which is why it
/// is alarmed; the others follow from a "not found" that counts, so there is none.
fn is_recorded(rest: Rest) -> bool {
    match rest {
        Rest::Final { positive, executed } => positive == (executed > 0),
        Rest::Held { why: Held::TooManyAttempts | Held::NeverResend, executed } => executed == 0,
        Rest::Held { why: Held::WindowOver | Held::SightedBefore | Held::OtherAccount, .. } | Rest::Open => {
            true
        }
    }
}
