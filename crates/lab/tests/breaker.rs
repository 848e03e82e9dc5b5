//! A breaker's probes: what they charge, who remembers it, and what may be one.

use std::time::Duration;

use proptest::prelude::*;
use unavez_lab::{
    breaker::{Fault, Figures, Options, Setting, World, run},
    fleet::Loss,
    progress::Silent,
};

fn measured(options: &Options) -> Figures {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(run(options, &Silent)).expect("a simulation needs nothing")
}

fn of(figures: &Figures, name: Setting) -> &World {
    figures.of(name).expect("every world is measured")
}

fn small() -> impl Strategy<Value = Options> {
    let fault = prop::sample::select(Fault::ALL.to_vec());
    (any::<u64>(), 1_u32..=60, fault, 1_u64..=12_000, 0_u32..=20, 100_u64..=2_000, 500_u64..=4_000, 1_u32..=6)
        .prop_map(|(seed, orders, fault, outage_ms, loss, timeout_ms, open_ms, failures)| Options {
            seed,
            orders,
            fault,
            outage: Duration::from_millis(outage_ms),
            loss: Loss::new(f64::from(loss) / 100.0).expect("up to 20 %"),
            timeout: Duration::from_millis(timeout_ms),
            open_for: Duration::from_millis(open_ms),
            failures,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn p33_with_the_engine_any_charge_may_be_a_probe(options in small()) {
        let figures = measured(&options);
        let world = of(&figures, Setting::WithEngine);
        prop_assert_eq!((world.double_charges, world.waiting, world.unknown), (0, 0, 0));
        prop_assert_eq!(world.charges.total(), u64::from(options.orders));
        prop_assert!(figures.passed());
    }

    /// Without a key no charge is a probe and none is repeated: nobody pays twice, and somebody is left not knowing
    /// exactly where an answer was lost.
    #[test]
    fn p30_p33_without_keys_no_charge_is_a_probe(options in small()) {
        let figures = measured(&options);
        let world = of(&figures, Setting::HealthProbes);
        prop_assert_eq!((world.double_charges, world.charged_by_probes), (0, 0));
        prop_assert!(world.unknown_and_charged <= world.unknown);
        prop_assert!(world.charges.total() + world.unknown + world.waiting >= u64::from(options.orders));
    }

    #[test]
    fn the_same_seed_is_the_same_breaker(options in small()) {
        prop_assert_eq!(measured(&options), measured(&options));
    }
}

#[test]
fn p33_a_probe_whose_answer_is_lost_is_charged_again_where_nobody_remembers() {
    let figures = measured(&Options::default());
    let forgets = of(&figures, Setting::WithoutEngine);
    assert!(forgets.probes >= 5 && forgets.charged_by_probes == forgets.probes, "{forgets:?}");
    assert!(forgets.double_charges_of_probes > 0, "{forgets:?}");
    assert!(forgets.double_charges > forgets.double_charges_of_probes, "what opened the breaker charged too");
    let remembers = of(&figures, Setting::WithEngine);
    assert_eq!((remembers.charged_by_probes, remembers.double_charges), (forgets.charged_by_probes, 0));
    let avoids = of(&figures, Setting::HealthProbes);
    // As docs/breaker.md tells it.
    let told =
        [forgets.charges.total(), forgets.double_charges, forgets.double_charges_of_probes, avoids.unknown];
    assert_eq!((told, avoids.unknown_and_charged), ([923, 23, 4, 15], 15));
}

#[test]
fn p33_it_opens_in_the_outage_and_closes_after_it() {
    let figures = measured(&Options::default());
    for world in &figures.worlds {
        let [opened, closed] = world.turns.as_slice() else { panic!("{}: {:?}", world.name, world.turns) };
        assert!(opened.opened && figures.from < opened.at && opened.at < figures.until, "{}", world.name);
        assert!(!closed.opened && figures.until <= closed.at, "{}", world.name);
        assert!(world.held_back > 0, "{}", world.name);
    }
}

#[tokio::test]
async fn what_is_nothing_cannot_be_measured() {
    for (options, said) in [
        (Options { orders: 0, ..Options::default() }, "orders is 0"),
        (Options { failures: 0, ..Options::default() }, "failures is 0"),
        (Options { outage: Duration::ZERO, ..Options::default() }, "outage is 0"),
        (Options { timeout: Duration::ZERO, ..Options::default() }, "timeout is 0"),
        (Options { open_for: Duration::ZERO, ..Options::default() }, "open-for is 0"),
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
