//! A watch that is open: lines of JSON, until it ends.

use std::{ops::Range, time::Duration};

use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::{Instant, timeout_at};

use super::trouble::Trouble;

/// etcd takes no object over some megabytes; whatever has no end is no event.
const LONGEST_LINE: usize = 64 << 20;
/// How much longer than the server promised a watch is believed in.
pub(super) const MARGIN: Duration = Duration::from_secs(30);

/// An open watch.
pub(crate) struct Stream {
    body: Body,
    buffer: BytesMut,
    /// Bytes of the buffer known to hold no line end.
    searched: usize,
    /// Bytes of the line given out last, taken away with the next one.
    used: usize,
    opened: Instant,
    /// How long the server was asked to keep it open.
    promised: Duration,
    /// Lines so far.
    pub(super) lines: u64,
}

impl Stream {
    pub(crate) fn new(body: Body, promised: Duration) -> Self {
        let buffer = BytesMut::new();
        Self { body, buffer, searched: 0, used: 0, opened: Instant::now(), promised, lines: 0 }
    }

    /// How long it has been open.
    pub(super) fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Whether it has been open for as long as it was to be.
    pub(super) fn ran_its_time(&self) -> bool {
        self.age() + Duration::from_secs(1) >= self.promised
    }

    /// Waits until a line is complete; none at the end. A line of which only a
    /// part came is not given out: its event will come again. Can be cancelled.
    ///
    /// A connection may die without a word, so a watch that outlives its time by
    /// far counts as ended, whatever it seems to be.
    pub(crate) async fn next(&mut self) -> Result<Option<Range<usize>>, Trouble> {
        self.buffer.advance(std::mem::take(&mut self.used));
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|&b| b == b'\n') {
                let line = 0..self.searched + at;
                self.searched = 0;
                self.used = line.end + 1;
                if self.buffer[line.clone()].trim_ascii().is_empty() {
                    self.buffer.advance(std::mem::take(&mut self.used));
                    continue;
                }
                self.lines += 1;
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > LONGEST_LINE {
                return Err(Trouble::Unreadable(format!("an event of more than {LONGEST_LINE} bytes")));
            }
            let limit = self.opened + self.promised + MARGIN;
            match timeout_at(limit, self.body.frame()).await {
                Err(_) => return Err(Trouble::Cut(format!("silent beyond its end after {:?}", self.age()))),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(Trouble::Cut(error.to_string())),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    /// The line of a range that [`Stream::next`] gave.
    pub(crate) fn line(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }
}
