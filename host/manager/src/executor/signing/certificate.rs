//! X.509 certificates (RFC 5280), in the form that Go's crypto/x509 gives them.

use std::net::IpAddr;

use der::{
    Any, Decode, Encode, EncodeValue, Sequence, Tagged,
    asn1::{
        BitString, Ia5String, ObjectIdentifier, OctetString, PrintableStringRef, SetOfVec, Uint,
        Utf8StringRef,
    },
    pem,
};
use serde::Deserialize;
use x509_cert::{
    Version,
    attr::AttributeTypeAndValue,
    ext::{
        Extension,
        pkix::{
            AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
            name::GeneralName,
        },
    },
    spki::AlgorithmIdentifierOwned,
    time::{Time, Validity},
};

use super::{
    invalid,
    key::{Algorithm, Identity, Issuer},
    request, unavailable,
};
use crate::{contract::Failure, entropy::Entropy};

/// A certificate that is asked for. Lists that are left out are empty.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Certificate {
    /// The request, in PEM: whose public key it is for.
    pub request: String,
    /// Who it is for.
    #[serde(default)]
    pub subject: Subject,
    /// Its names as a server.
    #[serde(default)]
    pub dns_names: Vec<String>,
    /// Its mail addresses.
    #[serde(default)]
    pub email_addresses: Vec<String>,
    /// Its addresses.
    #[serde(default)]
    pub ip_addresses: Vec<IpAddr>,
    /// Its URIs.
    #[serde(default)]
    pub uris: Vec<String>,
    /// From when it holds.
    pub not_before: jiff::Timestamp,
    /// Until when it holds; at most as long as the issuer's.
    pub not_after: jiff::Timestamp,
    /// Key usages, as RFC 5280 names them: `digitalSignature`.
    #[serde(default)]
    pub key_usage: Vec<String>,
    /// Extended key usages: object identifiers.
    #[serde(default)]
    pub extended_key_usage: Vec<String>,
}

/// The parts of a name. Their order in the certificate is that of the fields.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Subject {
    /// C.
    pub country: Vec<String>,
    /// O.
    pub organization: Vec<String>,
    /// OU.
    pub organizational_unit: Vec<String>,
    /// L.
    pub locality: Vec<String>,
    /// ST.
    pub province: Vec<String>,
    /// STREET.
    pub street_address: Vec<String>,
    /// Postal code.
    pub postal_code: Vec<String>,
    /// CN.
    pub common_name: String,
    /// Serial number of the subject, not of the certificate.
    pub serial_number: String,
}

/// The part of a certificate that is signed.
#[derive(Sequence)]
struct Content {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    version: Version,
    serial: Uint,
    algorithm: AlgorithmIdentifierOwned,
    issuer: Any,
    validity: Validity,
    subject: Vec<SetOfVec<AttributeTypeAndValue>>,
    public_key: Any,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT")]
    extensions: Vec<Extension>,
}

#[derive(Sequence)]
struct Signed {
    content: Any,
    algorithm: AlgorithmIdentifierOwned,
    signature: BitString,
}

/// Issues a certificate; the answer is PEM.
pub(super) fn sign(
    text: &str,
    identity: &Identity,
    now: jiff::Timestamp,
    entropy: &Entropy,
) -> Result<String, Failure> {
    let asked: Certificate =
        serde_json::from_str(text).map_err(|error| invalid(format!("the certificate asked for: {error}")))?;
    let issuer = identity
        .issuer
        .as_ref()
        .ok_or_else(|| unavailable("the key has no certificate to issue others with"))?;
    let public_key = request::public_key(&asked.request).map_err(invalid)?;
    let validity = validity(&asked, issuer, now)?;
    let unfit = |error: der::Error| invalid(format!("the certificate cannot be written: {error}"));
    let subject = names(&asked.subject).map_err(unfit)?;
    let algorithm = algorithm(identity.algorithm);
    let content = Content {
        version: Version::V3,
        serial: serial(entropy).map_err(unfit)?,
        algorithm: algorithm.clone(),
        issuer: Any::from_der(&issuer.name).map_err(unfit)?,
        validity,
        extensions: extensions(&asked, &subject, issuer)?,
        subject,
        public_key: Any::encode_from(&public_key).map_err(unfit)?,
    };
    let content = content.to_der().map_err(unfit)?;
    let signature = identity.sign(&content).map_err(unavailable)?;
    let signed = Signed {
        content: Any::from_der(&content).map_err(unfit)?,
        algorithm,
        signature: BitString::from_bytes(&signature).map_err(unfit)?,
    };
    let signed = signed.to_der().map_err(unfit)?;
    pem::encode_string("CERTIFICATE", pem::LineEnding::LF, &signed).map_err(|error| unfit(error.into()))
}

/// No longer than the issuer's own, which must hold now.
fn validity(asked: &Certificate, issuer: &Issuer, now: jiff::Timestamp) -> Result<Validity, Failure> {
    let end = issuer.not_after.to_unix_duration().as_secs();
    let end = i64::try_from(end).unwrap_or(i64::MAX);
    if now.as_second() >= end || asked.not_before.as_second() >= end {
        return Err(unavailable(format!("the issuer's certificate ended at {}", issuer.not_after)));
    }
    let wrong = |error: der::Error| invalid(format!("the certificate's time: {error}"));
    let not_before = time(asked.not_before).map_err(wrong)?;
    let not_after = if asked.not_after.as_second() >= end {
        issuer.not_after
    } else {
        time(asked.not_after).map_err(wrong)?
    };
    Ok(Validity::new(not_before, not_after))
}

/// Whole seconds; years to 2049 are written with two digits.
fn time(at: jiff::Timestamp) -> der::Result<Time> {
    let seconds = u64::try_from(at.as_second()).map_err(|_| der::ErrorKind::DateTime)?;
    let date = der::DateTime::from_unix_duration(std::time::Duration::from_secs(seconds))?;
    Ok(if date.year() <= 2049 {
        Time::UtcTime(der::asn1::UtcTime::from_date_time(date)?)
    } else {
        Time::GeneralTime(der::asn1::GeneralizedTime::from_date_time(date))
    })
}

/// A number of 128 bits. It is to differ from all others; that nobody can guess
/// it matters only for hashes that nobody signs with any more.
fn serial(entropy: &Entropy) -> der::Result<Uint> {
    let bytes = [entropy.next_u64().to_be_bytes(), entropy.next_u64().to_be_bytes()].concat();
    Uint::new(&bytes)
}

fn algorithm(of: Algorithm) -> AlgorithmIdentifierOwned {
    let (oid, parameters) = match of {
        Algorithm::Rsa => (ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11"), Some(Any::null())),
        Algorithm::P256 => (ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2"), None),
        Algorithm::P384 => (ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3"), None),
        Algorithm::Ed25519 => (ObjectIdentifier::new_unwrap("1.3.101.112"), None),
    };
    AlgorithmIdentifierOwned { oid, parameters }
}

/// One set for each kind of attribute that has values.
fn names(subject: &Subject) -> der::Result<Vec<SetOfVec<AttributeTypeAndValue>>> {
    let single = |text: &String| if text.is_empty() { Vec::new() } else { vec![text.clone()] };
    let parts = [
        ("2.5.4.6", subject.country.clone()),
        ("2.5.4.10", subject.organization.clone()),
        ("2.5.4.11", subject.organizational_unit.clone()),
        ("2.5.4.7", subject.locality.clone()),
        ("2.5.4.8", subject.province.clone()),
        ("2.5.4.9", subject.street_address.clone()),
        ("2.5.4.17", subject.postal_code.clone()),
        ("2.5.4.3", single(&subject.common_name)),
        ("2.5.4.5", single(&subject.serial_number)),
    ];
    let mut rdns = Vec::new();
    for (oid, values) in parts.into_iter().filter(|(_, values)| !values.is_empty()) {
        let oid = ObjectIdentifier::new(oid).map_err(|_| der::ErrorKind::OidMalformed)?;
        let attributes = values.iter().map(|value| Ok(AttributeTypeAndValue { oid, value: text(value)? }));
        rdns.push(SetOfVec::try_from(attributes.collect::<der::Result<Vec<_>>>()?)?);
    }
    Ok(rdns)
}

/// PrintableString where that will do, else UTF8String.
fn text(value: &str) -> der::Result<Any> {
    match PrintableStringRef::new(value) {
        Ok(printable) => Any::encode_from(&printable),
        Err(_) => Any::encode_from(&Utf8StringRef::new(value)?),
    }
}

fn extensions(
    asked: &Certificate,
    subject: &[SetOfVec<AttributeTypeAndValue>],
    issuer: &Issuer,
) -> Result<Vec<Extension>, Failure> {
    let unfit = |error: der::Error| invalid(format!("an extension cannot be written: {error}"));
    let mut all = Vec::new();
    if let Some(usage) = key_usage(&asked.key_usage)? {
        all.push(extension("2.5.29.15", true, &usage).map_err(unfit)?);
    }
    if !asked.extended_key_usage.is_empty() {
        let oid = |text: &String| {
            ObjectIdentifier::new(text)
                .map_err(|_| invalid(format!("extendedKeyUsage: {text:?} is no object identifier")))
        };
        let usages = asked.extended_key_usage.iter().map(oid).collect::<Result<_, _>>()?;
        all.push(extension("2.5.29.37", false, &ExtendedKeyUsage(usages)).map_err(unfit)?);
    }
    let constraints = BasicConstraints { ca: false, path_len_constraint: None };
    all.push(extension("2.5.29.19", true, &constraints).map_err(unfit)?);
    if let Some(id) = &issuer.key_id {
        let id = AuthorityKeyIdentifier {
            key_identifier: Some(id.clone()),
            authority_cert_issuer: None,
            authority_cert_serial_number: None,
        };
        all.push(extension("2.5.29.35", false, &id).map_err(unfit)?);
    }
    let alternatives = alternatives(asked).map_err(unfit)?;
    if !alternatives.is_empty() {
        // Then they alone say who it is.
        let critical = subject.is_empty();
        all.push(extension("2.5.29.17", critical, &SubjectAltName(alternatives)).map_err(unfit)?);
    }
    Ok(all)
}

fn extension(oid: &str, critical: bool, value: &(impl EncodeValue + Tagged)) -> der::Result<Extension> {
    let extn_id = ObjectIdentifier::new(oid).map_err(|_| der::ErrorKind::OidMalformed)?;
    Ok(Extension { extn_id, critical, extn_value: OctetString::new(value.to_der()?)? })
}

fn key_usage(names: &[String]) -> Result<Option<KeyUsage>, Failure> {
    let mut usage: Option<KeyUsage> = None;
    for name in names {
        let flag = match name.as_str() {
            "digitalSignature" => KeyUsages::DigitalSignature,
            // Its name in RFC 5280 and its newer one.
            "nonRepudiation" | "contentCommitment" => KeyUsages::NonRepudiation,
            "keyEncipherment" => KeyUsages::KeyEncipherment,
            "dataEncipherment" => KeyUsages::DataEncipherment,
            "keyAgreement" => KeyUsages::KeyAgreement,
            "keyCertSign" => KeyUsages::KeyCertSign,
            "cRLSign" => KeyUsages::CRLSign,
            "encipherOnly" => KeyUsages::EncipherOnly,
            "decipherOnly" => KeyUsages::DecipherOnly,
            _ => return Err(invalid(format!("keyUsage: there is no {name:?}"))),
        };
        match &mut usage {
            None => usage = Some(KeyUsage(flag.into())),
            Some(usage) => usage.0 |= flag,
        }
    }
    Ok(usage)
}

fn alternatives(asked: &Certificate) -> der::Result<Vec<GeneralName>> {
    let mut all = Vec::new();
    for name in &asked.dns_names {
        all.push(GeneralName::DnsName(Ia5String::new(name)?));
    }
    for address in &asked.email_addresses {
        all.push(GeneralName::Rfc822Name(Ia5String::new(address)?));
    }
    for address in &asked.ip_addresses {
        let bytes = match address.to_canonical() {
            IpAddr::V4(four) => four.octets().to_vec(),
            IpAddr::V6(six) => six.octets().to_vec(),
        };
        all.push(GeneralName::IpAddress(OctetString::new(bytes)?));
    }
    for uri in &asked.uris {
        all.push(GeneralName::UniformResourceIdentifier(Ia5String::new(uri)?));
    }
    Ok(all)
}
