//! Paths to a field of a schema, as rules and selectable fields name one: `.spec.a['b c']`.

use serde_json::Value;

/// The schema at the end of a path and the path without quotes, or why there is none. `quoted` allows names in brackets.
pub(super) fn resolve<'s>(
    schema: &'s Value,
    path: &str,
    quoted: bool,
) -> Result<(&'s Value, String), String> {
    const NO_FIELD: &str = "does not refer to a valid field";
    let mut schema = schema;
    let mut rest = path;
    let mut plain = String::new();
    while !rest.is_empty() {
        let name = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            rest = &after[end..];
            &after[..end]
        } else if let Some(after) = rest.strip_prefix("['").filter(|_| quoted) {
            let end = after.find("']").ok_or_else(|| "unexpected end of JSON path".to_owned())?;
            rest = &after[end + 2..];
            &after[..end]
        } else if rest.starts_with('[') {
            return Err(NO_FIELD.into());
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        };
        schema = match (&schema["properties"][name], &schema["additionalProperties"]) {
            (property @ Value::Object(_), _) => property,
            (_, more @ Value::Object(_)) => more,
            _ => return Err(NO_FIELD.into()),
        };
        plain.push('.');
        plain.push_str(name);
    }
    Ok((schema, plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_fields() {
        let schema = json!({"properties": {"a": {"properties": {"b c": {"type": "string"}}}}});
        assert!(resolve(&schema, ".a['b c']", true).is_ok());
        assert_eq!(
            resolve(&schema, ".a['b c']", false).map(|_| ()),
            Err("does not refer to a valid field".into())
        );
        assert_eq!(resolve(&schema, "a", true).map(|_| ()), Err("expected [ or . but got: a".into()));
        assert!(resolve(&schema, ".z", true).is_err());
        assert!(resolve(&schema, ".a['b", true).is_err());
    }
}
