//! What the network between the two does to a request. Drawn from a seed and the request itself, so that the order in which
//! requests happen to come changes nothing.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::dice::Dice;
use crate::wire::Message;

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Passes,
    /// The connection is cut before the request has left.
    LostThere,
    /// It arrives; the connection is cut before its answer.
    LostBack,
    /// It arrives; the connection is cut in the middle of its answer.
    CutWithin,
    /// It is held up, and arrives even if nobody waits for it any more.
    Late {
        ms: u64,
    },
    /// It arrives twice, at the same time.
    Twice,
}

/// How the network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Requests are lost, cut, held up for at most so long, and doubled where that can do no harm.
    Foul { seed: u64, late_ms_max: u64, doubles: bool },
    /// What is posted is held up for so long when it comes for the first time; everything else passes.
    FirstPostLate { ms: u64 },
}

/// An acquirer that is asked keeps nobody waiting for longer than the service waits.
const QUESTION_LATE_MS_MAX: u64 = 300;

impl Weather {
    /// What becomes of a request that came `before` times already. Nothing bad happens to a third one: an operation is sent
    /// three times at most, and then waits for a person.
    pub(crate) fn fate(self, request: &Message, before: u32) -> Fate {
        let posts = request.first_line.starts_with("POST ");
        match self {
            Self::FirstPostLate { ms } if posts && before == 0 => Fate::Late { ms },
            Self::FirstPostLate { .. } => Fate::Passes,
            Self::Foul { seed, late_ms_max, doubles } => {
                let mut dice = Dice::of_lane(seed, digest(request) ^ u64::from(before));
                match (posts, before) {
                    (true, 0) => foul_post(late_ms_max, doubles, &mut dice),
                    (true, _) => Fate::Passes,
                    (false, _) => foul_question(&mut dice),
                }
            }
        }
    }
}

fn foul_post(late_ms_max: u64, doubles: bool, dice: &mut Dice) -> Fate {
    match dice.below(8) {
        0 => Fate::LostThere,
        1 => Fate::LostBack,
        2 => Fate::CutWithin,
        3 | 4 => Fate::Late { ms: dice.below(late_ms_max) },
        5 if doubles => Fate::Twice,
        _ => Fate::Passes,
    }
}

fn foul_question(dice: &mut Dice) -> Fate {
    match dice.below(8) {
        0 => Fate::LostThere,
        1 => Fate::LostBack,
        2 => Fate::Late { ms: dice.below(QUESTION_LATE_MS_MAX) },
        _ => Fate::Passes,
    }
}

/// Tells requests apart.
pub(crate) fn digest(request: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&request.first_line, &request.body).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn request(method: &str, body: &str) -> Message {
        let text = format!("{method} /payments HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        Message::read(&mut BufReader::new(text.as_bytes())).unwrap().unwrap()
    }

    fn foul(doubles: bool) -> Weather {
        Weather::Foul { seed: 42, late_ms_max: 2_000, doubles }
    }

    #[test]
    fn a_request_has_the_fate_of_its_seed_whenever_it_comes() {
        let fates = || -> Vec<Fate> {
            (0..200).map(|n| foul(true).fate(&request("POST", &n.to_string()), 0)).collect()
        };
        assert_eq!(fates(), fates());
        for fate in [Fate::Passes, Fate::LostThere, Fate::LostBack, Fate::CutWithin, Fate::Twice] {
            assert!(fates().contains(&fate), "{fate:?} never comes");
        }
    }

    #[test]
    fn nothing_bad_happens_to_what_is_sent_again() {
        for n in 0..200 {
            let request = request("POST", &n.to_string());
            assert_eq!(foul(true).fate(&request, 1), Fate::Passes);
            assert_ne!(foul(false).fate(&request, 0), Fate::Twice);
        }
    }

    #[test]
    fn only_the_first_post_is_late() {
        let weather = Weather::FirstPostLate { ms: 7 };
        assert_eq!(weather.fate(&request("POST", ""), 0), Fate::Late { ms: 7 });
        assert_eq!(weather.fate(&request("POST", ""), 1), Fate::Passes);
        assert_eq!(weather.fate(&request("GET", ""), 0), Fate::Passes);
    }
}
