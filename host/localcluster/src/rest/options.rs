//! Query parameters and option bodies.
//!
//! In: a query string, DeleteOptions. Out: checked options, or the 400 or 422 of the real server. Invariant: unknown
//! parameters are ignored, as there.

use std::collections::HashMap;

use percent_encoding::percent_decode;
use serde_json::{Value, json};

use super::strategy::Propagation;
use crate::schema::FieldValidation;
use crate::status::{FieldError, Status};

/// A parsed query; the first value of a repeated parameter counts.
#[derive(Clone, Debug, Default)]
pub struct Query(HashMap<String, Vec<String>>);

impl Query {
    /// Parses `a=b&c=d`.
    pub fn parse(text: &str) -> Self {
        let mut query = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            query.0.entry(unescape(key)).or_default().push(unescape(value));
        }
        query
    }

    /// The value; none if absent or empty.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.first().map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether it is given at all.
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// All values of a key.
    pub fn all(&self, key: &str) -> &[String] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// As the real server reads booleans: everything but `false` and `0` is true, also nothing.
    pub fn flag(&self, key: &str) -> Option<bool> {
        let value = self.0.get(key)?.first()?;
        Some(!(value.eq_ignore_ascii_case("false") || value == "0"))
    }

    /// A whole number.
    pub fn number(&self, key: &str) -> Result<Option<i64>, Status> {
        let Some(value) = self.text(key) else { return Ok(None) };
        value
            .parse()
            .map(Some)
            .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {value:?}: invalid syntax")))
    }
}

fn unescape(text: &str) -> String {
    let spaced: Vec<u8> = text.bytes().map(|b| if b == b'+' { b' ' } else { b }).collect();
    percent_decode(&spaced).decode_utf8_lossy().into_owned()
}

/// Options of create, update, patch and apply.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Answer, but store nothing.
    pub dry_run: bool,
    /// Who owns the fields.
    pub manager: String,
    /// Whether it is an apply.
    pub applies: bool,
    /// Apply takes over fields of others.
    pub force: bool,
    /// What to do about unknown fields.
    pub validation: FieldValidation,
    /// The text of the field that the kind keeps as it was sent.
    pub raw: Option<Box<str>>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            dry_run: false,
            manager: "coxswain-localcluster".into(),
            applies: false,
            force: false,
            validation: FieldValidation::Warn,
            raw: None,
        }
    }
}

/// Which options are checked; it names them in refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH other than apply.
    Patch,
    /// Server-side apply.
    Apply,
}

const MANAGER_MAX: usize = 128;

impl WriteOptions {
    /// Reads and checks them.
    pub fn parse(query: &Query, user_agent: &str, verb: Verb) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let given = query.text("fieldManager");
        let force = query.flag("force");
        match (verb, given, force) {
            (Verb::Apply, None, _) => {
                errors.push(FieldError::required("fieldManager", "is required for apply patch"));
            }
            (Verb::Patch, _, Some(_)) => {
                errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"))
            }
            _ => {}
        }
        if let Some(manager) = given {
            check_manager(manager, &mut errors);
        }
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        let validation = match query.text("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Strict") => FieldValidation::Strict,
            Some("Ignore") => FieldValidation::Ignore,
            Some(other) => {
                errors.push(FieldError::not_supported(
                    "fieldValidation",
                    &json!(other),
                    &["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            let kind = match verb {
                Verb::Create => "CreateOptions",
                Verb::Update => "UpdateOptions",
                Verb::Patch | Verb::Apply => "PatchOptions",
            };
            return Err(Status::invalid("meta.k8s.io", kind, "", errors));
        }
        let given = given.filter(|manager| !manager.is_empty());
        let manager = given.map_or_else(|| manager_of(user_agent), str::to_owned);
        let applies = verb == Verb::Apply;
        Ok(Self { dry_run, manager, applies, force: force.unwrap_or(false), validation, raw: None })
    }
}

fn check_manager(manager: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > MANAGER_MAX {
        errors.push(FieldError::too_long("fieldManager", MANAGER_MAX));
    }
    if let Some((at, c)) = manager.char_indices().find(|(_, c)| c.is_control()) {
        errors.push(FieldError::invalid(
            "fieldManager",
            &json!(manager),
            &format!("invalid character U+{:04X} (at position {at})", u32::from(c)),
        ));
    }
}

/// The part of a user agent in front of its first slash; whoever does not say is unknown.
fn manager_of(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    if name.is_empty() {
        return "unknown".to_owned();
    }
    let mut end = name.len().min(MANAGER_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}

fn dry_run(values: &[String], errors: &mut Vec<FieldError>) -> bool {
    let values: Vec<_> = values.iter().filter(|v| !v.is_empty()).collect();
    for value in &values {
        if *value != "All" {
            errors.push(FieldError::not_supported("dryRun", &json!(values), &["All"]));
        }
    }
    !values.is_empty()
}

/// Options of get, list, watch and deletecollection.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Label selector, unparsed.
    pub label_selector: String,
    /// Field selector, unparsed.
    pub field_selector: String,
    /// Watch instead of list.
    pub watch: bool,
    /// Bookmarks wanted.
    pub bookmarks: bool,
    /// As given; empty for none.
    pub resource_version: String,
    /// `Exact`, `NotOlderThan` or empty.
    pub version_match: String,
    /// Seconds a watch lasts.
    pub timeout_seconds: Option<u64>,
    /// Page size; 0 for all.
    pub limit: usize,
    /// Page token.
    pub continue_token: String,
    /// Streaming list.
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads and checks them.
    pub fn parse(query: &Query, watch_path: bool) -> Result<Self, Status> {
        let text = |key| query.text(key).unwrap_or_default().to_owned();
        let options = Self {
            label_selector: text("labelSelector"),
            field_selector: text("fieldSelector"),
            watch: watch_path || query.flag("watch").unwrap_or(false),
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            resource_version: text("resourceVersion"),
            version_match: text("resourceVersionMatch"),
            timeout_seconds: query.number("timeoutSeconds")?.and_then(|n| u64::try_from(n).ok()),
            limit: query.number("limit")?.and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
            continue_token: text("continue"),
            send_initial_events: query.flag("sendInitialEvents"),
        };
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<(), Status> {
        let mut errors = Vec::new();
        if self.watch {
            self.check_watch(&mut errors);
        } else {
            self.check_list(&mut errors);
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Status::invalid("meta.k8s.io", "ListOptions", "", errors))
        }
    }

    fn check_watch(&self, errors: &mut Vec<FieldError>) {
        const FIELD: &str = "resourceVersionMatch";
        let matching = self.version_match.as_str();
        if self.send_initial_events.is_some() && matching != "NotOlderThan" {
            errors.push(FieldError::forbidden(
                FIELD,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if matching.is_empty() {
            // Without a version the initial events are sent as if they were asked for.
            if self.send_initial_events.is_none() && matches!(self.resource_version.as_str(), "" | "0") {
                self.check_no_continue(errors);
            }
            return;
        }
        if self.send_initial_events.is_none() {
            errors.push(FieldError::forbidden(
                FIELD,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if matching != "NotOlderThan" {
            errors.push(FieldError::not_supported(FIELD, &json!(matching), &["NotOlderThan"]));
        }
        self.check_no_continue(errors);
    }

    fn check_list(&self, errors: &mut Vec<FieldError>) {
        const FIELD: &str = "resourceVersionMatch";
        let matching = self.version_match.as_str();
        if !matching.is_empty() {
            if self.resource_version.is_empty() {
                errors.push(FieldError::forbidden(
                    FIELD,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            self.check_no_continue(errors);
            if !matches!(matching, "Exact" | "NotOlderThan") {
                let known = ["Exact", "NotOlderThan", ""];
                errors.push(FieldError::not_supported(FIELD, &json!(matching), &known));
            }
            if matching == "Exact" && self.resource_version == "0" {
                errors.push(FieldError::forbidden(
                    FIELD,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
        if self.send_initial_events.is_some() {
            errors
                .push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
    }

    fn check_no_continue(&self, errors: &mut Vec<FieldError>) {
        if !self.continue_token.is_empty() {
            errors.push(FieldError::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
    }
}

/// A length of time as Go writes it, `1h2m0.5s`; the error is in the words of Go's parser.
pub(super) fn check_duration(text: &str) -> Result<(), String> {
    const UNITS: [&str; 8] = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(format!("time: invalid duration {text:?}"));
    }
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, tail) = rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
        if !number.contains(|c: char| c.is_ascii_digit()) || number.matches('.').count() > 1 {
            return Err(format!("time: invalid duration {text:?}"));
        }
        let (unit, after) = tail.split_at(tail.find(is_number).unwrap_or(tail.len()));
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {text:?}"));
        }
        if !UNITS.contains(&unit) {
            return Err(format!("time: unknown unit {unit:?} in duration {text:?}"));
        }
        rest = after;
    }
    Ok(())
}

/// Options of a delete.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Seconds.
    pub grace: Option<i64>,
    /// What happens to dependents.
    pub propagation: Option<Propagation>,
    /// Old form of the same.
    pub orphan_dependents: Option<bool>,
    /// Precondition.
    pub uid: Option<String>,
    /// Precondition.
    pub resource_version: Option<String>,
    /// Answer, but change nothing.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// From the query of a delete without a body.
    pub fn from_query(query: &Query) -> Result<Self, Status> {
        let body = json!({
            "gracePeriodSeconds": query.number("gracePeriodSeconds")?,
            "propagationPolicy": query.text("propagationPolicy"),
            "orphanDependents": query.flag("orphanDependents"),
            "dryRun": query.all("dryRun"),
        });
        Self::from_value(&body)
    }

    /// From a decoded `DeleteOptions`.
    pub fn from_value(body: &Value) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let orphan_dependents = body["orphanDependents"].as_bool();
        let policy = body["propagationPolicy"].as_str();
        if let (Some(policy), Some(_)) = (policy, orphan_dependents) {
            errors.push(FieldError::invalid(
                "propagationPolicy",
                &json!(policy),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let propagation = match policy {
            None => None,
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported("propagationPolicy", &json!(other), &known));
                None
            }
        };
        let values: Vec<String> = body["dryRun"]
            .as_array()
            .map(|all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default();
        let dry_run = dry_run(&values, &mut errors);
        if !errors.is_empty() {
            return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", errors));
        }
        let condition = |key: &str| body["preconditions"][key].as_str().map(str::to_owned);
        Ok(Self {
            grace: body["gracePeriodSeconds"].as_i64(),
            propagation,
            orphan_dependents,
            uid: condition("uid"),
            resource_version: condition("resourceVersion"),
            dry_run,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_the_real_server_does() {
        let query = Query::parse("a=true&b=0&c=False&d&e=yes&f=x+y%2Bz");
        assert_eq!(query.flag("a"), Some(true));
        assert_eq!(query.flag("b"), Some(false));
        assert_eq!(query.flag("c"), Some(false));
        assert_eq!(query.flag("d"), Some(true));
        assert_eq!(query.flag("e"), Some(true));
        assert_eq!(query.flag("g"), None);
        assert_eq!(query.text("f"), Some("x y+z"));
    }
}
