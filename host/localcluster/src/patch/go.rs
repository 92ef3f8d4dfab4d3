//! Values as the verbs `%v` and `%s` of Go print them, and the names it has for their types: some messages show them.

use serde_json::Value;

/// The value as `fmt.Sprintf("%v")` prints the decoded JSON.
pub fn go_fmt(value: &Value) -> String {
    printed(value, &|leaf| if leaf.is_null() { "<nil>".into() } else { leaf.to_string() })
}

/// The value as `fmt.Sprintf("%s")` prints it, which marks what is no text.
pub fn go_string(value: &Value) -> String {
    printed(value, &|leaf| match leaf {
        Value::Null => "%!s(<nil>)".into(),
        _ => format!("%!s({}={leaf})", go_type(leaf)),
    })
}

/// Texts, lists and maps look alike for all verbs; `leaf` prints the rest.
fn printed(value: &Value, leaf: &dyn Fn(&Value) -> String) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| printed(item, leaf)).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let items: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", printed(v, leaf))).collect();
            format!("map[{}]", items.join(" "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => leaf(value),
    }
}

/// The Go type of decoded JSON.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The name of the JSON type in decoding errors.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A number as Go writes it: `2.0` is written as `2`.
pub fn go_number(number: &serde_json::Number) -> Value {
    /// From here on numbers are written with an exponent.
    const LARGE: f64 = 1e18;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < LARGE => {
            (float as i64).into()
        }
        _ => Value::Number(number.clone()),
    }
}
