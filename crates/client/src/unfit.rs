//! Why an operation cannot be sent by this client at all. Nothing has left then.

use std::fmt;

use unavez_core::key::KeyError;

/// An operation that this client cannot send, whatever the server does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// The address cannot be meant.
    Url(&'static str),
    /// The address's port is no number from 1 to 65535.
    Port {
        /// What stands after the host.
        seen: String,
    },
    /// The request's own key is malformed.
    Key(KeyError),
    /// The server takes shorter keys.
    KeyTooLong {
        /// Characters seen.
        length: usize,
        /// Characters allowed.
        limit: usize,
    },
    /// The server's header takes no key with this character.
    KeyCharacter {
        /// The character.
        character: char,
    },
    /// The request has a key of its own where the client puts the operation's.
    KeyTwice {
        /// The header or member.
        place: String,
    },
    /// The server reads the key from a JSON object, and the body is none.
    NoJsonObject {
        /// The member.
        member: &'static str,
    },
    /// The body is larger than what is kept for another attempt. (Only where a body is collected first.)
    BodyTooLarge {
        /// Bytes allowed.
        limit: usize,
    },
    /// The body's source failed before anything was sent. (Only where a body is collected first.)
    Body(String),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(why) => write!(f, "request's own key is malformed: {why}"),
            Self::Url(why) => write!(f, "address cannot be used: {why}"),
            Self::Port { seen } => {
                write!(
                    f,
                    "address cannot be used: `{seen}` after its host is no port, expected `:1` to `:65535`"
                )
            }
            Self::KeyTooLong { length, limit } => {
                write!(f, "key has {length} characters, this server takes {limit}")
            }
            Self::KeyCharacter { character } => {
                write!(f, "key has {character:?}, which this server's header cannot carry")
            }
            Self::KeyTwice { place } => write!(f, "request has a key of its own in `{place}`"),
            Self::NoJsonObject { member } => {
                write!(f, "body is no JSON object, and the key goes into its member `{member}`")
            }
            Self::BodyTooLarge { limit } => {
                write!(f, "body is above {limit} bytes, more than is kept for another attempt")
            }
            Self::Body(why) => write!(f, "body could not be read: {why}"),
        }
    }
}

impl std::error::Error for Unfit {}
