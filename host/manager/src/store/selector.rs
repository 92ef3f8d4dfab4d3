//! Label selectors in the API's string form.
//!
//! In: `app=web,tier in (a,b),!old`. Out: whether a set of labels matches, and
//! one pair that every match must have, by which subscriptions are found.

/// A selector that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("label selector `{selector}`: {reason}")]
pub struct SelectorError {
    selector: String,
    reason: String,
}

/// All of its requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Requirement {
    key: Box<str>,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Test {
    Exists,
    Missing,
    In(Vec<Box<str>>),
    /// Holds as well where the key is missing.
    NotIn(Vec<Box<str>>),
    Greater(i64),
    Less(i64),
}

impl Selector {
    /// Reads a selector. An empty one matches everything.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let failed = |reason: String| SelectorError { selector: text.to_owned(), reason };
        let mut tokens = Tokens { rest: text };
        let mut requirements = Vec::new();
        if tokens.peek().is_empty() {
            return Ok(Self::default());
        }
        loop {
            requirements.push(requirement(&mut tokens).map_err(failed)?);
            match tokens.next() {
                "" => return Ok(Self { requirements }),
                "," => {}
                other => return Err(failed(format!("expected `,` instead of `{other}`"))),
            }
        }
    }

    /// Whether labels match; `get` finds the value of a label.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = get(&requirement.key);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match &requirement.test {
                Test::Exists => value.is_some(),
                Test::Missing => value.is_none(),
                Test::In(values) => value.is_some_and(|value| values.iter().any(|one| **one == *value)),
                Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| **one != *value)),
                Test::Greater(bound) => number().is_some_and(|number| number > *bound),
                Test::Less(bound) => number().is_some_and(|number| number < *bound),
            }
        })
    }

    /// A label that each match has.
    pub fn required_pair(&self) -> Option<(&str, &str)> {
        self.requirements.iter().find_map(|requirement| match &requirement.test {
            Test::In(values) => match values.as_slice() {
                [value] => Some((&*requirement.key, &**value)),
                _ => None,
            },
            _ => None,
        })
    }
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<Requirement, String> {
    if tokens.peek() == "!" {
        tokens.next();
        return Ok(Requirement { key: key(tokens.next())?, test: Test::Missing });
    }
    let key = key(tokens.next())?;
    let test = match tokens.peek() {
        "" | "," => return Ok(Requirement { key, test: Test::Exists }),
        operator => {
            tokens.next();
            match operator {
                "=" | "==" => Test::In(vec![value(tokens)?]),
                "!=" => Test::NotIn(vec![value(tokens)?]),
                "in" => Test::In(set(tokens)?),
                "notin" => Test::NotIn(set(tokens)?),
                ">" => Test::Greater(number(tokens)?),
                "<" => Test::Less(number(tokens)?),
                other => {
                    return Err(format!("`{other}` is no operator; known are =, ==, !=, in, notin, < and >"));
                }
            }
        }
    };
    Ok(Requirement { key, test })
}

fn is_special(token: &str) -> bool {
    token.starts_with(['(', ')', ',', '!', '=', '<', '>'])
}

fn key(token: &str) -> Result<Box<str>, String> {
    let (prefix, name) = token.rsplit_once('/').map_or((None, token), |(prefix, name)| (Some(prefix), name));
    let fine = !is_special(token) && !prefix.is_some_and(|prefix| prefix.is_empty() || prefix.contains('/'));
    if fine && is_label_text(name) && !name.is_empty() {
        Ok(token.into())
    } else if token.is_empty() {
        Err("it ends where a label key was expected".into())
    } else {
        Err(format!("`{token}` is no label key"))
    }
}

fn is_label_text(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && ends(text.chars().next())
        && ends(text.chars().last())
}

fn checked(token: &str) -> Result<Box<str>, String> {
    if is_label_text(token) { Ok(token.into()) } else { Err(format!("`{token}` is no label value")) }
}

/// A value; an empty one stands before a comma or the end.
fn value(tokens: &mut Tokens<'_>) -> Result<Box<str>, String> {
    if matches!(tokens.peek(), "" | ",") { Ok("".into()) } else { checked(tokens.next()) }
}

fn number(tokens: &mut Tokens<'_>) -> Result<i64, String> {
    let token = tokens.next();
    token.parse().map_err(|_| format!("`{token}` is no whole number"))
}

fn set(tokens: &mut Tokens<'_>) -> Result<Vec<Box<str>>, String> {
    if tokens.next() != "(" {
        return Err("expected `(` after in or notin".into());
    }
    let mut values = Vec::new();
    loop {
        // `(a,)` and `()` hold the empty value, as in the API.
        let value = if matches!(tokens.peek(), "," | ")") { "".into() } else { checked(tokens.next())? };
        values.push(value);
        match tokens.next() {
            ")" => break,
            "," => {}
            "" => return Err("the list of values does not end".into()),
            other => return Err(format!("expected `,` or `)` instead of `{other}`")),
        }
    }
    values.sort();
    values.dedup();
    Ok(values)
}

/// Words and operators; an empty one at the end.
#[derive(Clone)]
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> &'a str {
        self.clone().next()
    }

    fn next(&mut self) -> &'a str {
        let text = self.rest.trim_start();
        let length = if text.starts_with("==") || text.starts_with("!=") {
            2
        } else if is_special(text) {
            1
        } else {
            text.find(|c: char| c.is_whitespace() || is_special(c.encode_utf8(&mut [0; 4])))
                .unwrap_or(text.len())
        };
        let (token, rest) = text.split_at(length);
        self.rest = rest;
        token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let selector = Selector::parse(selector).unwrap();
        selector.matches(|key| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
    }

    #[test]
    fn selectors_match_as_the_api_says() {
        let labels = [("app", "web"), ("tier", "a"), ("n", "7"), ("empty", ""), ("x.io/in", "1")];
        let table = [
            ("", true),
            ("  ", true),
            ("app", true),
            ("gone", false),
            ("!app", false),
            ("!gone", true),
            ("! gone", true),
            ("app=web", true),
            ("app==web", true),
            ("app = web", true),
            ("app=db", false),
            ("app!=web", false),
            ("app!=db", true),
            ("gone!=db", true),
            ("tier in (a,b)", true),
            ("tier in (b)", false),
            ("tier in(a)", true),
            ("gone in (a)", false),
            ("tier notin (a, b)", false),
            ("tier notin (c)", true),
            ("gone notin (a)", true),
            ("empty=", true),
            ("empty=,app=web", true),
            ("empty in (,a)", true),
            ("app=", false),
            ("empty", true),
            ("n>6", true),
            ("n > 7", false),
            ("n<8", true),
            ("app>1", false),
            ("x.io/in=1", true),
            ("in", false),
            ("app=web,tier in (a,b),!old", true),
            ("app=web,tier in (a,b),!n", false),
            ("in in (in)", false),
        ];
        for (selector, expected) in table {
            assert_eq!(matches(selector, &labels), expected, "{selector}");
        }
    }

    #[test]
    fn broken_selectors_are_refused() {
        for text in [
            ",",
            "app,",
            "a=b,,c",
            "=b",
            "a b",
            "a in b",
            "a in (b",
            "a in",
            "a in (b c)",
            "a=b c",
            "!",
            "!a=b",
            "a=(b)",
            "a>b",
            "/a",
            "a//b",
            "a/",
            "-a",
            "a=-b",
            "(a)",
            "a=b)",
            "a==",
            "ü=1",
        ] {
            // `a==` is the one that is fine: it asks for the empty value.
            assert_eq!(Selector::parse(text).is_err(), text != "a==", "{text}");
        }
    }

    #[test]
    fn a_required_pair_is_one_that_all_matches_have() {
        let table = [
            ("app=web", Some(("app", "web"))),
            ("!x,tier in (a)", Some(("tier", "a"))),
            ("a in (b,c),d==e", Some(("d", "e"))),
            ("a in (b,c)", None),
            ("a!=b", None),
            ("a", None),
            ("", None),
            ("a in (b,b)", Some(("a", "b"))),
        ];
        for (text, expected) in table {
            assert_eq!(Selector::parse(text).unwrap().required_pair(), expected, "{text}");
        }
    }
}
