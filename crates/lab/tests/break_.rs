//! Every piece, taken out alone, is missed by exactly the tests that should miss it.

use unavez_lab::{
    Mutation,
    break_::{Observed, Options, run},
    progress::Silent,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_missing_piece_is_caught_by_exactly_the_predicted_tests() {
    let report =
        run(&Options::default(), &Silent).await.expect("the whole lesson server keeps every promise");
    assert_eq!(report.mutations.iter().map(|broken| broken.name).collect::<Vec<_>>(), Mutation::ALL);
    for broken in &report.mutations {
        assert!(
            broken.as_predicted,
            "{}: predicted {:?}, broke {:?}",
            broken.name, broken.predicted, broken.observed
        );
        assert_eq!(broken.breaks, broken.predicted);
    }
    assert!(report.passed());

    let seen = |place: usize, test| report.mutations[place].observed.get(test).copied();
    assert_eq!(seen(0, "retries-same-key"), Some(Observed { charges: 3, total: 1_500 }));
    assert_eq!(seen(1, "distinct-operations"), Some(Observed { charges: 1, total: 500 }));
    assert_eq!(seen(2, "concurrent-race"), Some(Observed { charges: 2, total: 1_000 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_race_is_never_luck() {
    let mutations = vec![
        Mutation::CheckThenWrite,
        Mutation::NoFence,
        Mutation::InProgressIgnored,
        Mutation::UnconditionalTakeover,
    ];
    let options = Options { mutations };
    for round in 1..=2 {
        let report = run(&options, &Silent).await.expect("the whole lesson server keeps every promise");
        assert!(report.passed(), "round {round}: {:?}", report.mutations);
    }
}
