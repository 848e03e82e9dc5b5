//! A shop that charges orders: what its workers know when they name an operation, and what they forget.

use std::{collections::HashMap, fmt};

use serde::{Serialize, Serializer};
use unavez_core::derive::derive;

use crate::keys::random_key;

/// What keys are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// Nothing, held in memory.
    Random,
    /// Nothing, written down with the order before the first attempt.
    RandomStored,
    /// The order.
    Derived,
    /// The order, and the how-manieth charge of it this is (P29).
    DerivedOccurrence,
    /// That, and the attempt.
    NamesAttempt,
    /// That, and the time.
    NamesTime,
    /// The amount.
    NamesAmount,
}

impl Naming {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 7] = [
        Self::Random,
        Self::RandomStored,
        Self::Derived,
        Self::DerivedOccurrence,
        Self::NamesAttempt,
        Self::NamesTime,
        Self::NamesAmount,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RandomStored => "random-stored",
            Self::Derived => "derived",
            Self::DerivedOccurrence => "derived-occurrence",
            Self::NamesAttempt => "names-attempt",
            Self::NamesTime => "names-time",
            Self::NamesAmount => "names-amount",
        }
    }
}

impl fmt::Display for Naming {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl Serialize for Naming {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A charge that somebody means to happen once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Operation {
    /// Order 1 or 2.
    pub(super) order: u32,
    /// The how-manieth charge of the order this is meant to be.
    pub(super) occurrence: u32,
    pub(super) dollars: u64,
    pub(super) payment_method: &'static str,
}

/// What outlives a worker: the orders' rows, and the clock on the wall.
pub(super) struct Shop {
    naming: Naming,
    run: String,
    written: HashMap<Operation, String>,
    now: u64,
}

/// Who sends requests, and what only it remembers.
#[derive(Default)]
pub(super) struct Worker {
    remembered: HashMap<Operation, String>,
    attempts: HashMap<Operation, u32>,
}

impl Shop {
    /// A shop whose orders no other shop has.
    pub(super) fn new(naming: Naming, run: &str) -> Self {
        Self { naming, run: format!("{run}-{naming}"), written: HashMap::new(), now: 1_700_000_000 }
    }

    pub(super) fn order_id(&self, order: u32) -> String {
        format!("{}-{order}", self.run)
    }

    /// The key of one attempt. Asked for before each of them: whether that makes another key is the naming's matter.
    pub(super) fn key(&mut self, worker: &mut Worker, operation: Operation) -> String {
        let attempt = worker.attempts.entry(operation).or_default();
        *attempt += 1;
        self.now += 1;
        let Operation { order, occurrence, dollars, .. } = operation;
        let order = self.order_id(order);
        let derived = |parts: &[&str]| {
            let key = derive("charge", parts).expect("order ids and numbers are short and printable");
            key.as_str().to_owned()
        };
        match self.naming {
            Naming::Random => worker.remembered.entry(operation).or_insert_with(random_key).clone(),
            Naming::RandomStored => self.written.entry(operation).or_insert_with(random_key).clone(),
            Naming::Derived => derived(&[&order]),
            Naming::DerivedOccurrence => derived(&[&order, &occurrence.to_string()]),
            Naming::NamesAttempt => derived(&[&order, &occurrence.to_string(), &attempt.to_string()]),
            Naming::NamesTime => derived(&[&order, &occurrence.to_string(), &self.now.to_string()]),
            Naming::NamesAmount => derived(&[&dollars.to_string()]),
        }
    }
}
