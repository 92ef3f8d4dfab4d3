//! Values as Go's `%v` prints them, which some messages show.

use serde_json::Value;

/// The value as `fmt.Sprintf("%v")` prints the decoded JSON.
pub fn go_fmt(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(s) => s.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_fmt).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let items: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", go_fmt(v))).collect();
            format!("map[{}]", items.join(" "))
        }
        other => other.to_string(),
    }
}

/// The value as `fmt.Sprintf("%s")` prints it, which marks what is no text.
pub fn go_string(value: &Value) -> String {
    match value {
        Value::Null => "%!s(<nil>)".into(),
        Value::Bool(_) | Value::Number(_) => format!("%!s({}={value})", go_type(value)),
        Value::String(s) => s.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_string).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let items: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", go_string(v))).collect();
            format!("map[{}]", items.join(" "))
        }
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
