//! `cargo xtask orders`: the shop of `examples/orders`, the service and its acquirer, each killed at any moment.
//!
//! 1. All three are real programs in processes of their own. Customers send orders; whoever gets no answer sends the same
//!    order again, or goes away.
//! 2. Meanwhile one, two or all three are killed by SIGKILL and started again, at moments that dice draw.
//! 3. Then everybody lives, and everything that was accepted has to be settled without anybody asking for it: the shop's
//!    outbox does it, or nothing.
//! 4. Three books are compared ([`ledger`]): an order that a customer was told 202 of is there, was executed once at the
//!    acquirer, and shop, service and acquirer say the same of it; an order that nobody was told of is there whole or not
//!    at all; and nothing was executed that nobody ordered.
//! 5. The acquirer executes whatever it is sent, twice if it is sent twice.

mod customers;
mod ledger;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use self::customers::{Customers, Ordered};
use super::asking::{BETWEEN_TRIES, ask};
use super::build_all;
use super::dice::Dice;
use super::process::{Process, Program, copy_of, free_address, pause};
use super::setting::{Network, Terms, WEBHOOK_SECRET, acquirer_arguments, serve_arguments};
use crate::failure::Failure;
use crate::workspace::Workspace;

/// How long nothing at all may be settled once nobody dies any more: the longest waits of outbox, service and lease several
/// times over, on a busy machine.
const STALLED_MAX: Duration = Duration::from_secs(90);

/// Longer than any request is on its way between two processes of one machine, however busy that is.
const VISIBILITY_DELAY: Duration = Duration::from_millis(1_500);

/// Kill a shop, the service and its acquirer at random, and compare all books
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long they are killed
    #[arg(long, default_value_t = 40)]
    seconds: u64,

    /// Which moments; printed by every run
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

impl Args {
    /// What the gate can spend.
    pub(crate) const SHORT: Self = Self { seconds: 40, seed: 42 };
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<(), Failure> {
    let [unavez, shop] = build_all(workspace, ["unavez", "example-orders"])?;
    let command = format!("cargo xtask orders --seconds {} --seed {}", args.seconds, args.seed);
    println!("{} s, seed {}: {command}", args.seconds, args.seed);
    let mut town = Town::start(&unavez, &shop)?;
    let repeat = |failure| Failure::check(format!("{failure}\nrepeat it with: {command}"));
    let (ordered, kills) = town.live(args).map_err(repeat)?;
    town.settle()
        .and_then(|()| ledger::compare(&town, &ordered))
        .map_err(|what| repeat(town.fault(&what)))?;
    tell(&ordered, &kills)
}

/// A shop, a service and its acquirer. All are killed when it is dropped, and their files go with them.
struct Town {
    shop: Process,
    serve: Process,
    acquirer: Process,
    // Last: fields are dropped in this order, and no process may outlive its files.
    _folder: TempDir,
}

/// How often each of them was killed.
type Kills = BTreeMap<&'static str, u64>;

impl Town {
    fn start(unavez: &std::path::Path, shop: &std::path::Path) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("unavez-orders-").tempdir();
        let folder =
            folder.map_err(|error| Failure::lacking(format!("no folder for the processes: {error}")))?;
        let (unavez, shop) = (copy_of(unavez, folder.path())?, copy_of(shop, folder.path())?);
        let secret = folder.path().join("webhook-secret");
        std::fs::write(&secret, format!("{WEBHOOK_SECRET}\n"))
            .map_err(|error| Failure::file("write", &secret, &error))?;
        let program = |binary: &std::path::Path, name, address, arguments| {
            let (binary, folder) = (binary.to_owned(), folder.path().to_owned());
            Process::new(Program { binary, folder, name, address, arguments })
        };
        let terms = Terms { dedupe: "off", visibility_delay: VISIBILITY_DELAY };
        let network = Network::direct()?;
        let charges = format!("http://{}/v1/charges", network.serve);
        let shop_arguments = ["--db", "orders.db", "--charges", &charges].map(str::to_owned).to_vec();
        let mut town = Self {
            shop: program(&shop, "orders", free_address()?, shop_arguments),
            serve: program(&unavez, "serve", network.serve, serve_arguments(terms, network.acquirer)),
            acquirer: program(
                &unavez,
                "acquirer",
                network.acquirer,
                acquirer_arguments(terms, network.serve),
            ),
            _folder: folder,
        };
        for (_, process) in town.processes() {
            process.start(None)?;
        }
        Ok(town)
    }

    fn processes(&mut self) -> [(&'static str, &mut Process); 3] {
        [("orders", &mut self.shop), ("serve", &mut self.serve), ("acquirer", &mut self.acquirer)]
    }

    fn shop(&self) -> SocketAddr {
        self.shop.address()
    }

    /// Customers order while everybody dies now and then; at the end all live.
    fn live(&mut self, args: &Args) -> Result<(Vec<Ordered>, Kills), Failure> {
        let is_over = AtomicBool::new(false);
        let customers = Customers::of(self.shop(), args.seed);
        std::thread::scope(|scope| {
            let ordering = customers.order_until(scope, &is_over);
            let kills = self.die_now_and_then(args);
            is_over.store(true, Ordering::Relaxed);
            let ordered = ordering.into_iter().map(|customer| customer.join().expect("no customer panics"));
            let ordered = ordered.collect::<Result<Vec<_>, _>>().map_err(|what| self.fault(&what))?;
            Ok((ordered.concat(), kills?))
        })
    }

    fn die_now_and_then(&mut self, args: &Args) -> Result<Kills, Failure> {
        let (began, mut dice) = (Instant::now(), Dice::of_lane(args.seed, 0));
        let mut kills = Kills::new();
        while began.elapsed() < Duration::from_secs(args.seconds) {
            pause(Duration::from_millis(dice.below(900)));
            // Each of the seven ways in which at least one of three is hit.
            let hit = 1 + dice.below(7);
            let mut dead = Vec::new();
            for (place, (name, process)) in self.processes().into_iter().enumerate() {
                if hit >> place & 1 == 1 {
                    process.kill();
                    *kills.entry(name).or_default() += 1;
                    dead.push(process);
                }
            }
            for process in dead {
                pause(Duration::from_millis(dice.below(500)));
                process.start(None)?;
            }
        }
        Ok(kills)
    }

    /// Waits until the shop's outbox is empty. Nobody sends anything meanwhile.
    fn settle(&self) -> Result<(), String> {
        let (mut least, mut moved) = (u64::MAX, Instant::now());
        loop {
            let backlog = ask(self.shop(), "/backlog")?;
            match backlog["waiting"].as_u64() {
                Some(0) => return Ok(()),
                Some(waiting) if waiting < least => (least, moved) = (waiting, Instant::now()),
                _ if moved.elapsed() > STALLED_MAX => {
                    return Err(format!("nothing settled for {} s: {backlog}", STALLED_MAX.as_secs()));
                }
                _ => {}
            }
            pause(BETWEEN_TRIES);
        }
    }

    /// What was found, and what each of them said last.
    fn fault(&self, what: &str) -> Failure {
        let said = [&self.shop, &self.serve, &self.acquirer].map(Process::last_words);
        let [shop, serve, acquirer] = said;
        Failure::check(format!(
            "{what}\n  the shop logged:\n{shop}\n  the service logged:\n{serve}\n  the acquirer logged:\n{acquirer}"
        ))
    }
}

/// A run in which nobody died, or nothing was ordered, would prove nothing.
fn tell(ordered: &[Ordered], kills: &Kills) -> Result<(), Failure> {
    let accepted = ordered.iter().filter(|order| order.is_accepted).count();
    if accepted == 0 || kills.len() < 3 {
        return Err(Failure::check(format!(
            "{accepted} orders accepted, killed: {kills:?}: too little to say anything"
        )));
    }
    let killed: Vec<String> = kills.iter().map(|(name, times)| format!("{name} {times} times")).collect();
    println!("killed: {}", killed.join(", "));
    println!(
        "{} orders sent, {accepted} accepted: each of these charged once, and the same in all three books",
        ordered.len()
    );
    Ok(())
}
