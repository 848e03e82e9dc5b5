//! A service and its acquirer, each with its files, and everything that was ever asked of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::asking::{self, BETWEEN_TRIES, PATIENCE, patiently};
use super::audit::{self, Seen};
use super::deed::{Deed, Operation};
use super::plan::{Blow, Plan, Victim, When, Wish};
use super::process::{Found, Process, Program, copy_of, pause};
use super::setting::{Network, Terms, WEBHOOK_SECRET, acquirer_arguments, serve_arguments};
use crate::failure::Failure;
use crate::wire::{self, Message};

/// How long the service may take to find the end of what nobody repeats, and the acquirer executed.
const ALONE_MAX: Duration = Duration::from_secs(30);

/// How long something that is not executed is left alone.
const ALONE: Duration = Duration::from_secs(4);

/// A service and its acquirer. Both are killed when it is dropped, and their files go with them.
pub(crate) struct World {
    serve: Process,
    acquirer: Process,
    pub(crate) operations: Vec<Operation>,
    /// Places of authorised charges that nothing was done with yet.
    authorized: Vec<usize>,
    captured: Vec<usize>,
    name: String,
    network: Network,
    // Last: fields are dropped in this order, and no process may outlive its files.
    _folder: TempDir,
}

/// What became of the blows of a round.
pub(crate) type Struck = Vec<(&'static str, bool)>;

impl World {
    /// Starts both. `name` is part of every key.
    pub(crate) fn start(binary: &Path, name: &str, terms: Terms, network: Network) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("unavez-crash-").tempdir();
        let folder =
            folder.map_err(|error| Failure::lacking(format!("no folder for the processes: {error}")))?;
        let binary = copy_of(binary, folder.path())?;
        let secret = folder.path().join("webhook-secret");
        std::fs::write(&secret, format!("{WEBHOOK_SECRET}\n"))
            .map_err(|error| Failure::file("write", &secret, &error))?;
        let program = |name, address, arguments: Vec<String>| {
            let (binary, folder) = (binary.clone(), folder.path().to_path_buf());
            Process::new(Program { binary, folder, name, address, arguments })
        };
        let mut world = Self {
            serve: program("serve", network.serve, serve_arguments(terms, network.acquirer_seen())),
            acquirer: program("acquirer", network.acquirer, acquirer_arguments(terms, network.serve_seen())),
            operations: Vec::new(),
            authorized: Vec::new(),
            captured: Vec::new(),
            name: name.to_owned(),
            network,
            _folder: folder,
        };
        world.acquirer.start(None)?;
        world.serve.start(None)?;
        Ok(world)
    }

    /// One round: the blows fall while its operations are under way; then both are alive again, everything is repeated
    /// until it has its final answer, and both books are compared.
    pub(crate) fn play(&mut self, plan: &Plan) -> Result<Struck, Failure> {
        self.arm(plan)?;
        let places = self.wish(plan);
        self.send_first(plan, &places)?;
        let mut struck = Vec::new();
        self.settle(plan, &places, &mut struck)?;
        self.network.wait_until_quiet();
        self.disarm(plan, &mut struck)?;
        self.audit(&places)?;
        self.remember(&places);
        Ok(struck)
    }

    fn arm(&mut self, plan: &Plan) -> Result<(), Failure> {
        for (victim, process) in self.processes() {
            if let Some(crash_at) = plan.blow_on(victim).and_then(Blow::crash_at) {
                process.start(Some(&crash_at))?;
            }
        }
        Ok(())
    }

    fn processes(&mut self) -> [(Victim, &mut Process); 2] {
        [(Victim::Serve, &mut self.serve), (Victim::Acquirer, &mut self.acquirer)]
    }

    /// Makes the round's operations; the places where they stand.
    fn wish(&mut self, plan: &Plan) -> Vec<usize> {
        let first = self.operations.len();
        for wish in &plan.wishes {
            let name = format!("{}-{}", self.name, self.operations.len());
            let operation = match wish {
                Wish::Charge(deed) => Operation::new(&name, deed.clone(), None),
                Wish::Step => self.step(&name),
            };
            self.operations.push(operation);
        }
        if let Some(operation) = self.operations.get_mut(first + plan.left_alone) {
            operation.left_alone = true;
        }
        (first..self.operations.len()).collect()
    }

    fn step(&mut self, name: &str) -> Operation {
        let id = |place: usize| self.operations[place].told_member("id").expect("it was approved");
        match (self.authorized.pop(), self.captured.first()) {
            (Some(place), _) => {
                let deed = if place.is_multiple_of(2) { Deed::Capture } else { Deed::Void };
                Operation::new(name, deed, Some(&id(place)))
            }
            (None, Some(place)) => Operation::new(name, Deed::Refund, Some(&id(*place))),
            (None, None) => Operation::new(name, super::deed::charge("tok_approve"), None),
        }
    }

    /// Sends everything once, all at the same time, and kills whoever is to be killed meanwhile.
    fn send_first(&mut self, plan: &Plan, places: &[usize]) -> Result<(), Failure> {
        let address = self.serve.address();
        let requests: Vec<Operation> = places.iter().map(|place| self.operations[*place].clone()).collect();
        let answers = std::thread::scope(|scope| {
            let sent: Vec<_> = requests.iter().map(|it| scope.spawn(move || send(address, it))).collect();
            let mut killings: Vec<_> = plan
                .blows
                .iter()
                .filter_map(|blow| match blow.when {
                    When::After { ms } => Some((ms, blow.point.victim)),
                    When::Reached { .. } => None,
                })
                .collect();
            killings.sort_by_key(|(ms, _)| *ms);
            let began = Instant::now();
            for (ms, victim) in killings {
                pause(Duration::from_millis(ms).saturating_sub(began.elapsed()));
                match victim {
                    Victim::Serve => self.serve.kill(),
                    Victim::Acquirer => self.acquirer.kill(),
                }
            }
            sent.into_iter().map(|thread| thread.join().expect("no sender panics")).collect::<Vec<_>>()
        });
        self.hear(places.iter().copied().zip(answers))
    }

    /// Repeats what is open, two at a time, until everything has its final answer. Who died is started again.
    fn settle(&mut self, plan: &Plan, places: &[usize], struck: &mut Struck) -> Result<(), Failure> {
        let began = Instant::now();
        loop {
            self.revive(plan, struck)?;
            for place in places {
                self.look_after(*place, began.elapsed())?;
            }
            let is_open = |place: &&usize| self.operations[**place].told.is_none();
            let open: Vec<usize> = places.iter().filter(is_open).copied().collect();
            if open.is_empty() {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                let keys: Vec<&str> = open.iter().map(|place| &*self.operations[*place].key).collect();
                return Err(self.fault(format!("still open after {} s: {keys:?}", PATIENCE.as_secs())));
            }
            let answers = self.send_twice(&open);
            self.hear(answers)?;
            pause(BETWEEN_TRIES);
        }
    }

    fn send_twice(&self, open: &[usize]) -> Vec<(usize, Option<Message>)> {
        let address = self.serve.address();
        let repeated = open.iter().filter(|place| !self.operations[**place].left_alone);
        let copies: Vec<usize> = repeated.flat_map(|place| [*place, *place]).collect();
        std::thread::scope(|scope| {
            let operations = &self.operations;
            let sent: Vec<_> = copies
                .iter()
                .map(|place| (*place, scope.spawn(move || send(address, &operations[*place]))))
                .collect();
            sent.into_iter()
                .map(|(place, thread)| (place, thread.join().expect("no sender panics")))
                .collect()
        })
    }

    /// What nobody repeats is watched: the service has to settle by itself whatever the acquirer executed.
    fn look_after(&mut self, place: usize, since: Duration) -> Result<(), Failure> {
        let operation = &self.operations[place];
        if !operation.left_alone {
            return Ok(());
        }
        let Some(status) = self.key_status(operation) else { return Ok(()) };
        let executed = status["operation_id"].as_str().is_some_and(|id| self.is_executed(id));
        let is_over = match status["state"].as_str() {
            Some("finished") | None => true,
            Some(_) if executed && since > ALONE_MAX => {
                let key = &operation.key;
                return Err(self.fault(format!("{key}: executed, and nobody found out: {status}")));
            }
            Some(_) => !executed && since > ALONE,
        };
        if is_over {
            self.operations[place].left_alone = false;
        }
        Ok(())
    }

    /// What the service says about a key; null if it knows none. `None`: it does not answer just now.
    fn key_status(&self, operation: &Operation) -> Option<Value> {
        let path = format!("/v1/idempotency-keys/{}", operation.key);
        let answer = wire::get(self.serve.address(), &path).ok()?;
        match answer.status() {
            200 => Some(answer.json()),
            404 => Some(Value::Null),
            _ => None,
        }
    }

    fn is_executed(&self, operation_id: &str) -> bool {
        let stats = wire::get(self.acquirer.address(), "/stats");
        stats.is_ok_and(|stats| stats.json()["by_operation"][operation_id].as_u64() > Some(0))
    }

    fn hear(&mut self, answers: impl IntoIterator<Item = (usize, Option<Message>)>) -> Result<(), Failure> {
        for (place, answer) in answers {
            let Some(answer) = answer else { continue };
            if let Err(fault) = self.operations[place].hear(&answer) {
                return Err(self.fault(fault));
            }
        }
        Ok(())
    }

    /// Starts again whoever died, and notes whether it died as planned.
    fn revive(&mut self, plan: &Plan, struck: &mut Struck) -> Result<(), Failure> {
        let mut unplanned = None;
        for (victim, process) in self.processes() {
            let found = process.look();
            if found == Found::Alive {
                continue;
            }
            match plan.blow_on(victim) {
                Some(blow) if blow.crash_at().is_none() || found == Found::DiedAtThePoint => {
                    struck.push((blow.point.name, true));
                }
                _ => unplanned = Some(format!("{victim:?} died by itself: {found:?}")),
            }
            process.start(None)?;
        }
        unplanned.map_or(Ok(()), |what| Err(self.fault(what)))
    }

    /// A process that never came to its point is killed now: the next round starts with none that will still die.
    fn disarm(&mut self, plan: &Plan, struck: &mut Struck) -> Result<(), Failure> {
        for (victim, process) in self.processes() {
            let Some(blow) = plan.blow_on(victim) else { continue };
            if !struck.iter().any(|(name, _)| *name == blow.point.name) {
                let found = process.look();
                struck.push((blow.point.name, found == Found::DiedAtThePoint));
                process.start(None)?;
            }
        }
        Ok(())
    }

    /// Compares what the two say about these operations, and their books as a whole.
    fn audit(&mut self, places: &[usize]) -> Result<(), Failure> {
        let stats = self.ask(self.acquirer.address(), "/stats")?;
        let mut faults = Vec::new();
        for place in places {
            let path = format!("/v1/idempotency-keys/{}", self.operations[*place].key);
            let key = self.ask(self.serve.address(), &path)?;
            let id = key["operation_id"].as_str().unwrap_or_default().to_owned();
            let outside = self.ask(self.acquirer.address(), &format!("/operations/{id}"))?;
            let operation = &mut self.operations[*place];
            operation.operation_id = Some(id);
            faults.extend(audit::operation_faults(&Seen { operation, key, outside }, &stats));
        }
        let summary = self.ask(self.serve.address(), "/v1/ledger/summary")?;
        faults.extend(audit::book_faults(&summary, &self.all_executions()?, &stats, &self.by_id()));
        self.none_of(&faults)
    }

    /// Every operation that was audited, by its name at the acquirer.
    fn by_id(&self) -> BTreeMap<String, &Operation> {
        self.operations.iter().filter_map(|it| Some((it.operation_id.clone()?, it))).collect()
    }

    /// Charge by charge, whether both sides took and gave back the same.
    fn audit_charges(&self) -> Result<(), Failure> {
        let (by_id, list) = (self.by_id(), self.all_executions()?);
        let mut faults = Vec::new();
        for operation in self.operations.iter().filter(|it| matches!(it.deed, Deed::Charge { .. })) {
            let Some(id) = operation.told_member("id") else { continue };
            let charge = self.ask(self.serve.address(), &format!("/v1/charges/{id}"))?;
            faults.extend(audit::charge_faults(&charge, &list, &by_id));
        }
        self.none_of(&faults)
    }

    fn none_of(&self, faults: &[String]) -> Result<(), Failure> {
        if faults.is_empty() { Ok(()) } else { Err(self.fault(faults.join("\n"))) }
    }

    fn all_executions(&self) -> Result<Vec<Value>, Failure> {
        asking::all_executions(self.acquirer.address()).map_err(|what| self.fault(what))
    }

    fn ask(&self, address: SocketAddr, path: &str) -> Result<Value, Failure> {
        asking::ask(address, path).map_err(|what| self.fault(what))
    }

    /// What later rounds can do something with.
    fn remember(&mut self, places: &[usize]) {
        for place in places {
            let operation = &self.operations[*place];
            if !matches!(operation.deed, Deed::Charge { .. }) {
                continue;
            }
            match operation.told_member("status").as_deref() {
                Some("authorized") => self.authorized.push(*place),
                // A few of the youngest: each bears many refunds, but not any number.
                Some("captured") => {
                    self.captured.push(*place);
                    if self.captured.len() > 4 {
                        self.captured.remove(0);
                    }
                }
                _ => {}
            }
        }
    }

    /// The end of it all: both are killed once more, and every answer that was ever given is still the answer.
    pub(crate) fn close(mut self) -> Result<usize, Failure> {
        self.acquirer.start(None)?;
        self.serve.start(None)?;
        for operation in &self.operations {
            let told = operation.told.as_ref().expect("every round ends with all of its answers");
            let Some(again) = patiently(|| send(self.serve.address(), operation)) else {
                return Err(self.fault(format!("{}: no answer at the end", operation.key)));
            };
            if (told.status(), &told.body) != (again.status(), &again.body)
                || again.header("idempotent-replayed") != Some("true")
            {
                let what = format!("told {}, at the end {}", told.shown(), again.shown());
                return Err(self.fault(format!("{}: {what}", operation.key)));
            }
        }
        let places: Vec<usize> = (0..self.operations.len()).collect();
        self.audit(&places)?;
        self.audit_charges()?;
        Ok(self.operations.len())
    }

    /// What was found, and what the two said last.
    pub(crate) fn fault(&self, what: impl std::fmt::Display) -> Failure {
        Failure::check(format!(
            "{what}\n  the service logged:\n{}\n  the acquirer logged:\n{}",
            self.serve.last_words(),
            self.acquirer.last_words()
        ))
    }
}

fn send(address: SocketAddr, operation: &Operation) -> Option<Message> {
    wire::post(address, &operation.path, &operation.key, &operation.body).ok()
}
