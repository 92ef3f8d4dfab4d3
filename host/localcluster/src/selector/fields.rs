//! Field selectors in the text form of queries.

/// A parsed field selector; all terms must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// Path of the field, as `metadata.name`.
    pub field: String,
    /// Equal, or else unequal.
    pub equal: bool,
    /// With what.
    pub value: String,
}

impl FieldSelector {
    /// Parses the text of a query; the error is the message of the real server.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in split(text, ',') {
            if part.is_empty() {
                continue;
            }
            let cannot = || format!("invalid selector: '{text}'; can't understand '{part}'");
            let at = find_operator(part).ok_or_else(cannot)?;
            let (operator, equal) = match &part[at..] {
                rest if rest.starts_with("!=") => ("!=", false),
                rest if rest.starts_with("==") => ("==", true),
                _ => ("=", true),
            };
            let value = unescape(&part[at + operator.len()..])?;
            terms.push(Term { field: part[..at].to_owned(), equal, value });
        }
        Ok(Self { terms })
    }

    /// Selects everything.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// What must hold.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Whether values, looked up by `get`, are selected.
    pub fn matches(&self, get: &dyn Fn(&str) -> Option<String>) -> bool {
        self.terms.iter().all(|t| (get(&t.field).unwrap_or_default() == t.value) == t.equal)
    }

    /// The one value a field must have, if the selector says so.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|t| t.equal && t.field == field).map(|t| t.value.as_str())
    }
}

fn find_operator(part: &str) -> Option<usize> {
    let mut escaped = false;
    for (i, c) in part.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '=' => return Some(i),
            '!' if part[i..].starts_with("!=") => return Some(i),
            _ => {}
        }
    }
    None
}

fn split(text: &str, at: char) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == at => {
                out.push(&text[start..i]);
                start = i + c.len_utf8();
            }
            _ => {}
        }
    }
    out.push(&text[start..]);
    out
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(format!("invalid field selector: invalid escape sequence: \\{c}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".into()),
            },
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                ));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_equal_or_unequal() {
        let get = |field: &str| (field == "status.phase").then(|| "Running".to_owned());
        for (text, want) in [
            ("status.phase=Running", true),
            ("status.phase!=Running", false),
            ("spec.nodeName=", true),
            ("status.phase==Running,spec.nodeName!=x", true),
            ("", true),
        ] {
            assert_eq!(FieldSelector::parse(text).expect(text).matches(&get), want, "{text}");
        }
        assert_eq!(
            FieldSelector::parse("metadata.name").expect_err("refused"),
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'"
        );
    }
}
