//! What a connection above the limit hears.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use unavez_core::problem::Code;
use unavez_tower::problem::{MEDIA_TYPE, Problem};

use crate::request_id::RequestId;

/// Refusals being spoken at a time; what comes on top is closed without a word.
const AT_ONCE_MAX: usize = 64;

/// How long a refused client may take to hear it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of the refused request that are read before closing: closing on unread bytes resets the connection, and the
/// client may never see the answer.
const READ_BYTES_MAX: usize = 64 * 1024;

pub(super) struct Refusals {
    body: Arc<str>,
    at_once: Arc<Semaphore>,
}

impl Refusals {
    pub(super) fn new(connections_max: usize) -> Self {
        let detail = format!("{connections_max} connections are open, limit {connections_max}");
        let body = Problem::new(Code::Overloaded).with_detail(detail).to_json();
        Self { body: String::from_utf8_lossy(&body).into(), at_once: Arc::new(Semaphore::new(AT_ONCE_MAX)) }
    }

    /// Refuses a connection in the background. One that expects TLS would not understand, and is just closed.
    pub(super) fn refuse(&self, stream: TcpStream, expects_tls: bool) {
        if expects_tls {
            return;
        }
        let Ok(permit) = Arc::clone(&self.at_once).try_acquire_owned() else { return };
        let answer = self.answer();
        tokio::spawn(async move {
            // Whether the client heard it is its own affair.
            let _ = tokio::time::timeout(PATIENCE, say(stream, answer)).await;
            drop(permit);
        });
    }

    fn answer(&self) -> String {
        let (body, length, id) = (&self.body, self.body.len(), RequestId::next());
        format!(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {length}\r\n\
             retry-after: 1\r\nrequest-id: {id}\r\nconnection: close\r\n\r\n{body}"
        )
    }
}

async fn say(mut stream: TcpStream, answer: String) -> std::io::Result<()> {
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let mut unread = (&mut stream).take(READ_BYTES_MAX as u64);
    tokio::io::copy(&mut unread, &mut tokio::io::sink()).await?;
    Ok(())
}
