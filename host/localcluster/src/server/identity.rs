//! Who a client certificate belongs to.
//!
//! In: a certificate that the cluster's own authority signed. Out: its user: the common name, with the organizations as
//! groups, as kube-apiserver reads it.

use x509_cert::Certificate;
use x509_cert::der::asn1::{Ia5StringRef, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::{Any, Decode, Tag, Tagged};

use crate::rest::strategy::User;

const COMMON_NAME: &str = "2.5.4.3";
const ORGANIZATION: &str = "2.5.4.10";
/// Set by those who want a uid in a certificate; Kubernetes gave it out.
const UID: &str = "1.3.6.1.4.1.57683.2";

/// None if it cannot be read or names nobody.
pub(super) fn of(certificate: &[u8]) -> Option<User> {
    let parsed = Certificate::from_der(certificate).ok()?;
    let mut user = User::default();
    for attribute in parsed.tbs_certificate().subject().iter_rdn().flat_map(|rdn| rdn.iter()) {
        let Some(value) = text(&attribute.value) else { continue };
        match attribute.oid.to_string().as_str() {
            COMMON_NAME => user.name = value,
            ORGANIZATION => user.groups.push(value),
            UID => user.uid = value,
            _ => {}
        }
    }
    if user.name.is_empty() {
        return None;
    }
    user.groups.push("system:authenticated".into());
    let fingerprint = crate::discovery::hash(certificate).to_lowercase();
    let id = format!("X509SHA256={fingerprint}");
    user.extra.insert("authentication.kubernetes.io/credential-id".into(), vec![id]);
    Some(user)
}

fn text(value: &Any) -> Option<String> {
    let text = match value.tag() {
        Tag::Utf8String => value.decode_as::<Utf8StringRef<'_>>().ok()?.as_str().to_owned(),
        Tag::PrintableString => value.decode_as::<PrintableStringRef<'_>>().ok()?.as_str().to_owned(),
        Tag::Ia5String => value.decode_as::<Ia5StringRef<'_>>().ok()?.as_str().to_owned(),
        Tag::TeletexString => value.decode_as::<TeletexStringRef<'_>>().ok()?.as_str().to_owned(),
        _ => return None,
    };
    Some(text)
}
