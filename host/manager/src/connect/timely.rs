//! Requests that are not sent too late.
//!
//! A process that was stopped, or a machine that was suspended, goes on in the
//! midst of what it did. Timers fire then, but a request may be on its way to its
//! connection already. Invariant: no content of a request is handed to a
//! connection after the request's time, so that it never arrives whole. What is
//! left is the moment from there to the system call.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body as Content, Frame, SizeHint};
use kube::client::Body;
use tokio::time::Instant;
use tower::BoxError;

use crate::clock::SharedClock;

/// In a request's extensions: when it may no longer be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotAfter(pub(crate) Instant);

/// The content of a request.
pub(super) struct Timely {
    content: Body,
    until: Option<NotAfter>,
    clock: SharedClock,
    /// How long the machine had been suspended when the request was made.
    suspended: Duration,
}

impl Timely {
    pub(super) fn new(content: Body, until: Option<NotAfter>, clock: SharedClock) -> Self {
        let suspended = clock.suspended();
        Self { content, until, clock, suspended }
    }

    fn is_too_late(&self) -> bool {
        let slept = self.clock.suspended().saturating_sub(self.suspended);
        self.until.is_some_and(|NotAfter(until)| Instant::now() + slept >= until)
    }
}

impl Content for Timely {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.is_too_late() {
            return Poll::Ready(Some(Err("its time was over before it was sent".into())));
        }
        Pin::new(&mut self.content).poll_frame(cx).map_err(Into::into)
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_end_stream()
    }
}
