//! A certificate that is served.
//!
//! In: files, or nothing. Out: a certificate with its key, from then on as new
//! as the files are. Invariant: what cannot be used never takes the place of
//! what can; it is said and counted.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::RwLock;
use rustls::{
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use x509_cert::der::Decode;

use super::{
    Error,
    config::{NamedPair, Serving},
};
use crate::metrics::ReviewMetrics;

/// Beginning of the names of the files in `--cert-dir`.
const PAIR: &str = "kube-controller-manager";

/// Where the certificate comes from.
#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// A certificate that is served.
#[derive(Debug)]
pub(super) struct Certificate {
    files: Option<Files>,
    current: RwLock<(Arc<CertifiedKey>, Vec<u8>)>,
    /// What is wrong with the files, and was said.
    said: RwLock<String>,
}

impl Certificate {
    /// Loads what the flags name for those who ask by no other name, or makes a
    /// certificate that signs itself.
    pub(super) fn load(config: &Serving) -> Result<Self, Error> {
        let files = match (&config.tls_cert_file, &config.tls_private_key_file) {
            (Some(certificate), Some(key)) => Files { certificate: certificate.clone(), key: key.clone() },
            (None, None) => match config.cert_dir.as_deref() {
                Some(dir) => kept(dir, config.bind_address)?,
                None => return Self::made(config.bind_address),
            },
            (Some(_), None) => {
                return Err(Error::flag("--tls-cert-file", "needs --tls-private-key-file beside it"));
            }
            (None, Some(_)) => {
                return Err(Error::flag("--tls-private-key-file", "needs --tls-cert-file beside it"));
            }
        };
        let (certificate, key) = (files.certificate.display(), files.key.display());
        let flags = format!("--tls-cert-file={certificate}, --tls-private-key-file={key}");
        Self::of_files(files).map_err(|reason| Error::flag(flags, reason))
    }

    /// Loads a pair for other names.
    pub(super) fn named(pair: &NamedPair) -> Result<Self, Error> {
        let files = Files { certificate: pair.certificate.clone(), key: pair.key.clone() };
        let flag = format!("--tls-sni-cert-key={},{}", pair.certificate.display(), pair.key.display());
        Self::of_files(files).map_err(|reason| Error::flag(flag, reason))
    }

    fn made(address: IpAddr) -> Result<Self, Error> {
        let failed = |e: &dyn std::fmt::Display| {
            Error::flag("--tls-cert-file", format!("none is given and none can be made: {e}"))
        };
        let (certificate, key) = self_signed(address).map_err(|e| failed(&e))?;
        let made = certified(certificate.as_bytes(), key.as_bytes()).map_err(|e| failed(&e))?;
        Ok(Self { files: None, current: RwLock::new((made, Vec::new())), said: RwLock::default() })
    }

    fn of_files(files: Files) -> Result<Self, String> {
        let content = files.read()?;
        let current = RwLock::new((files.certified(&content)?, content.mark()));
        Ok(Self { files: Some(files), current, said: RwLock::default() })
    }

    /// The certificate and its key as they are now.
    pub(super) fn current(&self) -> Arc<CertifiedKey> {
        self.current.read().0.clone()
    }

    /// Looks at the files again. True if there is another certificate.
    pub(super) fn renew(&self, metrics: &ReviewMetrics) -> bool {
        let Some(files) = &self.files else { return false };
        let loaded = files.read().and_then(|content| {
            if content.mark() == self.current.read().1 {
                return Ok(None);
            }
            files.certified(&content).map(|key| Some((key, content.mark())))
        });
        match loaded {
            Ok(new) => {
                self.said.write().clear();
                let Some(new) = new else { return false };
                *self.current.write() = new;
                tracing::info!(file = %files.certificate.display(), "the certificate of the endpoints was read again");
                true
            }
            Err(reason) => {
                metrics.reload_failures.with_label_values(&["serving"]).inc();
                if reason != *self.said.read() {
                    tracing::error!(file = %files.certificate.display(), reason, "the new certificate of the endpoints cannot be used; the one before stays in use");
                    *self.said.write() = reason;
                }
                false
            }
        }
    }

    /// When it expires, in seconds since 1970. Says so if that is past, or if it
    /// is not good yet.
    pub(super) fn expiry(&self, now: jiff::Timestamp) -> Option<i64> {
        let current = self.current();
        let parsed = x509_cert::Certificate::from_der(current.cert.first()?).ok()?;
        let validity = parsed.tbs_certificate().validity();
        let seconds = |time: &x509_cert::time::Time| time.to_unix_duration().as_secs() as i64;
        let (from, until) = (seconds(&validity.not_before), seconds(&validity.not_after));
        let now = now.as_second();
        let file = self.files.as_ref().map(|files| files.certificate.display().to_string());
        let date =
            |second: i64| jiff::Timestamp::from_second(second).map(|t| t.to_string()).unwrap_or_default();
        if now > until {
            tracing::warn!(
                file,
                "the certificate of the endpoints expired at {}; clients will refuse it: renew it",
                date(until)
            );
        } else if now < from {
            tracing::warn!(
                file,
                "the certificate of the endpoints is good from {} only; clients will refuse it",
                date(from)
            );
        }
        Some(until)
    }
}

/// What is in the files.
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Content {
    fn mark(&self) -> Vec<u8> {
        use sha2::Digest;
        sha2::Sha256::new().chain_update(&self.certificate).chain_update(&self.key).finalize().to_vec()
    }
}

impl Files {
    fn read(&self) -> Result<Content, String> {
        let read =
            |path: &Path| std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()));
        Ok(Content { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }

    fn certified(&self, content: &Content) -> Result<Arc<CertifiedKey>, String> {
        certified(&content.certificate, &content.key)
    }
}

/// A certificate with its key, which must belong to it.
fn certified(certificate: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, String> {
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| format!("the certificate is no PEM: {e}"))?;
    if chain.is_empty() {
        return Err("there is no certificate in the file".to_owned());
    }
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|e| format!("the key is no PEM of a private key: {e}"))?;
    let key = any_supported_type(&key).map_err(|e| format!("the key is of no kind that is served: {e}"))?;
    let pair = CertifiedKey::new(chain, key);
    match pair.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(Arc::new(pair))
        }
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err("the key does not belong to the certificate; give the pair that was made together".to_owned())
        }
        Err(error) => Err(format!("the certificate cannot be used: {error}")),
    }
}

/// A new certificate and its key, as PEM.
fn self_signed(address: IpAddr) -> Result<(String, String), rcgen::Error> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    if !address.is_unspecified() && !address.is_loopback() {
        names.push(address.to_string());
    }
    let mut params = rcgen::CertificateParams::new(names)?;
    params.distinguished_name.push(rcgen::DnType::CommonName, "localhost");
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let key = rcgen::KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// The pair that is kept in a directory, made if it is not there.
fn kept(dir: &Path, address: IpAddr) -> Result<Files, Error> {
    let files = Files { certificate: dir.join(format!("{PAIR}.crt")), key: dir.join(format!("{PAIR}.key")) };
    if files.certificate.exists() && files.key.exists() {
        return Ok(files);
    }
    let failed = |e: &dyn std::fmt::Display| {
        Error::flag(format!("--cert-dir={}", dir.display()), format!("cannot keep a certificate there: {e}"))
    };
    let (certificate, key) = self_signed(address).map_err(|e| failed(&e))?;
    std::fs::create_dir_all(dir).map_err(|e| failed(&e))?;
    std::fs::write(&files.certificate, certificate).map_err(|e| failed(&e))?;
    write_secret(&files.key, key.as_bytes()).map_err(|e| failed(&e))?;
    Ok(files)
}

/// Writes a file that only we may read.
fn write_secret(path: &Path, content: &[u8]) -> std::io::Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (String, String) {
        self_signed("10.1.2.3".parse().unwrap()).unwrap()
    }

    #[test]
    fn a_pair_that_does_not_belong_together_is_named() {
        let ((certificate, key), (_, other)) = (pair(), pair());
        assert!(certified(certificate.as_bytes(), key.as_bytes()).is_ok());
        let table = [
            (certificate.as_str(), other.as_str(), "does not belong"),
            ("", key.as_str(), "no certificate in the file"),
            ("nonsense", key.as_str(), "no certificate in the file"),
            (certificate.as_str(), "nonsense", "no PEM of a private key"),
        ];
        for (certificate, key, wanted) in table {
            let error = certified(certificate.as_bytes(), key.as_bytes()).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn a_directory_keeps_the_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("certs");
        let made = kept(&dir, "127.0.0.1".parse().unwrap()).unwrap();
        let first = made.read().unwrap().mark();
        let again = kept(&dir, "127.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(first, again.read().unwrap().mark());
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&made.key).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
