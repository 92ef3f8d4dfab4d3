//! Label selectors: the API's object form, matching, and the string form.

use crate::meta::StringMap;
use crate::read::FromJson;
use crate::sort::{set_of, sort_by};

/// A label selector as objects carry it.
#[derive(Clone, Debug, Default, PartialEq, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must have exactly these values.
    pub match_labels: StringMap,
    /// Further requirements.
    pub match_expressions: Vec<Expression>,
}

/// A requirement as objects carry it.
#[derive(Clone, Debug, Default, PartialEq, FromJson)]
#[serde(default)]
pub struct Expression {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Values for `In` and `NotIn`.
    pub values: Vec<String>,
}

/// A selector ready to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    nothing: bool,
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl LabelSelector {
    /// The selector; the error says what is wrong with it.
    pub fn parse(&self) -> Result<Selector, String> {
        let mut selector = Selector::of_labels(&self.match_labels);
        for expression in &self.match_expressions {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            };
            let takes_values = matches!(operator, Operator::In | Operator::NotIn);
            if expression.key.is_empty() {
                return Err("a label selector requirement has no key".to_owned());
            }
            if takes_values == expression.values.is_empty() {
                let verb = if takes_values { "needs" } else { "takes no" };
                return Err(format!(
                    "operator {} on label {} {verb} values",
                    expression.operator, expression.key
                ));
            }
            let values = set_of(expression.values.iter().cloned()).into_iter().collect();
            selector.requirements.push(Requirement { key: expression.key.clone(), operator, values });
        }
        sort_by(&mut selector.requirements, |a, b| a.key.cmp(&b.key));
        Ok(selector)
    }
}

impl Selector {
    /// Matches everything.
    pub fn everything() -> Self {
        Self { nothing: false, requirements: Vec::new() }
    }

    /// Matches nothing, as an absent selector does.
    pub fn nothing() -> Self {
        Self { nothing: true, requirements: Vec::new() }
    }

    /// Matches whatever has all of these labels.
    pub fn of_labels(labels: &StringMap) -> Self {
        let equals = |(key, value): (&String, &String)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: vec![value.clone()],
        };
        Self { nothing: false, requirements: labels.iter().map(equals).collect() }
    }

    /// The selector of a field that may be absent.
    pub fn of(selector: Option<&LabelSelector>) -> Result<Self, String> {
        selector.map_or_else(|| Ok(Self::nothing()), LabelSelector::parse)
    }

    /// Whether it matches every object.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Whether it matches no object whatever its labels are.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// The API's string form, as `to_string` has it, but without a formatter: every
    /// query by labels needs it.
    pub(crate) fn text(&self) -> String {
        if self.nothing {
            return "nothing,!nothing".to_owned();
        }
        let mut text = String::new();
        let mut put = |parts: &[&str]| parts.iter().for_each(|part| text.push_str(part));
        for (i, Requirement { key, operator, values }) in self.requirements.iter().enumerate() {
            put(&[if i > 0 { "," } else { "" }]);
            match operator {
                Operator::Equals => put(&[key, "=", &values[0]]),
                Operator::In => put(&[key, " in (", &values.join(","), ")"]),
                Operator::NotIn => put(&[key, " notin (", &values.join(","), ")"]),
                Operator::Exists => put(&[key]),
                Operator::DoesNotExist => put(&["!", key]),
            }
        }
        text
    }

    /// Whether it asks for these labels, and for nothing else.
    pub fn is_of_labels(&self, labels: &StringMap) -> bool {
        let asked = self.requirements.iter().map(|requirement| match requirement {
            Requirement { key, operator: Operator::Equals, values } => Some((key, &values[0])),
            _ => None,
        });
        !self.nothing && asked.eq(labels.iter().map(Some))
    }

    /// Whether an object with these labels matches.
    pub fn matches(&self, labels: &StringMap) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(labels))
    }
}

/// Whether labels have all of these values: what a plain selector asks for.
pub fn has_all(labels: &StringMap, wanted: &StringMap) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

impl Requirement {
    fn matches(&self, labels: &StringMap) -> bool {
        let value = labels.get(&self.key);
        let listed = || value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            Operator::Equals | Operator::In => listed(),
            Operator::NotIn => !listed(),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

/// The API's string form, as in a query parameter. A selector that matches
/// nothing has none; ask [`Selector::is_nothing`] first. It is written as a
/// contradiction, so that forgetting to ask does no harm.
impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

/// Parses the API's string form.
impl std::str::FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            // A comma within parentheses is not the end of a requirement.
            let mut depth = 0;
            let end = rest.find(|c| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                c == ',' && depth == 0
            });
            let (part, tail) = end.map_or((rest, ""), |end| (&rest[..end], &rest[end + 1..]));
            requirements
                .push(Requirement::parse(part.trim()).ok_or_else(|| {
                    format!("cannot read the label selector {text:?} at {:?}", part.trim())
                })?);
            rest = tail.trim_start();
        }
        sort_by(&mut requirements, |a, b| a.key.cmp(&b.key));
        Ok(Self { nothing: false, requirements })
    }
}

impl Requirement {
    fn parse(part: &str) -> Option<Self> {
        let make = |key: &str, operator, values: &[&str]| {
            let key = key.trim();
            let plain = !key.is_empty() && !key.contains(|c: char| c.is_whitespace() || "()=!,".contains(c));
            let values = values.iter().map(|value| value.trim().to_owned()).collect();
            plain.then(|| Self { key: key.to_owned(), operator, values })
        };
        if let Some((head, list)) = part.strip_suffix(')').and_then(|part| part.split_once('(')) {
            let values: Vec<&str> = list.split(',').collect();
            let (key, word) = head.trim().rsplit_once(char::is_whitespace)?;
            return match word {
                "in" => make(key, Operator::In, &values),
                "notin" => make(key, Operator::NotIn, &values),
                _ => None,
            };
        }
        if let Some((key, value)) = part.split_once("!=") {
            return make(key, Operator::NotIn, &[value]);
        }
        if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            return make(key, Operator::Equals, &[value]);
        }
        match part.strip_prefix('!') {
            Some(key) => make(key, Operator::DoesNotExist, &[]),
            None => make(part, Operator::Exists, &[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> StringMap {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn selector(json: serde_json::Value) -> Result<Selector, String> {
        serde_json::from_value::<LabelSelector>(json).unwrap().parse()
    }

    #[test]
    fn selectors_match_and_print() {
        let all = selector(json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "zone", "operator": "Exists"},
                {"key": "env", "operator": "NotIn", "values": ["dev"]},
            ],
        }))
        .unwrap();
        assert_eq!(all.to_string(), "app=web,env notin (dev),!old,tier in (a,b),zone");
        assert!(all.matches(&labels(&[("app", "web"), ("tier", "a"), ("zone", "1")])));
        assert!(all.matches(&labels(&[("app", "web"), ("tier", "b"), ("zone", ""), ("env", "prod")])));
        for missing in [
            labels(&[("tier", "a"), ("zone", "1")]),
            labels(&[("app", "web"), ("tier", "c"), ("zone", "1")]),
            labels(&[("app", "web"), ("tier", "a")]),
            labels(&[("app", "web"), ("tier", "a"), ("zone", "1"), ("old", "")]),
            labels(&[("app", "web"), ("tier", "a"), ("zone", "1"), ("env", "dev")]),
        ] {
            assert!(!all.matches(&missing), "{missing:?}");
        }
    }

    #[test]
    fn the_string_form_reads_back() {
        for text in ["", "app=web,env notin (dev),!old,tier in (a,b),zone", "nothing,!nothing"] {
            let selector: Selector = text.parse().unwrap();
            assert_eq!(selector.to_string(), text);
        }
        let loose: Selector = " b == x , a != y,c in ( p , q )".parse().unwrap();
        assert_eq!(loose.to_string(), "a notin (y),b=x,c in (p,q)");
        assert!(!"nothing,!nothing".parse::<Selector>().unwrap().matches(&labels(&[("nothing", "")])));
        for bad in [",", "a,,b", "a in b", "a(b)", "=x", "a b", "!"] {
            assert!(bad.parse::<Selector>().is_err(), "{bad}");
        }
    }

    #[test]
    fn absent_matches_nothing_and_empty_everything() {
        assert!(!Selector::of(None).unwrap().matches(&labels(&[("a", "b")])));
        assert!(!Selector::nothing().matches(&StringMap::new()));
        assert!(Selector::of(Some(&LabelSelector::default())).unwrap().matches(&StringMap::new()));
        assert!(Selector::everything().is_everything() && !Selector::nothing().is_everything());
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for bad in [
            json!({"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
            json!({"matchExpressions": [{"key": "", "operator": "Exists"}]}),
        ] {
            assert!(selector(bad.clone()).is_err(), "{bad}");
        }
    }
}
