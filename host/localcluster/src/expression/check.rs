//! What is wrong with an expression before it is ever evaluated: names that are not there, operands that do not go
//! together, a result that is not the one wanted.
//!
//! In: a parsed expression and its variables. Out: what type it has, or the mistakes in the words of the real server.
//! Invariant: what is not known to be wrong is let through; the types of fields are known where a schema declares them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo};

/// The type of an expression, as far as it is told by its text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Not known here; the real server may know.
    Unknown,
    /// Known to be anything.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    Duration,
    List(Box<Kind>),
    Map(Box<Kind>, Box<Kind>),
    Record(Arc<Record>),
}

/// A type with fields, which are all that it has.
#[derive(Debug, PartialEq)]
pub(crate) struct Record {
    /// What messages call it.
    pub name: String,
    /// Its fields.
    pub fields: BTreeMap<String, Kind>,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown | Self::Dyn => "dyn",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "timestamp",
            Self::Duration => "duration",
            Self::List(item) => return write!(f, "list({item})"),
            Self::Map(key, value) => return write!(f, "map({key}, {value})"),
            Self::Record(record) => return f.write_str(&record.name),
        })
    }
}

impl Kind {
    fn is_open(&self) -> bool {
        matches!(self, Self::Unknown | Self::Dyn)
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    /// Whether a value of one may be one of the other.
    fn fits(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b)) => a.fits(b),
            (Self::Map(a, b), Self::Map(c, d)) => a.fits(c) && b.fits(d),
            // Whether something may be null is not known here.
            (a, b) => a.is_open() || b.is_open() || *a == Self::Null || *b == Self::Null || a == b,
        }
    }

    fn joined(self, other: &Self) -> Self {
        if self == *other { self } else { Self::Dyn }
    }
}

/// Functions with what they come to; of those without it is not known.
const FUNCTIONS: &[(&str, Option<Kind>)] = &[
    ("size", Some(Kind::Int)),
    ("int", Some(Kind::Int)),
    ("uint", Some(Kind::Uint)),
    ("double", Some(Kind::Double)),
    ("string", Some(Kind::Text)),
    ("bytes", Some(Kind::Bytes)),
    ("bool", Some(Kind::Bool)),
    ("timestamp", Some(Kind::Timestamp)),
    ("duration", Some(Kind::Duration)),
    ("type", None),
    ("dyn", Some(Kind::Dyn)),
    ("matches", Some(Kind::Bool)),
    ("contains", Some(Kind::Bool)),
    ("startsWith", Some(Kind::Bool)),
    ("endsWith", Some(Kind::Bool)),
    ("getDate", Some(Kind::Int)),
    ("getDayOfMonth", Some(Kind::Int)),
    ("getDayOfWeek", Some(Kind::Int)),
    ("getDayOfYear", Some(Kind::Int)),
    ("getFullYear", Some(Kind::Int)),
    ("getHours", Some(Kind::Int)),
    ("getMilliseconds", Some(Kind::Int)),
    ("getMinutes", Some(Kind::Int)),
    ("getMonth", Some(Kind::Int)),
    ("getSeconds", Some(Kind::Int)),
    ("charAt", Some(Kind::Text)),
    ("format", Some(Kind::Text)),
    ("indexOf", Some(Kind::Int)),
    ("lastIndexOf", Some(Kind::Int)),
    ("join", Some(Kind::Text)),
    ("lowerAscii", Some(Kind::Text)),
    ("upperAscii", Some(Kind::Text)),
    ("quote", Some(Kind::Text)),
    ("strings.quote", Some(Kind::Text)),
    ("replace", Some(Kind::Text)),
    ("split", None),
    ("substring", Some(Kind::Text)),
    ("trim", Some(Kind::Text)),
    ("reverse", None),
    ("isSorted", Some(Kind::Bool)),
    ("sum", None),
    ("min", None),
    ("max", None),
    ("find", Some(Kind::Text)),
    ("findAll", None),
    ("url", None),
    ("isURL", Some(Kind::Bool)),
    ("getScheme", Some(Kind::Text)),
    ("getHost", Some(Kind::Text)),
    ("getHostname", Some(Kind::Text)),
    ("getPort", Some(Kind::Text)),
    ("getEscapedPath", Some(Kind::Text)),
    ("getQuery", None),
    ("quantity", None),
    ("isQuantity", Some(Kind::Bool)),
    ("isInteger", Some(Kind::Bool)),
    ("asInteger", Some(Kind::Int)),
    ("asApproximateFloat", Some(Kind::Double)),
    ("sign", Some(Kind::Int)),
    ("add", None),
    ("sub", None),
    ("isLessThan", Some(Kind::Bool)),
    ("isGreaterThan", Some(Kind::Bool)),
    ("compareTo", Some(Kind::Int)),
    ("ip", None),
    ("isIP", Some(Kind::Bool)),
    ("ip.isCanonical", Some(Kind::Bool)),
    ("family", Some(Kind::Int)),
    ("isUnspecified", Some(Kind::Bool)),
    ("isLoopback", Some(Kind::Bool)),
    ("isLinkLocalMulticast", Some(Kind::Bool)),
    ("isLinkLocalUnicast", Some(Kind::Bool)),
    ("isGlobalUnicast", Some(Kind::Bool)),
    ("cidr", None),
    ("isCIDR", Some(Kind::Bool)),
    ("containsIP", Some(Kind::Bool)),
    ("containsCIDR", Some(Kind::Bool)),
    ("masked", None),
    ("prefixLength", Some(Kind::Int)),
    ("semver", None),
    ("isSemver", Some(Kind::Bool)),
    ("major", Some(Kind::Int)),
    ("minor", Some(Kind::Int)),
    ("patch", Some(Kind::Int)),
    ("sets.contains", Some(Kind::Bool)),
    ("sets.equivalent", Some(Kind::Bool)),
    ("sets.intersects", Some(Kind::Bool)),
    ("format.named", None),
    ("validate", None),
    ("optional.of", None),
    ("optional.none", None),
    ("optional.ofNonZeroValue", None),
    ("hasValue", Some(Kind::Bool)),
    ("value", None),
    ("or", None),
    ("orValue", None),
    ("optMap", None),
    ("optFlatMap", None),
    ("flatten", None),
    ("distinct", None),
    ("slice", None),
    ("sort", None),
    ("sortBy", None),
    ("lists.range", None),
    ("lists.@sortByAssociatedKeys", None),
    ("@sortByAssociatedKeys", None),
    ("transformList", None),
    ("transformMap", None),
    ("transformMapEntry", None),
    // Of the authorizer.
    ("path", None),
    ("group", None),
    ("serviceAccount", None),
    ("resource", None),
    ("subresource", None),
    ("namespace", None),
    ("name", None),
    ("check", None),
    ("fieldSelector", None),
    ("labelSelector", None),
    ("allowed", Some(Kind::Bool)),
    ("reason", Some(Kind::Text)),
    ("errored", Some(Kind::Bool)),
    ("error", Some(Kind::Text)),
];

/// Names of types and messages, which expressions may use as values.
const TYPES: &[&str] = &[
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "google",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "timestamp",
    "type",
    "uint",
    "net",
    "kubernetes",
    "optional_type",
    "Object",
    "JSONPatch",
];

/// The type of an expression whose variables are `variables`.
pub(super) fn check(program: &cel::Program, variables: &[(&str, Kind)]) -> Result<Kind, String> {
    let scope = variables.iter().map(|(name, kind)| ((*name).to_owned(), kind.clone())).collect();
    let mut checker = Checker { source: program.source_info(), scope, mistakes: Vec::new() };
    let kind = checker.kind(program.expression());
    if checker.mistakes.is_empty() {
        return Ok(kind);
    }
    checker.mistakes.sort();
    checker.mistakes.dedup();
    let lines: Vec<String> = checker.mistakes.iter().map(|(at, what)| checker.shown(*at, what)).collect();
    Err(lines.join("\n"))
}

struct Checker<'p> {
    source: &'p SourceInfo,
    scope: Vec<(String, Kind)>,
    mistakes: Vec<(usize, String)>,
}

impl Checker<'_> {
    fn shown(&self, at: usize, what: &str) -> String {
        let text = &self.source.source;
        let at = at.min(text.len());
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let (line, column) = (text[..at].matches('\n').count() + 1, text[start..at].chars().count() + 1);
        let shown = text[start..].lines().next().unwrap_or("");
        let dots = ".".repeat(column - 1);
        format!("ERROR: <input>:{line}:{column}: {what}\n | {shown}\n | {dots}^")
    }

    fn mistake(&mut self, id: u64, what: String) {
        let at = self.source.offset_for(id).map_or(0, |(start, _)| start as usize);
        self.mistakes.push((at, what));
    }

    fn undeclared(&mut self, id: u64, name: &str) -> Kind {
        self.mistake(id, format!("undeclared reference to '{name}' (in container '')"));
        Kind::Unknown
    }

    fn no_overload(&mut self, id: u64, function: &str, of: &[&Kind]) -> Kind {
        let of: Vec<String> = of.iter().map(ToString::to_string).collect();
        self.mistake(
            id,
            format!("found no matching overload for '{function}' applied to '({})'", of.join(", ")),
        );
        Kind::Unknown
    }

    fn known(&self, name: &str) -> Option<Kind> {
        self.scope.iter().rev().find(|(known, _)| known == name).map(|(_, kind)| kind.clone())
    }

    fn kind(&mut self, expression: &IdedExpr) -> Kind {
        match &expression.expr {
            Expr::Unspecified => Kind::Unknown,
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Kind::Bool,
                LiteralValue::Bytes(_) => Kind::Bytes,
                LiteralValue::Double(_) => Kind::Double,
                LiteralValue::Int(_) => Kind::Int,
                LiteralValue::Null => Kind::Null,
                LiteralValue::String(_) => Kind::Text,
                LiteralValue::UInt(_) => Kind::Uint,
            },
            Expr::Ident(name) => match self.known(name.trim_start_matches('.')) {
                Some(kind) => kind,
                None if TYPES.contains(&name.as_str()) => Kind::Unknown,
                None => self.undeclared(expression.id, name),
            },
            Expr::Select(select) => {
                let of = self.kind(&select.operand);
                match of {
                    Kind::Record(record) if !record.fields.contains_key(&select.field) => {
                        self.mistake(expression.id, format!("undefined field '{}'", select.field));
                        Kind::Unknown
                    }
                    _ if select.test => Kind::Bool,
                    Kind::Record(record) => record.fields[&select.field].clone(),
                    Kind::Dyn => Kind::Dyn,
                    Kind::Map(_, value) => *value,
                    Kind::Unknown => Kind::Unknown,
                    of => {
                        self.mistake(expression.id, format!("type '{of}' does not support field selection"));
                        Kind::Unknown
                    }
                }
            }
            Expr::List(list) => {
                let kinds: Vec<Kind> = list.elements.iter().map(|item| self.kind(item)).collect();
                let item = kinds.into_iter().reduce(|a, b| a.joined(&b));
                Kind::List(Box::new(item.unwrap_or(Kind::Unknown)))
            }
            Expr::Map(map) => {
                let mut keys = Vec::new();
                let mut values = Vec::new();
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        keys.push(self.kind(&entry.key));
                        values.push(self.kind(&entry.value));
                    }
                }
                let one = |kinds: Vec<Kind>| {
                    Box::new(kinds.into_iter().reduce(|a, b| a.joined(&b)).unwrap_or(Kind::Unknown))
                };
                Kind::Map(one(keys), one(values))
            }
            Expr::Struct(made) => {
                for entry in &made.entries {
                    if let EntryExpr::StructField(field) = &entry.expr {
                        self.kind(&field.value);
                    }
                }
                Kind::Unknown
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => self.call(expression.id, call),
        }
    }

    fn comprehension(&mut self, of: &ComprehensionExpr) -> Kind {
        let range = self.kind(&of.iter_range);
        let (first, second) = match range {
            ref other @ (Kind::Record(_)
            | Kind::Bool
            | Kind::Int
            | Kind::Uint
            | Kind::Double
            | Kind::Text
            | Kind::Bytes
            | Kind::Timestamp
            | Kind::Duration) => {
                self.mistake(
                    of.iter_range.id,
                    format!("expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"),
                );
                (Kind::Unknown, Kind::Unknown)
            }
            Kind::List(item) if of.iter_var2.is_none() => (*item, Kind::Unknown),
            Kind::List(item) => (Kind::Int, *item),
            Kind::Map(key, value) => (*key, *value),
            Kind::Dyn => (Kind::Dyn, Kind::Dyn),
            _ => (Kind::Unknown, Kind::Unknown),
        };
        let before = self.scope.len();
        let start = self.kind(&of.accu_init);
        self.scope.push((of.accu_var.clone(), start));
        self.scope.push((of.iter_var.clone(), first));
        if let Some(name) = &of.iter_var2 {
            self.scope.push((name.clone(), second));
        }
        self.kind(&of.loop_cond);
        let step = self.kind(&of.loop_step);
        self.scope.truncate(before);
        self.scope.push((of.accu_var.clone(), step));
        let result = self.kind(&of.result);
        self.scope.truncate(before);
        result
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Kind {
        let name = call.func_name.as_str();
        if let Some(target) = &call.target {
            // A function with a dot in its name.
            if let Expr::Ident(space) = &target.expr {
                let whole = format!("{space}.{name}");
                let is_format = space == "format" && self.known("format").is_none();
                if let Some((_, kind)) = FUNCTIONS.iter().find(|(known, _)| *known == whole) {
                    call.args.iter().for_each(|arg| drop(self.kind(arg)));
                    return kind.clone().unwrap_or(Kind::Unknown);
                }
                if is_format {
                    return Kind::Unknown;
                }
            }
            let receiver = self.kind(target);
            if matches!(receiver, Kind::Bool | Kind::Int | Kind::Uint | Kind::Double | Kind::Record(_)) {
                let of: Vec<String> = call.args.iter().map(|arg| self.kind(arg).to_string()).collect();
                if !FUNCTIONS.iter().any(|(known, _)| *known == name) {
                    return self.undeclared(id, name);
                }
                // Nothing can be asked of a number, a truth value or a structure.
                let what = format!(
                    "found no matching overload for '{name}' applied to '{receiver}.({})'",
                    of.join(", ")
                );
                self.mistake(id, what);
                return Kind::Unknown;
            }
        }
        let of: Vec<Kind> = call.args.iter().map(|arg| self.kind(arg)).collect();
        if matches!(name, "_&&_" | "_||_") {
            for (arg, kind) in
                call.args.iter().zip(&of).filter(|(_, kind)| !kind.is_open() && **kind != Kind::Bool)
            {
                self.mistake(arg.id, format!("expected type 'bool' but found '{kind}'"));
            }
            return Kind::Bool;
        }
        if call.target.is_none() {
            if let Some(kind) = self.operator(id, name, &of) {
                return kind;
            }
        }
        match FUNCTIONS.iter().find(|(known, _)| *known == name) {
            Some((_, kind)) => kind.clone().unwrap_or(Kind::Unknown),
            None => self.undeclared(id, name),
        }
    }

    /// What an operator comes to; None for what is none.
    fn operator(&mut self, id: u64, name: &str, of: &[Kind]) -> Option<Kind> {
        let all = || of.iter().collect::<Vec<&Kind>>();
        let is_bool = |kind: &Kind| kind.is_open() || *kind == Kind::Bool;
        Some(match (name, of) {
            ("size", [Kind::Bool | Kind::Int | Kind::Uint | Kind::Double | Kind::Record(_)]) => {
                self.no_overload(id, name, &all())
            }
            ("!_", [a]) if is_bool(a) => Kind::Bool,
            ("@in", [item, Kind::List(of)]) if !item.fits(of) => self.no_overload(id, name, &all()),
            ("@in", [key, Kind::Map(of, _)]) if !key.fits(of) => self.no_overload(id, name, &all()),
            ("@not_strictly_false", [_]) | ("@in", [_, _]) => Kind::Bool,
            ("_==_" | "_!=_", [a, b]) if a.fits(b) => Kind::Bool,
            ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) if a.fits(b) || (a.is_number() && b.is_number()) => {
                Kind::Bool
            }
            ("_?_:_", [condition, a, b]) if is_bool(condition) && a.fits(b) => {
                if a == b {
                    a.clone()
                } else {
                    Kind::Unknown
                }
            }
            ("_[_]", [Kind::List(item), _]) => (**item).clone(),
            ("_[_]", [Kind::Map(_, value), _]) => (**value).clone(),
            ("_[_]", [Kind::Dyn, _]) => Kind::Dyn,
            ("_[_]" | "_[?_]" | "_?._", _) => Kind::Unknown,
            ("-_", [a]) if a.is_open() || matches!(a, Kind::Int | Kind::Double) => a.clone(),
            ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [a, b]) if a.is_open() || b.is_open() => {
                if *a == Kind::Dyn && *b == Kind::Dyn { Kind::Dyn } else { Kind::Unknown }
            }
            ("_+_" | "_-_", [Kind::Timestamp, Kind::Duration])
            | ("_+_", [Kind::Duration, Kind::Timestamp]) => Kind::Timestamp,
            ("_-_", [Kind::Timestamp, Kind::Timestamp]) => Kind::Duration,
            ("_+_" | "_-_", [Kind::Duration, Kind::Duration]) => Kind::Duration,
            ("_+_", [Kind::Text, Kind::Text]) => Kind::Text,
            ("_+_", [Kind::Bytes, Kind::Bytes]) => Kind::Bytes,
            ("_+_", [Kind::List(a), Kind::List(b)]) => Kind::List(Box::new((**a).clone().joined(b))),
            ("_%_", [Kind::Double, Kind::Double]) => self.no_overload(id, name, &all()),
            ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [a, b]) if a == b && a.is_number() => a.clone(),
            _ if name.starts_with(['_', '!', '-', '@']) => self.no_overload(id, name, &all()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::mistake;

    #[test]
    fn mistakes_are_found_where_they_are() {
        let variables = [("object", Kind::Dyn), ("n", Kind::Int)];
        for (text, want) in [
            ("object.a == 1 && n < 3", ""),
            ("object.l.all(x, x.size() > 1) || [1, 2].exists(y, y == n)", ""),
            ("has(object.a) ? object.a == 'x' : true", ""),
            ("object.l.map(x, x + 1).size() > 0", ""),
            ("timestamp('2024-01-01T00:00:00Z') + duration('1h') > timestamp(object.t)", ""),
            ("format.dns1123Label().validate('a').hasValue() && sets.contains([1], [1])", ""),
            (
                "object.a == other.b",
                "compilation failed: ERROR: <input>:1:13: undeclared reference to 'other' (in container '')\n | object.a == other.b\n | ............^",
            ),
            (
                "n == 'x'",
                "compilation failed: ERROR: <input>:1:3: found no matching overload for '_==_' applied to '(int, string)'\n | n == 'x'\n | ..^",
            ),
            ("1", "must evaluate to bool but got int"),
            ("object.a", "must evaluate to bool but got dyn"),
            ("['a']", "must evaluate to bool but got list(string)"),
        ] {
            let found = mistake(text, &variables, &[Kind::Bool]);
            assert_eq!(found.unwrap_or_default(), want, "{text}");
        }
    }
}
