//! A client of the endpoints, and certificates for it.

use std::{net::SocketAddr, path::Path, sync::Arc};

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};

/// An answer, and the common name of who gave it.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
    pub server: String,
}

/// A client.
pub struct Client {
    address: SocketAddr,
    identity: Option<(String, String)>,
}

impl Client {
    /// Without a certificate.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, identity: None }
    }

    /// With the certificate and key in `PATH.crt` and `PATH.key`.
    pub fn certificate(self, path: &Path) -> anyhow::Result<Self> {
        let read = |end: &str| std::fs::read_to_string(path.with_extension(end));
        Ok(Self { identity: Some((read("crt")?, read("key")?)), ..self })
    }

    /// With a certificate that nobody has signed.
    pub fn self_signed(self, name: &str) -> anyhow::Result<Self> {
        Ok(Self { identity: Some(pair(name)?), ..self })
    }

    /// With a certificate of an authority's.
    pub fn signed_by(self, authority: &Authority, name: &str) -> anyhow::Result<Self> {
        let own = KeyPair::generate()?;
        let mut params = named(name)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&own, &authority.issuer)?;
        Ok(Self { identity: Some((certificate.pem(), own.serialize_pem())), ..self })
    }

    /// GET, with a bearer token or without.
    pub async fn get(&self, path: &str, token: Option<&str>) -> anyhow::Result<Answer> {
        let value = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = value.iter().map(|value| ("Authorization", value.as_str())).collect();
        self.get_with(path, &headers).await
    }

    /// The protocol that the server takes of these.
    pub async fn negotiates(&self, protocols: &[&str]) -> anyhow::Result<Option<String>> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Any))
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|one| one.as_bytes().to_vec()).collect();
        let tcp = tokio::net::TcpStream::connect(self.address).await?;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector.connect(ServerName::try_from("localhost")?, tcp).await?;
        let taken = stream.get_ref().1.alpn_protocol();
        Ok(taken.map(|taken| String::from_utf8_lossy(taken).into_owned()))
    }

    /// GET with headers.
    pub async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> anyhow::Result<Answer> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Any));
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain =
                    CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>()?;
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes())?)?
            }
        };
        let tcp = tokio::net::TcpStream::connect(self.address).await?;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector.connect(ServerName::try_from("localhost")?, tcp).await?;
        let shown = stream.get_ref().1.peer_certificates().context("no certificate")?[0].to_vec();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut request = http::Request::get(path).header("Host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
        let status = response.status().as_u16();
        let body = String::from_utf8(response.into_body().collect().await?.to_bytes().into())?;
        Ok(Answer { status, body, server: common_name(&shown) })
    }
}

fn named(name: &str) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

/// A certificate that signs itself, and its key.
pub fn pair(name: &str) -> anyhow::Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((named(name)?.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// Who signs certificates.
pub struct Authority {
    /// Its certificate.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// An authority of this name.
pub fn authority(name: &str) -> anyhow::Result<Authority> {
    let key = KeyPair::generate()?;
    let mut params = named(name)?;
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    Ok(Authority { pem: params.self_signed(&key)?.pem(), issuer: Issuer::new(params, key) })
}

/// The certificate of an authority of this name, and its key.
pub fn authority_with_key(name: &str) -> anyhow::Result<(String, String)> {
    let key = KeyPair::generate()?;
    let mut params = named(name)?;
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// A request for a certificate: of a node's or of somebody's, for serving or not.
pub fn request(node: bool, serving: bool) -> anyhow::Result<String> {
    let names = if serving { vec!["node-1".to_owned()] } else { Vec::new() };
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    if node {
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    }
    params.distinguished_name.push(DnType::CommonName, if node { "system:node:node-1" } else { "ann" });
    Ok(params.serialize_request(&KeyPair::generate()?)?.pem()?)
}

/// Who signed a certificate, and for how many seconds it is good.
pub fn issuer_and_seconds(pem: &[u8]) -> anyhow::Result<(String, i64)> {
    use x509_cert::der::Decode;
    let der = CertificateDer::from_pem_slice(pem).map_err(|error| anyhow::anyhow!("{error}"))?;
    let certificate = x509_cert::Certificate::from_der(&der)?;
    let of = certificate.tbs_certificate();
    let unix = |time: &x509_cert::time::Time| time.to_unix_duration().as_secs() as i64;
    let seconds = unix(&of.validity().not_after) - unix(&of.validity().not_before);
    Ok((of.issuer().to_string(), seconds))
}

/// The common name in a certificate: the last text after its object identifier.
fn common_name(der: &[u8]) -> String {
    const COMMON_NAME: [u8; 5] = [6, 3, 0x55, 4, 3];
    let Some(at) = der.windows(5).rposition(|window| window == COMMON_NAME) else { return String::new() };
    let rest = &der[at + 5..];
    let length = usize::from(rest.get(1).copied().unwrap_or_default());
    String::from_utf8_lossy(rest.get(2..2 + length).unwrap_or_default()).into_owned()
}

/// Believes any server: which certificate it shows is what is looked at.
#[derive(Debug)]
struct Any;

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
