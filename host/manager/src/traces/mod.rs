//! Traces, for OpenTelemetry: one from a watch event to the writes it leads to.
//!
//! ```text
//! watch event ─┬─ reconcile ─┬─ compute      the module, each round
//!              │             ├─ lookups
//!              │             ├─ write        each action; its request carries `traceparent`
//!              │             └─ cache        until the cache shows what was written
//!              └─ reconcile … of every other key that the event woke
//! ```
//!
//! Off unless the environment names a collector, in OpenTelemetry's own variables
//! (<https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>);
//! then one atomic load is all that it costs. An event that wakes nobody has no
//! span. A key that several events woke belongs to the first of them; one that
//! is due by the clock begins a trace of its own.

mod client;
mod origin;
mod start;

use std::{
    future::Future,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use opentelemetry::{
    Context, KeyValue, Value,
    propagation::TextMapPropagator,
    trace::{FutureExt, SpanBuilder, Status, TraceContextExt, Tracer},
};
use opentelemetry_http::HeaderInjector;
use opentelemetry_sdk::{propagation::TraceContextPropagator, trace::SdkTracer};

pub use origin::{Origin, WatchEvent, origin};
pub use start::{Error, Traces, start};

static ON: AtomicBool = AtomicBool::new(false);
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// Whether anything is traced.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

fn tracer() -> Option<&'static SdkTracer> {
    if is_on() { TRACER.get() } else { None }
}

/// A span, or nothing if traces are off. It ends when it is dropped.
pub struct Span(Option<Context>);

impl Span {
    /// One that an event led to, or the first of a trace of its own.
    pub fn begin(
        name: &'static str,
        origin: Option<Origin>,
        attributes: impl FnOnce() -> Vec<KeyValue>,
    ) -> Self {
        let parent = origin.map_or_else(Context::new, Origin::into_context);
        Self(tracer().map(|tracer| made(tracer, name, attributes(), &parent)))
    }

    /// A part of the one that this task is in; nothing if it is in none.
    pub fn part(name: &'static str, attributes: impl FnOnce() -> Vec<KeyValue>) -> Self {
        let made = tracer().and_then(|tracer| {
            let parent = Context::current();
            parent.has_active_span().then(|| made(tracer, name, attributes(), &parent))
        });
        Self(made)
    }

    /// Adds what became known.
    pub fn set(&self, key: &'static str, value: impl Into<Value>) {
        if let Some(context) = &self.0 {
            context.span().set_attribute(KeyValue::new(key, value));
        }
    }

    /// Marks it as failed.
    pub fn fail(&self, reason: impl FnOnce() -> String) {
        if let Some(context) = &self.0 {
            context.span().set_status(Status::error(reason()));
        }
    }

    /// Runs a future within it.
    pub async fn within<F: Future>(&self, future: F) -> F::Output {
        match &self.0 {
            Some(context) => future.with_context(context.clone()).await,
            None => future.await,
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(context) = &self.0 {
            context.span().end();
        }
    }
}

fn made(tracer: &SdkTracer, name: &'static str, attributes: Vec<KeyValue>, parent: &Context) -> Context {
    let builder = SpanBuilder::from_name(name).with_attributes(attributes);
    parent.with_span(tracer.build_with_context(builder, parent))
}

/// Tells the API server which trace a request belongs to (W3C trace context).
pub fn inject(headers: &mut http::HeaderMap) {
    if is_on() {
        let context = Context::current();
        if context.has_active_span() {
            TraceContextPropagator::new().inject_context(&context, &mut HeaderInjector(headers));
        }
    }
}

/// One thing that is known of a span.
pub fn attribute(key: &'static str, value: impl Into<Value>) -> KeyValue {
    KeyValue::new(key, value)
}
