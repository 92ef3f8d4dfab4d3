//! Values that a case refers to: `$ns`, `$run` and `$(STEP/pointer/into/body)`.

use std::{collections::HashMap, sync::LazyLock};

use anyhow::Context;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use regex::Regex;

use crate::ordered::Ordered;

const IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\$\(([^()]+)\)"));
static WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"\$(ns|run)\b"));

pub(super) fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What references are replaced with.
pub(super) struct Scope {
    pub namespace: String,
    pub run: String,
    pub bodies: HashMap<String, Ordered>,
}

impl Scope {
    fn lookup(&self, reference: &str) -> anyhow::Result<&Ordered> {
        let (step, pointer) = reference.split_once('/').unwrap_or((reference, ""));
        let body =
            self.bodies.get(step).with_context(|| format!("$({reference}): no step {step:?} before"))?;
        let found = pointer.split('/').filter(|part| !part.is_empty()).try_fold(body, |at, part| {
            let part = part.replace("~1", "/").replace("~0", "~");
            match at {
                Ordered::List(items) => items.get(part.parse::<usize>().ok()?),
                other => other.get(&part),
            }
        });
        found.with_context(|| format!("$({reference}): not in the answer {body}"))
    }

    /// Replaces references in a text; in a path they are encoded.
    pub fn text(&self, text: &str, path: bool) -> anyhow::Result<String> {
        let mut out = String::new();
        let mut done = 0;
        for found in REFERENCE.captures_iter(text) {
            let (Some(whole), Some(reference)) = (found.get(0), found.get(1)) else { continue };
            out.push_str(&text[done..whole.start()]);
            let value = match self.lookup(reference.as_str())? {
                Ordered::Text(text) => text.clone(),
                other => other.to_string(),
            };
            if path {
                out.extend(utf8_percent_encode(&value, IN_PATHS));
            } else {
                out.push_str(&value);
            }
            done = whole.end();
        }
        out.push_str(&text[done..]);
        let word =
            |found: &regex::Captures<'_>| if &found[1] == "ns" { &self.namespace } else { &self.run }.clone();
        Ok(WORD.replace_all(&out, word).into_owned())
    }

    /// Replaces references in a value; one that is nothing but a reference
    /// becomes what it refers to.
    pub fn fill(&self, value: &Ordered) -> anyhow::Result<Ordered> {
        Ok(match value {
            Ordered::Text(text) => {
                match REFERENCE.captures(text).filter(|found| found[0].len() == text.len()) {
                    Some(found) => self.lookup(&found[1])?.clone(),
                    None => Ordered::Text(self.text(text, false)?),
                }
            }
            Ordered::List(items) => {
                Ordered::List(items.iter().map(|item| self.fill(item)).collect::<Result<_, _>>()?)
            }
            Ordered::Object(fields) => {
                let fields =
                    fields.iter().map(|(key, value)| Ok((self.text(key, false)?, self.fill(value)?)));
                Ordered::Object(fields.collect::<anyhow::Result<_>>()?)
            }
            other => other.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        let body =
            serde_json::from_str(r#"{"metadata": {"uid": "u", "n": 3}, "items": [{"a/b": "c d"}]}"#).unwrap();
        let scope =
            Scope { namespace: "conf-x".into(), run: "x".into(), bodies: [("made".to_owned(), body)].into() };
        let fill = |text: &str| scope.fill(&Ordered::Text(text.into())).map(|value| value.to_string());
        assert_eq!(fill("$(made/metadata/n)").unwrap(), "3");
        assert_eq!(fill("v$(made/metadata/n) in $ns of $run, $nsx").unwrap(), r#""v3 in conf-x of x, $nsx""#);
        assert_eq!(scope.text("/x?a=$(made/items/0/a~1b)", true).unwrap(), "/x?a=c%20d");
        assert!(fill("$(other/x)").is_err() && fill("$(made/x)").is_err());
    }
}
