//! Checks of the policies of a job: when its pods count as failed, and when it has succeeded.

use serde_json::{Value, json};

use super::meta::{invalid_all, non_negative};
use super::names;
use super::value::{int, items, text};
use crate::status::{FieldError, FieldReason};

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// A field without a value in its message.
fn unvalued(field: String, detail: &str) -> FieldError {
    FieldError::raw(FieldReason::Invalid, field, format!("Invalid value: {detail}"))
}

fn chosen(out: &mut Vec<FieldError>, field: String, value: &str, known: &[&str]) {
    if value.is_empty() {
        let shown: Vec<String> = known.iter().map(|k| format!("{k:?}")).collect();
        out.push(FieldError::required(field, &format!("valid values: [{}]", shown.join(" "))));
    } else if !known.contains(&value) {
        out.push(FieldError::not_supported(field, &json!(value), known));
    }
}

/// `podFailurePolicy` of the job spec at `path`.
pub(super) fn failure(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let rules = items(&spec["podFailurePolicy"], "rules");
    let path = format!("{path}.podFailurePolicy.rules");
    if rules.len() > MAX_RULES {
        out.push(FieldError::too_many(&path, rules.len(), MAX_RULES));
    }
    for (i, rule) in rules.iter().enumerate() {
        let here = format!("{path}[{i}]");
        if text(rule, "action") == "FailIndex" {
            if spec["backoffLimitPerIndex"].is_null() {
                let detail = "requires the backoffLimitPerIndex to be set";
                out.push(FieldError::invalid(format!("{here}.action"), &json!("FailIndex"), detail));
            }
        } else {
            let known = ["Count", "FailIndex", "FailJob", "Ignore"];
            chosen(out, format!("{here}.action"), text(rule, "action"), &known);
        }
        let (codes, conditions) = (&rule["onExitCodes"], items(rule, "onPodConditions"));
        if !codes.is_null() {
            exit_codes(out, codes, &format!("{here}.onExitCodes"), spec);
        }
        for (j, pattern) in conditions.iter().enumerate() {
            let field = format!("{here}.onPodConditions[{j}]");
            let ty = text(pattern, "type");
            invalid_all(out, &format!("{field}.type"), &json!(ty), names::qualified_name(ty));
            chosen(out, format!("{field}.status"), text(pattern, "status"), &["False", "True", "Unknown"]);
        }
        match (codes.is_null(), conditions.is_empty()) {
            (false, false) => {
                out.push(unvalued(here, "specifying both OnExitCodes and OnPodConditions is not supported"));
            }
            (true, true) => {
                out.push(unvalued(here, "specifying one of OnExitCodes and OnPodConditions is required"));
            }
            _ => {}
        }
    }
}

fn exit_codes(out: &mut Vec<FieldError>, codes: &Value, path: &str, spec: &Value) {
    let operator = text(codes, "operator");
    chosen(out, format!("{path}.operator"), operator, &["In", "NotIn"]);
    if let Some(name) = codes["containerName"].as_str() {
        let pod = &spec["template"]["spec"];
        let known = items(pod, "containers").iter().chain(items(pod, "initContainers"));
        if !known.into_iter().any(|c| text(c, "name") == name) {
            let detail = "must be one of the container or initContainer names in the pod template";
            out.push(FieldError::invalid(format!("{path}.containerName"), &json!(name), detail));
        }
    }
    let values = items(codes, "values");
    let field = format!("{path}.values");
    if values.is_empty() {
        out.push(FieldError::invalid(&field, &json!([]), "at least one value is required"));
    } else if values.len() > MAX_EXIT_CODES {
        out.push(FieldError::too_many(&field, values.len(), MAX_EXIT_CODES));
    }
    for (j, value) in values.iter().enumerate() {
        let at = format!("{field}[{j}]");
        if operator == "In" && *value == 0 {
            out.push(FieldError::invalid(&at, value, "must not be 0 for the In operator"));
        }
        if values[..j].contains(value) {
            out.push(FieldError::duplicate(&at, value));
        }
    }
    if values.windows(2).any(|pair| pair[0].as_i64() > pair[1].as_i64()) {
        out.push(FieldError::invalid(&field, &json!(values), "must be ordered"));
    }
}

/// `successPolicy` of the spec of an indexed job at `path`.
pub(super) fn success(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let rules = items(&spec["successPolicy"], "rules");
    let path = format!("{path}.successPolicy.rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        out.push(FieldError::required(&path, detail));
    }
    if rules.len() > MAX_RULES {
        out.push(FieldError::too_many(&path, rules.len(), MAX_RULES));
    }
    let completions = int(spec, "completions");
    for (i, rule) in rules.iter().enumerate() {
        let here = format!("{path}[{i}]");
        let (count, indexes) = (&rule["succeededCount"], rule["succeededIndexes"].as_str());
        if count.is_null() && indexes.is_none() {
            let detail = "at least one of succeededCount or succeededIndexes must be specified";
            out.push(FieldError::required(&here, detail));
        }
        let mut total = 0;
        if let Some(indexes) = indexes {
            match index_count(indexes, completions) {
                Ok(count) => total = count,
                Err(error) => {
                    let detail = format!("error parsing succeededIndexes: {error}");
                    let field = format!("{here}.succeededIndexes");
                    out.push(FieldError::invalid(field, &json!(indexes), &detail));
                }
            }
        }
        let Some(number) = count.as_i64() else { continue };
        let field = format!("{here}.succeededCount");
        non_negative(out, &field, number);
        if number > completions {
            let detail =
                format!("must be less than or equal to {completions} (the number of specified completions)");
            out.push(FieldError::invalid(&field, count, &detail));
        }
        if indexes.is_some() && number > total {
            let detail = format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            );
            out.push(FieldError::invalid(&field, count, &detail));
        }
    }
}

/// How many indexes a text as `0-2,4` names.
fn index_count(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let mut total = 0;
    let mut last: Option<i64> = None;
    for interval in text.split(',') {
        let limits: Vec<&str> = interval.split('-').collect();
        if limits.len() > 2 {
            return Err(format!(
                "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
        let number = |text: &str, what: &str| {
            let n: i64 =
                text.parse().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
            if n >= completions { Err(format!("too large {what}: {text:?}")) } else { Ok(n) }
        };
        let from = number(limits[0], "index")?;
        if last.is_some_and(|last| from <= last) {
            return Err(format!(
                "non-increasing order, previous: {}, current: {from}",
                last.unwrap_or_default()
            ));
        }
        let to = match limits.get(1) {
            None => from,
            Some(end) => {
                let to = number(end, "index")?;
                if from >= to {
                    return Err(format!("non-increasing order, previous: {from}, current: {to}"));
                }
                to
            }
        };
        total += to - from + 1;
        last = Some(to);
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted() {
        assert_eq!(index_count("0-2,4", 5), Ok(4));
        assert_eq!(index_count("", 5), Ok(0));
        for bad in ["0-9", "x", "2,1", "3-1", "0-1-2"] {
            assert!(index_count(bad, 5).is_err(), "{bad}");
        }
    }
}
