//! `sign` lookups: signatures by keys that only the host holds.
//!
//! In: the name of a key and what is to be signed. Out: JSON, which is one
//! string: a certificate in PEM, or a JSON web token. Invariant: a module never
//! sees a key, and what is signed is what it asked for, word for word; the host
//! adds only what belongs to the key.
//!
//! A key named `NAME` is in the file that the flag `--NAME-key-file` names, and
//! the certificate that goes with it in that of `--NAME-cert-file`. So the host
//! knows no controller: a module that declares the lookup `sign(NAME)` brings
//! the flags with it.
//!
//! **A certificate** is asked for as an object (see [`Certificate`]):
//!
//! ```json
//! {
//!   "request": "-----BEGIN CERTIFICATE REQUEST-----\n...",
//!   "subject": {"organization": ["a"], "commonName": "b"},
//!   "dnsNames": ["example.com"], "ipAddresses": ["192.0.2.1"],
//!   "emailAddresses": [], "uris": [],
//!   "notBefore": "2026-01-01T00:00:00Z", "notAfter": "2027-01-01T00:00:00Z",
//!   "keyUsage": ["digitalSignature"], "extendedKeyUsage": ["1.3.6.1.5.5.7.3.2"]
//! }
//! ```
//!
//! Of the request (PKCS #10, PEM) the host takes the public key, once its
//! signature shows that whoever made it holds the private one. The names are
//! the module's: what it checked is what is signed. The host chooses the serial
//! number, names the issuer, and ends the certificate no later than the
//! issuer's. It never makes a certificate that may sign others.
//!
//! **A token** is asked for as an object of claims, which are signed in exactly
//! these bytes. The header names the algorithm and the key (`kid`: the SHA-256
//! of the public key, as Kubernetes has it).
//!
//! Failures: `Invalid`, it is the question that is wrong; `NotFound`, no such
//! key was given; `ServiceUnavailable`, the key cannot be used at present.

mod certificate;
mod files;
mod key;
mod request;
#[cfg(test)]
mod tests;
mod token;

pub use certificate::{Certificate, Subject};
pub use files::{KeyFiles, contradictions, flags};

use crate::contract::{Failure, SignWhat};

/// Keys that only the host holds.
pub trait SigningKeys: Send + Sync {
    /// Signs with the key of this name. The answer is JSON. May read files.
    fn sign(&self, key: &str, what: &SignWhat) -> Result<String, Failure>;
}

/// No key at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSigningKeys;

impl SigningKeys for NoSigningKeys {
    fn sign(&self, key: &str, _what: &SignWhat) -> Result<String, Failure> {
        Err(super::refused("NotFound", format!("no signing key named {key:?} is configured")))
    }
}

/// The question is wrong.
fn invalid(message: impl Into<String>) -> Failure {
    super::refused("Invalid", message)
}

/// The key cannot be used at present.
fn unavailable(message: impl Into<String>) -> Failure {
    super::refused("ServiceUnavailable", message)
}
