//! Text to tree.

use serde_json::{Number, Value};

use super::ExprError;

/// A node of an expression.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A literal.
    Literal(Value),
    /// A name.
    Name(String),
    /// A list.
    List(Vec<Node>),
    /// A list made from another, or a generator.
    Comprehension(Box<Comprehension>),
    /// `a.b`
    Field(Box<Node>, String),
    /// `a[b]`
    Index(Box<Node>, Box<Node>),
    /// `f(a)`; of `x.f(a)` the function is a [`Node::Field`].
    Call(Box<Node>, Vec<Node>),
    /// `not a`
    Not(Box<Node>),
    /// `-a`
    Negative(Box<Node>),
    /// `a and b`
    And(Box<Node>, Box<Node>),
    /// `a or b`
    Or(Box<Node>, Box<Node>),
    /// `a < b <= c`
    Compare(Box<Node>, Vec<(Comparison, Node)>),
    /// `a + b`
    Arithmetic(Box<Node>, Operator, Box<Node>),
    /// `a if b else c`: b, a, c.
    Choice(Box<Node>, Box<Node>, Box<Node>),
}

/// `item for names in source if conditions`
#[derive(Clone, Debug)]
pub(super) struct Comprehension {
    pub item: Node,
    pub names: Vec<String>,
    pub source: Node,
    pub conditions: Vec<Node>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Remainder,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    Number(Number),
    Sign(&'static str),
    End,
}

const SIGNS: [&str; 18] =
    ["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ",", ".", "+", "-", "*", "%", ":", "="];
/// Words that are not names.
const WORDS: [&str; 7] = ["and", "or", "not", "in", "for", "if", "else"];

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(usize, Token)>,
    next: usize,
}

/// Parses a whole text.
pub(super) fn parse(text: &str) -> Result<Node, ExprError> {
    let mut parser = Parser { text, tokens: tokens(text)?, next: 0 };
    let node = parser.choice()?;
    match parser.peek() {
        Token::End => Ok(node),
        _ => Err(parser.error("more than one expression")),
    }
}

fn error(text: &str, at: usize, reason: &str) -> ExprError {
    ExprError { text: text.into(), at, reason: reason.into() }
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, ExprError> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = |member: fn(char) -> bool| rest.find(|c| !member(c)).unwrap_or(rest.len());
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (token, size) = if first.is_alphabetic() || first == '_' {
            let size = length(|c| c.is_alphanumeric() || c == '_');
            (Token::Name(rest[..size].into()), size)
        } else if first.is_ascii_digit() {
            let size = length(|c| c.is_ascii_digit() || c == '.');
            let number = serde_json::from_str(&rest[..size]).map_err(|_| error(text, at, "not a number"))?;
            (Token::Number(number), size)
        } else if first == '\'' || first == '"' {
            quoted(rest).ok_or_else(|| error(text, at, "a quote is not closed"))?
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            (Token::Sign(sign), sign.len())
        } else {
            return Err(error(text, at, "unknown character"));
        };
        found.push((at, token));
        at += size;
    }
    found.push((at, Token::End));
    Ok(found)
}

/// A quoted text at the start, and its length with quotes.
fn quoted(rest: &str) -> Option<(Token, usize)> {
    let mut content = String::new();
    let mut chars = rest.char_indices();
    let (_, quote) = chars.next()?;
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next()?.1 {
                'n' => content.push('\n'),
                other => content.push(other),
            },
            c if c == quote => return Some((Token::Text(content), at + 1)),
            c => content.push(c),
        }
    }
    None
}

type Parsed = Result<Node, ExprError>;

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.next].1
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        if token != Token::End {
            self.next += 1;
        }
        token
    }

    fn error(&self, reason: &str) -> ExprError {
        error(self.text, self.tokens[self.next].0, reason)
    }

    fn sign(&mut self, sign: &str) -> bool {
        let there = matches!(self.peek(), Token::Sign(s) if *s == sign);
        self.next += usize::from(there);
        there
    }

    fn word(&mut self, word: &str) -> bool {
        let there = matches!(self.peek(), Token::Name(n) if n == word);
        self.next += usize::from(there);
        there
    }

    fn need(&mut self, sign: &str) -> Result<(), ExprError> {
        if self.sign(sign) { Ok(()) } else { Err(self.error(&format!("{sign:?} is missing"))) }
    }

    fn name(&mut self) -> Result<String, ExprError> {
        match self.peek() {
            Token::Name(name) if !WORDS.contains(&name.as_str()) => {
                let name = name.clone();
                self.next += 1;
                Ok(name)
            }
            _ => Err(self.error("a name is missing")),
        }
    }

    fn choice(&mut self) -> Parsed {
        let node = self.or()?;
        if !self.word("if") {
            return Ok(node);
        }
        let condition = self.or()?;
        if !self.word("else") {
            return Err(self.error("\"else\" is missing"));
        }
        let other = self.choice()?;
        Ok(Node::Choice(Box::new(condition), Box::new(node), Box::new(other)))
    }

    fn or(&mut self) -> Parsed {
        let mut node = self.and()?;
        while self.word("or") {
            node = Node::Or(Box::new(node), Box::new(self.and()?));
        }
        Ok(node)
    }

    fn and(&mut self) -> Parsed {
        let mut node = self.not()?;
        while self.word("and") {
            node = Node::And(Box::new(node), Box::new(self.not()?));
        }
        Ok(node)
    }

    fn not(&mut self) -> Parsed {
        if self.word("not") {
            return Ok(Node::Not(Box::new(self.not()?)));
        }
        let first = self.sum()?;
        let mut rest = Vec::new();
        while let Some(comparison) = self.comparison()? {
            rest.push((comparison, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { Node::Compare(Box::new(first), rest) })
    }

    fn comparison(&mut self) -> Result<Option<Comparison>, ExprError> {
        let found = match self.peek() {
            Token::Sign("==") => Comparison::Equal,
            Token::Sign("!=") => Comparison::Unequal,
            Token::Sign("<") => Comparison::Less,
            Token::Sign("<=") => Comparison::LessEqual,
            Token::Sign(">") => Comparison::Greater,
            Token::Sign(">=") => Comparison::GreaterEqual,
            Token::Name(word) if word == "in" => Comparison::In,
            Token::Name(word) if word == "not" => {
                self.next += 1;
                if !matches!(self.peek(), Token::Name(word) if word == "in") {
                    return Err(self.error("\"in\" is missing"));
                }
                Comparison::NotIn
            }
            _ => return Ok(None),
        };
        self.next += 1;
        Ok(Some(found))
    }

    fn sum(&mut self) -> Parsed {
        let mut node = self.product()?;
        loop {
            let operator = match self.peek() {
                Token::Sign("+") => Operator::Add,
                Token::Sign("-") => Operator::Subtract,
                _ => return Ok(node),
            };
            self.next += 1;
            node = Node::Arithmetic(Box::new(node), operator, Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Parsed {
        let mut node = self.unary()?;
        loop {
            let operator = match self.peek() {
                Token::Sign("*") => Operator::Multiply,
                Token::Sign("%") => Operator::Remainder,
                _ => return Ok(node),
            };
            self.next += 1;
            node = Node::Arithmetic(Box::new(node), operator, Box::new(self.unary()?));
        }
    }

    fn unary(&mut self) -> Parsed {
        if self.sign("-") {
            return Ok(Node::Negative(Box::new(self.unary()?)));
        }
        let mut node = self.atom()?;
        loop {
            if self.sign(".") {
                node = Node::Field(Box::new(node), self.name()?);
            } else if self.sign("[") {
                let index = self.choice()?;
                self.need("]")?;
                node = Node::Index(Box::new(node), Box::new(index));
            } else if self.sign("(") {
                let arguments = self.items(")")?;
                node = Node::Call(Box::new(node), arguments);
            } else {
                return Ok(node);
            }
        }
    }

    /// What follows an opening bracket, up to the closing one.
    fn items(&mut self, close: &str) -> Result<Vec<Node>, ExprError> {
        let mut items = Vec::new();
        while !self.sign(close) {
            let item = self.choice()?;
            if items.is_empty() && self.word("for") {
                items.push(self.comprehension(item)?);
                self.need(close)?;
                return Ok(items);
            }
            items.push(item);
            if !self.sign(",") {
                self.need(close)?;
                return Ok(items);
            }
        }
        Ok(items)
    }

    fn comprehension(&mut self, item: Node) -> Parsed {
        let mut names = vec![self.name()?];
        while self.sign(",") {
            names.push(self.name()?);
        }
        if !self.word("in") {
            return Err(self.error("\"in\" is missing"));
        }
        let source = self.or()?;
        let mut conditions = Vec::new();
        while self.word("if") {
            conditions.push(self.or()?);
        }
        Ok(Node::Comprehension(Box::new(Comprehension { item, names, source, conditions })))
    }

    fn atom(&mut self) -> Parsed {
        match self.take() {
            Token::Text(text) => Ok(Node::Literal(Value::String(text))),
            Token::Number(number) => Ok(Node::Literal(Value::Number(number))),
            Token::Sign("[") => {
                let mut items = self.items("]")?;
                Ok(match items.pop() {
                    Some(made @ Node::Comprehension(_)) if items.is_empty() => made,
                    last => Node::List(items.into_iter().chain(last).collect()),
                })
            }
            Token::Sign("(") => {
                let inner = self.choice()?;
                self.need(")")?;
                Ok(inner)
            }
            Token::Name(name) => Ok(match name.as_str() {
                "True" => Node::Literal(Value::Bool(true)),
                "False" => Node::Literal(Value::Bool(false)),
                "None" => Node::Literal(Value::Null),
                word if WORDS.contains(&word) => {
                    self.next -= 1;
                    return Err(self.error("a value is missing"));
                }
                _ => Node::Name(name),
            }),
            Token::Sign(_) => {
                self.next -= 1;
                Err(self.error("a value is missing"))
            }
            Token::End => Err(self.error("a value is missing")),
        }
    }
}
