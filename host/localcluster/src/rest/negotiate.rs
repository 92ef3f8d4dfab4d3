//! Content negotiation: which form of an answer the client takes.
//!
//! In: an Accept header. Out: encoding and shape. Invariant: protobuf is never sent; clients that would like it name
//! JSON as well.

use crate::status::Status;

/// What an answer is turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Shape {
    /// As it is.
    #[default]
    Whole,
    /// `PartialObjectMetadata`.
    Partial,
    /// `PartialObjectMetadataList`.
    PartialList,
    /// `Table`.
    Table,
}

/// The chosen form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Accept {
    /// YAML instead of JSON.
    pub yaml: bool,
    /// Shape.
    pub shape: Shape,
    /// `v1beta1` of the shape instead of `v1`.
    pub beta: bool,
}

/// What objects can be sent as.
pub const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

struct Clause<'a> {
    media: &'a str,
    quality: f32,
    transform: Option<&'a str>,
    group: &'a str,
    version: &'a str,
}

fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut all: Vec<Clause<'_>> = header
        .split(',')
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let mut found = Clause { media, quality: 1.0, transform: None, group: "", version: "" };
            for (key, value) in parts.filter_map(|part| part.split_once('=')) {
                match key.trim() {
                    "q" => found.quality = value.parse().unwrap_or(1.0),
                    "as" => found.transform = Some(value),
                    "g" => found.group = value,
                    "v" => found.version = value,
                    _ => {}
                }
            }
            found
        })
        .collect();
    // Stable: clauses of one quality keep their order.
    all.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    all
}

/// The encoding of a media type, if it can be sent.
fn encoding(media: &str) -> Option<bool> {
    match media {
        "application/json" | "*/*" | "application/*" | "" => Some(false),
        "application/yaml" => Some(true),
        _ => None,
    }
}

/// Chooses a form of an object, a list or a stream of events.
pub fn negotiate(header: Option<&str>) -> Result<Accept, Status> {
    let header = header.map_or("*/*", |h| if h.trim().is_empty() { "*/*" } else { h });
    let clauses = clauses(header);
    let known =
        |c: &Clause<'_>| encoding(c.media).is_some() || c.media == "application/vnd.kubernetes.protobuf";
    if !clauses.iter().any(known) {
        let mut status = Status::not_acceptable(format!(
            "406: Not Acceptable\n\nAvailable representations: {MEDIA_TYPES}"
        ));
        status.details = Some(crate::status::Details::default());
        return Err(status);
    }
    for clause in &clauses {
        let Some(yaml) = encoding(clause.media) else { continue };
        let Some(transform) = clause.transform else {
            return Ok(Accept { yaml, ..Accept::default() });
        };
        let shape = match transform {
            "Table" => Shape::Table,
            "PartialObjectMetadata" => Shape::Partial,
            "PartialObjectMetadataList" => Shape::PartialList,
            _ => continue,
        };
        if clause.group == "meta.k8s.io" && matches!(clause.version, "v1" | "v1beta1") {
            return Ok(Accept { yaml, shape, beta: clause.version == "v1beta1" });
        }
    }
    Err(not_acceptable())
}

/// 406 with what could be sent.
pub fn not_acceptable() -> Status {
    Status::not_acceptable(format!("only the following media types are accepted: {MEDIA_TYPES}"))
}

/// How discovery is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryForm {
    /// One document a group.
    Plain,
    /// Everything at once.
    Aggregated,
}

/// Chooses a form of discovery; `aggregated` says whether that form exists here.
pub fn negotiate_discovery(
    header: Option<&str>,
    aggregated: bool,
) -> Result<(DiscoveryForm, Accept), Status> {
    let header = header.map_or("*/*", |h| if h.trim().is_empty() { "*/*" } else { h });
    for clause in clauses(header) {
        let Some(yaml) = encoding(clause.media) else { continue };
        let accept = Accept { yaml, ..Accept::default() };
        match clause.transform {
            None => return Ok((DiscoveryForm::Plain, accept)),
            Some("APIGroupDiscoveryList")
                if aggregated && clause.group == "apidiscovery.k8s.io" && clause.version == "v2" =>
            {
                return Ok((DiscoveryForm::Aggregated, accept));
            }
            Some(_) => {}
        }
    }
    Err(not_acceptable())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_can_be_sent_is_chosen() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(negotiate(Some(kubectl)).expect("table").shape, Shape::Table);
        let fallback = "application/json;as=Poem;g=meta.k8s.io;v=v1,application/json";
        assert_eq!(negotiate(Some(fallback)).expect("plain"), Accept::default());
        let protobuf = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(negotiate(Some(protobuf)).expect("json"), Accept::default());
        let quality = "application/json;q=0.5,application/yaml";
        assert!(negotiate(Some(quality)).expect("yaml").yaml);
    }

    #[test]
    fn what_cannot_be_sent_is_refused_in_the_two_ways_of_the_real_server() {
        let xml = negotiate(Some("application/xml")).expect_err("xml");
        assert!(xml.message.starts_with("406: Not Acceptable"), "{}", xml.message);
        let poem = negotiate(Some("application/json;as=Poem;g=meta.k8s.io;v=v1")).expect_err("poem");
        assert!(poem.message.starts_with("only the following"), "{}", poem.message);
    }
}
