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
const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// What events can be sent as.
const STREAM_TYPES: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

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

/// The header; no or an empty one takes anything.
fn or_anything(header: Option<&str>) -> &str {
    header.map_or("*/*", |h| if h.trim().is_empty() { "*/*" } else { h })
}

/// Refuses a client that takes none of the types of a path. The type alone counts here, and `*` for its second half
/// does not.
fn routed(clauses: &[Clause<'_>], known: &[&str], available: &str) -> Result<(), Status> {
    if clauses.iter().any(|c| c.media == "*/*" || known.contains(&c.media)) {
        return Ok(());
    }
    let text = format!("406: Not Acceptable\n\nAvailable representations: {available}");
    let mut status = Status::not_acceptable(text);
    status.details = Some(crate::status::Details::default());
    Err(status)
}

const OBJECTS: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Refuses a client that takes no JSON, at a path that has nothing else.
pub fn json_only(header: Option<&str>) -> Result<(), Status> {
    routed(&clauses(or_anything(header)), &OBJECTS[..1], OBJECTS[0])
}

/// Whether failures are told in YAML.
pub fn failures_in_yaml(header: Option<&str>) -> bool {
    let clauses = clauses(or_anything(header));
    let plain = clauses.iter().filter(|clause| clause.transform.is_none());
    plain.filter_map(|clause| encoding(clause.media)).next().unwrap_or(false)
}

/// Chooses a form of an object, a list or a stream of events; `streams` says whether the path has those.
pub fn negotiate(header: Option<&str>, streams: bool) -> Result<Accept, Status> {
    let clauses = clauses(or_anything(header));
    if streams {
        routed(&clauses, OBJECTS, &format!("{MEDIA_TYPES}, {STREAM_TYPES}"))?;
    } else {
        routed(&clauses, OBJECTS, MEDIA_TYPES)?;
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

/// 406 to a client that would have events in another form.
pub fn no_such_stream() -> Status {
    Status::not_acceptable(format!("only the following media types are accepted: {STREAM_TYPES}"))
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
    let clauses = clauses(or_anything(header));
    if !aggregated {
        routed(&clauses, OBJECTS, MEDIA_TYPES)?;
    }
    for clause in clauses {
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
        assert_eq!(negotiate(Some(kubectl), false).expect("table").shape, Shape::Table);
        let fallback = "application/json;as=Poem;g=meta.k8s.io;v=v1,application/json";
        assert_eq!(negotiate(Some(fallback), false).expect("plain"), Accept::default());
        let protobuf = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(negotiate(Some(protobuf), false).expect("json"), Accept::default());
        let quality = "application/json;q=0.5,application/yaml";
        assert!(negotiate(Some(quality), false).expect("yaml").yaml);
    }

    #[test]
    fn what_cannot_be_sent_is_refused_in_the_two_ways_of_the_real_server() {
        let xml = negotiate(Some("application/xml"), false).expect_err("xml");
        assert!(xml.message.starts_with("406: Not Acceptable"), "{}", xml.message);
        let any = negotiate(Some("application/*"), true).expect_err("half a type");
        assert!(any.message.ends_with("protobuf;stream=watch"), "{}", any.message);
        let poem = negotiate(Some("application/json;as=Poem;g=meta.k8s.io;v=v1"), false).expect_err("poem");
        assert!(poem.message.starts_with("only the following"), "{}", poem.message);
    }
}
