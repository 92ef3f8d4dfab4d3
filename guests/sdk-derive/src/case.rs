//! How names are written: serde's `rename_all`.

/// A way of writing names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Case {
    #[default]
    AsIs,
    Camel,
    Kebab,
    Lower,
}

impl Case {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "camelCase" => Self::Camel,
            "kebab-case" => Self::Kebab,
            "lowercase" => Self::Lower,
            _ => return None,
        })
    }

    /// Of `snake_case`.
    pub(crate) fn of_field(self, name: &str) -> String {
        match self {
            Self::AsIs | Self::Lower => name.to_owned(),
            Self::Kebab => name.replace('_', "-"),
            Self::Camel => {
                let mut words = name.split('_').filter(|word| !word.is_empty());
                let first = words.next().unwrap_or_default().to_owned();
                words.fold(first, |sum, word| sum + &word[..1].to_uppercase() + &word[1..])
            }
        }
    }

    /// Of `PascalCase`.
    pub(crate) fn of_variant(self, name: &str) -> String {
        match self {
            Self::AsIs => name.to_owned(),
            Self::Lower => name.to_lowercase(),
            Self::Camel => name[..1].to_lowercase() + &name[1..],
            Self::Kebab => {
                let mut written = String::new();
                for (at, letter) in name.char_indices() {
                    if at > 0 && letter.is_uppercase() {
                        written.push('-');
                    }
                    written.extend(letter.to_lowercase());
                }
                written
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_serde_writes_them() {
        for (case, field, variant) in [
            ("camelCase", "podIps", "runAsAny"),
            ("kebab-case", "pod-ips", "run-as-any"),
            ("lowercase", "pod_ips", "runasany"),
        ] {
            let case = Case::named(case).unwrap();
            assert_eq!(
                (case.of_field("pod_ips").as_str(), case.of_variant("RunAsAny").as_str()),
                (field, variant)
            );
        }
        assert_eq!(Case::named("UPPERCASE"), None);
        assert_eq!(Case::AsIs.of_field("pod_ips"), "pod_ips");
    }
}
