//! From an event of a watch to the keys that it wakes.
//!
//! While an event is taken into the store, which it is on one thread and without
//! a pause, whoever is woken can ask which event it is. Its span is made when
//! the first one asks.

use std::{cell::RefCell, time::SystemTime};

use opentelemetry::{
    Context, KeyValue,
    trace::{Span as _, SpanBuilder, SpanContext, SpanKind, TraceContextExt, Tracer},
};
use opentelemetry_sdk::trace::Span;

use super::{is_on, tracer};

thread_local! {
    static CURRENT: RefCell<Option<Event>> = const { RefCell::new(None) };
}

struct Event {
    attributes: Vec<KeyValue>,
    begun: SystemTime,
    span: Option<Span>,
}

/// What a key was woken by.
#[derive(Clone, Debug)]
pub struct Origin(Box<SpanContext>);

impl Origin {
    pub(super) fn into_context(self) -> Context {
        Context::new().with_remote_span_context(*self.0)
    }
}

/// An event that is taken in, until this is dropped.
#[must_use]
pub struct WatchEvent(bool);

impl WatchEvent {
    /// Begins to take one in.
    pub fn begin(attributes: impl FnOnce() -> Vec<KeyValue>) -> Self {
        if !is_on() {
            return Self(false);
        }
        let event = Event { attributes: attributes(), begun: opentelemetry::time::now(), span: None };
        CURRENT.with_borrow_mut(|current| *current = Some(event));
        Self(true)
    }
}

impl Drop for WatchEvent {
    fn drop(&mut self) {
        if self.0
            && let Some(mut span) = CURRENT.take().and_then(|event| event.span)
        {
            span.end();
        }
    }
}

/// The event that this thread is taking in.
pub fn origin() -> Option<Origin> {
    let tracer = tracer()?;
    CURRENT.with_borrow_mut(|current| {
        let event = current.as_mut()?;
        let span = event.span.get_or_insert_with(|| {
            let builder = SpanBuilder::from_name("watch event")
                .with_kind(SpanKind::Consumer)
                .with_start_time(event.begun)
                .with_attributes(std::mem::take(&mut event.attributes));
            tracer.build_with_context(builder, &Context::new())
        });
        Some(Origin(Box::new(span.span_context().clone())))
    })
}
