//! Which controllers run: the `--controllers` flag, as kube-controller-manager
//! reads it. `*` is all, `name` is that one, `-name` is all but that one; a
//! name said outright wins over `*`. Aliases count as names.
//!
//! A module may have an option `controllers` of its own: its default is read
//! after what the operator says. So a module whose default is `-name` runs only
//! where it is named.

use crate::contract::Manifest;

/// Name of the flag, and of the option.
pub const FLAG: &str = "controllers";

/// Which controllers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(Vec<String>);

fn words(value: &str) -> impl Iterator<Item = String> {
    value.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned)
}

impl Default for Selection {
    fn default() -> Self {
        Self(vec!["*".into()])
    }
}

impl std::fmt::Display for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

impl Selection {
    /// Reads the value of the flag. An empty one means all.
    pub fn parse(value: &str) -> Self {
        let parts: Vec<String> = words(value).collect();
        if parts.is_empty() { Self::default() } else { Self(parts) }
    }

    /// Whether a controller of this name and these aliases runs.
    pub fn selects(&self, name: &str, aliases: &[String]) -> bool {
        let is_called = |word: &str| word == name || aliases.iter().any(|alias| alias == word);
        for part in &self.0 {
            if is_called(part) {
                return true;
            }
            if part.strip_prefix('-').is_some_and(is_called) {
                return false;
            }
        }
        self.0.iter().any(|part| part == "*")
    }

    /// Whether a module runs.
    pub fn selects_module(&self, manifest: &Manifest) -> bool {
        let own = manifest.options.iter().find(|option| option.name == FLAG);
        let own = words(own.map_or("", |option| &option.default));
        Self(self.0.iter().cloned().chain(own).collect()).selects(&manifest.name, &manifest.aliases)
    }

    /// Whether the flag says `-name`.
    pub fn forbids(&self, name: &str) -> bool {
        self.0.iter().any(|part| part.strip_prefix('-') == Some(name))
    }

    /// Names in the flag that no module has.
    pub fn unknown<'a>(&'a self, known: &[String]) -> Vec<&'a str> {
        let words = self.0.iter().map(|part| part.strip_prefix('-').unwrap_or(part));
        words.filter(|word| *word != "*" && !known.iter().any(|name| name == word)).collect()
    }
}

/// The name that was probably meant.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // As alike as clap's own suggestions are.
    let alike = names.map(|one| (strsim::jaro(name, one), one)).filter(|(score, _)| *score > 0.8);
    alike.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, one)| one)
}

/// Says that no controller of a name runs, for people; `names` are those that do.
pub fn not_running(name: &str, names: &[&str]) -> String {
    match nearest(name, names.iter().copied()) {
        Some(near) => format!("no controller {name:?} runs; did you mean {near}?"),
        None => format!("no controller {name:?} runs; there are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{OptionKind, OptionSpec};

    #[test]
    fn selects_as_kube_controller_manager_does() {
        let aliases = vec!["web".to_owned()];
        let table = [
            ("*", true),
            ("", true),
            ("web-controller", true),
            ("web", true),
            ("other", false),
            ("*,-web", false),
            ("*,-web-controller", false),
            ("-other", false),
            ("*,-other", true),
            ("-web,web", false),
            ("web,-web", true),
        ];
        for (flag, selected) in table {
            assert_eq!(Selection::parse(flag).selects("web-controller", &aliases), selected, "{flag:?}");
        }
    }

    #[test]
    fn what_a_module_says_comes_after_the_operator() {
        let mut manifest = Manifest { aliases: vec!["web".into()], ..Manifest::blank("web-controller") };
        assert!(Selection::default().selects_module(&manifest));
        manifest.options.push(OptionSpec {
            name: FLAG.into(),
            kind: OptionKind::TextList,
            default: "-web-controller".into(),
            help: String::new(),
        });
        let table = [
            ("*", false),
            ("", false),
            ("*,web", true),
            ("web-controller", true),
            ("*,-other", false),
            ("other", false),
        ];
        for (flag, selected) in table {
            assert_eq!(Selection::parse(flag).selects_module(&manifest), selected, "{flag:?}");
        }
    }

    #[test]
    fn names_nobody_has_are_told() {
        let known = vec!["web".to_owned()];
        assert_eq!(Selection::parse("*,-web,foo,-bar").unknown(&known), ["foo", "bar"]);
    }
}
