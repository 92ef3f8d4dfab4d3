//! Functions of Kubernetes that the common extensions do not have: of lists, sets, text and quantities.

use std::cmp::Ordering;
use std::sync::Arc;

use cel::common::types::{LIST_TYPE, STRING_TYPE, Type};
use cel::common::value::{CowVal, Val};
use cel::extractors::This;
use cel::objects::Opaque;
use cel::{Context, DeclarationError, Env, ExecutionError, Value};
use regex::Regex;

use super::{addresses, formats, versions};
use crate::schema::quantity::{BAD_QUANTITY, Quantity};

pub(super) type Answer = Result<Value, ExecutionError>;

#[derive(Debug)]
struct Amount(Quantity);

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Amount {}

impl Opaque for Amount {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.Quantity"
    }
}

/// Makes the functions known.
pub(super) fn add(context: &mut Context<'_, '_>) {
    let mut added = vec![
        context.add_function("isSorted", |This(list): This<Value>| sorted(&list)),
        context.add_function("sum", |This(list): This<Value>| sum(&list)),
        context.add_function("min", |This(list): This<Value>| extreme(&list, Ordering::Less)),
        context.add_function("max", |This(list): This<Value>| extreme(&list, Ordering::Greater)),
        context.add_function("find", |This(text): This<Arc<String>>, pattern: Arc<String>| {
            find(&text, &pattern)
        }),
        context.add_function("findAll", |This(text): This<Arc<String>>, pattern: Arc<String>| {
            let found = regex(&pattern)?;
            let all = found.find_iter(&text).map(|m| Value::String(Arc::new(m.as_str().to_owned())));
            Ok::<_, ExecutionError>(Value::List(Arc::new(all.collect())))
        }),
        context.add_function("quantity", |text: Arc<String>| match Quantity::parse(&text) {
            Some(quantity) => Ok(amount(quantity)),
            None => Err(ExecutionError::function_error("quantity", BAD_QUANTITY)),
        }),
        context.add_function("isQuantity", |text: Arc<String>| Quantity::parse(&text).is_some()),
        context.add_function("isLessThan", |This(a): This<Value>, b: Value| {
            compare(&a, &b).map(|order| Value::Bool(order == Ordering::Less))
        }),
        context.add_function("isGreaterThan", |This(a): This<Value>, b: Value| {
            compare(&a, &b).map(|order| Value::Bool(order == Ordering::Greater))
        }),
        context.add_function("compareTo", |This(a): This<Value>, b: Value| {
            compare(&a, &b).map(|order| Value::Int(order as i64))
        }),
        context.add_function("add", |This(a): This<Value>, b: Value| {
            Ok::<_, ExecutionError>(amount(quantity_of(&a)?.plus(addend(&b)?)))
        }),
        context.add_function("sub", |This(a): This<Value>, b: Value| {
            Ok::<_, ExecutionError>(amount(quantity_of(&a)?.minus(addend(&b)?)))
        }),
        context.add_function("isInteger", |This(a): This<Value>| {
            quantity_of(&a).map(|quantity| Value::Bool(quantity.is_whole()))
        }),
        context.add_function("asInteger", |This(a): This<Value>| {
            quantity_of(&a).and_then(|quantity| match quantity.is_whole() {
                true => Ok(Value::Int(quantity.value())),
                false => Err(ExecutionError::function_error("asInteger", "cannot convert value to integer")),
            })
        }),
        context.add_function("asApproximateFloat", |This(a): This<Value>| {
            quantity_of(&a).map(|quantity| Value::Float(quantity.milli_value() as f64 / 1000.0))
        }),
        context.add_function("sign", |This(a): This<Value>| {
            let zero = amount(Quantity::ZERO);
            compare(&a, &zero).map(|order| Value::Int(order as i64))
        }),
    ];
    added.extend(addresses::add(context));
    added.extend(versions::add(context));
    added.extend(formats::add(context));
    for error in added.into_iter().filter_map(Result::err) {
        tracing::error!(%error, "a function of the expression language is not to be had");
    }
}

/// Adds what is called by a name with dots, and further ways to make a text.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    let lists = || vec![LIST_TYPE.to_owned(), LIST_TYPE.to_owned()];
    env.add_overload("sets.contains", "list_sets_contains_list", lists(), |args| {
        sets(&args, |a, b| b.iter().all(|item| a.contains(item)))
    })?;
    env.add_overload("sets.equivalent", "list_sets_equivalent_list", lists(), |args| {
        sets(&args, |a, b| a.iter().all(|item| b.contains(item)) && b.iter().all(|item| a.contains(item)))
    })?;
    env.add_overload("sets.intersects", "list_sets_intersects_list", lists(), |args| {
        sets(&args, |a, b| a.iter().any(|item| b.contains(item)))
    })?;
    env.add_overload(
        "ip.isCanonical",
        "ip_is_canonical",
        vec![STRING_TYPE.to_owned()],
        |args| match values(&args)?.as_slice() {
            [Value::String(text)] => to_val(Value::Bool(addresses::is_canonical_ip(text)?)),
            _ => Err(no_overload("ip.isCanonical")),
        },
    )?;
    for (id, name) in [("ip_to_string", "net.IP"), ("cidr_to_string", "net.CIDR")] {
        env.add_overload("string", id, vec![Type::new_opaque_type(name)], |args| {
            let text = values(&args)?.first().and_then(addresses::text_of);
            to_val(string(text.ok_or_else(|| no_overload("string"))?))
        })?;
    }
    formats::declare(env)
}

pub(super) fn no_overload(function: &str) -> ExecutionError {
    ExecutionError::function_error(function, "no such overload")
}

pub(super) fn string(text: impl Into<String>) -> Value {
    Value::String(Arc::new(text.into()))
}

pub(super) fn to_val<'b, 'v>(value: Value) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value: Box<dyn Val> = value.try_into()?;
    Ok(CowVal::Owned(value))
}

fn values(args: &[CowVal<'_, '_>]) -> Result<Vec<Value>, ExecutionError> {
    args.iter().map(|arg| Value::try_from(arg.as_ref())).collect()
}

fn sets<'b, 'v>(
    args: &[CowVal<'_, '_>],
    holds: fn(&[Value], &[Value]) -> bool,
) -> Result<CowVal<'b, 'v>, ExecutionError> {
    match values(args)?.as_slice() {
        [Value::List(a), Value::List(b)] => to_val(Value::Bool(holds(a, b))),
        _ => Err(no_overload("sets")),
    }
}

fn amount(quantity: Quantity) -> Value {
    Value::Opaque(Arc::new(Amount(quantity)))
}

fn quantity_of(value: &Value) -> Result<Quantity, ExecutionError> {
    match value {
        Value::Opaque(value) => value.downcast_ref::<Amount>().map(|amount| amount.0),
        _ => None,
    }
    .ok_or_else(|| no_overload("quantity"))
}

/// A quantity or a whole number.
fn addend(value: &Value) -> Result<Quantity, ExecutionError> {
    match value {
        Value::Int(whole) => Ok(Quantity::whole(*whole)),
        other => quantity_of(other),
    }
}

/// The order of two quantities or two versions.
fn compare(a: &Value, b: &Value) -> Result<Ordering, ExecutionError> {
    if let (Some(a), Some(b)) = (versions::of(a), versions::of(b)) {
        return Ok(a.order(b));
    }
    let (a, b) = (quantity_of(a)?, quantity_of(b)?);
    Ok(a.partial_cmp(&b).unwrap_or(Ordering::Equal))
}

fn items(list: &Value) -> Result<&[Value], ExecutionError> {
    match list {
        Value::List(list) => Ok(list),
        _ => Err(no_overload("list")),
    }
}

fn order(a: &Value, b: &Value) -> Result<Ordering, ExecutionError> {
    a.partial_cmp(b).ok_or_else(|| no_overload("list"))
}

fn sorted(list: &Value) -> Answer {
    for pair in items(list)?.windows(2) {
        if order(&pair[0], &pair[1])? == Ordering::Greater {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum(list: &Value) -> Answer {
    items(list)?.iter().try_fold(Value::Int(0), |sum, item| match (sum, item) {
        (Value::Int(a), Value::Int(b)) => a
            .checked_add(*b)
            .map(Value::Int)
            .ok_or_else(|| ExecutionError::function_error("sum", "integer overflow")),
        (Value::Int(0), Value::Float(b)) => Ok(Value::Float(*b)),
        (Value::Float(a), Value::Float(b)) => Ok(Value::Float(a + b)),
        _ => Err(ExecutionError::function_error("sum", "no such overload")),
    })
}

fn extreme(list: &Value, wanted: Ordering) -> Answer {
    let name = if wanted == Ordering::Less { "min" } else { "max" };
    let mut items = items(list)?.iter();
    let first = items.next();
    let first =
        first.ok_or_else(|| ExecutionError::function_error(name, format!("{name} called on empty list")))?;
    let found = items.try_fold(first, |best, item| {
        order(item, best).map(|order| if order == wanted { item } else { best })
    });
    found.cloned()
}

fn regex(pattern: &str) -> Result<Regex, ExecutionError> {
    Regex::new(pattern)
        .map_err(|error| ExecutionError::function_error("find", format!("Illegal regex: {error}")))
}

fn find(text: &str, pattern: &str) -> Answer {
    let found = regex(pattern)?;
    let first = found.find(text).map_or("", |m| m.as_str());
    Ok(Value::String(Arc::new(first.to_owned())))
}
