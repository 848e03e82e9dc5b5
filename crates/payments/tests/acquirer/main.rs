//! Acquirers: the sandbox, its adapter both ways, and the suite that every adapter passes.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

mod conformance;
mod mercadopago;
mod sandbox;
mod stripe;
mod support;
mod webhooks;
