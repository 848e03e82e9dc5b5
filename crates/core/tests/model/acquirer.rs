//! The acquirer and the network to it: what exists outside, and what can be seen of it.

use std::hash::{Hash, Hasher};

use unavez_core::recovery::Told;
use unavez_core::time::Time;

use crate::setting::{Delays, Index, Repeats, Setting, V};

/// How a payment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Standing {
    Approved,
    Declined,
    Pending,
}

/// The operation id a create carries. There is one, unless the rule of one id is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name(pub(crate) u32);

/// The id that the record's identity gives: lookups ask by it.
pub(crate) const OPERATION: Name = Name(1);

/// A create on its way. It may arrive until `dies_at`, after which it never will.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Create {
    /// Whose answer it is: the byte of the attempt's id.
    pub(crate) attempt: u8,
    pub(crate) name: Name,
    pub(crate) dies_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Payment {
    pub(crate) name: Name,
    pub(crate) standing: Standing,
    /// Until then, inclusive, a lookup may miss it.
    pub(crate) hidden_until: Option<Time>,
}

/// What the acquirer keeps about the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Memory {
    /// Nothing was sent yet.
    Blank,
    /// Deduplicates and can be asked until then, exclusive.
    Until(Time),
    /// Forgotten: neither deduplicated nor found.
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acquirer {
    pub(crate) memory: Memory,
    pub(crate) payments: Vec<Payment>,
    pub(crate) creates: Vec<Create>,
    /// Set for good once a payment was approved, respectively declined: the acquirer then has an event to send.
    pub(crate) approved: Event,
    pub(crate) declined: Event,
}

/// A webhook: sent at any time after its cause, any number of times, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    NoCause,
    Sent,
    /// Its id and its effect are committed: a repeat has none (P25).
    Applied,
}

/// How fresh the index behind a lookup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum View {
    Fresh,
    /// Misses whatever it may miss.
    Lagging,
}

impl Acquirer {
    pub(crate) fn new() -> Self {
        Self {
            memory: Memory::Blank,
            payments: Vec::new(),
            creates: Vec::new(),
            approved: Event::NoCause,
            declined: Event::NoCause,
        }
    }

    /// How often money moved.
    pub(crate) fn executed(&self) -> usize {
        self.payments.iter().filter(|payment| payment.standing == Standing::Approved).count()
    }

    /// A create leaves.
    pub(crate) fn send(&mut self, setting: &Setting, now: Time, attempt: u8, name: Name) {
        if self.memory == Memory::Blank {
            self.memory = Memory::Until(now.plus(setting.memory));
        }
        let dies_at = match (setting.delays, self.memory) {
            (Delays::Broken, Memory::Until(end)) => just_before(end).max(now.plus(V)),
            _ => now.plus(V),
        };
        self.creates.push(Create { attempt, name, dies_at });
        self.creates.sort_unstable();
    }

    /// The create arrives. `standing` is what becomes of it if it is new; the answer is what the sender is told.
    pub(crate) fn receive(&mut self, setting: &Setting, index: usize, standing: Standing) -> Standing {
        let create = self.creates[index];
        if setting.repeats == Repeats::Executed || self.memory == Memory::Over {
            self.creates.remove(index);
        }
        if let Some(known) = self.deduplicated(setting, create.name) {
            return known;
        }
        let leaves_no_trace = standing == Standing::Declined && setting.repeats == Repeats::Executed;
        if !leaves_no_trace {
            self.payments.push(Payment { name: create.name, standing, hidden_until: Some(create.dies_at) });
            self.payments.sort_unstable();
        }
        self.announce(standing);
        standing
    }

    /// The first result under this id, where the acquirer still remembers it.
    pub(crate) fn deduplicated(&self, setting: &Setting, name: Name) -> Option<Standing> {
        if setting.repeats == Repeats::Executed || self.memory == Memory::Over {
            return None;
        }
        self.payments.iter().find(|payment| payment.name == name).map(|payment| payment.standing)
    }

    /// A pending payment is decided.
    pub(crate) fn decide(&mut self, index: usize, standing: Standing) {
        self.payments[index].standing = standing;
        self.payments.sort_unstable();
        self.announce(standing);
    }

    fn announce(&mut self, standing: Standing) {
        let event = match standing {
            Standing::Approved => &mut self.approved,
            Standing::Declined => &mut self.declined,
            Standing::Pending => return,
        };
        if *event == Event::NoCause {
            *event = Event::Sent;
        }
    }

    /// A lookup by the operation's id. Of several payments under it the most positive is told.
    pub(crate) fn look_up(&self, view: View, vanished: bool) -> Told {
        if self.memory == Memory::Over {
            return Told::NotFound;
        }
        let is_shown = |payment: &&Payment| {
            let missed =
                payment.hidden_until.is_some() || (vanished && payment.standing == Standing::Pending);
            payment.name == OPERATION && !(view == View::Lagging && missed)
        };
        match self.payments.iter().filter(is_shown).map(|payment| payment.standing).collect::<Vec<_>>() {
            shown if shown.contains(&Standing::Approved) => Told::Done { positive: true },
            shown if shown.contains(&Standing::Pending) => Told::Pending,
            shown if shown.contains(&Standing::Declined) => Told::Done { positive: false },
            _ => Told::NotFound,
        }
    }

    /// Whether lookups may miss a pending payment although V is over.
    pub(crate) fn may_vanish(setting: &Setting, sighted: bool) -> bool {
        setting.index == Index::Forgetful && sighted
    }

    /// Everything but the creates on their way.
    pub(crate) fn hash_kept<H: Hasher>(&self, state: &mut H) {
        (self.memory, &self.payments, self.approved, self.declined).hash(state);
    }

    /// Time passes: what is over is forgotten, so that states which differ in nothing else are one.
    pub(crate) fn tick(&mut self, now: Time) {
        self.creates.retain(|create| now <= create.dies_at);
        for payment in &mut self.payments {
            payment.hidden_until = payment.hidden_until.filter(|until| now <= *until);
        }
        if matches!(self.memory, Memory::Until(end) if end <= now) {
            self.memory = Memory::Over;
        }
    }
}

fn just_before(end: Time) -> Time {
    Time::from_micros(end.as_micros() - 1)
}
