//! The cluster's own certificate authority, server certificate and administrator's certificate.
//!
//! In: a directory. Out: PEM texts, kept there. Invariant: what is there is used again, so that a kubeconfig that was
//! handed out stays good; keys are readable by their owner only.

use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Certificates cannot be made.
    #[error("cannot generate certificates: {0}")]
    Generate(#[from] rcgen::Error),
    /// What is in the directory is not usable.
    #[error(
        "the certificates in {path} cannot be used ({reason}); remove that directory to have new ones made"
    )]
    Unusable {
        /// Where.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// PEM texts.
#[derive(Clone, Debug)]
pub struct Pki {
    /// Certificate of the authority, which signs the server's and the administrator's.
    pub ca: String,
    ca_key: String,
    server: String,
    server_key: String,
    /// Certificate of the administrator.
    pub admin: String,
    /// Key of the administrator.
    pub admin_key: String,
    dir: PathBuf,
}

const FILES: [&str; 6] = ["ca.crt", "ca.key", "server.crt", "server.key", "admin.crt", "admin.key"];

impl Pki {
    /// Uses what is in `dir`, or makes it. `address` is added to the names of the server.
    pub fn load_or_generate(dir: &Path, address: IpAddr) -> Result<Self, PkiError> {
        if FILES.iter().all(|name| dir.join(name).is_file()) {
            return Self::load(dir);
        }
        let pki = Self::generate(dir, address)?;
        pki.save()?;
        Ok(pki)
    }

    fn load(dir: &Path) -> Result<Self, PkiError> {
        let read = |name: &str| {
            let path = dir.join(name);
            fs::read_to_string(&path).map_err(|source| PkiError::Io { path, source })
        };
        Ok(Self {
            ca: read("ca.crt")?,
            ca_key: read("ca.key")?,
            server: read("server.crt")?,
            server_key: read("server.key")?,
            admin: read("admin.crt")?,
            admin_key: read("admin.key")?,
            dir: dir.to_owned(),
        })
    }

    fn save(&self) -> Result<(), PkiError> {
        fs::create_dir_all(&self.dir).map_err(|source| PkiError::Io { path: self.dir.clone(), source })?;
        let texts = [&self.ca, &self.ca_key, &self.server, &self.server_key, &self.admin, &self.admin_key];
        for (name, text) in FILES.iter().zip(texts) {
            let path = self.dir.join(name);
            write_private(&path, text).map_err(|source| PkiError::Io { path, source })?;
        }
        Ok(())
    }

    fn generate(dir: &Path, address: IpAddr) -> Result<Self, PkiError> {
        let mut params = params("coxswain-localcluster-ca", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

        let mut params = self::params("kube-apiserver", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        for name in names {
            params.subject_alt_names.push(SanType::DnsName(name.try_into()?));
        }
        let loopback: [IpAddr; 3] = [[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into(), address];
        params.subject_alt_names.extend(loopback.map(SanType::IpAddress));
        let server_key = KeyPair::generate()?;
        let server = params.signed_by(&server_key, &ca)?;

        let mut params = self::params(crate::rest::ADMIN, Some("system:masters"));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let admin_key = KeyPair::generate()?;
        let admin = params.signed_by(&admin_key, &ca)?;
        Ok(Self {
            ca: ca.pem(),
            ca_key: ca.key().serialize_pem(),
            server: server.pem(),
            server_key: server_key.serialize_pem(),
            admin: admin.pem(),
            admin_key: admin_key.serialize_pem(),
            dir: dir.to_owned(),
        })
    }

    /// The certificate of the authority that signs clients' certificates.
    pub fn authority(&self) -> &str {
        &self.ca
    }

    /// The server's side of TLS; clients may show a certificate of ours.
    pub fn acceptor(&self) -> Result<TlsAcceptor, PkiError> {
        let unusable = |reason: String| PkiError::Unusable { path: self.dir.clone(), reason };
        let certificates = |pem: &str| -> Result<Vec<CertificateDer<'static>>, PkiError> {
            CertificateDer::pem_slice_iter(pem.as_bytes())
                .collect::<Result<_, _>>()
                .map_err(|error| unusable(error.to_string()))
        };
        let mut roots = rustls::RootCertStore::empty();
        for certificate in certificates(&self.ca)? {
            roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(self.server_key.as_bytes())
            .map_err(|error| unusable(error.to_string()))?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(error.to_string()))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates(&self.server)?, key)
            .map_err(|error| unusable(error.to_string()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Name of the file with the key that signs tokens of service accounts which are kept in Secrets.
const SERVICE_ACCOUNT_KEY: &str = "sa.key";

/// The public half of that key, made if it is not there: an elliptic curve key over P-256 (SEC 1, uncompressed). Whoever
/// fills such Secrets is given the file, kube-controller-manager by `--service-account-private-key-file`.
pub fn service_account_key(dir: &Path) -> Result<Vec<u8>, PkiError> {
    let path = dir.join(SERVICE_ACCOUNT_KEY);
    let pair = if path.is_file() {
        let text = fs::read_to_string(&path).map_err(|source| PkiError::Io { path: path.clone(), source })?;
        KeyPair::from_pem(&text).map_err(|error| PkiError::Unusable { path, reason: error.to_string() })?
    } else {
        let pair = KeyPair::generate()?;
        write_private(&path, &pair.serialize_pem()).map_err(|source| PkiError::Io { path, source })?;
        pair
    };
    Ok(pair.public_key_raw().to_vec())
}

fn params(name: &str, organization: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params
}

/// Writes a file that others cannot read, also if it was there.
pub fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        options.mode(0o600);
        if path.exists() {
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        }
    }
    options.open(path)?.write_all(text.as_bytes())
}
