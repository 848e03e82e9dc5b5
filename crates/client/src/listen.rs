//! What happens during a call, for those who tell a person or write it down.

use std::fmt;
use std::time::Duration;

use unavez_core::retry::Told;

use crate::transport::Exchanged;

/// Told of what happens while it happens. It runs between attempts, so it should be quick; it decides nothing.
///
/// ```
/// use unavez_client::{Event, Listen};
///
/// struct Stderr;
///
/// impl Listen for Stderr {
///     fn on(&self, event: &Event<'_>) {
///         eprintln!("{event}");
///     }
/// }
/// ```
pub trait Listen: Sync {
    /// Something happened.
    fn on(&self, event: &Event<'_>);
}

/// Nobody listens.
impl Listen for () {
    fn on(&self, _: &Event<'_>) {}
}

/// Something that happened. Displays as a line for a person, without key, header or body.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// An attempt has its permit and is sent now. A call that is dropped before its first such event has sent nothing;
    /// after it, the operation may have been received.
    Sending {
        /// Counted from 1.
        attempt: u32,
    },
    /// An attempt ended.
    Ended {
        /// Counted from 1.
        attempt: u32,
        /// How.
        exchanged: &'a Exchanged,
    },
    /// The server was asked about the key.
    Asked {
        /// What it said.
        told: Told,
    },
    /// The next step follows after a wait.
    Waiting {
        /// How long.
        wait: Duration,
    },
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sending { attempt } => write!(f, "attempt {attempt}"),
            Self::Ended { attempt, exchanged: Exchanged::Answered(answer) } => {
                write!(f, "attempt {attempt}: {}", answer.status())
            }
            Self::Ended { attempt, exchanged: Exchanged::Cut(cause) } => {
                write!(f, "attempt {attempt}: may have been received, {cause}")
            }
            Self::Ended { attempt, exchanged: Exchanged::NotSent(cause) } => {
                write!(f, "attempt {attempt}: not sent, {cause}")
            }
            Self::Asked { told } => write!(f, "the server says of the key: {}", phrase(*told)),
            Self::Waiting { wait } => write!(f, "waiting {:.1} s", wait.as_secs_f64()),
        }
    }
}

const fn phrase(told: Told) -> &'static str {
    match told {
        Told::Finished => "finished",
        Told::Open => "running or pending",
        Told::Unknown => "unknown",
        Told::Abandoned => "abandoned",
        Told::Nothing => "no record yet",
        Told::CannotSay => "no usable answer",
    }
}
