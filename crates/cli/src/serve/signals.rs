//! The signals a running command listens for.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT: the two ways of asking for the end.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// From here on the signals are ours; their default action no longer ends the process.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next of them.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// A limit on file sizes is a full disk like any other: the write fails and says so. Unhandled, its signal would end the
/// process without a word.
pub(super) fn file_size_exceeded() -> io::Result<Signal> {
    const SIGXFSZ: i32 = 25;
    signal(SignalKind::from_raw(SIGXFSZ))
}

/// SIGHUP: read what can be read anew.
pub(super) fn hang_up() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}
