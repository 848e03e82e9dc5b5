//! What carries one request, once.

use std::fmt;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, Limited};

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Carries one request to its server and brings the whole answer back.
///
/// It repeats nothing and follows no redirect: whoever repeats a request must know its key. Dropping the future leaves
/// it open whether the request was received.
pub trait Transport: Send + Sync {
    /// Sends `request` once, and reads an answer of at most `answer_bytes_max` bytes.
    fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        answer_bytes_max: usize,
    ) -> impl Future<Output = Exchanged> + Send;
}

/// How an exchange ended.
#[derive(Clone, Debug)]
pub enum Exchanged {
    /// A whole answer came back.
    Answered(Response<Bytes>),
    /// The request may have been received, and there is no whole answer.
    Cut(Cause),
    /// Not one byte of it has left.
    NotSent(Cause),
}

/// Why there is no answer: a lower-case fragment for logs and messages. It holds no header and no body.
#[derive(Clone, PartialEq, Eq)]
pub struct Cause(Box<str>);

impl Cause {
    /// A fragment.
    pub fn new(what: impl Into<Box<str>>) -> Self {
        Self(what.into())
    }

    /// A fragment with the whole chain of causes: the outermost alone only says that there was an error.
    pub fn of(what: &str, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut text = what.to_owned();
        let mut cause = Some(error);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        Self(text.into())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cause({self})")
    }
}

/// Reads an answer to its end. What breaks off, or is too large, says nothing.
pub(crate) async fn read_whole<B>(answer: Response<B>, answer_bytes_max: usize) -> Exchanged
where
    B: Body,
    B::Error: Into<BoxError>,
{
    let (parts, body) = answer.into_parts();
    match Limited::new(body, answer_bytes_max).collect().await {
        Ok(body) => Exchanged::Answered(Response::from_parts(parts, body.to_bytes())),
        Err(error) => {
            let what = format!("the answer with status {} broke off", parts.status.as_u16());
            Exchanged::Cut(Cause::of(&what, error.as_ref()))
        }
    }
}
