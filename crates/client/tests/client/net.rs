//! A network in memory: servers that do, request for request, what a script says, and note what they have read.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf};
use tower::Service;
use unavez_client::{Client, ClientBuilder, Operation, Preset, Wire};

/// What a server does with one request, after it has read it.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The connection is refused, and nothing is read.
    Refuse,
    /// Accepts and closes, without reading.
    CloseAtOnce,
    /// Reads and closes.
    Lose,
    /// Reads and says nothing more.
    Hang,
    /// Writes this, byte for byte, and reads the next request.
    Say(String),
    /// Writes this and closes.
    SayAndClose(String),
    /// Writes this, a byte a second.
    Drip(String),
    /// Writes this head, and then zeros for as long as anybody reads.
    Flood(String),
}

/// An answer with this status.
pub(crate) fn status(status: u16) -> Step {
    answer(status, "", "")
}

/// An answer with further header lines, each ended by CR LF, and a body.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> Step {
    Step::Say(format!("HTTP/1.1 {status} -\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()))
}

/// An answer from the key's record, as unavez marks it.
pub(crate) fn recorded(status: u16) -> Step {
    answer(status, "idempotency-expires: 2030-01-01T00:00:00Z\r\n", "")
}

/// A server, and the network before it.
#[derive(Clone)]
pub(crate) struct Net(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    script: VecDeque<Step>,
    requests: Vec<String>,
    connections: usize,
    flooded: usize,
}

impl Net {
    /// A server that does this, and hangs when the script is over.
    pub(crate) fn new(script: impl IntoIterator<Item = Step>) -> Self {
        let script = script.into_iter().collect();
        Self(Arc::new(Mutex::new(Seen { script, ..Seen::default() })))
    }

    /// A client of this server.
    pub(crate) fn client(&self, builder: ClientBuilder) -> Client<Wire<Self>> {
        builder.build_over(Wire::with_connector(self.clone()))
    }

    /// Whole requests as they were read, head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }

    /// The value of this header in each request; empty where it is not.
    pub(crate) fn header(&self, name: &str) -> Vec<String> {
        let of = |request: &String| {
            let head = request.split("\r\n\r\n").next().unwrap();
            let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.unwrap_or_default().to_owned()
        };
        self.requests().iter().map(of).collect()
    }

    pub(crate) fn connections(&self) -> usize {
        self.0.lock().unwrap().connections
    }

    /// Bytes written by [`Step::Flood`].
    pub(crate) fn flooded(&self) -> usize {
        self.0.lock().unwrap().flooded
    }

    fn next(&self) -> Step {
        self.0.lock().unwrap().script.pop_front().unwrap_or(Step::Hang)
    }

    /// Takes the next step out if it is one that needs no request.
    fn next_without_request(&self) -> Option<Step> {
        let mut seen = self.0.lock().unwrap();
        let is_one = matches!(seen.script.front(), Some(Step::Refuse | Step::CloseAtOnce));
        is_one.then(|| seen.script.pop_front())?
    }

    async fn serve(self, mut stream: DuplexStream) -> io::Result<()> {
        while let Some(request) = read_request(&mut stream).await? {
            self.0.lock().unwrap().requests.push(request);
            match self.next() {
                Step::Say(text) => stream.write_all(text.as_bytes()).await?,
                Step::SayAndClose(text) => return stream.write_all(text.as_bytes()).await,
                Step::Drip(text) => drip(&mut stream, &text).await?,
                Step::Flood(head) => self.flood(&mut stream, &head).await?,
                Step::Hang => std::future::pending().await,
                Step::Lose | Step::Refuse | Step::CloseAtOnce => return Ok(()),
            }
        }
        Ok(())
    }

    async fn flood(&self, stream: &mut DuplexStream, head: &str) -> io::Result<()> {
        stream.write_all(head.as_bytes()).await?;
        loop {
            stream.write_all(&[b'0'; 1 << 16]).await?;
            self.0.lock().unwrap().flooded += 1 << 16;
        }
    }
}

async fn drip(stream: &mut DuplexStream, text: &str) -> io::Result<()> {
    for byte in text.bytes() {
        stream.write_all(&[byte]).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

async fn read_request(stream: &mut DuplexStream) -> io::Result<Option<String>> {
    let (mut read, mut part) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(whole) = whole_request(&read) {
            return Ok(Some(whole));
        }
        match stream.read(&mut part).await? {
            0 => return Ok(None),
            count => read.extend_from_slice(&part[..count]),
        }
    }
}

fn whole_request(read: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(read).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    (body.len() >= length.map_or(0, |length| length.parse().unwrap())).then(|| text.to_owned())
}

impl Service<Uri> for Net {
    type Response = TokioIo<Line>;
    type Error = io::Error;
    type Future = std::future::Ready<Result<Self::Response, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let step = self.next_without_request();
        if let Some(Step::Refuse) = step {
            return std::future::ready(Err(io::ErrorKind::ConnectionRefused.into()));
        }
        self.0.lock().unwrap().connections += 1;
        let (near, far) = tokio::io::duplex(1 << 16);
        if step.is_none() {
            tokio::spawn(self.clone().serve(far));
        }
        std::future::ready(Ok(TokioIo::new(Line(near))))
    }
}

/// The client's end of a connection.
pub(crate) struct Line(DuplexStream);

impl Connection for Line {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A builder for a server that cannot be asked about keys, and marks nothing.
pub(crate) fn plain() -> ClientBuilder {
    Client::builder(Preset::stripe())
}

/// A builder for unavez itself, asked about nothing.
pub(crate) fn unavez() -> ClientBuilder {
    Client::builder(Preset { key_status: None, ..Preset::unavez() })
}

/// A charge with a key of its own.
pub(crate) fn charge() -> Operation {
    Operation::post("http://shop.test/v1/charges").unwrap().with_json("{\"amount\":500}")
}
