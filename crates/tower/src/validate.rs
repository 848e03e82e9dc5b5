//! The validation hook: an invalid body makes no claim (P7).

use bytes::Bytes;
use http::request::Parts;

use crate::problem::Problem;

/// Judges a request before its claim. What it refuses never changes a record; a record that exists already wins.
///
/// Pure and quick: it runs on the request's own task. Anything that depends on state, such as an unknown id in the path,
/// belongs into the operation, so that its refusal is stored and repeated.
pub trait Validate: Send + Sync + 'static {
    /// Refuses with a problem, usually 400 `validation`.
    ///
    /// # Errors
    /// What the caller is told.
    fn validate(&self, head: &Parts, body: &Bytes) -> Result<(), Problem>;
}

impl<F> Validate for F
where
    F: Fn(&Parts, &Bytes) -> Result<(), Problem> + Send + Sync + 'static,
{
    fn validate(&self, head: &Parts, body: &Bytes) -> Result<(), Problem> {
        self(head, body)
    }
}
