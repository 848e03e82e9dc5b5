//! The protocol holds: every state within the bounds, in every setting.
//!
//! `UNAVEZ_MODEL_STEPS=8 cargo nextest run -p unavez-core --test model holds` explores further; each step more is about
//! three times the states.

use std::num::NonZero;
use std::thread::available_parallelism;

use stateright::{Checker, HasDiscoveries, Model};
use unavez_core::answer::Conclusion;
use unavez_core::record::State;
use unavez_core::recovery::Held;

use crate::healing::Rest;
use crate::property::{Explored, Named};
use crate::setting::{DEDUPLICATES, EXECUTES_ALL, FORGETFUL, LATE, NEVER_AGAIN, SHORT_MEMORY, Setting};
use crate::step::Protocol;
use crate::world::World;

#[test]
fn p16_asking_first_is_enough_where_every_create_is_executed() {
    explore(EXECUTES_ALL.with_operator(), &[APPROVED, DECLINED, SECOND, THIRD, TOLD_UNSTORED, TOO_MANY]);
}

#[test]
fn p16_a_network_that_duplicates_is_survived_where_creates_are_deduplicated() {
    explore(DEDUPLICATES.with_operator(), &[APPROVED, DECLINED, SECOND, THIRD, TOLD_UNSTORED, TOO_MANY]);
}

#[test]
fn p16_p27_a_pending_payment_ends_as_it_is_decided_or_is_held_when_it_vanishes() {
    explore(FORGETFUL.with_operator(), &[APPROVED, DECLINED, PENDS, SECOND]);
}

#[test]
fn p16_what_was_forgotten_outside_is_held() {
    explore(SHORT_MEMORY.with_operator(), &[APPROVED, DECLINED, SECOND, FORGOTTEN]);
}

/// V is not what it was declared to be, so money is safe and an operator's "failed" would not be: nobody settles by hand.
#[test]
fn p16_deduplication_alone_is_enough_inside_its_window() {
    explore(LATE, &[APPROVED, DECLINED, SECOND, FORGOTTEN]);
}

#[test]
fn p16_nothing_is_sent_twice_without_a_window() {
    explore(NEVER_AGAIN.with_operator(), &[APPROVED, DECLINED, NEVER]);
}

const APPROVED: Named = ("ends approved", |_, world| world.conclusion() == Some(Conclusion::Approved));
const DECLINED: Named = ("ends declined", |_, world| world.conclusion() == Some(Conclusion::Declined));
const PENDS: Named = ("pends", |_, world| {
    world.record.as_ref().is_some_and(|row| matches!(row.0.state, State::Unknown { .. }) && row.0.sighted)
});
const SECOND: Named = ("is sent again", |_, world| attempts(world) == 2);
const THIRD: Named = ("is sent a third time", |_, world| attempts(world) == 3);
const TOLD_UNSTORED: Named =
    ("is told and not stored", |_, world| world.callers.done && world.conclusion().is_none());
const TOO_MANY: Named =
    ("is held after three attempts", |model, world| holds(model, world, Held::TooManyAttempts));
const FORGOTTEN: Named = ("is held once forgotten", |model, world| {
    holds(model, world, Held::WindowOver) && world.acquirer.executed() == 1
});
const NEVER: Named = ("is held at once", |model, world| holds(model, world, Held::NeverResend));

fn attempts(world: &World) -> u32 {
    world.record.as_ref().map_or(0, |row| row.0.attempts)
}

fn holds(model: &Explored, world: &World, reason: Held) -> bool {
    model.rests(world).iter().any(|rest| matches!(rest, Rest::Held { why, .. } if *why == reason))
}

fn explore(setting: Setting, reached: &'static [Named]) {
    let setting = setting.with_steps(steps().unwrap_or(setting.steps));
    let model = Explored::new(Protocol { setting, without: None }, reached);
    let threads = available_parallelism().map_or(1, NonZero::get);
    let failures = HasDiscoveries::AnyFailures;
    let checked = model.checker().threads(threads).finish_when(failures).spawn_bfs().join();
    println!(
        "{} states, longest path {}, {} steps of the clock",
        checked.unique_state_count(),
        checked.max_depth(),
        setting.steps
    );
    checked.assert_properties();
}

fn steps() -> Option<u32> {
    let steps = std::env::var("UNAVEZ_MODEL_STEPS").ok()?;
    Some(steps.parse().expect("UNAVEZ_MODEL_STEPS is a number of steps"))
}
