//! What certificates and certificate requests say, as far as controllers ask.
//!
//! In: PEM. Out: names, addresses, times. Signatures are the host's affair. A
//! request is read as Go's crypto/x509 reads it: of the subject only the
//! attributes it names, and of the alternative names only those of four kinds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::der::{
    BIT_STRING, BOOLEAN, INTEGER, Malformed, OBJECT_IDENTIFIER, OCTET_STRING, Reader, SEQUENCE, SET,
};
use crate::time::Time;

/// A certificate request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Who it is for.
    pub subject: Subject,
    /// Names as a server.
    pub dns_names: Vec<String>,
    /// Mail addresses.
    pub email_addresses: Vec<String>,
    /// Addresses.
    pub ip_addresses: Vec<IpAddr>,
    /// URIs.
    pub uris: Vec<String>,
}

/// Parts of a name; what is empty is left out where it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// C.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub country: Vec<String>,
    /// O.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub organization: Vec<String>,
    /// OU.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub organizational_unit: Vec<String>,
    /// L.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locality: Vec<String>,
    /// ST.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub province: Vec<String>,
    /// STREET.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub street_address: Vec<String>,
    /// Postal code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub postal_code: Vec<String>,
    /// CN; the last one if there are several.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub common_name: String,
    /// Serial number; the last one if there are several.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial_number: String,
}

/// Why a request cannot be read.
pub type Unreadable = &'static str;

/// `extensionRequest` of PKCS #9.
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
/// `subjectAltName`.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// Reads a certificate request (PEM).
pub fn request(pem: &[u8]) -> Result<Request, Unreadable> {
    match block(pem) {
        Some((label, der)) if label == "CERTIFICATE REQUEST" => request_of(&der),
        _ => Err("PEM block type must be CERTIFICATE REQUEST"),
    }
}

/// When the first certificate of a PEM text ends.
pub fn not_after(pem: &[u8]) -> Option<Time> {
    let (_, der) = block(pem)?;
    let ends = || -> Result<Option<Time>, Malformed> {
        let mut content = Reader::new(&der).enter(SEQUENCE)?.enter(SEQUENCE)?;
        content.optional(0xa0)?;
        content.take(INTEGER)?;
        content.take(SEQUENCE)?;
        content.take(SEQUENCE)?;
        let mut validity = content.enter(SEQUENCE)?;
        validity.any()?;
        let (tag, text) = validity.any()?;
        Ok(time(tag, text))
    };
    ends().ok().flatten()
}

/// The first block of a PEM text: its label and its content.
pub fn block(pem: &[u8]) -> Option<(String, Vec<u8>)> {
    let text = String::from_utf8_lossy(pem);
    let mut lines = text.lines();
    let label = lines.find_map(|line| line.trim_end().strip_prefix("-----BEGIN ")?.strip_suffix("-----"))?;
    let mut body = String::new();
    for line in lines {
        let line = line.trim();
        if let Some(end) = line.strip_prefix("-----END ") {
            let whole = end.strip_suffix("-----") == Some(label);
            return whole.then(|| Some((label.to_owned(), STANDARD.decode(&body).ok()?)))?;
        }
        // Headers, which nobody writes any more.
        if !line.contains(':') {
            body.push_str(line);
        }
    }
    None
}

fn request_of(der: &[u8]) -> Result<Request, Unreadable> {
    let malformed = |_: Malformed| "malformed certificate request";
    let mut outer = Reader::new(der);
    let mut whole = outer.enter(SEQUENCE).map_err(malformed)?;
    outer.end().map_err(|_| "trailing data after the certificate request")?;
    let mut info = whole.enter(SEQUENCE).map_err(malformed)?;
    whole.take(SEQUENCE).map_err(malformed)?;
    whole.take(BIT_STRING).map_err(malformed)?;
    whole.end().map_err(malformed)?;
    info.take(INTEGER).map_err(malformed)?;
    let mut request =
        Request { subject: subject(info.enter(SEQUENCE).map_err(malformed)?)?, ..Request::default() };
    info.take(SEQUENCE).map_err(malformed)?;
    let attributes = info.optional(0xa0).map_err(malformed)?.unwrap_or_default();
    let mut attributes = Reader::new(attributes);
    let mut seen = Vec::new();
    while !attributes.is_empty() {
        let mut attribute = attributes.enter(SEQUENCE).map_err(malformed)?;
        if attribute.take(OBJECT_IDENTIFIER).map_err(malformed)? != EXTENSION_REQUEST {
            continue;
        }
        let mut values = attribute.enter(SET).map_err(malformed)?;
        let extensions = values.enter(SEQUENCE).map_err(malformed)?;
        read_extensions(&mut request, &mut seen, extensions)?;
    }
    Ok(request)
}

/// Each kind of extension may be asked for once, in whatever attribute.
fn read_extensions<'a>(
    request: &mut Request,
    seen: &mut Vec<&'a [u8]>,
    mut extensions: Reader<'a>,
) -> Result<(), Unreadable> {
    let malformed = |_: Malformed| "malformed extension";
    while !extensions.is_empty() {
        let mut extension = extensions.enter(SEQUENCE).map_err(malformed)?;
        let id = extension.take(OBJECT_IDENTIFIER).map_err(malformed)?;
        if seen.contains(&id) {
            return Err("certificate request contains duplicate requested extensions");
        }
        seen.push(id);
        extension.optional(BOOLEAN).map_err(malformed)?;
        let value = extension.take(OCTET_STRING).map_err(malformed)?;
        if id == ALTERNATIVE_NAMES {
            read_names(request, Reader::new(value).enter(SEQUENCE).map_err(malformed)?)?;
        }
    }
    Ok(())
}

fn read_names(request: &mut Request, mut names: Reader<'_>) -> Result<(), Unreadable> {
    let ascii = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => Ok(text.to_owned()),
        _ => Err("a subjectAltName is not ASCII"),
    };
    while !names.is_empty() {
        let (tag, value) = names.any().map_err(|_| "malformed subjectAltName")?;
        match tag {
            0x81 => request.email_addresses.push(ascii(value)?),
            0x82 => request.dns_names.push(ascii(value)?),
            0x86 => request.uris.push(ascii(value)?),
            0x87 => request.ip_addresses.push(address(value).ok_or("a subjectAltName is no IP address")?),
            _ => {}
        }
    }
    Ok(())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(|four| Ipv4Addr::from(four).into()),
        16 => <[u8; 16]>::try_from(bytes).ok().map(|six| Ipv6Addr::from(six).into()),
        _ => None,
    }
}

fn subject(mut rdns: Reader<'_>) -> Result<Subject, Unreadable> {
    let malformed = |_: Malformed| "malformed subject";
    let mut subject = Subject::default();
    while !rdns.is_empty() {
        let mut rdn = rdns.enter(SET).map_err(malformed)?;
        while !rdn.is_empty() {
            let mut attribute = rdn.enter(SEQUENCE).map_err(malformed)?;
            let id = attribute.take(OBJECT_IDENTIFIER).map_err(malformed)?;
            let (tag, value) = attribute.any().map_err(malformed)?;
            // All of interest are below 2.5.4.
            let &[0x55, 0x04, kind] = id else { continue };
            let Some(text) = text(tag, value)? else { continue };
            match kind {
                3 => subject.common_name = text,
                5 => subject.serial_number = text,
                6 => subject.country.push(text),
                7 => subject.locality.push(text),
                8 => subject.province.push(text),
                9 => subject.street_address.push(text),
                10 => subject.organization.push(text),
                11 => subject.organizational_unit.push(text),
                17 => subject.postal_code.push(text),
                _ => {}
            }
        }
    }
    Ok(subject)
}

/// The text of a value of one of ASN.1's many kinds of string; none if it is
/// something else.
fn text(tag: u8, value: &[u8]) -> Result<Option<String>, Unreadable> {
    let utf8 = || String::from_utf8(value.to_vec()).map_err(|_| "a name is not UTF-8");
    match tag {
        // UTF8String and T61String.
        0x0c | 0x14 => utf8().map(Some),
        // NumericString, PrintableString and IA5String.
        0x12 | 0x13 | 0x16 if value.is_ascii() => utf8().map(Some),
        0x12 | 0x13 | 0x16 => Err("a name is not ASCII"),
        // BMPString.
        0x1e => {
            let (pairs, rest) = value.as_chunks::<2>();
            let units: Vec<u16> = pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect();
            match String::from_utf16(&units) {
                Ok(text) if rest.is_empty() => Ok(Some(text)),
                _ => Err("a name is not UTF-16"),
            }
        }
        _ => Ok(None),
    }
}

/// UTCTime or GeneralizedTime in the one form that certificates may have.
fn time(tag: u8, text: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match (tag, text.len()) {
        (0x17, 12) => {
            let (year, rest) = text.split_at_checked(2)?;
            let century = if year.parse::<u8>().ok()? < 50 { "20" } else { "19" };
            ([century, year].concat(), rest)
        }
        (0x18, 14) => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.to_owned(), rest)
        }
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2);
    let date = [&year, "-", part(0)?, "-", part(2)?].concat();
    Time::parse(&[&date, "T", part(4)?, ":", part(6)?, ":", part(8)?, "Z"].concat())
}

#[cfg(test)]
mod tests;
