//! The table of legal transitions, whole, as a picture; and the rules that hold for every one of them.

use std::fmt::Write as _;
use std::time::Duration;

use unavez_core::answer::{Answer, Conclusion, Content};
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{AttemptTiming, Cause, Change, Claim, Exposure, Finish, Next, Record, State};
use unavez_core::time::Time;

const TIMING: AttemptTiming =
    AttemptTiming { operation_timeout: Duration::from_secs(60), attempt_deadline: Duration::from_secs(50) };
const TTL: Duration = Duration::from_secs(24 * 3600);

fn at(seconds: i64) -> Time {
    Time::from_micros(seconds * 1_000_000)
}

fn fingerprint() -> Fingerprint {
    let request = RequestParts {
        method: "POST",
        path: "/v1/charges",
        query: None,
        content_type: Some("application/json"),
        content_encoding: None,
        body: br#"{"amount":2500}"#,
    };
    Fingerprint::of(&request, &Rules::default()).expect("a plain body")
}

fn claim(attempt: u8, exposure: Exposure) -> Claim {
    Claim {
        tenant: Tenant::single(),
        key: Key::parse_path("K1").expect("a plain key"),
        fingerprint: fingerprint(),
        attempt: AttemptId::from_bytes([attempt; 16]),
        timing: TIMING,
        exposure,
    }
}

fn record(exposure: Exposure) -> Record {
    let claim = claim(1, exposure);
    let id = RecordId::of(&Realm::parse("test").expect("a plain name"), &claim.tenant, &claim.key);
    Record::claimed(id, claim, at(0))
}

fn finish() -> Change {
    Change::Finish(Finish {
        conclusion: Conclusion::Approved,
        answer: Answer { status: 201, content: Content::Kept { headers: Vec::new(), body: "ok".into() } },
        response_ttl: TTL,
        resource: None,
    })
}

fn takeover(attempt: u8) -> Change {
    Change::TakeOver { attempt: AttemptId::from_bytes([attempt; 16]), timing: TIMING }
}

fn unknown(cause: Cause) -> Change {
    Change::MarkUnknown { cause, ask_after: Duration::ZERO }
}

fn keep(next: Next) -> Record {
    match next {
        Next::Keep(record) => record,
        Next::Delete => panic!("the record was deleted"),
    }
}

fn step(record: &Record, change: Change, now: Time) -> Record {
    keep(record.apply(change, now).expect("a legal step"))
}

#[test]
fn p11_all_transitions_are_these_and_no_others() {
    let fresh = record(Exposure::MayBeSent);
    let cut_off = step(&fresh, unknown(Cause::CutOff), at(10));
    let finished = step(&fresh, finish(), at(10));
    let mut undated = fresh.clone();
    undated.state = State::InProgress { deadline: None };
    let second = step(&fresh, takeover(2), at(60));
    let contained = record(Exposure::Contained);
    let states: [(&str, Record, Time); 9] = [
        ("running", fresh.clone(), at(59)),
        ("running, contained", contained, at(59)),
        ("running, undated", undated, at(59)),
        ("lost", fresh.clone(), at(60)),
        ("second attempt", second, at(61)),
        ("cut off", cut_off.clone(), at(11)),
        ("pending", step(&fresh, unknown(Cause::Pending), at(10)), at(11)),
        ("finished", finished.clone(), at(11)),
        ("expired", finished, at(10 + 24 * 3600)),
    ];
    let abandoned = ("abandoned", step(&cut_off, Change::Abandon, at(12)), at(13));
    let changes: [(&str, Change); 8] = [
        ("claim", Change::Claim(claim(9, Exposure::MayBeSent))),
        ("takeover", takeover(9)),
        ("finish", finish()),
        ("release", Change::Release),
        ("unknown", unknown(Cause::CutOff)),
        ("ask", Change::AskAgain { cause: Cause::CutOff, after: Duration::ZERO, sighted: false }),
        ("stamp", Change::StampDeadline { operation_timeout: Duration::from_secs(60) }),
        ("abandon", Change::Abandon),
    ];

    let mut picture = String::new();
    for (name, record, now) in states.iter().chain([&abandoned]) {
        write!(picture, "{name:<19}").expect("strings take all");
        for (change_name, change) in &changes {
            let mark = match record.apply(change.clone(), *now) {
                Ok(Next::Keep(next)) => next.state.name().to_owned(),
                Ok(Next::Delete) => "gone".to_owned(),
                Err(illegal) => {
                    assert_eq!(illegal.state, record.state.name());
                    "-".to_owned()
                }
            };
            if mark != "-" {
                write!(picture, " {change_name}>{mark}").expect("strings take all");
            }
        }
        picture.push('\n');
    }
    let expected = "\
running             finish>finished release>gone unknown>unknown
running, contained  finish>finished release>gone unknown>unknown
running, undated    finish>finished release>gone unknown>unknown stamp>in_progress
lost                takeover>in_progress finish>finished release>gone unknown>unknown
second attempt      finish>finished unknown>unknown
cut off             takeover>in_progress finish>finished unknown>unknown ask>unknown abandon>abandoned
pending             takeover>in_progress finish>finished unknown>unknown ask>unknown abandon>abandoned
finished           
expired             claim>in_progress
abandoned           finish>finished
";
    assert_eq!(picture, expected, "\n{picture}");
}

#[test]
fn p11_every_kept_change_raises_the_version_and_keeps_the_identity() {
    let fresh = record(Exposure::MayBeSent);
    for change in [finish(), unknown(Cause::CutOff)] {
        let next = step(&fresh, change, at(1));
        assert_eq!(next.fence.version, fresh.fence.version + 1);
        assert_eq!((next.id, &next.key, &next.tenant), (fresh.id, &fresh.key, &fresh.tenant));
        assert_eq!(next.fingerprint, fresh.fingerprint);
        assert_eq!(next.created_at, fresh.created_at);
    }
}

#[test]
fn p8_a_recreated_record_is_told_apart_by_its_attempt() {
    let first = record(Exposure::Contained);
    assert_eq!(first.apply(Change::Release, at(1)), Ok(Next::Delete));
    let second = Record::claimed(first.id, claim(2, Exposure::Contained), at(2));
    assert_eq!(first.fence.version, second.fence.version, "versions start anew");
    assert_ne!(first.fence, second.fence);
}

#[test]
fn p8_an_expired_record_is_never_claimed_under_its_own_attempt_id() {
    let expired = step(&record(Exposure::Contained), finish(), at(0));
    let again = Change::Claim(claim(1, Exposure::Contained));
    let illegal = expired.apply(again, at(48 * 3600)).expect_err("the pair would be used twice");
    assert_eq!(illegal.why, "the attempt id was used before");
}

#[test]
fn p13_the_latest_send_is_the_recorded_end_or_the_deadline() {
    let fresh = record(Exposure::MayBeSent);
    assert_eq!(fresh.latest_send_at, at(50));
    assert_eq!(step(&fresh, unknown(Cause::CutOff), at(10)).latest_send_at, at(10));
    assert_eq!(step(&fresh, unknown(Cause::CutOff), at(90)).latest_send_at, at(50));
    assert_eq!(step(&fresh, takeover(2), at(70)).latest_send_at, at(120));
}

#[test]
fn p16_a_sighting_is_never_forgotten() {
    let pending = step(&record(Exposure::MayBeSent), unknown(Cause::Pending), at(10));
    assert!(pending.sighted);
    let asked = Change::AskAgain { cause: Cause::CutOff, after: Duration::ZERO, sighted: false };
    let again = step(&step(&pending, asked, at(20)), takeover(3), at(30));
    assert!(again.sighted);
}
