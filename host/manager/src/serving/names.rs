//! Which certificate is served to whom.
//!
//! In: the name that a client asks for, or the address it came to. Out: a
//! certificate. A name that a flag says wins over one that is in a certificate, a
//! whole name over one with `*`, the flag given first over later ones; who asks
//! for none of them gets the default.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio_util::sync::CancellationToken;
use x509_cert::{
    der::Decode,
    ext::pkix::{SubjectAltName, name::GeneralName},
};

use super::{Error, RELOAD, certificate::Certificate, config::Serving};
use crate::manager::Manager;

/// All certificates that are served.
#[derive(Debug)]
pub(super) struct Certificates {
    default: Certificate,
    named: Vec<Named>,
}

/// A certificate for some names.
#[derive(Debug)]
struct Named {
    certificate: Certificate,
    /// Names that the flag gives; empty: those in the certificate count.
    names: Vec<String>,
}

impl Certificates {
    /// Loads what the flags name.
    pub(super) fn load(config: &Serving) -> Result<Arc<Self>, Error> {
        let named = config.tls_sni_cert_keys.iter().map(|pair| {
            let names = pair.names.iter().map(|name| name.to_ascii_lowercase()).collect();
            Ok(Named { certificate: Certificate::named(pair)?, names })
        });
        let named = named.collect::<Result<_, _>>()?;
        Ok(Arc::new(Self { default: Certificate::load(config)?, named }))
    }

    /// Follows the files until cancelled.
    pub(super) async fn follow(self: Arc<Self>, manager: Arc<Manager>, cancel: CancellationToken) {
        let metrics = &manager.metrics().reviews;
        let all = || std::iter::once(&self.default).chain(self.named.iter().map(|one| &one.certificate));
        let note = || {
            // What is told is the first that expires.
            let first = all().filter_map(|one| one.expiry(manager.now())).min();
            if let Some(first) = first {
                metrics.certificate_expiry.with_label_values::<&str>(&[]).set(first);
            }
        };
        note();
        loop {
            tokio::select! {
                () = tokio::time::sleep(RELOAD) => {}
                () = cancel.cancelled() => return,
            }
            if all().map(|one| one.renew(metrics)).fold(false, |any, new| any | new) {
                note();
            }
        }
    }

    /// Whether it matters to which address a client came.
    pub(super) fn knows_addresses(&self) -> bool {
        let is_address = |name: &String| name.parse::<IpAddr>().is_ok();
        self.named.iter().any(|one| one.all_names().iter().any(is_address))
    }

    /// The certificate for a name, or for an address in its text form.
    fn for_name(&self, name: &str) -> Arc<CertifiedKey> {
        let name = name.to_ascii_lowercase();
        let any = name.split_once('.').map(|(_, rest)| format!("*.{rest}"));
        for wanted in std::iter::once(&name).chain(&any) {
            let given = self.named.iter().find(|one| one.names.contains(wanted));
            let found = given.or_else(|| {
                self.named.iter().find(|one| one.names.is_empty() && one.all_names().contains(wanted))
            });
            if let Some(found) = found {
                return found.certificate.current();
            }
        }
        self.default.current()
    }
}

impl Named {
    fn all_names(&self) -> Vec<String> {
        if self.names.is_empty() { names_in(&self.certificate.current()) } else { self.names.clone() }
    }
}

/// The names in a certificate: those it is for, or else its common name.
fn names_in(certified: &CertifiedKey) -> Vec<String> {
    let parsed = certified.cert.first().and_then(|der| x509_cert::Certificate::from_der(der).ok());
    let Some(parsed) = parsed else { return Vec::new() };
    let alternatives = parsed.tbs_certificate().get_extension::<SubjectAltName>().ok().flatten();
    let names = alternatives.iter().flat_map(|(_, names)| &names.0).filter_map(|name| match name {
        GeneralName::DnsName(name) => Some(name.as_str().to_ascii_lowercase()),
        GeneralName::IpAddress(bytes) => match bytes.as_bytes() {
            bytes if bytes.len() == 4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).to_string()),
            bytes => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string()),
        },
        _ => None,
    });
    let names: Vec<String> = names.collect();
    let common = certified.cert.first().and_then(|der| super::User::of_certificate(der));
    if names.is_empty() {
        common.into_iter().map(|user| user.name.to_ascii_lowercase()).collect()
    } else {
        names
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(hello.server_name().map_or_else(|| self.default.current(), |name| self.for_name(name)))
    }
}

/// The certificates as a client sees them that came to this address.
#[derive(Debug)]
pub(super) struct At(pub(super) Arc<Certificates>, pub(super) IpAddr);

impl ResolvesServerCert for At {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let Self(certificates, address) = self;
        let address = address.to_canonical().to_string();
        Some(certificates.for_name(hello.server_name().unwrap_or(&address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serving::NamedPair;

    /// A pair of files with a certificate for these names.
    fn pair(dir: &std::path::Path, file: &str, of: &[&str], names: &[&str]) -> NamedPair {
        let key = rcgen::KeyPair::generate().unwrap();
        let of: Vec<String> = of.iter().map(|name| (*name).to_owned()).collect();
        let certificate = rcgen::CertificateParams::new(of).unwrap().self_signed(&key).unwrap();
        let path = |end: &str| dir.join(format!("{file}.{end}"));
        std::fs::write(path("crt"), certificate.pem()).unwrap();
        std::fs::write(path("key"), key.serialize_pem()).unwrap();
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        NamedPair { certificate: path("crt"), key: path("key"), names }
    }

    #[test]
    fn the_name_asked_for_chooses_the_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let pairs = vec![
            pair(dir.path(), "own", &["a.example.com", "10.1.2.3", "*.b.com"], &[]),
            pair(dir.path(), "said", &["other.example.com"], &["A.example.com", "*.example.com"]),
            pair(dir.path(), "late", &["x"], &["*.example.com", "c.b.com"]),
        ];
        let config = Serving { tls_sni_cert_keys: pairs, ..Serving::default() };
        let all = Certificates::load(&config).unwrap();
        assert!(all.knows_addresses());
        let wanted = [
            ("a.example.com", Some(1)),
            ("A.EXAMPLE.com", Some(1)),
            ("z.example.com", Some(1)),
            ("y.z.example.com", None),
            ("other.example.com", Some(1)),
            ("any.b.com", Some(0)),
            ("c.b.com", Some(2)),
            ("10.1.2.3", Some(0)),
            ("10.1.2.4", None),
        ];
        for (name, wanted) in wanted {
            let found = all.for_name(name);
            let at = all.named.iter().position(|one| Arc::ptr_eq(&one.certificate.current(), &found));
            assert_eq!(at, wanted, "{name}");
        }
    }

    #[test]
    fn a_pair_that_cannot_be_used_is_named() {
        let pair =
            NamedPair { certificate: "/nowhere/a.crt".into(), key: "/nowhere/a.key".into(), names: vec![] };
        let config = Serving { tls_sni_cert_keys: vec![pair], ..Serving::default() };
        let error = Certificates::load(&config).unwrap_err().to_string();
        assert!(
            error.starts_with("--tls-sni-cert-key=/nowhere/a.crt,/nowhere/a.key: cannot read"),
            "{error}"
        );
    }
}
