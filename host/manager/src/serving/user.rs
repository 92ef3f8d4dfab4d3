//! Who asks.

use std::collections::BTreeMap;

use der::Decode;
use x509_cert::{Certificate, der::asn1::ObjectIdentifier};

/// Who sent a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// Name.
    pub name: String,
    /// Uid; often empty.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Anything else that was said of them.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Everybody who was recognised.
const AUTHENTICATED: &str = "system:authenticated";
/// Who may do anything, without being asked.
pub(super) const PRIVILEGED: &str = "system:masters";

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

impl User {
    /// Whoever says nothing about themselves.
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    /// With the group of all who were recognised.
    pub(super) fn authenticated(mut self) -> Self {
        if !self.groups.iter().any(|group| group == AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Whom a client certificate is about: the name is the common name, groups
    /// are organizations. None if it cannot be read or names nobody.
    pub(super) fn of_certificate(der: &[u8]) -> Option<Self> {
        let certificate = Certificate::from_der(der).ok()?;
        let subject = certificate.tbs_certificate().subject();
        let of = |oid: ObjectIdentifier| {
            let attributes = subject.iter().filter(move |attribute| attribute.oid == oid);
            attributes.filter_map(|attribute| text(&attribute.value))
        };
        let name = of(COMMON_NAME).last().filter(|name| !name.is_empty())?;
        Some(Self { name, groups: of(ORGANIZATION).collect(), ..Self::default() })
    }
}

/// A string of whichever kind ASN.1 has it.
fn text(value: &der::Any) -> Option<String> {
    use der::asn1::{Ia5StringRef, PrintableStringRef, TeletexStringRef, Utf8StringRef};
    let printable = value.decode_as::<PrintableStringRef<'_>>().map(|s| s.as_str().to_owned());
    let utf8 = || value.decode_as::<Utf8StringRef<'_>>().map(|s| s.as_str().to_owned());
    let ia5 = || value.decode_as::<Ia5StringRef<'_>>().map(|s| s.as_str().to_owned());
    let teletex = || value.decode_as::<TeletexStringRef<'_>>().map(|s| s.as_str().to_owned());
    printable.or_else(|_| utf8()).or_else(|_| ia5()).or_else(|_| teletex()).ok()
}
