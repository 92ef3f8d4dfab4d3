//! Tree and object to value.

use std::{borrow::Cow, cmp::Ordering};

use serde_json::{Value, json};

use super::parse::{Comparison, Comprehension, Node, Operator};
use crate::parity::object;

/// The operation makes no sense for these operands.
struct Senseless;

type Result<T> = std::result::Result<T, Senseless>;
type Val<'a> = Cow<'a, Value>;

/// Names bound by comprehensions around, innermost last.
type Scope<'s, 'a> = &'s mut Vec<(String, Val<'a>)>;

pub(super) fn holds(node: &Node, object: &Value) -> bool {
    matches!(eval(node, object, &mut Vec::new()), Ok(value) if truthy(&value))
}

/// Truth as Python has it.
pub fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(b) => *b,
        Value::Number(n) => n.as_f64() != Some(0.0),
        Value::String(s) => !s.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

fn eval<'a>(node: &Node, o: &'a Value, scope: Scope<'_, 'a>) -> Result<Val<'a>> {
    let own = |value: Value| Ok(Cow::Owned(value));
    match node {
        Node::Literal(value) => own(value.clone()),
        Node::Name(name) => named(name, o, scope),
        Node::List(items) => {
            let items: Result<Vec<Value>> =
                items.iter().map(|item| Ok(eval(item, o, scope)?.into_owned())).collect();
            own(Value::Array(items?))
        }
        Node::Comprehension(made) => own(Value::Array(comprehend(made, o, scope)?)),
        Node::Field(of, name) => Ok(field(eval(of, o, scope)?, name)),
        Node::Index(of, index) => {
            let index = eval(index, o, scope)?.into_owned();
            indexed(eval(of, o, scope)?, &index)
        }
        Node::Call(function, arguments) => call(function, arguments, o, scope),
        Node::Not(inner) => {
            let value = eval(inner, o, scope)?;
            own(Value::Bool(!truthy(&value)))
        }
        Node::Negative(inner) => {
            let value = eval(inner, o, scope)?;
            own(number(-numeric(&value)?))
        }
        Node::And(a, b) => {
            let first = eval(a, o, scope)?;
            if truthy(&first) { eval(b, o, scope) } else { Ok(first) }
        }
        Node::Or(a, b) => {
            let first = eval(a, o, scope)?;
            if truthy(&first) { Ok(first) } else { eval(b, o, scope) }
        }
        Node::Compare(first, rest) => {
            let mut left = eval(first, o, scope)?;
            for (comparison, node) in rest {
                let right = eval(node, o, scope)?;
                if !compare(*comparison, &left, &right)? {
                    return own(Value::Bool(false));
                }
                left = right;
            }
            own(Value::Bool(true))
        }
        Node::Arithmetic(a, operator, b) => {
            let (a, b) = (eval(a, o, scope)?, eval(b, o, scope)?);
            own(arithmetic(*operator, &a, &b)?)
        }
        Node::Choice(condition, yes, no) => {
            let condition = eval(condition, o, scope)?;
            eval(if truthy(&condition) { yes } else { no }, o, scope)
        }
    }
}

fn named<'a>(name: &str, o: &'a Value, scope: Scope<'_, 'a>) -> Result<Val<'a>> {
    if let Some((_, value)) = scope.iter().rev().find(|(bound, _)| bound == name) {
        return Ok(value.clone());
    }
    let flag = |b: bool| Ok(Cow::Owned(Value::Bool(b)));
    match name {
        "o" => Ok(Cow::Borrowed(o)),
        "metadata" | "spec" | "status" => Ok(field(Cow::Borrowed(o), name)),
        "ready" => flag(object::is_ready(o)),
        "terminal" => flag(object::is_terminal(o)),
        "deleting" => flag(object::is_deleting(o)),
        "current" => flag(object::is_current(o)),
        "finalizers" => Ok(field(Cow::Borrowed(&o["metadata"]), "finalizers")),
        _ => Err(Senseless),
    }
}

fn field<'a>(of: Val<'a>, name: &str) -> Val<'a> {
    match of {
        Cow::Borrowed(value) => value.get(name).map_or(Cow::Owned(Value::Null), Cow::Borrowed),
        Cow::Owned(mut value) => Cow::Owned(value.get_mut(name).map(Value::take).unwrap_or_default()),
    }
}

fn indexed<'a>(of: Val<'a>, index: &Value) -> Result<Val<'a>> {
    match (&*of, index) {
        (Value::Null, _) => Ok(Cow::Owned(Value::Null)),
        (Value::Object(_), Value::String(key)) => Ok(field(of, key)),
        (Value::Array(items), Value::Number(n)) => {
            let n = n.as_i64().ok_or(Senseless)?;
            let at = if n < 0 { n + items.len() as i64 } else { n };
            let at = usize::try_from(at).ok();
            Ok(match of {
                Cow::Borrowed(value) => {
                    at.and_then(|at| value.get(at)).map_or(Cow::Owned(Value::Null), Cow::Borrowed)
                }
                Cow::Owned(mut value) => {
                    Cow::Owned(at.and_then(|at| value.get_mut(at)).map(Value::take).unwrap_or_default())
                }
            })
        }
        _ => Err(Senseless),
    }
}

/// What a loop over a value goes through.
fn items(of: &Value) -> Result<Vec<Value>> {
    match of {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => Ok(items.clone()),
        Value::Object(fields) => Ok(fields.keys().map(|key| Value::String(key.clone())).collect()),
        Value::String(text) => Ok(text.chars().map(|c| Value::String(c.into())).collect()),
        _ => Err(Senseless),
    }
}

fn comprehend<'a>(made: &Comprehension, o: &'a Value, scope: Scope<'_, 'a>) -> Result<Vec<Value>> {
    let source = items(&*eval(&made.source, o, scope)?)?;
    let mut out = Vec::new();
    let depth = scope.len();
    for item in source {
        match made.names.as_slice() {
            [name] => scope.push((name.clone(), Cow::Owned(item))),
            names => {
                let parts = items(&item)?;
                if parts.len() != names.len() {
                    return Err(Senseless);
                }
                scope.extend(names.iter().cloned().zip(parts.into_iter().map(Cow::Owned)));
            }
        }
        let mut wanted = true;
        for condition in &made.conditions {
            wanted = wanted && truthy(&*eval(condition, o, scope)?);
        }
        if wanted {
            out.push(eval(&made.item, o, scope)?.into_owned());
        }
        scope.truncate(depth);
    }
    Ok(out)
}

fn call<'a>(function: &Node, arguments: &[Node], o: &'a Value, scope: Scope<'_, 'a>) -> Result<Val<'a>> {
    let values: Result<Vec<Value>> = arguments.iter().map(|a| Ok(eval(a, o, scope)?.into_owned())).collect();
    let values = values?;
    let result = match function {
        Node::Name(name) => plain(name, &values, o)?,
        Node::Field(of, name) => method(&*eval(of, o, scope)?, name, &values)?,
        _ => return Err(Senseless),
    };
    Ok(Cow::Owned(result))
}

fn plain(name: &str, arguments: &[Value], o: &Value) -> Result<Value> {
    let one = || arguments.first().ok_or(Senseless);
    let key = || one()?.as_str().ok_or(Senseless);
    let entry = |map: &Value| Ok(map[key()?].as_str().unwrap_or_default().into());
    // min(a, b) and min([a, b]) are the same.
    let choices = || match arguments {
        [list] => items(list),
        several => Ok(several.to_vec()),
    };
    let sorted = |mut list: Vec<Value>| -> Result<Vec<Value>> {
        // An order that fails for one pair fails for the list.
        for pair in list.windows(2) {
            order(&pair[0], &pair[1])?;
        }
        list.sort_by(|a, b| order(a, b).unwrap_or(Ordering::Equal));
        Ok(list)
    };
    Ok(match name {
        "cond" => object::condition(o, key()?, "status").into(),
        "reason" => object::condition(o, key()?, "reason").into(),
        "message" => object::condition(o, key()?, "message").into(),
        "ann" => entry(&o["metadata"]["annotations"])?,
        "label" => entry(&o["metadata"]["labels"])?,
        "len" => items(one()?)?.len().into(),
        "any" => items(one()?)?.iter().any(truthy).into(),
        "all" => items(one()?)?.iter().all(truthy).into(),
        "sum" => {
            let numbers: Result<Vec<f64>> = items(one()?)?.iter().map(numeric).collect();
            number(numbers?.into_iter().sum())
        }
        "int" => match one()? {
            Value::String(text) => text.trim().parse::<i64>().map_err(|_| Senseless)?.into(),
            value => number(numeric(value)?.trunc()),
        },
        "str" => match one()? {
            Value::String(text) => text.as_str().into(),
            Value::Null => "".into(),
            Value::Bool(b) => if *b { "True" } else { "False" }.into(),
            value => value.to_string().into(),
        },
        "abs" => number(numeric(one()?)?.abs()),
        "list" => items(one()?)?.into(),
        "sorted" => sorted(items(one()?)?)?.into(),
        // A set is compared with sets only: in order and without duplicates.
        "set" => {
            let mut list = sorted(items(one()?)?)?;
            list.dedup();
            list.into()
        }
        "min" => sorted(choices()?)?.into_iter().next().ok_or(Senseless)?,
        "max" => sorted(choices()?)?.into_iter().next_back().ok_or(Senseless)?,
        _ => return Err(Senseless),
    })
}

fn method(of: &Value, name: &str, arguments: &[Value]) -> Result<Value> {
    let text = |n: usize| arguments.get(n).and_then(Value::as_str);
    match of {
        // Whatever is asked of a missing field is missing.
        Value::Null => Ok(Value::Null),
        Value::String(own) => Ok(match (name, text(0)) {
            ("startswith", Some(start)) => own.starts_with(start).into(),
            ("endswith", Some(end)) => own.ends_with(end).into(),
            ("split", Some(by)) if !by.is_empty() => own.split(by).collect::<Vec<_>>().into(),
            ("split", None) => own.split_whitespace().collect::<Vec<_>>().into(),
            ("count", Some(part)) if !part.is_empty() => own.matches(part).count().into(),
            ("strip", None) => own.trim().into(),
            ("lower", None) => own.to_lowercase().into(),
            ("upper", None) => own.to_uppercase().into(),
            _ => return Err(Senseless),
        }),
        Value::Object(fields) => Ok(match name {
            "get" => match fields.get(text(0).ok_or(Senseless)?) {
                Some(found) => found.clone(),
                None => arguments.get(1).cloned().unwrap_or_default(),
            },
            "keys" => fields.keys().cloned().collect::<Vec<_>>().into(),
            "values" => fields.values().cloned().collect::<Vec<_>>().into(),
            "items" => fields.iter().map(|(k, v)| json!([k, v])).collect::<Vec<_>>().into(),
            _ => return Err(Senseless),
        }),
        Value::Array(list) if name == "count" => {
            Ok(list.iter().filter(|item| arguments.first().is_some_and(|a| equal(item, a))).count().into())
        }
        _ => Err(Senseless),
    }
}

fn numeric(value: &Value) -> Result<f64> {
    match value {
        Value::Null => Ok(0.0),
        Value::Bool(b) => Ok(f64::from(u8::from(*b))),
        Value::Number(n) => n.as_f64().ok_or(Senseless),
        _ => Err(Senseless),
    }
}

/// A number, whole if it can be.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}

fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, other) | (other, Value::Null) => !truthy(other),
        (Value::Bool(_) | Value::Number(_), Value::Bool(_) | Value::Number(_)) => {
            matches!((numeric(a), numeric(b)), (Ok(a), Ok(b)) if a == b)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        _ => a == b,
    }
}

fn order(a: &Value, b: &Value) -> Result<Ordering> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => Ok(a.cmp(b)),
        (Value::Array(a), Value::Array(b)) => {
            for (a, b) in a.iter().zip(b) {
                let first = order(a, b)?;
                if first != Ordering::Equal {
                    return Ok(first);
                }
            }
            Ok(a.len().cmp(&b.len()))
        }
        _ => numeric(a)?.partial_cmp(&numeric(b)?).ok_or(Senseless),
    }
}

fn compare(comparison: Comparison, a: &Value, b: &Value) -> Result<bool> {
    Ok(match comparison {
        Comparison::Equal => equal(a, b),
        Comparison::Unequal => !equal(a, b),
        Comparison::Less => order(a, b)?.is_lt(),
        Comparison::LessEqual => order(a, b)?.is_le(),
        Comparison::Greater => order(a, b)?.is_gt(),
        Comparison::GreaterEqual => order(a, b)?.is_ge(),
        Comparison::In => contains(b, a)?,
        Comparison::NotIn => !contains(b, a)?,
    })
}

fn contains(within: &Value, what: &Value) -> Result<bool> {
    match (within, what) {
        (Value::Null, _) => Ok(false),
        (Value::String(text), Value::String(part)) => Ok(text.contains(part.as_str())),
        (Value::Array(list), _) => Ok(list.iter().any(|item| equal(item, what))),
        (Value::Object(fields), Value::String(key)) => Ok(fields.contains_key(key)),
        _ => Err(Senseless),
    }
}

fn arithmetic(operator: Operator, a: &Value, b: &Value) -> Result<Value> {
    Ok(match (operator, a, b) {
        (Operator::Add, Value::String(a), Value::String(b)) => format!("{a}{b}").into(),
        (Operator::Add, Value::Array(a), Value::Array(b)) => {
            a.iter().chain(b).cloned().collect::<Vec<_>>().into()
        }
        (Operator::Add, ..) => number(numeric(a)? + numeric(b)?),
        (Operator::Subtract, ..) => number(numeric(a)? - numeric(b)?),
        (Operator::Multiply, ..) => number(numeric(a)? * numeric(b)?),
        (Operator::Remainder, ..) => {
            let by = numeric(b)?;
            if by == 0.0 {
                return Err(Senseless);
            }
            number(numeric(a)?.rem_euclid(by))
        }
    })
}
