//! The harness' own certificate authority: for the proxy, and for what a manager is given to sign with.

use std::sync::Arc;

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio_rustls::TlsAcceptor;

/// A certificate authority and a server certificate for loopback.
pub struct Authority {
    certificate: String,
    key: String,
    server: String,
    server_key: String,
}

impl Authority {
    /// Makes a new one.
    pub fn generate() -> anyhow::Result<Self> {
        let ca_key = KeyPair::generate()?;
        let key = ca_key.serialize_pem();
        let mut params = named("parity-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca = CertifiedIssuer::self_signed(params, ca_key)?;
        let mut params = named("parity-proxy");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        params.subject_alt_names.push(SanType::DnsName("localhost".try_into()?));
        let server_key = KeyPair::generate()?;
        let server = params.signed_by(&server_key, &ca)?;
        Ok(Self { certificate: ca.pem(), key, server: server.pem(), server_key: server_key.serialize_pem() })
    }

    /// PEM of the authority's certificate.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// PEM of the authority's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The server's side of TLS, for HTTP/1.1.
    pub fn acceptor(&self) -> anyhow::Result<TlsAcceptor> {
        let chain = CertificateDer::pem_slice_iter(self.server.as_bytes()).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(self.server_key.as_bytes()).context("the proxy's key")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A certificate request with a fresh key, as PEM.
pub fn certificate_request(name: &str, organizations: &[String]) -> anyhow::Result<String> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    match organizations {
        [] => {}
        [one] => params.distinguished_name.push(DnType::OrganizationName, one.as_str()),
        _ => anyhow::bail!("a certificate request can be made for one organization only"),
    }
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params.serialize_request(&KeyPair::generate()?)?.pem()?)
}
