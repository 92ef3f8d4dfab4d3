//! Rules for names, labels and the like, with the wording of the real server.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_1035_MESSAGE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const VALUE_MESSAGE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const CONFIG_KEY: &str = "[-._a-zA-Z0-9]+";
const CONFIG_KEY_MESSAGE: &str =
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
const PERCENT: &str = "[0-9]+%";
const PERCENT_MESSAGE: &str = "a valid percent string must be a numeric string followed by an ending '%'";

const UNDERSCORED: &str = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const UNDERSCORED_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character";
const WILDCARD: &str = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const WILDCARD_MESSAGE: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
const HEADER: &str = "[-A-Za-z0-9]+";
const HEADER_MESSAGE: &str = "a valid HTTP header must consist of alphanumeric characters or '-'";
/// Name of a kernel parameter, its parts joined by dots or slashes.
pub const SYSCTL: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const ISCSI: &str =
    r"iqn\.\d{4}-\d{2}\.([[:alnum:]\-.]+)(:[^,;*&$|\s]+)|eui.[[:alnum:]]{16}|naa.[[:alnum:]]{32}";
const PATH: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";

fn anchored(pattern: &str) -> Option<Regex> {
    Regex::new(&format!("^(?:{pattern})$")).ok()
}

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => {
        $(static $name: LazyLock<Option<Regex>> = LazyLock::new(|| anchored($pattern));)*
    };
}

patterns! {
    LABEL_RE = LABEL;
    SUBDOMAIN_RE = SUBDOMAIN;
    LABEL_1035_RE = LABEL_1035;
    QUALIFIED_RE = QUALIFIED;
    VALUE_RE = VALUE;
    CONFIG_KEY_RE = CONFIG_KEY;
    PERCENT_RE = PERCENT;
    UNDERSCORED_RE = UNDERSCORED;
    HEADER_RE = HEADER;
    SYSCTL_RE = SYSCTL;
    ISCSI_RE = ISCSI;
    PATH_RE = PATH;
    WILDCARD_RE = WILDCARD;
}

fn fits(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|p| p.is_match(text))
}

fn regex_error(message: &str, pattern: &str, examples: &[&str]) -> String {
    let mut out = format!("{message} (e.g. ");
    for (i, example) in examples.iter().enumerate() {
        if i > 0 {
            out.push_str(" or ");
        }
        out.push_str(&format!("'{example}', "));
    }
    out.push_str(&format!("regex used for validation is '{pattern}')"));
    out
}

/// Of names.
fn max_length(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// Of keys and values of labels.
fn max_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// How objects of a kind may be called.
#[derive(Clone, Copy, Debug)]
pub enum NameRule {
    /// Dots and dashes, up to 253 bytes.
    Subdomain,
    /// The same as published types declare it: what a generated name begins with is not looked at.
    Declared,
    /// What the rest of the object asks for: given the object and the name.
    Own(fn(&Value, &str) -> Vec<String>),
    /// Dashes, up to 63 bytes.
    Label,
    /// As `Label`, beginning with a letter.
    Label1035,
    /// Anything that fits into a path.
    PathSegment,
}

impl NameRule {
    /// What is wrong with a name; a `prefix` may end in a dash.
    pub fn check(self, name: &str, prefix: bool) -> Vec<String> {
        self.check_of(&Value::Null, name, prefix)
    }

    /// The same, of an object.
    pub fn check_of(self, object: &Value, name: &str, prefix: bool) -> Vec<String> {
        let masked;
        let name = if prefix && name.len() > 1 && name.ends_with('-') {
            masked = format!("{}a", &name[..name.len() - 1]);
            &masked
        } else {
            name
        };
        match self {
            Self::Subdomain => subdomain(name),
            Self::Declared if prefix => path_segment(name, prefix),
            Self::Declared => {
                subdomain(name).into_iter().map(|m| m.replace("253 characters", "253 bytes")).collect()
            }
            Self::Own(check) => check(object, name),
            Self::Label => label(name),
            Self::Label1035 => label_1035(name),
            Self::PathSegment => path_segment(name, prefix),
        }
    }
}

/// RFC 1123 label.
pub fn label(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 63 {
        out.push(max_length(63));
    }
    if !fits(&LABEL_RE, text) {
        if fits(&SUBDOMAIN_RE, text) {
            out.push("must not contain dots".into());
        } else {
            out.push(regex_error(LABEL_MESSAGE, LABEL, &["my-name", "123-abc"]));
        }
    }
    out
}

/// RFC 1123 subdomain.
pub fn subdomain(text: &str) -> Vec<String> {
    subdomain_within(text, max_length)
}

fn subdomain_within(text: &str, too_long: fn(usize) -> String) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push(too_long(253));
    }
    if !fits(&SUBDOMAIN_RE, text) {
        out.push(regex_error(SUBDOMAIN_MESSAGE, SUBDOMAIN, &["example.com"]));
    }
    out
}

/// RFC 1035 label.
pub fn label_1035(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 63 {
        out.push(max_length(63));
    }
    if !fits(&LABEL_1035_RE, text) {
        out.push(regex_error(LABEL_1035_MESSAGE, LABEL_1035, &["my-name", "abc-123"]));
    }
    out
}

fn path_segment(text: &str, prefix: bool) -> Vec<String> {
    if !prefix && matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|bad| text.contains(**bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

/// Key of a label, taint and the like: `name` or `prefix/name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                out.push("prefix part must be non-empty".into());
            } else {
                out.extend(subdomain_within(prefix, max_bytes).iter().map(|m| format!("prefix part {m}")));
            }
            *name
        }
        _ => {
            let message = regex_error(
                &format!("a valid label key {QUALIFIED_MESSAGE}"),
                QUALIFIED,
                &["MyName", "my.name", "123-abc"],
            );
            out.push(format!(
                "{message} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return out;
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        out.push(format!("name part {}", max_bytes(63)));
    }
    if !fits(&QUALIFIED_RE, name) {
        let message = regex_error(QUALIFIED_MESSAGE, QUALIFIED, &["MyName", "my.name", "123-abc"]);
        out.push(format!("name part {message}"));
    }
    out
}

/// Value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 63 {
        out.push(max_bytes(63));
    }
    if !fits(&VALUE_RE, text) {
        out.push(regex_error(VALUE_MESSAGE, VALUE, &["MyValue", "my_value", "12345"]));
    }
    out
}

/// Key of a ConfigMap or Secret.
pub fn config_key(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push(max_length(253));
    }
    if !fits(&CONFIG_KEY_RE, text) {
        let examples = ["key.name", "KEY_NAME", "key-name"];
        out.push(regex_error(CONFIG_KEY_MESSAGE, CONFIG_KEY, &examples));
    }
    match text {
        "." => out.push("must not be '.'".into()),
        ".." => out.push("must not be '..'".into()),
        _ if text.starts_with("..") => out.push("must not start with '..'".into()),
        _ => {}
    }
    out
}

/// A subdomain in which underscores are allowed too.
pub fn relaxed_subdomain(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push(max_length(253));
    }
    if !fits(&UNDERSCORED_RE, text) {
        out.push(regex_error(UNDERSCORED_MESSAGE, UNDERSCORED, &["example.com"]));
    }
    out
}

/// A subdomain behind a wildcard.
pub fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push(max_length(253));
    }
    if !fits(&WILDCARD_RE, text) {
        out.push(regex_error(WILDCARD_MESSAGE, WILDCARD, &["*.example.com"]));
    }
    out
}

/// Name of an environment variable.
pub fn variable(text: &str) -> Vec<String> {
    if text.chars().all(|c| c != '=' && (' '..='~').contains(&c)) {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
            .into(),
    ]
}

/// Name of an HTTP header.
pub fn http_header(text: &str) -> Vec<String> {
    if fits(&HEADER_RE, text) {
        return Vec::new();
    }
    vec![regex_error(HEADER_MESSAGE, HEADER, &["X-Header-Name"])]
}

/// Whether a kernel parameter may be called so.
pub fn sysctl(text: &str) -> bool {
    text.len() <= 253 && fits(&SYSCTL_RE, text)
}

/// Whether it is the name of an iSCSI node.
pub fn iscsi_name(text: &str) -> bool {
    fits(&ISCSI_RE, text)
}

/// A path behind a domain, as `acme.io/foo`; each error with the part that is wrong.
pub fn domain_path(text: &str) -> Vec<(String, String)> {
    let Some((host, path)) = text.split_once('/').filter(|(h, p)| !h.is_empty() && !p.is_empty()) else {
        return vec![(text.into(), "must be a domain-prefixed path (such as \"acme.io/foo\")".into())];
    };
    let mut out: Vec<_> = subdomain(host).into_iter().map(|m| (host.to_owned(), m)).collect();
    if !fits(&PATH_RE, path) {
        out.push((path.into(), format!("Invalid path (regex used for validation is '{PATH}')")));
    }
    out
}

/// `25%` and its like.
pub fn percent(text: &str) -> Vec<String> {
    if fits(&PERCENT_RE, text) {
        return Vec::new();
    }
    vec![regex_error(PERCENT_MESSAGE, PERCENT, &["1%", "93%"])]
}

/// Name of a port in a pod or service.
pub fn port_name(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 15 {
        out.push(max_length(15));
    }
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !text.chars().all(allowed) {
        out.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !text.chars().any(|c| c.is_ascii_lowercase()) {
        out.push("must contain at least one letter (a-z)".into());
    }
    if text.contains("--") {
        out.push("must not contain consecutive hyphens".into());
    }
    if text.starts_with('-') || text.ends_with('-') {
        out.push("must not begin or end with a hyphen".into());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_by_their_rule() {
        for (rule, name, prefix, good) in [
            (NameRule::Subdomain, "a.b-c", false, true),
            (NameRule::Subdomain, "A", false, false),
            (NameRule::Label, "a.b", false, false),
            (NameRule::Label, "a-", true, true),
            (NameRule::Label, "a-", false, false),
            (NameRule::Label1035, "1a", false, false),
            (NameRule::PathSegment, "system:x", false, true),
            (NameRule::PathSegment, "a/b", false, false),
        ] {
            assert_eq!(rule.check(name, prefix).is_empty(), good, "{rule:?} {name}");
        }
    }
}
