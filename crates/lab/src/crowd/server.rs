//! The server: workers, a queue with an end, a ledger, and a memory or none.

use std::{collections::VecDeque, time::Duration};

use unavez_core::{record::Fence, time::Time};

use super::{
    Capacity, Memory,
    desk::{Desk, Ruling},
};
use crate::Error;

/// What looking up a stored answer takes, or any other request that does not charge.
const LOOK_UP: Duration = Duration::from_millis(1);

/// A request at the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// Numbers all attempts of a run.
    pub(super) attempt: u64,
    pub(super) asks: Asks,
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// Charge this order. `probe`: it found out for a breaker whether the server is back.
    Charge { order: usize, probe: bool },
    /// Nothing is to happen: how are you?
    Health { process: usize },
}

/// A line of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: Time,
    pub(crate) order: usize,
    /// It was charged by a breaker's probe.
    pub(crate) probe: bool,
}

/// What a worker is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) request: Request,
    task: Task,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Charge { order: usize, probe: bool, fence: Option<Fence> },
    Answer(Reply),
}

/// What an answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// 201: charged, now or before.
    Charged,
    /// 409: an attempt is running.
    InProgress,
    /// 200.
    Healthy,
    /// 503: the queue is full, and nothing ran.
    Full,
}

pub(super) struct Server {
    capacity: Capacity,
    desk: Option<Desk>,
    queue: VecDeque<Request>,
    busy: u32,
    ledger: Vec<Entry>,
}

impl Server {
    pub(super) fn open(capacity: Capacity, memory: Memory, orders: usize) -> Self {
        let desk = (memory == Memory::Engine).then(|| Desk::open(orders));
        Self { capacity, desk, queue: VecDeque::new(), busy: 0, ledger: Vec::new() }
    }

    /// Takes a request in, or answers at once.
    pub(super) fn arrive(&mut self, request: Request) -> Option<Reply> {
        let waits = self.busy >= self.capacity.workers;
        if waits && self.queue.len() >= self.capacity.queue as usize {
            return Some(Reply::Full);
        }
        self.queue.push_back(request);
        None
    }

    /// Puts a free worker to the request that has waited longest; how long it will take.
    pub(super) async fn begin(&mut self, now: Time) -> Result<Option<(Job, Duration)>, Error> {
        if self.busy >= self.capacity.workers {
            return Ok(None);
        }
        let Some(request) = self.queue.pop_front() else { return Ok(None) };
        self.busy += 1;
        let task = self.task(request.asks, now).await?;
        let length = match task {
            Task::Charge { .. } => self.capacity.work,
            Task::Answer(_) => LOOK_UP.min(self.capacity.work),
        };
        Ok(Some((Job { request, task }, length)))
    }

    async fn task(&mut self, asks: Asks, now: Time) -> Result<Task, Error> {
        let Asks::Charge { order, probe } = asks else { return Ok(Task::Answer(Reply::Healthy)) };
        let Some(desk) = &mut self.desk else { return Ok(Task::Charge { order, probe, fence: None }) };
        Ok(match desk.meet(order, now).await? {
            Ruling::Charge(fence) => Task::Charge { order, probe, fence: Some(fence) },
            Ruling::Replay => Task::Answer(Reply::Charged),
            Ruling::InProgress => Task::Answer(Reply::InProgress),
        })
    }

    /// The work is done: the money moves here and nowhere else.
    pub(super) async fn finish(&mut self, job: Job, now: Time) -> Result<Reply, Error> {
        self.busy -= 1;
        match job.task {
            Task::Answer(reply) => Ok(reply),
            Task::Charge { order, probe, fence } => {
                self.ledger.push(Entry { at: now, order, probe });
                if let (Some(desk), Some(fence)) = (&mut self.desk, fence) {
                    desk.finish(order, fence, now).await?;
                }
                Ok(Reply::Charged)
            }
        }
    }

    pub(super) fn into_ledger(self) -> Vec<Entry> {
        self.ledger
    }
}
