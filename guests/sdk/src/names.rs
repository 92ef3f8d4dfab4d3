//! Names of objects.

/// Whether a text is an RFC 1123 subdomain, as most names must be.
pub fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label_of_any_length)
}

/// Whether a text is an RFC 1123 label, as names of services and namespaces
/// must be.
pub fn is_label(name: &str) -> bool {
    name.len() <= 63 && is_label_of_any_length(name)
}

fn is_label_of_any_length(label: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
}

/// The `generateName` of pods that `owner` makes: its name and a dash, unless
/// that would be no name any more.
pub fn pod_prefix(owner: &str) -> String {
    let prefix = format!("{owner}-");
    // What is generated replaces the dash at the end while a name is checked.
    let as_name = format!("{owner}a");
    if is_subdomain(&as_name) && prefix.len() <= 253 { prefix } else { owner.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_rfc_1123() {
        for (name, subdomain, label) in [
            ("web", true, true),
            ("web-1", true, true),
            ("web.example", true, false),
            ("", false, false),
            ("Web", false, false),
            ("-web", false, false),
            ("web-", false, false),
            ("web..x", false, false),
            ("web_x", false, false),
        ] {
            assert_eq!((is_subdomain(name), is_label(name)), (subdomain, label), "{name}");
        }
        assert!(is_label(&"a".repeat(63)) && !is_label(&"a".repeat(64)));
        assert!(is_subdomain(&"a".repeat(253)) && !is_subdomain(&"a".repeat(254)));
    }

    #[test]
    fn long_owners_give_no_dash() {
        assert_eq!(pod_prefix("web"), "web-");
        assert_eq!(pod_prefix(&"a".repeat(253)), "a".repeat(253));
    }
}
