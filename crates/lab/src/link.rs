//! A network that really loses responses.
//!
//! The link is a loopback relay between a client and a service. It forwards everything, except where it was told to
//! lose: then it forwards the request, waits until the service's response has begun to arrive - so the work is done and
//! committed - and closes the connection to the client without passing on one byte.
//!
//! Who loses what is decided by the client, per request: a [`Line`] is one connection together with its [`Fate`], bound
//! to each other by the connection's local address before it is opened. Nothing is guessed from the bytes.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::{AbortHandle, JoinSet},
};

/// Bytes moved at once; a response that needs more is moved in several steps.
const CHUNK_BYTES: usize = 16 * 1024;

/// A relay to one service. Dropping it cuts every connection that runs through it.
#[derive(Debug)]
pub struct Link {
    address: SocketAddr,
    shared: Arc<Shared>,
    relay: AbortHandle,
}

/// What the relay and its clients both hold.
#[derive(Debug, Default)]
struct Shared {
    fates: Mutex<HashMap<SocketAddr, Fate>>,
    lost: AtomicU64,
}

/// What will happen to the next response on one connection.
#[derive(Debug, Clone, Default)]
pub struct Fate {
    lose: Arc<AtomicBool>,
}

impl Fate {
    /// Whether the response to the request that is sent next will be lost. Say so before sending it.
    pub fn lose_next(&self, lose: bool) {
        self.lose.store(lose, Ordering::Release);
    }

    fn loses(&self) -> bool {
        self.lose.load(Ordering::Acquire)
    }
}

/// One connection through a link, and its fate.
#[derive(Debug)]
pub struct Line {
    /// The client's end.
    pub stream: TcpStream,
    /// What will be lost on it.
    pub fate: Fate,
}

impl Link {
    /// Opens a relay on a free loopback port to the service at `service` (`host:port`).
    ///
    /// # Errors
    ///
    /// When no loopback port can be bound.
    pub async fn open(service: String) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let relay = tokio::spawn(relay(listener, service, Arc::clone(&shared))).abort_handle();
        Ok(Self { address, shared, relay })
    }

    /// Opens a connection through the relay.
    ///
    /// # Errors
    ///
    /// When there is no free loopback port left.
    pub async fn dial(&self) -> io::Result<Line> {
        let socket = TcpSocket::new_v4()?;
        socket.set_nodelay(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let fate = Fate::default();
        self.shared.fates().insert(socket.local_addr()?, fate.clone());
        let stream = socket.connect(self.address).await?;
        Ok(Line { stream, fate })
    }

    /// How many responses were lost so far.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Acquire)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.relay.abort();
    }
}

impl Shared {
    fn fates(&self) -> std::sync::MutexGuard<'_, HashMap<SocketAddr, Fate>> {
        self.fates.lock().expect("no holder of this lock panics")
    }
}

/// Accepts for as long as the link lives. The connections are tasks of this task, so they end with it.
async fn relay(listener: TcpListener, service: String, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, from)) = accepted else { continue };
                let fate = shared.fates().remove(&from).unwrap_or_default();
                connections.spawn(carry(client, service.clone(), fate, Arc::clone(&shared)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Carries one connection until either end closes it or a response is lost. Errors end it, as they would on any wire.
async fn carry(mut client: TcpStream, service: String, fate: Fate, shared: Arc<Shared>) -> io::Result<()> {
    let mut service = TcpStream::connect(service).await?;
    service.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let (mut from_client, mut from_service) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => match read? {
                0 => return Ok(()),
                read => service.write_all(&from_client[..read]).await?,
            },
            read = service.read(&mut from_service) => match read? {
                0 => return Ok(()),
                _ if fate.loses() => {
                    shared.lost.fetch_add(1, Ordering::AcqRel);
                    // The rest of the response is nobody's, and thousands of losses must not use up the ports.
                    return service.set_zero_linger();
                }
                read => client.write_all(&from_service[..read]).await?,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service that counts the lines it was sent and answers each with `done`.
    async fn counting_service() -> (String, Arc<AtomicU64>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let done = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&done);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let counter = Arc::clone(&counter);
                tokio::spawn(async move {
                    let mut bytes = [0; 64];
                    while matches!(stream.read(&mut bytes).await, Ok(1..)) {
                        counter.fetch_add(1, Ordering::AcqRel);
                        if stream.write_all(b"done").await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        (address, done)
    }

    #[tokio::test]
    async fn a_lost_response_is_lost_whole_and_its_work_is_done() {
        let (service, done) = counting_service().await;
        let link = Link::open(service).await.expect("a free port");
        let mut line = link.dial().await.expect("the relay listens");
        line.fate.lose_next(true);
        line.stream.write_all(b"charge").await.expect("the relay reads");

        let mut received = Vec::new();
        line.stream
            .read_to_end(&mut received)
            .await
            .expect("closed, not reset: the relay had read everything");
        assert_eq!(received, b"");
        assert_eq!((done.load(Ordering::Acquire), link.lost()), (1, 1));
    }

    #[tokio::test]
    async fn what_is_not_lost_is_carried_on_one_connection() {
        let (service, done) = counting_service().await;
        let link = Link::open(service).await.expect("a free port");
        let mut line = link.dial().await.expect("the relay listens");
        for sent in 1..=3 {
            line.stream.write_all(b"charge").await.expect("the relay reads");
            let mut received = [0; 4];
            line.stream.read_exact(&mut received).await.expect("not lost");
            assert_eq!((&received, done.load(Ordering::Acquire)), (b"done", sent));
        }
        assert_eq!(link.lost(), 0);
    }

    #[tokio::test]
    async fn each_connection_has_its_own_fate() {
        let (service, _) = counting_service().await;
        let link = Link::open(service).await.expect("a free port");
        let mut doomed = link.dial().await.expect("the relay listens");
        let mut spared = link.dial().await.expect("the relay listens");
        doomed.fate.lose_next(true);
        spared.stream.write_all(b"a").await.expect("the relay reads");
        doomed.stream.write_all(b"b").await.expect("the relay reads");

        let mut received = [0; 4];
        spared.stream.read_exact(&mut received).await.expect("spared");
        assert_eq!(doomed.stream.read(&mut received).await.expect("closed"), 0);
    }

    #[tokio::test]
    async fn a_service_that_is_not_there_ends_the_connection() {
        let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = nobody.local_addr().expect("bound").to_string();
        drop(nobody);
        let link = Link::open(address).await.expect("a free port");
        let mut line = link.dial().await.expect("the relay listens");
        assert!(matches!(line.stream.read(&mut [0; 1]).await, Ok(0) | Err(_)));
    }
}
