//! The one body type of this crate, for requests handed to the operation and for answers handed to the caller.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;

/// Any error of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body: whole in memory, or a beginning in memory and the rest still to come.
///
/// A whole body knows its exact length, so that an HTTP server frames it with `Content-Length`.
pub struct Body {
    /// Apart from the others, so that a body of one chunk needs no memory of its own.
    first: Option<Bytes>,
    head: VecDeque<Bytes>,
    head_bytes: u64,
    rest: Rest,
}

enum Rest {
    None,
    Trailers(HeaderMap),
    Stream(UnsyncBoxBody<Bytes, BoxError>),
}

impl Body {
    /// No bytes at all.
    #[must_use]
    pub const fn empty() -> Self {
        Self { first: None, head: VecDeque::new(), head_bytes: 0, rest: Rest::None }
    }

    /// These bytes and no more.
    #[must_use]
    pub fn whole(bytes: Bytes) -> Self {
        let head_bytes = bytes.len() as u64;
        let first = Some(bytes).filter(|bytes| !bytes.is_empty());
        Self { first, head: VecDeque::new(), head_bytes, rest: Rest::None }
    }

    /// Bytes that are produced elsewhere.
    #[must_use]
    pub fn stream<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::resumed(VecDeque::new(), body)
    }

    /// Chunks that have all been read, and the trailers behind them.
    pub(crate) fn collected(mut head: VecDeque<Bytes>, trailers: Option<HeaderMap>) -> Self {
        head.retain(|chunk| !chunk.is_empty());
        let head_bytes = length(&head);
        Self { first: None, head, head_bytes, rest: trailers.map_or(Rest::None, Rest::Trailers) }
    }

    /// Chunks that were read already, and the body they were read from.
    pub(crate) fn resumed<B>(head: VecDeque<Bytes>, rest: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut body = Self::collected(head, None);
        body.rest = Rest::Stream(rest.map_err(Into::into).boxed_unsync());
        body
    }
}

fn length(chunks: &VecDeque<Bytes>) -> u64 {
    chunks.iter().map(|chunk| chunk.len() as u64).sum()
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::whole(bytes)
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::whole(Bytes::from(text))
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::whole(Bytes::from_static(text.as_bytes()))
    }
}

/// Shows the shape, never the bytes: answers do not belong into logs (P23).
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = match self.rest {
            Rest::None => "none",
            Rest::Trailers(_) => "trailers",
            Rest::Stream(_) => "stream",
        };
        f.debug_struct("Body").field("head_bytes", &self.head_bytes).field("rest", &rest).finish()
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(chunk) = self.first.take().or_else(|| self.head.pop_front()) {
            self.head_bytes -= chunk.len() as u64;
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        if let Rest::Stream(stream) = &mut self.rest {
            return Pin::new(stream).poll_frame(cx);
        }
        match std::mem::replace(&mut self.rest, Rest::None) {
            Rest::Trailers(trailers) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            _ => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none()
            && self.head.is_empty()
            && match &self.rest {
                Rest::None => true,
                Rest::Trailers(_) => false,
                Rest::Stream(stream) => stream.is_end_stream(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        let Rest::Stream(stream) = &self.rest else {
            return SizeHint::with_exact(self.head_bytes);
        };
        let mut hint = stream.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(self.head_bytes));
        }
        hint.set_lower(hint.lower().saturating_add(self.head_bytes));
        hint
    }
}
