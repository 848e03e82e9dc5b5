//! The network between the two: a proxy that carries whole requests, or does to them what the weather says.
//!
//! 1. Each request goes on over a connection of its own, in the thread of the connection it came by: what is held up arrives
//!    even if its sender has left.
//! 2. A sender that is cut off cannot tell when: before the request left, after it was executed, or within the answer.

use std::collections::HashMap;
use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::process::pause;
use super::weather::{Fate, Weather, digest};
use crate::failure::Failure;
use crate::wire::{self, Message};

/// A proxy on a port of its own. Accepts until it is dropped.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: SocketAddr,
    weather: Weather,
    seen: Mutex<HashMap<u64, u32>>,
    held_up: AtomicUsize,
    closed: AtomicBool,
}

impl Proxy {
    pub(crate) fn open(upstream: SocketAddr, weather: Weather) -> Result<Self, Failure> {
        let no_port = |error: io::Error| Failure::lacking(format!("no port for a proxy: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(no_port)?;
        let address = listener.local_addr().map_err(no_port)?;
        let shared = Arc::new(Shared {
            upstream,
            weather,
            seen: Mutex::default(),
            held_up: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        });
        let carrier = Arc::clone(&shared);
        std::thread::spawn(move || accept(&listener, &carrier));
        Ok(Self { address, shared })
    }

    /// Waits until nothing is held up any more.
    pub(crate) fn wait_until_quiet(&self) {
        while self.shared.held_up.load(Ordering::Acquire) > 0 {
            pause(Duration::from_millis(20));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        // Wakes the thread that accepts, which then sees that it is over.
        TcpStream::connect(self.address).ok();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.closed.load(Ordering::Acquire) {
            return;
        }
        let (Ok(client), shared) = (client, Arc::clone(shared)) else { continue };
        // Whatever ends the connection, its ends notice.
        std::thread::spawn(move || shared.carry(client).ok());
    }
}

impl Shared {
    /// Carries one connection's requests until either end or the weather cuts it.
    fn carry(self: &Arc<Self>, mut client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut requests = BufReader::new(client.try_clone()?);
        while let Some(request) = Message::read(&mut requests)? {
            match self.weather.fate(&request, self.seen_before(&request)) {
                Fate::Passes => self.go_on(&request)?.write(&mut client)?,
                Fate::LostThere => break,
                Fate::LostBack => {
                    self.go_on(&request)?;
                    break;
                }
                Fate::CutWithin => {
                    let mut bytes = Vec::new();
                    self.go_on(&request)?.write(&mut bytes)?;
                    client.write_all(&bytes[..bytes.len() / 2])?;
                    break;
                }
                Fate::Late { ms } => self.go_on_late(&request, ms)?.write(&mut client)?,
                Fate::Twice => {
                    let (copy, shared) = (request.clone(), Arc::clone(self));
                    std::thread::spawn(move || shared.go_on(&copy).ok());
                    self.go_on(&request)?.write(&mut client)?;
                }
            }
        }
        client.shutdown(std::net::Shutdown::Both)
    }

    fn go_on(&self, request: &Message) -> io::Result<Message> {
        wire::exchange(self.upstream, request)
    }

    fn go_on_late(&self, request: &Message, ms: u64) -> io::Result<Message> {
        self.held_up.fetch_add(1, Ordering::AcqRel);
        pause(Duration::from_millis(ms));
        let answer = self.go_on(request);
        self.held_up.fetch_sub(1, Ordering::AcqRel);
        answer
    }

    fn seen_before(&self, request: &Message) -> u32 {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let times = seen.entry(digest(request)).or_default();
        *times += 1;
        *times - 1
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Answers every request with how many there were.
    fn counting() -> (SocketAddr, Arc<AtomicU64>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (address, count) = (listener.local_addr().unwrap(), Arc::<AtomicU64>::default());
        let counter = Arc::clone(&count);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                if let Ok(Some(_)) = Message::read(&mut BufReader::new(stream.try_clone().unwrap())) {
                    counter.fetch_add(1, Ordering::AcqRel);
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone").unwrap();
                }
            }
        });
        (address, count)
    }

    /// A request whose first fate is this.
    fn with_fate(weather: Weather, fate: Fate) -> String {
        let is_it = |body: &String| {
            let text = format!("POST /payments HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let request = Message::read(&mut BufReader::new(text.as_bytes())).unwrap().unwrap();
            weather.fate(&request, 0) == fate
        };
        (0..1_000).map(|n| n.to_string()).find(is_it).expect("every fate comes")
    }

    #[test]
    fn each_fate_is_what_its_name_says() {
        let weather = Weather::Foul { seed: 42, late_ms_max: 1, doubles: true };
        for (fate, is_answered, arrives) in [
            (Fate::Passes, true, 1),
            (Fate::LostThere, false, 0),
            (Fate::LostBack, false, 1),
            (Fate::CutWithin, false, 1),
            (Fate::Late { ms: 0 }, true, 1),
            (Fate::Twice, true, 2),
        ] {
            let (upstream, count) = counting();
            let proxy = Proxy::open(upstream, weather).unwrap();
            let body = with_fate(weather, fate);
            let answer = wire::post(proxy.address, "/payments", "k", &body);
            assert_eq!(answer.is_ok(), is_answered, "{fate:?}: {answer:?}");
            while count.load(Ordering::Acquire) < arrives {
                std::thread::yield_now();
            }
            let again = wire::post(proxy.address, "/payments", "k", &body).expect("a second one passes");
            assert_eq!((again.status(), count.load(Ordering::Acquire)), (200, arrives + 1), "{fate:?}");
        }
    }

    #[test]
    fn what_is_held_up_arrives_though_its_sender_left() {
        let (upstream, count) = counting();
        let proxy = Proxy::open(upstream, Weather::FirstPostLate { ms: 1 }).unwrap();
        let mut sender = TcpStream::connect(proxy.address).unwrap();
        sender.write_all(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n").unwrap();
        drop(sender);
        while count.load(Ordering::Acquire) < 1 {
            std::thread::yield_now();
        }
        proxy.wait_until_quiet();
        assert_eq!(count.load(Ordering::Acquire), 1);
    }
}
