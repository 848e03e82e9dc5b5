//! A model of the protocol, explored exhaustively: every order of everything that can happen to one operation, within
//! bounds, with core's own functions deciding at each turn. `docs/design/005-protocol-model.md` is its manual.
//!
//! **Who acts** ([`step`]): callers, whose copies of the request come at any time, any number of times, at either process,
//! some of them with another body; two processes, each owner of at most one attempt, each asking at most one question,
//! each of which may die at any point and come back without memory; the recovery worker; the network, which loses, delays
//! and duplicates; the acquirer; an operator, who settles by hand.
//!
//! **What decides** is never written here: `decision::decide`, `recovery::read` and `note`, `outcome::read`,
//! `settling::by_event` and `by_hand`, `Record::claimed` and `Record::apply`.
//!
//! **What is claimed** ([`property`]): money moves at most once; no caller is told two final answers, or an untrue one; no
//! payment stays unrecorded at rest; nothing stays open for ever once the network heals.
//!
//! 1. A setting ([`setting`]) says what the acquirer promises and keeps. In each of them the protocol holds.
//! 2. A rule taken away ([`rule`]) is taken away around core, by feeding it something else or by not obeying it. Each must
//!    yield a counterexample, or the model would be too tame to mean anything.
//! 3. Time goes in steps of 30 s, with the protocol's own timings: operation timeout 60 s, attempts stop after 50 s, V is
//!    30 s. A process that is slow, suspended or dead is one that does nothing for some steps.
//! 4. Nothing is counted that need not be: copies, crashes, deliveries and questions are unlimited, and only the number of
//!    steps is bounded. Every other number is bounded by a rule of core's.
//!
//! What breaks its worth: a rule that payments or tower obey otherwise than [`step`] does. The crash harness is for that.

mod acquirer;
mod healing;
mod holds;
mod property;
mod rule;
mod setting;
mod step;
mod variants;
mod world;
