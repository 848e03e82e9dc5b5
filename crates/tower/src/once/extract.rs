//! `Once` as an axum extractor.

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use http::request::Parts;
use std::convert::Infallible;
use unavez_core::problem::Code;

use super::Once;
use crate::problem::Problem;

/// On a route that no layer covers, or for a request without a key on an optional one: 500, a fault of the program. Take
/// `Option<Once>` where a key is optional.
impl<S: Sync> FromRequestParts<S> for Once {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            tracing::error!("handler needs `Once`, but no idempotency layer covers this request");
            Problem::new(Code::Internal)
        })
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Once {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned())
    }
}
