//! Keys from files, read again whenever their content changes.
//!
//! Invariant: a pair of files that cannot be used never replaces one that can:
//! while certificate and key are exchanged one after the other, the old pair
//! goes on. Each thing that is wrong is said once.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{SigningKeys, certificate, key::Identity, token, unavailable};
use crate::{
    clock::SharedClock,
    contract::{Failure, LookupRule, Manifest, SignWhat},
    entropy::Entropy,
};

/// Names of the flags of a key: its own file, and that of its certificate.
pub fn flags(key: &str) -> [String; 2] {
    [format!("{key}-key-file"), format!("{key}-cert-file")]
}

/// What contradicts itself in the flags of a module's keys: one file of a pair
/// where the module needs both, or a key for everything (`NAME`) beside one for
/// something (`NAME-…`), of which nobody could tell which counts. A module says
/// that it needs a pair by having both flags as options.
pub fn contradictions(manifest: &Manifest, given: impl Fn(&str) -> bool) -> Vec<String> {
    let declared = manifest.lookups.iter().filter_map(|rule| match rule {
        LookupRule::Sign(key) => Some(key.as_str()),
        _ => None,
    });
    let declared: Vec<&str> = declared.collect();
    let has_option = |name: &String| manifest.options.iter().any(|option| option.name == *name);
    let any = |key: &str| flags(key).iter().any(|flag| given(flag));
    let mut found = Vec::new();
    for key in &declared {
        let [private, certificate] = flags(key);
        let pair = has_option(&private) && has_option(&certificate);
        match (given(&private), given(&certificate)) {
            (true, false) if pair => found.push(format!("--{private} is given without --{certificate}")),
            (false, true) => found.push(format!("--{certificate} is given without --{private}")),
            _ => {}
        }
        let part_of = |other: &&&str| other.strip_prefix(*key).is_some_and(|rest| rest.starts_with('-'));
        if any(key)
            && let Some(part) = declared.iter().filter(part_of).find(|part| any(part))
        {
            found.push(format!(
                "cannot specify --{key}-{{cert,key}}-file and --{part}-{{cert,key}}-file at the same time"
            ));
        }
    }
    found
}

/// The keys that flags name.
pub struct KeyFiles {
    given: BTreeMap<String, String>,
    clock: SharedClock,
    entropy: Entropy,
    known: Mutex<HashMap<String, Known>>,
}

/// What is known of a key.
#[derive(Default)]
struct Known {
    /// Content of its files when last looked at.
    content: Content,
    /// The last pair that could be used.
    identity: Option<Arc<Identity>>,
    /// What is wrong with the files at present.
    trouble: Option<String>,
}

/// Content of the files of a key. The certificate's is none where no flag names
/// it.
#[derive(Clone, Default, PartialEq, Eq)]
struct Content {
    key: Vec<u8>,
    certificate: Option<Vec<u8>>,
}

impl KeyFiles {
    /// Keys in the files that these flags name.
    pub fn new(given: BTreeMap<String, String>, clock: SharedClock, entropy: Entropy) -> Self {
        Self { given, clock, entropy, known: Mutex::default() }
    }

    /// Reads the files of a key, if a flag names them, so that what is wrong with
    /// them is said when a module that needs them comes, and not when somebody
    /// waits for a signature.
    pub fn check(&self, key: &str) {
        if flags(key).iter().any(|flag| self.path(flag).is_some()) {
            // What is wrong has been logged.
            let _ = self.identity(key);
        }
    }

    /// What is wrong with the files of a key, if a flag names any.
    pub fn trouble(&self, key: &str) -> Option<String> {
        self.check(key);
        self.known.lock().get(key)?.trouble.clone()
    }

    /// What is wrong with the files of a module's keys, where flags name some.
    pub fn troubles(&self, manifest: &Manifest) -> Vec<String> {
        let keys = manifest.lookups.iter().filter_map(|rule| match rule {
            LookupRule::Sign(key) => Some(key),
            _ => None,
        });
        keys.filter_map(|key| self.trouble(key)).collect()
    }

    fn path(&self, flag: &str) -> Option<&str> {
        self.given.get(flag).map(String::as_str).filter(|path| !path.is_empty())
    }

    fn identity(&self, name: &str) -> Result<Arc<Identity>, Failure> {
        let [key_flag, certificate_flag] = flags(name);
        let Some(key_path) = self.path(&key_flag) else {
            if self.path(&certificate_flag).is_some() {
                let trouble = format!("--{certificate_flag} is given without --{key_flag}");
                self.known.lock().entry(name.to_owned()).or_default().note(name, trouble);
            }
            return Err(super::super::refused(
                "NotFound",
                format!("no signing key named {name:?} is configured; name its file with --{key_flag}"),
            ));
        };
        let certificate_path = self.path(&certificate_flag);
        let content = read(&key_flag, key_path).and_then(|key| {
            let certificate = certificate_path.map(|path| read(&certificate_flag, path)).transpose()?;
            Ok(Content { key, certificate })
        });
        let mut all = self.known.lock();
        let known = all.entry(name.to_owned()).or_default();
        let content = match content {
            Ok(content) if content == known.content => return known.answer(),
            Ok(content) => content,
            Err(trouble) => {
                known.content = Content::default();
                known.note(name, trouble);
                return known.answer();
            }
        };
        let made = Identity::load(&content.key, content.certificate.as_deref());
        known.content = content;
        match made {
            Ok(identity) => {
                if known.identity.is_some() || known.trouble.is_some() {
                    tracing::info!(key = name, "the signing key was read again");
                }
                known.identity = Some(Arc::new(identity));
                known.trouble = None;
            }
            Err(trouble) => {
                let at = match (trouble.in_certificate, certificate_path) {
                    (true, Some(path)) => format!("--{certificate_flag}={path}"),
                    _ => format!("--{key_flag}={key_path}"),
                };
                known.note(name, format!("{at}: {}", trouble.reason));
            }
        }
        known.answer()
    }
}

impl Known {
    fn note(&mut self, name: &str, trouble: String) {
        if self.trouble.as_ref() == Some(&trouble) {
            return;
        }
        match &self.identity {
            Some(_) => tracing::warn!(key = name, "{trouble}; the key read before goes on"),
            None => tracing::error!(key = name, "nothing can be signed: {trouble}"),
        }
        self.trouble = Some(trouble);
    }

    fn answer(&self) -> Result<Arc<Identity>, Failure> {
        match (&self.identity, &self.trouble) {
            (Some(identity), _) => Ok(identity.clone()),
            (None, trouble) => Err(unavailable(trouble.as_deref().unwrap_or("there is no key"))),
        }
    }
}

impl SigningKeys for KeyFiles {
    fn sign(&self, key: &str, what: &SignWhat) -> Result<String, Failure> {
        let identity = self.identity(key)?;
        let signed = match what {
            SignWhat::Certificate(text) => {
                certificate::sign(text, &identity, self.clock.now(), &self.entropy)?
            }
            SignWhat::Token(claims) => token::sign(claims, &identity)?,
        };
        Ok(serde_json::Value::String(signed).to_string())
    }
}

fn read(flag: &str, path: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("--{flag}: cannot read {path}: {error}"))
}
