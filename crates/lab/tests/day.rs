//! The day, against what its rows must come to.

use std::time::Duration;

use unavez_lab::{
    ErrorKind,
    day::{self, Options, Repeat},
    progress::Silent,
};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread")]
async fn p9_p21_a_day_holds_what_it_promised_and_a_repeat_after_it_charges_nothing() {
    let options = Options { seed: 7, operations: 2_000, ttl: 2 * HOUR, days: 1 };
    let figures = day::run(&options, &Silent).await.expect("two stores and a service");
    let hours = &figures.operations_by_hour;
    assert_eq!((hours.len(), figures.operations_total()), (24, 2_000));

    let (mut all, mut promised) = (Vec::new(), Vec::new());
    for (at, &operations) in hours.iter().enumerate() {
        all.push(u64::from(operations) + all.last().unwrap_or(&0));
        // Two hours, less the ten minutes whose promise has just ended.
        let (before, over) = match at.checked_sub(1) {
            Some(earlier) => (hours[earlier], hours[earlier] / 6),
            None => (0, 0),
        };
        promised.push(u64::from(operations + before - over));
    }
    assert_eq!((&figures.no_ttl.rows_by_hour, figures.no_ttl.purged), (&all, 0));
    assert_eq!(figures.ttl.rows_by_hour, promised);
    assert_eq!(figures.ttl.purged + promised[23], 2_000);
    assert!(figures.ttl.file_bytes < figures.no_ttl.file_bytes / 2, "{figures:?}");

    assert_eq!(figures.repeat_within_ttl, Repeat::Replayed);
    assert_eq!(figures.repeat_after_ttl, Repeat::ExistingResource);
    assert_eq!(figures.other_body_after_ttl, Repeat::Refused);
    assert!(figures.passed());
}

#[tokio::test(flavor = "multi_thread")]
async fn days_follow_each_other_and_the_second_one_shows_a_ttl_of_a_day() {
    let options = Options { seed: 7, operations: 500, ttl: 24 * HOUR, days: 2 };
    let figures = day::run(&options, &Silent).await.expect("two stores and a service");
    assert_eq!((figures.operations_by_hour.len(), figures.operations_total()), (48, 1_000));
    assert_eq!(figures.no_ttl.rows_by_hour[47], 1_000);
    let left = 500 - u64::from(figures.operations_by_hour[24] / 6);
    assert_eq!((figures.ttl.rows_by_hour[47], figures.ttl.purged), (left, 1_000 - left));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_day_is_a_day() {
    let options = Options { operations: 0, ..Options::default() };
    let figures = day::run(&options, &Silent).await.expect("two stores and a service");
    assert_eq!(figures.no_ttl.rows_by_hour, [0; 24]);
    assert!(figures.passed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ttl_that_no_service_takes_is_refused() {
    for options in [
        Options { ttl: Duration::from_secs(30), ..Options::default() },
        Options { days: 0, ..Options::default() },
    ] {
        let refused = day::run(&options, &Silent).await.expect_err("no such day");
        assert_eq!(refused.kind(), ErrorKind::Usage, "{refused}");
    }
}
