//! Checks what a module says about itself.
//!
//! In: a manifest. Out: nothing, or everything that is wrong with it, so that an
//! author mends it in one go. Invariant: the rest of the host may take a manifest
//! at its word.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use crate::{
    contract::{GroupResource, KeyKind, LookupRule, Manifest, OptionKind, Read},
    goflag,
    store::parse_path,
};

/// Indexes that every read has.
const BUILT_IN: [&str; 6] = ["uid", "owner", "controller", "orphan", "namespace", "deleting"];
const VERBS: [&str; 5] = ["create", "patch", "update", "delete", "deletecollection"];
/// Verbs that the host never sends, and that the API server asks for besides the write.
const BESIDES: [&str; 6] = ["approve", "attest", "bind", "escalate", "impersonate", "sign"];
/// Most multiples of the default client limits that a module may claim.
const MAX_MULTIPLE: u32 = 100;

/// Finds everything that is wrong with a manifest.
pub fn validate(manifest: &Manifest) -> Result<(), Vec<String>> {
    let mut check = Check { problems: Vec::new() };
    check.names(manifest);
    for read in &manifest.reads {
        check.read(read);
    }
    check.unique("reads", manifest.reads.iter().map(|r| show(&r.resource)));
    check.sources(manifest);
    for rule in &manifest.writes {
        let at = format!("writes: {}", show(&rule.resource));
        check.resource(&at, &rule.resource);
        if !rule.subresource.is_empty() && !is_label(&rule.subresource) {
            check.problem(format!("{at}: subresource `{}` is no subresource name", rule.subresource));
        }
        if rule.verbs.is_empty() {
            check.problem(format!("{at}: names no verbs"));
        }
        for verb in &rule.verbs {
            let (name, of) =
                verb.split_once(':').map_or((verb.as_str(), None), |(name, of)| (name, Some(of)));
            if !VERBS.contains(&name) && !BESIDES.contains(&name) {
                check.problem(format!(
                    "{at}: unknown verb `{name}`, there are {} and, for what the API server asks besides, {}",
                    VERBS.join(", "),
                    BESIDES.join(", ")
                ));
            }
            if of == Some("") {
                check.problem(format!("{at}: verb `{verb}`: the name of an object follows the colon"));
            }
        }
    }
    for rule in &manifest.lookups {
        check.lookup(rule);
    }
    check.options(manifest);
    check.problems.extend(super::measures::problems(manifest));
    if check.problems.is_empty() { Ok(()) } else { Err(check.problems) }
}

struct Check {
    problems: Vec<String>,
}

impl Check {
    fn problem(&mut self, text: impl Into<String>) {
        self.problems.push(text.into());
    }

    fn unique(&mut self, what: &str, names: impl Iterator<Item = String>) {
        let mut seen = HashSet::new();
        for name in names {
            if seen.contains(&name) {
                self.problem(format!("{what}: `{name}` is named twice"));
            }
            seen.insert(name);
        }
    }

    fn names(&mut self, manifest: &Manifest) {
        let own =
            std::iter::once(("name", &manifest.name)).chain(manifest.aliases.iter().map(|a| ("alias", a)));
        for (what, name) in own {
            if !is_label(name) {
                self.problem(format!("{what} `{name}`: lower-case letters, digits and `-`, beginning and ending with a letter or digit, at most 63"));
            }
        }
        let names = std::iter::once(&manifest.name).chain(&manifest.aliases);
        self.unique("aliases", names.cloned());
        if !manifest.concurrency_flag.is_empty() && !is_label(&manifest.concurrency_flag) {
            self.problem(format!(
                "concurrency-flag `{}`: a flag's name without dashes before it",
                manifest.concurrency_flag
            ));
        }
        for (what, value) in [("qps", manifest.client_limits.qps), ("burst", manifest.client_limits.burst)] {
            if value > MAX_MULTIPLE {
                self.problem(format!(
                    "client-limits.{what} is {value}, which is a multiple of the default, {MAX_MULTIPLE} at most"
                ));
            }
        }
    }

    fn resource(&mut self, at: &str, resource: &GroupResource) {
        if is_wildcard(resource) {
            return;
        }
        let group_ok = resource.group.is_empty() || resource.group.split('.').all(is_label);
        if !group_ok || !is_label(&resource.version) || !is_label(&resource.resource) {
            self.problem(format!(
                "{at}: not a resource: expected group (may be empty), version and lower-case plural, or `*` for both group and resource"
            ));
        }
    }

    fn read(&mut self, read: &Read) {
        let at = format!("reads: {}", show(&read.resource));
        self.resource(&at, &read.resource);
        if is_wildcard(&read.resource) {
            let beyond = |path: &&String| !path.starts_with("metadata.");
            let indexed = read.indexes.iter().flat_map(|index| &index.paths);
            let paths: Vec<_> =
                read.fields.iter().chain(indexed).filter(beyond).map(String::as_str).collect();
            if read.whole || !paths.is_empty() {
                let named = if read.whole { "the whole object".to_owned() } else { paths.join(", ") };
                self.problem(format!("{at}: a read of every resource gives metadata only, not {named}"));
            }
        }
        for path in read.fields.iter().chain(&read.sensitive) {
            self.path(&at, path);
        }
        for index in &read.indexes {
            let at = format!("{at}: index `{}`", index.name);
            if index.name.is_empty() {
                self.problem(format!("{at}: has no name"));
            }
            if BUILT_IN.contains(&index.name.as_str()) {
                self.problem(format!("{at}: the name is taken by a built-in index"));
            }
            if index.paths.is_empty() {
                self.problem(format!("{at}: has no paths"));
            }
            for path in &index.paths {
                self.path(&at, path);
            }
        }
        self.unique(&format!("{at}: indexes"), read.indexes.iter().map(|i| i.name.clone()));
    }

    fn path(&mut self, at: &str, path: &str) {
        if let Err(error) = parse_path(path) {
            self.problem(format!("{at}: {error}"));
        }
    }

    fn sources(&mut self, manifest: &Manifest) {
        if manifest.sources.is_empty() {
            self.problem("sources: there is none, so there would be nothing to reconcile");
        }
        self.unique("sources", manifest.sources.iter().map(|s| s.name.clone()));
        for source in &manifest.sources {
            let at = format!("sources: `{}`", source.name);
            if source.name.is_empty() {
                self.problem("sources: one has no name");
            }
            match &source.keys {
                KeyKind::Objects(resources) => {
                    self.source_resources(&at, manifest, resources);
                }
                KeyKind::IndexedObjects(objects) => {
                    self.source_resources(&at, manifest, &objects.resources);
                    if objects.indexes.is_empty() {
                        self.problem(format!("{at}: names no indexes"));
                    }
                    for index in &objects.indexes {
                        for resource in &objects.resources {
                            self.index(&at, manifest, resource, index);
                        }
                    }
                }
                KeyKind::IndexValues(values) => {
                    if is_wildcard(&values.resource) {
                        self.problem(format!(
                            "{at}: values of an index come from one resource, not from every resource"
                        ));
                    } else {
                        self.source_resources(&at, manifest, std::slice::from_ref(&values.resource));
                        self.index(&at, manifest, &values.resource, &values.index);
                    }
                }
                KeyKind::Single(name) if name.is_empty() => {
                    self.problem(format!("{at}: the key has no name"))
                }
                KeyKind::Single(_) => {}
            }
        }
    }

    fn source_resources(&mut self, at: &str, manifest: &Manifest, resources: &[GroupResource]) {
        if resources.is_empty() {
            self.problem(format!("{at}: names no resource"));
        }
        for resource in resources {
            if read_of(manifest, resource).is_none() {
                self.problem(format!("{at}: {} is not among the reads", show(resource)));
            }
        }
        self.unique(at, resources.iter().map(show));
    }

    fn index(&mut self, at: &str, manifest: &Manifest, resource: &GroupResource, index: &str) {
        if BUILT_IN.contains(&index) {
            return;
        }
        // Of a resource that is not read another problem already speaks.
        if let Some(read) = read_of(manifest, resource)
            && !read.indexes.iter().any(|i| i.name == index)
        {
            self.problem(format!(
                "{at}: index `{index}` is neither built in nor declared by the read of {}",
                show(resource)
            ));
        }
    }

    fn lookup(&mut self, rule: &LookupRule) {
        match rule {
            LookupRule::Get(rule) => {
                let at = format!("lookups: get {}", show(&rule.resource));
                self.resource(&at, &rule.resource);
                if !rule.subresource.is_empty() && !is_label(&rule.subresource) {
                    self.problem(format!("{at}: subresource `{}` is no subresource name", rule.subresource));
                }
            }
            LookupRule::List(resource) => {
                self.resource(&format!("lookups: list {}", show(resource)), resource)
            }
            LookupRule::Review(resource) => {
                self.resource(&format!("lookups: review {}", show(resource)), resource)
            }
            LookupRule::Raw(prefix)
                if !prefix.starts_with('/') || prefix.contains(['?', '#', '\\']) || prefix.contains("..") =>
            {
                self.problem(format!(
                    "lookups: raw `{prefix}`: a path that begins with `/`, without query or `..`"
                ));
            }
            LookupRule::Raw(_) => {}
            LookupRule::Sign(key) if !is_label(key) => {
                self.problem(format!("lookups: sign `{key}`: not the name of a key"))
            }
            LookupRule::Sign(_) => {}
        }
    }

    fn options(&mut self, manifest: &Manifest) {
        let flag = Some(&manifest.concurrency_flag).filter(|f| !f.is_empty());
        self.unique("options", manifest.options.iter().map(|o| &o.name).chain(flag).cloned());
        for option in &manifest.options {
            if !is_label(&option.name) {
                self.problem(format!("options: `{}`: a flag's name: lower-case letters, digits and `-`, without dashes before it", option.name));
            }
            if let Err(expected) = check_option(option.kind, &option.default) {
                self.problem(format!(
                    "options: `{}`: the default `{}` is not {expected}",
                    option.name, option.default
                ));
            }
            if option.help.contains('\n') {
                self.problem(format!("options: `{}`: help is one line", option.name));
            }
        }
    }
}

/// Checks a value of an option. The error says what was expected.
pub fn check_option(kind: OptionKind, value: &str) -> Result<(), &'static str> {
    match kind {
        OptionKind::Text | OptionKind::TextList | OptionKind::File => Ok(()),
        OptionKind::Boolean if matches!(value, "true" | "false") => Ok(()),
        OptionKind::Boolean => Err("`true` or `false`"),
        OptionKind::Integer => value.parse::<i64>().map(drop).map_err(|_| "a whole number"),
        // A default is handed over as it stands.
        OptionKind::Decimal => match serde_json::from_str::<f64>(value) {
            Ok(number) if number >= 0.0 => Ok(()),
            _ => Err("a decimal number as JSON writes it, and not negative"),
        },
        OptionKind::Duration if goflag::duration(value).is_ok() => Ok(()),
        OptionKind::Duration => Err("a duration such as `1m30s`, and not negative"),
    }
}

/// A label of a domain name: what resource names, versions and flags are.
fn is_label(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let bytes = text.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|&c| inner(c))
        && bytes[0] != b'-'
        && bytes[bytes.len() - 1] != b'-'
}

fn is_wildcard(resource: &GroupResource) -> bool {
    resource.group == "*" && resource.resource == "*"
}

fn read_of<'a>(manifest: &'a Manifest, resource: &GroupResource) -> Option<&'a Read> {
    manifest.reads.iter().find(|read| {
        read.resource.group == resource.group
            && read.resource.resource == resource.resource
            && (is_wildcard(resource) || read.resource.version == resource.version)
    })
}

fn show(resource: &GroupResource) -> String {
    if is_wildcard(resource) {
        "every resource".to_owned()
    } else if resource.group.is_empty() {
        format!("{}/{}", resource.version, resource.resource)
    } else {
        format!("{}/{}/{}", resource.group, resource.version, resource.resource)
    }
}
