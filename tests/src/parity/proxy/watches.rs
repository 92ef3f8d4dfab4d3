//! Watches through the proxy: passed on event by event, held back, stalled or cut.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use http::{Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Body, Cut, Proxy, What, rules::Kind, without_framing};

/// How often a held event is looked at again.
const LOOK: Duration = Duration::from_millis(20);

/// An open watch.
pub(super) struct Watch {
    pub what: What,
    pub cut: CancellationToken,
}

/// How a stream is divided into events.
#[derive(Clone, Copy)]
enum Framing {
    Lines,
    /// Four bytes of length before each.
    Prefixed,
    Unknown,
}

impl Framing {
    fn of(content_type: &str) -> Self {
        if content_type.contains("protobuf") {
            Self::Prefixed
        } else if content_type.contains("json") {
            Self::Lines
        } else {
            Self::Unknown
        }
    }

    /// Takes the first whole event.
    fn take(self, buffer: &mut BytesMut) -> Option<Bytes> {
        let size = match self {
            Self::Lines => buffer.iter().position(|byte| *byte == b'\n')? + 1,
            Self::Prefixed => {
                let length: [u8; 4] = buffer.get(..4)?.try_into().ok()?;
                4 + u32::from_be_bytes(length) as usize
            }
            Self::Unknown if buffer.is_empty() => return None,
            Self::Unknown => buffer.len(),
        };
        (buffer.len() >= size).then(|| buffer.split_to(size).freeze())
    }
}

enum Arrival {
    Event(Instant, Bytes),
    /// The server ended the stream in good order.
    End,
}

/// Reads upstream as it comes, so that the time of arrival is known.
async fn pump(mut upstream: Incoming, framing: Framing, out: mpsc::UnboundedSender<Arrival>) {
    let mut buffer = BytesMut::new();
    while let Some(frame) = upstream.frame().await {
        // A broken connection is passed on as one: no End is sent.
        let Ok(frame) = frame else { return };
        if let Ok(data) = frame.into_data() {
            buffer.extend_from_slice(&data);
        }
        while let Some(event) = framing.take(&mut buffer) {
            if out.send(Arrival::Event(Instant::now(), event)).is_err() {
                return;
            }
        }
    }
    // Whoever listened may have gone.
    let _ = out.send(Arrival::End);
}

impl Proxy {
    /// Passes a watch on.
    pub(super) fn watch(self: Arc<Self>, what: What, answer: Response<Incoming>) -> Response<Body> {
        let (mut parts, upstream) = answer.into_parts();
        without_framing(&mut parts.headers);
        parts.version = http::Version::HTTP_11;
        let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let framing = Framing::of(content_type.unwrap_or_default());
        let cut = CancellationToken::new();
        let id = {
            let mut state = self.state.lock();
            state.next_watch += 1;
            let id = state.next_watch;
            state.watches.insert(id, Watch { what: what.clone(), cut: cut.clone() });
            id
        };
        let (out, passed) = mpsc::channel(1);
        tokio::spawn(async move {
            let (arrived, arrivals) = mpsc::unbounded_channel();
            // Reading goes on while events are held back.
            let pumping = tokio::spawn(pump(upstream, framing, arrived));
            tokio::select! {
                ended = self.pass(&what, arrivals, &out) => {
                    if ended.is_err() {
                        let _ = out.send(Err(Cut)).await;
                    }
                }
                () = cut.cancelled() => {
                    let _ = out.send(Err(Cut)).await;
                }
                () = out.closed() => {}
            }
            pumping.abort();
            self.state.lock().watches.remove(&id);
        });
        let frames =
            futures::stream::unfold(passed, |mut passed| async { Some((passed.recv().await?, passed)) });
        Response::from_parts(parts, StreamBody::new(frames).boxed_unsync())
    }

    async fn pass(
        &self,
        what: &What,
        mut arrivals: mpsc::UnboundedReceiver<Arrival>,
        out: &mpsc::Sender<Result<Frame<Bytes>, Cut>>,
    ) -> Result<(), Cut> {
        while let Some(arrival) = arrivals.recv().await {
            let Arrival::Event(at, event) = arrival else { return Ok(()) };
            let mut counted = false;
            while !self.is_due(what, at) {
                if !counted {
                    self.state.lock().count("events held");
                    counted = true;
                }
                tokio::time::sleep(LOOK).await;
            }
            out.send(Ok(Frame::data(event))).await.map_err(|_| Cut)?;
        }
        Err(Cut)
    }

    /// Whether an event that came then may pass now.
    fn is_due(&self, what: &What, at: Instant) -> bool {
        let state = self.state.lock();
        state.rules.iter().filter(|rule| rule.fits(what)).all(|rule| match rule.kind {
            Kind::Stall => false,
            Kind::DelayWatch => rule.spec.seconds.is_none_or(|delay| at.elapsed() >= delay),
            _ => true,
        })
    }
}
