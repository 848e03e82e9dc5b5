//! The name of one request, for the caller, the log and whoever has to bring the two together.

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use unavez_core::identity::OperationId;

use crate::hex::Hex;

/// `req_` and 32 hex digits: 64 random bits of the process and a counter. Unique, and no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId {
    process: u64,
    number: u64,
}

static PROCESS: LazyLock<u64> = LazyLock::new(|| uuid::Uuid::new_v4().as_u64_pair().1);
static NUMBER: AtomicU64 = AtomicU64::new(1);

impl RequestId {
    /// An id that was never given before.
    pub(crate) fn next() -> Self {
        Self { process: *PROCESS, number: NUMBER.fetch_add(1, Ordering::Relaxed) }
    }

    /// What all ids of this process begin with, behind `req_`: names the process in stored events.
    pub(crate) fn process() -> String {
        format!("{:016x}", *PROCESS)
    }

    /// The stored form.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.process) << 64 | u128::from(self.number)).to_be_bytes()
    }

    /// Reads `req_` and 32 lower-case hex digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("req_")?;
        // The digits are those of an operation's id.
        let id = OperationId::parse(&["op_", digits].concat()).ok()?;
        Some(Self::from_bytes(*id.record_id().as_bytes()))
    }

    /// From the stored form.
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).expect("64 bits fit");
        Self { process: half(both >> 64), number: half(both) }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("req_")?;
        f.write_str(Hex::of(&self.to_bytes()).as_str())
    }
}
