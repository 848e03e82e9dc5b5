//! Questions to processes that may be dead just now.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::process::pause;
use crate::wire::{self, Message};

/// As much as anything may take. Far beyond what it does: it ends a wait that has no end, and decides none.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Between two tries of what is open.
pub(super) const BETWEEN_TRIES: Duration = Duration::from_millis(150);

/// Tries until there is an answer that is not 503, for a while; the last one.
pub(super) fn patiently(ask: impl Fn() -> Option<Message>) -> Option<Message> {
    let began = Instant::now();
    loop {
        match ask() {
            Some(answer) if answer.status() != 503 => return Some(answer),
            last if began.elapsed() > PATIENCE => return last,
            _ => pause(BETWEEN_TRIES),
        }
    }
}

/// Asks until there is an answer: a busy machine is no fault.
pub(super) fn ask(address: SocketAddr, path: &str) -> Result<Value, String> {
    match find(address, path)? {
        Some(document) => Ok(document),
        None => Err(format!("{path}: 404")),
    }
}

/// The same, of something that need not be there.
pub(super) fn find(address: SocketAddr, path: &str) -> Result<Option<Value>, String> {
    match patiently(|| wire::get(address, path).ok()) {
        Some(answer) if answer.status() == 200 => Ok(Some(answer.json())),
        Some(answer) if answer.status() == 404 => Ok(None),
        Some(answer) => Err(format!("{path}: {}", answer.shown())),
        None => Err(format!("{path}: no answer")),
    }
}

/// Everything that an acquirer says it has executed.
pub(super) fn all_executions(acquirer: SocketAddr) -> Result<Vec<Value>, String> {
    let (mut rows, mut after) = (Vec::new(), String::new());
    loop {
        let page = ask(acquirer, &format!("/operations?limit=100{after}"))?;
        rows.extend(page["data"].as_array().into_iter().flatten().cloned());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(rows),
        }
    }
}
