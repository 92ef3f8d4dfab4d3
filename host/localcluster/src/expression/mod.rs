//! Expressions in the Common Expression Language about objects.
//!
//! In: the text of an expression, and variables as JSON. Out: what it comes to, or why it comes to nothing, in the words
//! of the real server.

mod addresses;
mod check;
mod formats;
mod functions;
mod versions;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::{Context, Env, ExecutionError, Program};
use serde_json::Value;

pub(crate) use check::{Kind, Record};

/// The standard library and what Kubernetes adds of the common extensions.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    for extension in [cel::extensions::strings, cel::extensions::lists, functions::declare] {
        if let Err(error) = env.add_extension(extension) {
            tracing::error!(%error, "an extension of the expression language is not to be had");
        }
    }
    Arc::new(env)
});

/// A parsed expression.
pub(crate) struct Expression {
    text: String,
    program: Result<Program, String>,
}

/// Variables of an expression.
pub(crate) struct Variables(Vec<(String, cel::Value)>);

impl Variables {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn with(mut self, name: &str, value: &Value) -> Self {
        self.set(name, of_json(value));
        self
    }

    pub(crate) fn with_value(mut self, name: &str, value: cel::Value) -> Self {
        self.set(name, value);
        self
    }

    pub(crate) fn set(&mut self, name: &str, value: cel::Value) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, present)) => *present = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }
}

impl Expression {
    pub(crate) fn parse(text: &str) -> Self {
        let program = compile(text);
        Self { text: text.to_owned(), program }
    }

    /// As it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn evaluate(&self, variables: &Variables) -> Result<cel::Value, String> {
        let program = self.program.as_ref().map_err(Clone::clone)?;
        let mut context = Context::with_env(ENVIRONMENT.clone());
        functions::add(&mut context);
        for (name, value) in &variables.0 {
            context.add_variable_from_value(name.as_str(), value.clone());
        }
        program.execute(&context).map_err(|error| words(&error))
    }

    /// What it comes to, if that is a truth value.
    pub(crate) fn holds(&self, variables: &Variables) -> Result<bool, String> {
        match self.evaluate(variables)? {
            cel::Value::Bool(holds) => Ok(holds),
            _ => Err("cel expression must evaluate to a bool".to_owned()),
        }
    }
}

fn compile(text: &str) -> Result<Program, String> {
    // The lines that show where a mistake is stand a space further in.
    let said = |error: cel::ParseErrors| error.to_string().replace("\n| ", "\n | ");
    ENVIRONMENT.compile(text).map_err(|error| format!("compilation failed: {}", said(error)))
}

/// What an expression of these variables comes to, or what is wrong with it.
pub(crate) fn kind_of(text: &str, variables: &[(&str, Kind)]) -> Result<Kind, String> {
    let program = compile(text)?;
    check::check(&program, variables).map_err(|error| format!("compilation failed: {error}"))
}

/// What is wrong with an expression of these variables as it is written, if anything. Of `wanted` types it is to be one.
pub(crate) fn mistake(text: &str, variables: &[(&str, Kind)], wanted: &[Kind]) -> Option<String> {
    let found = match kind_of(text, variables) {
        Ok(found) => found,
        Err(error) => return Some(error),
    };
    if wanted.is_empty() || found == Kind::Unknown || wanted.contains(&found) {
        return None;
    }
    Some(match wanted {
        [one] => format!("must evaluate to {one} but got {found}"),
        several => {
            let several: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!("must evaluate to one of [{}] but got {found}", several.join(" "))
        }
    })
}

fn words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::IndexOutOfBounds(cel::Value::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        ExecutionError::NoSuchOverload(_) => "no such overload".to_owned(),
        other => other.to_string(),
    }
}

/// A point in time (RFC 3339), as expressions have them.
pub(crate) fn timestamp(text: &str) -> Option<cel::Value> {
    static MADE: LazyLock<Expression> = LazyLock::new(|| Expression::parse("timestamp(text)"));
    MADE.evaluate(&Variables::new().with("text", &text.into())).ok()
}

/// A length of time, as expressions have them.
pub(crate) fn duration(text: &str) -> Option<cel::Value> {
    static MADE: LazyLock<Expression> = LazyLock::new(|| Expression::parse("duration(text)"));
    MADE.evaluate(&Variables::new().with("text", &text.into())).ok()
}

/// JSON as expressions see it: whole numbers are signed.
pub(crate) fn of_json(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => cel::Value::Int(whole),
            (None, float) => cel::Value::Float(float.unwrap_or(f64::NAN)),
        },
        Value::String(text) => cel::Value::String(Arc::new(text.clone())),
        Value::Array(list) => cel::Value::List(Arc::new(list.iter().map(of_json).collect())),
        Value::Object(map) => {
            let entries: HashMap<String, cel::Value> =
                map.iter().map(|(key, value)| (key.clone(), of_json(value))).collect();
            entries.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn expressions_hold_or_say_why_not() {
        let variables = Variables::new()
            .with("object", &json!({"a": 7, "s": "Ab", "l": ["x", "y"], "n": 2.5}))
            .with("oldObject", &Value::Null);
        for (text, want) in [
            ("object.a == 7 && object.n < 3.0 && object.a < 10", Ok(true)),
            ("oldObject == null", Ok(true)),
            ("object.l.all(x, x.size() == 1)", Ok(true)),
            ("object.s.lowerAscii() == 'ab' && 'x' in object.l", Ok(true)),
            ("has(object.z)", Ok(false)),
            ("object.z == 1", Err("no such key: z")),
            ("object.l[5] == 'x'", Err("index out of bounds: 5")),
            ("object.a / 0 == 1", Err("division by zero")),
            ("object.a % 0 == 1", Err("modulus by zero")),
            ("object.l.isSorted() && ['b', 'a'].isSorted() == false", Ok(true)),
            ("[1, 3, 2].sum() == 6 && [1, 3, 2].max() == 3 && [1, 3, 2].min() == 1", Ok(true)),
            ("'abc123'.find('[0-9]+') == '123' && '1a2'.findAll('[0-9]') == ['1', '2']", Ok(true)),
            ("quantity('1Gi') == quantity('1024Mi') && quantity('1').isLessThan(quantity('2'))", Ok(true)),
            ("quantity('1').add(quantity('1500m')).compareTo(quantity('2500m')) == 0", Ok(true)),
            ("quantity('2k').asInteger() == 2000 && isQuantity('x') == false", Ok(true)),
            ("quantity('zz').isInteger()", Err(crate::schema::quantity::BAD_QUANTITY)),
            ("object.a", Err("cel expression must evaluate to a bool")),
        ] {
            let found = Expression::parse(text).holds(&variables);
            assert_eq!(found, want.map_err(str::to_owned), "{text}");
        }
    }
}
