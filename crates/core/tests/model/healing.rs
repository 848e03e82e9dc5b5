//! The faults stop: whatever the world is at that moment, it must come to rest within a bounded time.
//!
//! Chosen over stateright's `eventually`, which is sound only on paths without joins and cycles, and this graph is full of
//! both. Here it is a plain invariant of every reachable state: from it, the run in which everything volatile is lost, a
//! caller repeats, the worker works and nothing fails ends in a final record, or in one that is held and alarmed.

use std::collections::HashMap;
use std::sync::Mutex;

use unavez_core::answer::Conclusion;
use unavez_core::recovery::{Held, Verdict};

use crate::acquirer::{Standing, View};
use crate::setting::STEP;
use crate::step::{Ack, Action, Asker, Protocol};
use crate::world::{Process, World};

/// How an operation rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rest {
    Final {
        positive: bool,
        executed: usize,
    },
    /// Held and alarmed: a person must look.
    Held {
        why: Held,
        executed: usize,
    },
    /// Not at rest after [`PATIENCE`].
    Open,
}

/// What becomes of the creates that were on their way when the faults stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fate {
    Lost,
    Arriving,
}

/// Longer than the longest chain of waits between two questions within the bounds: 1 + 2 + 4 + ... minutes.
const PATIENCE: u32 = 256;

/// Rests that are known: many states differ only in what is lost when healing begins. By the hash of what is not, which
/// is as strong as stateright's own.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashMap<u64, [Rest; 2]>>);

impl Known {
    /// How the operation rests, whether the creates on their way are lost or arrive.
    pub(crate) fn rests(&self, protocol: &Protocol, world: &World) -> [Rest; 2] {
        let surviving = world.hash_surviving();
        if let Some(known) = self.0.lock().expect("no holder panics").get(&surviving) {
            return *known;
        }
        let rests = [Fate::Lost, Fate::Arriving].map(|fate| heal(protocol, world, fate));
        self.0.lock().expect("no holder panics").insert(surviving, rests);
        rests
    }
}

fn heal(protocol: &Protocol, world: &World, fate: Fate) -> Rest {
    let mut world = world.clone();
    world.processes = [Process::default(), Process::default()];
    world.worker = None;
    settle_network(protocol, &mut world, fate);
    for _ in 0..PATIENCE {
        let held = round(protocol, &mut world);
        let executed = world.acquirer.executed();
        if let Some(conclusion) = world.conclusion() {
            return Rest::Final { positive: conclusion == Conclusion::Approved, executed };
        }
        if let Some(why) = held {
            return Rest::Held { why, executed };
        }
        world.now = world.now.plus(STEP);
        world.acquirer.tick(world.now);
    }
    Rest::Open
}

/// Creates arrive or never will, pending payments are decided, lookups show what there is. Webhooks are lost for good.
fn settle_network(protocol: &Protocol, world: &mut World, fate: Fate) {
    if fate == Fate::Arriving {
        for create in (0..world.acquirer.creates.len()).rev() {
            world.acquirer.receive(&protocol.setting, create, protocol.setting.standings[0]);
        }
    }
    world.acquirer.creates.clear();
    for payment in &mut world.acquirer.payments {
        payment.hidden_until = None;
        if payment.standing == Standing::Pending {
            payment.standing = Standing::Approved;
        }
    }
}

/// The worker and a caller, one after the other, and whatever that leads to. Answers why the operation is held, if one of
/// the two was told so.
fn round(protocol: &Protocol, world: &mut World) -> Option<Held> {
    protocol.happen(world, Action::Look { view: View::Fresh });
    let worker = protocol.answer(world, Asker::Worker, Ack::Stored);
    protocol.happen(world, Action::Request { process: 0, view: View::Fresh });
    let caller = protocol.answer(world, Asker::Process(0), Ack::Stored);
    if world.processes[0].owner.is_some() {
        protocol.happen(world, Action::Send { process: 0 });
        for create in (0..world.acquirer.creates.len()).rev() {
            protocol.happen(world, Action::Deliver { create, standing: Standing::Approved });
        }
        protocol.happen(world, Action::Hear { process: 0 });
        protocol.happen(world, Action::Write { process: 0, store: Ack::Stored });
    }
    [worker, caller].into_iter().flatten().find_map(|verdict| match verdict {
        Verdict::Hold(why) => Some(why),
        _ => None,
    })
}
