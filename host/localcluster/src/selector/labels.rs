//! Label selectors in the text form of queries.

use super::Operator;
use crate::kinds::names;

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// One condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    /// Key of the label.
    pub key: String,
    /// How it compares.
    pub operator: Operator,
    /// With what; sorted.
    pub values: Vec<String>,
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let listed = |v: &str| self.values.iter().any(|want| want == v);
        let number = |v: &str| v.parse::<i64>().ok();
        let bound = || self.values.first().and_then(|v| number(v));
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => match (value.and_then(number), bound()) {
                (Some(value), Some(bound)) => value > bound,
                _ => false,
            },
            Operator::LessThan => match (value.and_then(number), bound()) {
                (Some(value), Some(bound)) => value < bound,
                _ => false,
            },
        }
    }
}

/// A parsed label selector; all requirements must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Parses the text of a query; the error is the message of the real server.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { tokens: lex(text), at: 0 };
        let mut requirements = parser.requirements()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// What must hold.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether labels, looked up by `get`, are selected.
    pub fn matches<'l>(&self, get: &dyn Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements.iter().all(|r| r.matches(get(&r.key)))
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(w) => w,
            Self::Symbol(s) => s,
            Self::End => "",
        }
    }
}

const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", ">", "<", "(", ")", ","];

fn lex(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\t', '\r', '\n']);
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.into_iter().find(|s| rest.starts_with(s)) {
            out.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let end = rest.find(|c: char| "=!><(), \t\r\n".contains(c)).unwrap_or(rest.len());
            out.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }
    out.push(Token::End);
    out
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Token {
        self.tokens.get(self.at).cloned().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut out = Vec::new();
        loop {
            match self.peek() {
                Token::Word(_) | Token::Symbol("!") => {
                    let requirement =
                        self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?;
                    out.push(requirement);
                    match self.next() {
                        Token::End => return Ok(out),
                        Token::Symbol(",") => match self.peek() {
                            Token::Word(_) | Token::Symbol("!") => {}
                            other => {
                                let found = other.text();
                                return Err(format!("found '{found}', expected: identifier after ','"));
                            }
                        },
                        other => {
                            let found = other.text();
                            return Err(format!("found '{found}', expected: ',' or 'end of string'"));
                        }
                    }
                }
                Token::End => return Ok(out),
                other => {
                    let found = other.text();
                    return Err(format!("found '{found}', expected: !, identifier, or 'end of string'"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek() == Token::Symbol("!");
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        if let Some(message) = names::qualified_name(&key).into_iter().next() {
            return Err(format!("<nil>: Invalid value: {key:?}: {message}"));
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            let operator = if negated { Operator::DoesNotExist } else { Operator::Exists };
            return Ok(Requirement { key, operator, values: Vec::new() });
        }
        if negated {
            return Err(format!("found '{}', expected: ',' or 'end of string'", self.peek().text()));
        }
        let (operator, several) = match self.next() {
            Token::Symbol("=" | "==") => (Operator::In, false),
            Token::Symbol("!=") => (Operator::NotIn, false),
            Token::Symbol(">") => (Operator::GreaterThan, false),
            Token::Symbol("<") => (Operator::LessThan, false),
            Token::Word(w) if w == "in" => (Operator::In, true),
            Token::Word(w) if w == "notin" => (Operator::NotIn, true),
            other => return Err(format!("found '{}', expected: {OPERATORS}", other.text())),
        };
        let mut values = if several { self.list()? } else { vec![self.exact()?] };
        values.sort();
        values.dedup();
        for (i, value) in values.iter().enumerate() {
            if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
                if value.parse::<i64>().is_err() {
                    return Err(format!(
                        "values[{i}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                    ));
                }
            } else if let Some(message) = names::label_value(value).into_iter().next() {
                return Err(format!("values[{i}][{key}]: Invalid value: {value:?}: {message}"));
            }
        }
        Ok(Requirement { key, operator, values })
    }

    fn exact(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(String::new()),
            Token::Word(word) => {
                self.next();
                Ok(word)
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn list(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut out = Vec::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    out.push(word);
                    match self.next() {
                        Token::Symbol(",") => {
                            if self.peek() == Token::Symbol(")") {
                                out.push(String::new());
                            }
                        }
                        Token::Symbol(")") => return Ok(out),
                        other => {
                            return Err(format!("found '{}', expected: ',' or ')'", other.text()));
                        }
                    }
                }
                Token::Symbol(")") => {
                    if out.is_empty() {
                        out.push(String::new());
                    }
                    return Ok(out);
                }
                Token::Symbol(",") => out.push(String::new()),
                other => {
                    return Err(format!("found '{}', expected: ',', ')' or identifier", other.text()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_match_as_written() {
        let labels = [("env", "dev"), ("n", "5"), ("empty", "")];
        let get = |key: &str| labels.iter().find(|l| l.0 == key).map(|l| l.1);
        for (text, want) in [
            ("env=dev", true),
            ("env==prod", false),
            ("env!=prod,n", true),
            ("env in (prod, dev)", true),
            ("env notin (dev)", false),
            ("none notin (a)", true),
            ("!none", true),
            ("n>4", true),
            ("n<5", false),
            ("empty=", true),
            ("", true),
            ("x.io/y", false),
        ] {
            let selector = LabelSelector::parse(text).expect(text);
            assert_eq!(selector.matches(&get), want, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, want) in [
            (
                "a within (b)",
                "unable to parse requirement: found 'within', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("a,", "found '', expected: identifier after ','"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            (",", "found ',', expected: !, identifier, or 'end of string'"),
        ] {
            assert_eq!(LabelSelector::parse(text).expect_err(text), want);
        }
        assert!(LabelSelector::parse("a=b_").expect_err("bad value").starts_with(
            "unable to parse requirement: values[0][a]: Invalid value: \"b_\": a valid label must"
        ));
    }
}
