//! Whether the acquirer answers at all: said once when it stops, and once when it is back.
//!
//! One lost answer says nothing of the acquirer, so several in a row are waited for; a connection that is not made says
//! enough.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::acquirer::{Account, Answer};

/// So many answers in a row that say nothing are a silence.
const SILENT_AFTER: u32 = 3;

/// How many answers in a row said nothing.
#[derive(Default)]
pub(super) struct Presence(AtomicU32);

/// What an answer changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Silent,
    Back,
}

impl Presence {
    /// Counts an answer to a send or a question, and says aloud what it changes.
    pub(super) fn heard(&self, account: &Account, answer: &Answer) {
        match (self.turn(answer), answer) {
            (Some(Turn::Silent), Answer::CannotSay(why) | Answer::NotSent(why)) => tracing::warn!(
                %account,
                %why,
                "the acquirer does not answer; outcomes stay unknown until it does, and it is asked again by itself"
            ),
            (Some(Turn::Back), _) => tracing::warn!(%account, "the acquirer answers again"),
            _ => {}
        }
    }

    fn turn(&self, answer: &Answer) -> Option<Turn> {
        let step = match answer {
            Answer::CannotSay(_) => 1,
            Answer::NotSent(_) => SILENT_AFTER,
            Answer::Done(_)
            | Answer::Declined(_)
            | Answer::Pending(_)
            | Answer::Sighted(_)
            | Answer::NotFound => {
                let is_silence = self.0.load(Ordering::Relaxed) > 0;
                let before = if is_silence { self.0.swap(0, Ordering::Relaxed) } else { 0 };
                return (before >= SILENT_AFTER).then_some(Turn::Back);
            }
        };
        let before = self.0.fetch_add(step, Ordering::Relaxed);
        (before < SILENT_AFTER && before + step >= SILENT_AFTER).then_some(Turn::Silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acquirer::Reason;

    #[test]
    fn a_silence_and_its_end_are_each_said_once() {
        let lost = || Answer::CannotSay(Reason("timed out".into()));
        let unreachable = || Answer::NotSent(Reason("connection refused".into()));
        let told = |answers: Vec<Answer>| {
            let presence = Presence::default();
            answers.iter().map(|answer| presence.turn(answer)).collect::<Vec<_>>()
        };
        use Turn::{Back, Silent};
        assert_eq!(told(vec![lost(), lost(), Answer::NotFound, lost(), lost()]), [None; 5], "some are lost");
        assert_eq!(
            told(vec![lost(), lost(), lost(), lost(), Answer::NotFound, Answer::NotFound]),
            [None, None, Some(Silent), None, Some(Back), None]
        );
        assert_eq!(
            told(vec![unreachable(), unreachable(), lost(), Answer::NotFound, unreachable()]),
            [Some(Silent), None, None, Some(Back), Some(Silent)]
        );
    }
}
