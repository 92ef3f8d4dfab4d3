//! The certificate that is served.
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
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio_util::sync::CancellationToken;
use x509_cert::der::Decode;

use super::{Error, RELOAD, Serving};
use crate::manager::Manager;

/// Beginning of the names of the files in `--cert-dir`.
const PAIR: &str = "kube-controller-manager";

/// Where the certificate comes from.
#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// The certificate that is served.
pub(super) struct Certificate {
    files: Option<Files>,
    current: RwLock<(Arc<CertifiedKey>, Vec<u8>)>,
    manager: Arc<Manager>,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().0.clone())
    }
}

impl Certificate {
    /// Loads what the flags name, or makes a certificate that signs itself.
    pub(super) fn load(config: &Serving, manager: Arc<Manager>) -> Result<Arc<Self>, Error> {
        let files = match (&config.tls_cert_file, &config.tls_private_key_file) {
            (Some(certificate), Some(key)) => {
                Some(Files { certificate: certificate.clone(), key: key.clone() })
            }
            (None, None) => {
                config.cert_dir.as_deref().map(|dir| kept(dir, config.bind_address)).transpose()?
            }
            (Some(_), None) => {
                return Err(Error::flag("--tls-cert-file", "needs --tls-private-key-file beside it"));
            }
            (None, Some(_)) => {
                return Err(Error::flag("--tls-private-key-file", "needs --tls-cert-file beside it"));
            }
        };
        let current = match &files {
            Some(files) => {
                let flags = || {
                    format!(
                        "--tls-cert-file={}, --tls-private-key-file={}",
                        files.certificate.display(),
                        files.key.display()
                    )
                };
                let content = files.read().map_err(|reason| Error::flag(flags(), reason))?;
                (files.certified(&content).map_err(|reason| Error::flag(flags(), reason))?, content.mark())
            }
            None => {
                let (certificate, key) = self_signed(config.bind_address).map_err(|e| {
                    Error::flag("--tls-cert-file", format!("none is given and none can be made: {e}"))
                })?;
                let made = certified(certificate.as_bytes(), key.as_bytes()).map_err(|e| {
                    Error::flag(
                        "--tls-cert-file",
                        format!("none is given and the one made is of no use: {e}"),
                    )
                })?;
                (made, Vec::new())
            }
        };
        let this = Arc::new(Self { files, current: RwLock::new(current), manager });
        this.look_at_dates();
        Ok(this)
    }

    /// Follows the files until cancelled.
    pub(super) async fn follow(self: Arc<Self>, cancel: CancellationToken) {
        let Some(files) = self.files.clone() else { return };
        let mut said = String::new();
        loop {
            tokio::select! {
                () = tokio::time::sleep(RELOAD) => {}
                () = cancel.cancelled() => return,
            }
            let loaded = files.read().and_then(|content| {
                if content.mark() == self.current.read().1 {
                    return Ok(None);
                }
                files.certified(&content).map(|key| Some((key, content.mark())))
            });
            match loaded {
                Ok(None) => said.clear(),
                Ok(Some(new)) => {
                    *self.current.write() = new;
                    said.clear();
                    tracing::info!(file = %files.certificate.display(), "the certificate of the endpoints was read again");
                    self.look_at_dates();
                }
                Err(reason) => {
                    self.manager.metrics().reviews.reload_failures.with_label_values(&["serving"]).inc();
                    if reason != said {
                        tracing::error!(file = %files.certificate.display(), reason, "the new certificate of the endpoints cannot be used; the one before stays in use");
                        said = reason;
                    }
                }
            }
        }
    }

    /// Notes when it expires, and says so if that is past or near.
    fn look_at_dates(&self) {
        let current = self.current.read().0.clone();
        let parsed = current.cert.first().and_then(|der| x509_cert::Certificate::from_der(der).ok());
        let Some(parsed) = parsed else { return };
        let validity = parsed.tbs_certificate().validity();
        let seconds = |time: &x509_cert::time::Time| time.to_unix_duration().as_secs() as i64;
        let (from, until) = (seconds(&validity.not_before), seconds(&validity.not_after));
        self.manager.metrics().reviews.certificate_expiry.with_label_values::<&str>(&[]).set(until);
        let now = self.manager.now().as_second();
        let date =
            |second: i64| jiff::Timestamp::from_second(second).map(|t| t.to_string()).unwrap_or_default();
        if now > until {
            tracing::warn!(
                "the certificate of the endpoints expired at {}; clients will refuse it: renew it",
                date(until)
            );
        } else if now < from {
            tracing::warn!(
                "the certificate of the endpoints is good from {} only; clients will refuse it",
                date(from)
            );
        }
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
