//! Every kind of key in every situation, at the real service.

use unavez_lab::{
    naming::{self, Naming, Options, Situation},
    progress::Silent,
};

#[tokio::test(flavor = "multi_thread")]
async fn p29_two_kinds_of_key_are_right_everywhere_and_the_others_cost_what_is_said() {
    let report = naming::run(&Options::default(), &Silent).await.expect("every situation can be played");
    assert!(report.passed(), "{report:#?}");
    let charged = |situation: Situation, naming: Naming| {
        let played = report.situations.iter().find(|played| played.name == situation).expect("all are there");
        let tried = played.keys.iter().find(|tried| tried.made_of == naming).expect("all are there");
        (tried.charges, tried.total, tried.right)
    };
    for (situation, naming, seen) in [
        (Situation::AnswerLost, Naming::Random, (1, 500, true)),
        (Situation::ClientForgets, Naming::Random, (2, 1_000, false)),
        (Situation::ClientForgets, Naming::RandomStored, (1, 500, true)),
        (Situation::SecondCharge, Naming::Derived, (1, 500, false)),
        (Situation::SecondCharge, Naming::DerivedOccurrence, (2, 1_000, true)),
        (Situation::OtherCard, Naming::Derived, (0, 0, false)),
        (Situation::AnswerLost, Naming::NamesAttempt, (2, 1_000, false)),
        (Situation::DeliveredTwice, Naming::NamesTime, (2, 1_000, false)),
        (Situation::TwoOrders, Naming::NamesAmount, (1, 500, false)),
    ] {
        assert_eq!(charged(situation, naming), seen, "{naming} in {}", situation.name());
    }
    for naming in [Naming::RandomStored, Naming::DerivedOccurrence] {
        assert!(Situation::ALL.into_iter().all(|situation| charged(situation, naming).2), "{naming}");
    }
}
