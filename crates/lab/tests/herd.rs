//! The herd: what holds of every run, and what the run that is shown says.

use std::time::Duration;

use proptest::prelude::*;
use unavez_lab::{
    fleet::Loss,
    herd::{Fault, Figures, Measured, Options, Strategy as Waiting, World, run},
    progress::Silent,
};

fn measured(options: &Options) -> Figures {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(run(options, &Silent)).expect("a simulation needs nothing")
}

fn of(figures: &Figures, name: Waiting) -> &Measured {
    figures.strategies.iter().find(|measured| measured.name == name).expect("every strategy is measured")
}

fn small() -> impl Strategy<Value = Options> {
    let fault = prop::sample::select(Fault::ALL.to_vec());
    (any::<u64>(), 1_u32..=24, 1_u32..=4, fault, 0_u64..=6_000, 0_u32..=30, 1_u32..=3, 0_u32..=40).prop_map(
        |(seed, clients, processes, fault, outage_ms, loss, workers, queue)| Options {
            seed,
            clients,
            processes,
            fault,
            outage: Duration::from_millis(outage_ms),
            loss: Loss::new(f64::from(loss) / 100.0).expect("up to 30 %"),
            workers,
            queue,
            ..Options::default()
        },
    )
}

fn check_conservation(world: &World, clients: u32) {
    assert_eq!(world.attempts, world.first_attempts + world.repeats);
    assert_eq!(world.first_attempts, u64::from(clients), "every order was sent");
    assert!(world.arrived <= world.attempts);
    assert_eq!(world.load_by_second.iter().map(|&load| u64::from(load)).sum::<u64>(), world.attempts);
    assert!(world.charges >= world.double_charges + u64::from(clients) - world.unserved);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the fault, the losses, the strength of the server and the way of waiting.
    #[test]
    fn p18_p29_with_the_engine_charges_are_orders(options in small()) {
        let figures = measured(&options);
        for Measured { name, with_engine, without_engine } in &figures.strategies {
            prop_assert_eq!(with_engine.unserved, 0, "{}", name);
            prop_assert_eq!(with_engine.charges, u64::from(options.clients), "{}", name);
            prop_assert_eq!(with_engine.double_charges, 0, "{}", name);
            check_conservation(with_engine, options.clients);
            check_conservation(without_engine, options.clients);
        }
        prop_assert!(figures.passed());
    }

    #[test]
    fn the_same_seed_is_the_same_herd(options in small()) {
        prop_assert_eq!(measured(&options), measured(&options));
    }

    #[test]
    fn p31_a_budget_bounds_what_retries_add(options in small()) {
        let figures = measured(&options);
        let World { attempts, resumed, .. } = of(&figures, Waiting::FullJitterBudget).with_engine;
        // A fifth of all calls, and what each program has in reserve.
        let calls = u64::from(options.clients) + resumed;
        prop_assert!(attempts <= calls + calls / 5 + u64::from(options.processes) * 10, "{attempts} of {calls}");
    }
}

#[test]
fn another_seed_is_another_herd() {
    let of_seed =
        |seed| measured(&Options { seed, clients: 20, outage: Duration::from_secs(2), ..Options::default() });
    assert_ne!(of_seed(1).strategies, of_seed(2).strategies);
}

#[test]
fn c73_an_outage_of_thirty_seconds_is_over_when_it_is_over() {
    let figures = measured(&Options::default());
    let calm = &of(&figures, Waiting::FullJitterBudget).with_engine;
    assert!(calm.arrived * 10 <= u64::from(figures.clients) * 12, "{} found the door open", calm.arrived);
    assert!(u64::from(calm.peak_per_100ms) * 20 <= calm.repeats, "{} at once", calm.peak_per_100ms);
    assert_eq!(figures.calmest(), Some(Waiting::FullJitterBudget));
    // As docs/lab.md tells it.
    let told =
        figures.strategies.iter().map(|it| (it.with_engine.peak_per_100ms, it.without_engine.double_charges));
    let expected = [(1_000, 34_992), (129, 1_081), (129, 558), (18, 8), (8, 8), (29, 8)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    // Those that failed together come back together, as many at once as there were in the outage's first second.
    assert!(of(&figures, Waiting::Exponential).with_engine.peak_per_100ms > 10 * calm.peak_per_100ms);
    assert!(of(&figures, Waiting::NoBackoff).with_engine.amplification > 100.0);
}

#[test]
fn p31_full_jitter_with_a_budget_has_the_lowest_peak_whatever_goes_wrong() {
    for fault in Fault::ALL {
        for seed in 1..=3 {
            let options =
                Options { seed, fault, clients: 400, outage: Duration::from_secs(20), ..Options::default() };
            let figures = measured(&options);
            assert_eq!(figures.calmest(), Some(Waiting::FullJitterBudget), "{fault}, seed {seed}");
        }
    }
}

#[test]
fn a_server_without_memory_charges_again_what_it_answered_too_late() {
    let silent =
        Options { fault: Fault::Silence, clients: 50, outage: Duration::from_secs(5), ..Options::default() };
    for Measured { name, without_engine, .. } in measured(&silent).strategies {
        assert!(without_engine.double_charges > 0, "{name}");
        assert_eq!(without_engine.charges, 50 + without_engine.double_charges, "{name}");
    }
}

#[tokio::test]
async fn nobody_and_nothing_cannot_be_measured() {
    for (options, said) in [
        (Options { clients: 0, ..Options::default() }, "clients is 0"),
        (Options { processes: 0, ..Options::default() }, "processes is 0"),
        (Options { workers: 0, ..Options::default() }, "workers is 0"),
        (Options { timeout: Duration::ZERO, ..Options::default() }, "timeout is 0"),
        (Options { work: Duration::ZERO, ..Options::default() }, "work is 0"),
        (
            Options { outage: Duration::from_secs(601), ..Options::default() },
            "outage is 601 s; at most 600 s",
        ),
    ] {
        let error = run(&options, &Silent).await.expect_err("refused");
        assert!(error.to_string().starts_with(said), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
