//! Whether there are traces, and where they go.

use std::{sync::atomic::Ordering, time::Duration};

use opentelemetry::{KeyValue, SpanId, TraceId, trace::TracerProvider};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{IdGenerator, SdkTracerProvider},
};

use super::{ON, TRACER, client::Client};
use crate::entropy::Entropy;

/// What we are called unless OTEL_SERVICE_NAME says otherwise.
const SERVICE: &str = "coxswain";
/// How long the last spans may take to be sent.
const FLUSH: Duration = Duration::from_secs(2);

const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];

/// Why there can be no traces.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another way to a collector is asked for than the one there is.
    #[error("{variable}={value}: only http/json is spoken; name the collector's port for HTTP (4318)")]
    Protocol {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// The collector cannot be sent to.
    #[error("{variable}: {reason}")]
    Exporter {
        /// The variable that names it.
        variable: &'static str,
        /// Why not.
        reason: String,
    },
}

/// Traces that are being sent; to be ended by [`Traces::finish`].
pub struct Traces(SdkTracerProvider);

/// The first of these that is set.
fn first(
    names: &[&'static str],
    environment: &impl Fn(&str) -> Option<String>,
) -> Option<(&'static str, String)> {
    names.iter().find_map(|name| Some((*name, environment(name).filter(|value| !value.is_empty())?)))
}

/// Whether the environment names a collector: the variable that does.
fn wanted(environment: impl Fn(&str) -> Option<String>) -> Result<Option<&'static str>, Error> {
    let says =
        |name: &str, word: &str| environment(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
    if says("OTEL_SDK_DISABLED", "true") || says("OTEL_TRACES_EXPORTER", "none") {
        return Ok(None);
    }
    let Some((endpoint, _)) = first(&ENDPOINTS, &environment) else { return Ok(None) };
    match first(&PROTOCOLS, &environment) {
        // A collector takes both on the same port.
        Some((variable, value)) if !matches!(value.as_str(), "http/json" | "http/protobuf") => {
            Err(Error::Protocol { variable, value })
        }
        _ => Ok(Some(endpoint)),
    }
}

/// Begins to send traces if the environment names a collector. Within a tokio
/// runtime.
///
/// # Errors
///
/// Names the variable that cannot be used.
pub fn start(entropy: Entropy) -> Result<Option<Traces>, Error> {
    let Some(variable) = wanted(|name| std::env::var(name).ok())? else { return Ok(None) };
    let failed = |reason: String| Error::Exporter { variable, reason };
    let client = Client::new().map_err(failed)?;
    let exporter = SpanExporter::builder().with_http().with_http_client(client).build();
    let exporter = exporter.map_err(|error| failed(error.to_string()))?;
    let mut resource = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name(SERVICE);
    }
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_id_generator(Ids(entropy))
        .with_resource(resource.with_attribute(version).build())
        .build();
    let _ = TRACER.set(provider.tracer(SERVICE));
    ON.store(true, Ordering::Relaxed);
    tracing::info!(collector = std::env::var(variable).unwrap_or_default(), "traces are sent");
    Ok(Some(Traces(provider)))
}

impl Traces {
    /// Sends what is left.
    pub async fn finish(self) {
        ON.store(false, Ordering::Relaxed);
        let sent = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(FLUSH)).await;
        if !matches!(sent, Ok(Ok(()))) {
            tracing::debug!("the last spans were not sent");
        }
    }
}

struct Ids(Entropy);

impl std::fmt::Debug for Ids {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ids")
    }
}

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        let (high, low) = (self.0.next_u64(), self.0.next_u64());
        TraceId::from(u128::from(high) << 64 | u128::from(low))
    }

    fn new_span_id(&self) -> SpanId {
        SpanId::from(self.0.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_decides() {
        let table: &[(&[(&str, &str)], Result<Option<&str>, &str>)] = &[
            (&[], Ok(None)),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")], Ok(None)),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318")], Ok(Some("OTEL_EXPORTER_OTLP_ENDPOINT"))),
            (
                &[
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"),
                    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t"),
                ],
                Ok(Some("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")),
            ),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"), ("OTEL_SDK_DISABLED", "TRUE")], Ok(None)),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"), ("OTEL_TRACES_EXPORTER", "none")], Ok(None)),
            (
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
                Err("OTEL_EXPORTER_OTLP_PROTOCOL=grpc: only http/json is spoken"),
            ),
        ];
        for (variables, expected) in table {
            let of = |name: &str| {
                let found = variables.iter().find(|(one, _)| *one == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            match (wanted(of), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, *expected, "{variables:?}"),
                (Err(error), Err(text)) => assert!(error.to_string().starts_with(text), "{error}"),
                (found, _) => panic!("{variables:?}: {found:?}"),
            }
        }
    }
}
