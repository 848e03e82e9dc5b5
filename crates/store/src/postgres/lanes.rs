//! Where calls wait, and how what waits becomes statements.
//!
//! 1. Two lanes, each a task with a connection of its own: claims in one, changes and loads in the other. So a claim never
//!    waits for the locks of a finish in its own transaction, nor the other way round.
//! 2. A lane takes all that waits, sends it as one statement of each kind, answers, and takes again. Nothing waits for a
//!    timer: a lone call is sent at once, and what comes meanwhile shares the next commit.
//! 3. A statement holds at most one command for each record, in the order of ids. Further claims of a key are decided
//!    against the first one's result; other commands of a record follow each other.
//! 4. A command whose caller has left is not begun (P12). One whose answer is lost is in doubt.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use tokio::time::timeout;
use unavez_core::answer::Content;
use unavez_core::identity::RecordId;
use unavez_core::record::{Change, Claim, Fence, Record};
use unavez_core::time::Time;

use super::claims::{Claimed, Claiming, Claims, Outlook};
use super::connection::{Link, Session};
use super::error::Failure;
use super::finishes::{Finishes, Finishing};
use super::halving::run_halved;
use super::reads::{self, Found};
use super::steps::{Deletes, Deleting, Keeping, Keeps};
use super::time::{Positions, Times};
use crate::rules::{Verdict, judge};
use crate::{Loaded, StoreError, Swap};

/// Most commands of a batch. More of them make a commit no cheaper, and those in front wait longer.
const BATCH_COMMANDS_MAX: usize = 512;

/// A batch takes no further answer once its bodies are this long: they are in memory three times on their way.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// How often a claim that neither won nor found a record is made anew: that record was released in between.
const CLAIM_ROUNDS_MAX: u32 = 5;

/// How often a change is judged anew because its record was written after it was read.
const STEP_TRIES_MAX: u32 = 10;

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// A change that waits.
pub(super) struct SwapCommand {
    pub(super) id: RecordId,
    pub(super) expected: Option<Fence>,
    pub(super) change: Change,
    pub(super) reply: Reply<Swap>,
}

/// A claim of a key that nobody holds.
pub(super) struct ClaimCommand {
    pub(super) id: RecordId,
    pub(super) claim: Claim,
    pub(super) reply: Reply<Swap>,
}

/// What the other lane does.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are swaps, and a box for each would be an allocation"
)]
pub(super) enum Command {
    Swap(SwapCommand),
    Load(RecordId, Reply<Loaded>),
}

impl Command {
    /// What of it is not of a fixed size.
    fn bytes(&self) -> usize {
        match self {
            Self::Swap(SwapCommand { change: Change::Finish(finish), .. }) => match &finish.answer.content {
                Content::Kept { body, .. } | Content::Sealed { bytes: body, .. } => body.len(),
                Content::NotKept { .. } => 0,
            },
            _ => 0,
        }
    }
}

/// What the lanes share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) times: Times,
    pub(super) positions: Positions,
    /// After how long a batch without an answer is in doubt.
    pub(super) answer_timeout: Duration,
}

/// The lane of claims. Ends when its queue does.
///
/// What a timeout cuts off is answered by its reply being dropped: in doubt.
pub(super) async fn run_claims(mut link: Link, shared: Arc<Shared>, mut queue: mpsc::Receiver<ClaimCommand>) {
    let mut taken = Vec::with_capacity(BATCH_COMMANDS_MAX);
    let mut outlook = Outlook::Contended;
    while take(&mut queue, &mut taken).await {
        taken.retain(|command| !command.reply.is_closed());
        let batch = std::mem::take(&mut taken);
        match timeout(shared.answer_timeout, claim_all(&mut link, &shared, batch, outlook)).await {
            Ok(next) => outlook = next,
            Err(_) => link.leave(),
        }
    }
}

/// The lane of everything else. Ends when its queue does.
pub(super) async fn run_changes(mut link: Link, shared: Arc<Shared>, mut queue: mpsc::Receiver<Command>) {
    let mut taken = Vec::with_capacity(BATCH_COMMANDS_MAX);
    while take(&mut queue, &mut taken).await {
        let mut waiting = VecDeque::from(std::mem::take(&mut taken));
        while !waiting.is_empty() {
            let bite = bite(&mut waiting);
            if timeout(shared.answer_timeout, change_all(&mut link, &shared, bite)).await.is_err() {
                link.leave();
            }
        }
    }
}

/// Waits for commands and takes what is there: also of callers that are about to be run, such as those just answered.
/// `false` when the queue has ended.
async fn take<T>(queue: &mut mpsc::Receiver<T>, taken: &mut Vec<T>) -> bool {
    if queue.recv_many(taken, BATCH_COMMANDS_MAX).await == 0 {
        return false;
    }
    yield_now().await;
    while taken.len() < BATCH_COMMANDS_MAX
        && let Ok(command) = queue.try_recv()
    {
        taken.push(command);
    }
    true
}

/// As many commands from the front as fit into a batch, at least one.
fn bite(waiting: &mut VecDeque<Command>) -> Vec<Command> {
    let mut bytes = 0;
    let full = waiting.iter().position(|command| {
        bytes += command.bytes();
        bytes >= BATCH_BYTES_MAX
    });
    let count = full.map_or(waiting.len(), |at| at + 1);
    waiting.drain(..count).collect()
}

/// Answers a caller. One that left meanwhile is not waiting any more; its change stands (P12).
fn answer<T>(reply: Reply<T>, result: Result<T, StoreError>) {
    drop(reply.send(result));
}

/// How a claim's record stands after the claim.
#[derive(Clone)]
enum Standing {
    Won(Arc<Record>, Time),
    Lost(Arc<Record>, Time),
}

/// Makes and answers claims, and says what to expect of the next ones.
async fn claim_all(
    link: &mut Link,
    shared: &Shared,
    commands: Vec<ClaimCommand>,
    outlook: Outlook,
) -> Outlook {
    let mut of_id: BTreeMap<RecordId, Vec<ClaimCommand>> = BTreeMap::new();
    for command in commands {
        of_id.entry(command.id).or_default().push(command);
    }
    let session = match link.session().await {
        Ok(session) => session,
        Err(failure) => {
            let replies = of_id.into_values().flatten().map(|command| command.reply);
            replies.for_each(|reply| answer(reply, Err(failure.clone().of_write())));
            return outlook;
        }
    };
    let claiming = |command: &ClaimCommand| Claiming {
        id: command.id,
        claim: command.claim.clone(),
        position: shared.positions.next(&shared.times),
    };
    let first_of_each = of_id.values().filter_map(|commands| commands.first());
    let claims = Claims { session: &session, times: &shared.times, outlook };
    let mut standings = stand(&claims, first_of_each.map(claiming).collect()).await;
    let is_lost = |standing: &Result<Standing, _>| matches!(standing, Ok(Standing::Lost(..)));
    let outlook = if standings.values().any(is_lost) { Outlook::Contended } else { Outlook::Fresh };
    for (id, commands) in of_id {
        let nowhere = || Err(StoreError::Unavailable("a claim was lost on its way".into()));
        answer_claims(commands, standings.remove(&id).unwrap_or_else(nowhere));
    }
    outlook
}

/// Makes the claims, and finds out what stands where they did not win.
async fn stand(
    claims: &Claims<'_>,
    mut open: Vec<Claiming>,
) -> HashMap<RecordId, Result<Standing, StoreError>> {
    let mut standings = HashMap::with_capacity(open.len());
    for _ in 0..CLAIM_ROUNDS_MAX {
        let mut neither = BTreeMap::new();
        let claimed = run_halved(claims, &open).await;
        for (item, claimed) in open.drain(..).zip(claimed) {
            let standing = match claimed {
                Ok(Claimed::Neither) => {
                    neither.insert(item.id, item);
                    continue;
                }
                Ok(Claimed::Won { record, now }) => Ok(Standing::Won(record, now)),
                Ok(Claimed::Lost { record, now }) => Ok(Standing::Lost(record, now)),
                Ok(Claimed::Unreadable(why)) => Err(StoreError::Unavailable(why.to_string().into())),
                Err(failure) => Err(failure.of_write()),
            };
            standings.insert(item.id, standing);
        }
        if neither.is_empty() {
            return standings;
        }
        let found = reads::load(claims.session, claims.times, &neither.keys().copied().collect()).await;
        for (id, item) in neither {
            match reads::taken(&found, id) {
                Ok(Loaded { record: Some(record), now }) => {
                    standings.insert(id, Ok(Standing::Lost(record, now)));
                }
                Ok(Loaded { record: None, .. }) => open.push(item),
                Err(failure) => {
                    standings.insert(id, Err(failure.of_read()));
                }
            }
        }
    }
    let tired = StoreError::Unavailable(format!("neither won nor read in {CLAIM_ROUNDS_MAX} rounds").into());
    standings.extend(open.into_iter().map(|item| (item.id, Err(tired.clone()))));
    standings
}

/// Answers the claims of one key: the first as it went, the others by what stood there then.
fn answer_claims(commands: Vec<ClaimCommand>, standing: Result<Standing, StoreError>) {
    let mut won = matches!(standing, Ok(Standing::Won(..)));
    let mut is_first = true;
    for ClaimCommand { id, claim, reply, .. } in commands {
        let result = match &standing {
            Ok(Standing::Won(record, now)) if std::mem::take(&mut won) => {
                Ok(Swap::Swapped { record: Arc::clone(record), now: *now })
            }
            Ok(Standing::Won(record, now) | Standing::Lost(record, now)) => met(id, record, claim, *now),
            Err(error) if is_first => Err(error.clone()),
            // It was never sent.
            Err(error) => Err(StoreError::Unavailable(error.to_string().into())),
        };
        is_first = false;
        answer(reply, result);
    }
}

/// What a claim is told of the record that stands in its way.
fn met(id: RecordId, record: &Arc<Record>, claim: Claim, now: Time) -> Result<Swap, StoreError> {
    judge(id, Some(record), None, Change::Claim(claim), now)?;
    Ok(Swap::Conflict { record: Some(Arc::clone(record)), now })
}

async fn change_all(link: &mut Link, shared: &Shared, commands: Vec<Command>) {
    let Sorted { finishes, steps, loads } = Sorted::of(commands);
    let session = match link.session().await {
        Ok(session) => session,
        Err(failure) => {
            finishes
                .into_values()
                .chain(steps)
                .for_each(|it| answer(it.reply, Err(failure.clone().of_write())));
            loads.into_values().flatten().for_each(|reply| answer(reply, Err(failure.clone().of_read())));
            return;
        }
    };
    let ((), found) = tokio::join!(
        async {
            let (unfinished, ()) =
                tokio::join!(finish_all(&session, shared, finishes), step_all(&session, shared, steps));
            step_all(&session, shared, unfinished).await;
        },
        load_all(&session, shared, &loads),
    );
    let found = if cut_off(&found) { load_again(link, shared, &loads).await } else { found };
    for (id, replies) in loads {
        for reply in replies {
            answer(reply, reads::taken(&found, id).map_err(Failure::of_read));
        }
    }
}

/// Commands by what is sent for them.
#[derive(Default)]
struct Sorted {
    finishes: BTreeMap<RecordId, SwapCommand>,
    steps: Vec<SwapCommand>,
    loads: BTreeMap<RecordId, Vec<Reply<Loaded>>>,
}

impl Sorted {
    fn of(commands: Vec<Command>) -> Self {
        let mut sorted = Self::default();
        for command in commands {
            match command {
                Command::Load(id, reply) if !reply.is_closed() => {
                    sorted.loads.entry(id).or_default().push(reply);
                }
                Command::Swap(swap) if !swap.reply.is_closed() => sorted.add_swap(swap),
                Command::Load(..) | Command::Swap(_) => {}
            }
        }
        sorted
    }

    fn add_swap(&mut self, swap: SwapCommand) {
        let is_finish = matches!((&swap.change, swap.expected), (Change::Finish(_), Some(_)));
        if is_finish && !self.finishes.contains_key(&swap.id) {
            self.finishes.insert(swap.id, swap);
        } else {
            self.steps.push(swap);
        }
    }
}

/// Finishes what fits and returns the commands of the rest, whose records are to be looked at.
async fn finish_all(
    session: &Session,
    shared: &Shared,
    commands: BTreeMap<RecordId, SwapCommand>,
) -> Vec<SwapCommand> {
    let mut items = Vec::with_capacity(commands.len());
    for (id, command) in &commands {
        if let (Change::Finish(finish), Some(expected)) = (&command.change, command.expected) {
            items.push(Finishing { id: *id, expected, finish: finish.clone() });
        }
    }
    let finished = run_halved(&Finishes { session, times: &shared.times }, &items).await;
    let mut unfitting = Vec::new();
    for (command, finished) in commands.into_values().zip(finished) {
        match finished {
            Ok(Some((record, now))) => answer(command.reply, Ok(Swap::Swapped { record, now })),
            Ok(None) => unfitting.push(command),
            Err(failure) => answer(command.reply, Err(failure.of_write())),
        }
    }
    unfitting
}

async fn load_all(
    session: &Session,
    shared: &Shared,
    loads: &BTreeMap<RecordId, Vec<Reply<Loaded>>>,
) -> Result<Found, Failure> {
    if loads.is_empty() {
        return Ok(Found::new());
    }
    reads::load(session, &shared.times, &loads.keys().copied().collect()).await
}

/// A read that was cut off is made again, once: nothing can have happened.
async fn load_again(
    link: &mut Link,
    shared: &Shared,
    loads: &BTreeMap<RecordId, Vec<Reply<Loaded>>>,
) -> Result<Found, Failure> {
    let session = link.session().await?;
    load_all(&session, shared, loads).await
}

pub(super) fn cut_off<T>(result: &Result<T, Failure>) -> bool {
    matches!(result, Err(Failure::CutOff(_)))
}

/// A step and how often it was judged.
struct Step {
    command: SwapCommand,
    tries: u32,
}

/// Takes steps one after the other for each record, and those of different records together.
async fn step_all(session: &Session, shared: &Shared, commands: Vec<SwapCommand>) {
    let mut waiting: BTreeMap<RecordId, VecDeque<Step>> = BTreeMap::new();
    for command in commands {
        waiting.entry(command.id).or_default().push_back(Step { command, tries: 0 });
    }
    while !waiting.is_empty() {
        let ids: BTreeSet<RecordId> = waiting.keys().copied().collect();
        let found = reads::load(session, &shared.times, &ids).await;
        let mut writes = Writes::default();
        for (id, steps) in &mut waiting {
            writes.add(shared, steps, &reads::taken(&found, *id));
        }
        writes.run(session, &mut waiting).await;
        waiting.retain(|_, steps| !steps.is_empty());
    }
}

/// What a round of steps writes.
#[derive(Default)]
struct Writes {
    keeps: Vec<Keeping>,
    deletes: Vec<Deleting>,
    /// What callers are told once it is written.
    swapped: HashMap<RecordId, (Arc<Record>, Time)>,
}

impl Writes {
    /// Judges the steps of one record against what was found, up to the first that writes. It stays in front.
    fn add(&mut self, shared: &Shared, steps: &mut VecDeque<Step>, found: &Result<Loaded, Failure>) {
        while let Some(step) = steps.front_mut() {
            step.tries += 1;
            if let Some(result) = self.judged(shared, step, found) {
                let step = steps.pop_front().expect("it was in front just now");
                answer(step.command.reply, result);
            } else {
                return;
            }
        }
    }

    /// The answer, or `None` if something is to be written first.
    fn judged(
        &mut self,
        shared: &Shared,
        step: &Step,
        found: &Result<Loaded, Failure>,
    ) -> Option<Result<Swap, StoreError>> {
        let Step { command: SwapCommand { id, expected, change, .. }, tries } = step;
        let Loaded { record, now } = match found {
            Ok(loaded) => loaded,
            Err(failure) => return Some(Err(failure.clone().of_read())),
        };
        let verdict = match judge(*id, record.as_deref(), *expected, change.clone(), *now) {
            Ok(Verdict::Conflict) => return Some(Ok(Swap::Conflict { record: record.clone(), now: *now })),
            Ok(_) if *tries > STEP_TRIES_MAX => {
                let why = format!("the record changed {STEP_TRIES_MAX} times while it was read");
                return Some(Err(StoreError::Unavailable(why.into())));
            }
            Ok(verdict) => verdict,
            Err(refusal) => return Some(Err(refusal.into())),
        };
        // Only a claim comes about where no record is, and those go the other way.
        let before = record.as_ref()?;
        let starts_anew = matches!(change, Change::Claim(_));
        let after = match verdict {
            Verdict::Keep(record) => {
                let position = starts_anew.then(|| shared.positions.next(&shared.times));
                self.keeps.push(Keeping { record: record.clone(), before: before.fence, position });
                Arc::new(record)
            }
            Verdict::Delete | Verdict::Conflict => {
                self.deletes.push(Deleting { id: *id, before: before.fence });
                Arc::clone(before)
            }
        };
        self.swapped.insert(*id, (after, *now));
        None
    }

    /// Writes, answers what was written, and leaves in front what met another writer.
    async fn run(mut self, session: &Session, waiting: &mut BTreeMap<RecordId, VecDeque<Step>>) {
        let (keeps, deletes) = (Keeps(session), Deletes(session));
        let (kept, deleted) =
            tokio::join!(run_halved(&keeps, &self.keeps), run_halved(&deletes, &self.deletes));
        let kept_ids = self.keeps.iter().map(|keeping| keeping.record.id);
        let ids = kept_ids.chain(self.deletes.iter().map(|deleting| deleting.id));
        for (id, written) in ids.zip(kept.into_iter().chain(deleted)) {
            let result = match written {
                Ok(false) => continue,
                Ok(true) => self.swapped.remove(&id).ok_or_else(|| StoreError::Unavailable("lost".into())),
                Err(failure) => Err(failure.of_write()),
            };
            let step = waiting.get_mut(&id).and_then(VecDeque::pop_front);
            let reply = step.expect("what was written for it is why it waits").command.reply;
            answer(reply, result.map(|(record, now)| Swap::Swapped { record, now }));
        }
    }
}
