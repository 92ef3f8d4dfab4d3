//! How TLS is spoken: versions, cipher suites, and whom we take a certificate
//! from.

use std::sync::Arc;

use rustls::{
    CipherSuite, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
    },
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

use super::{
    Error,
    config::{Serving, TlsVersion},
    names::Certificates,
};

/// Names of suites that Go knows and that are not spoken here: without forward
/// secrecy, or with CBC.
const REFUSED: [&str; 13] = [
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
];

/// Key exchanges that Go numbers, and their names.
const CURVES: [(i32, &str); 5] =
    [(23, "P-256"), (24, "P-384"), (25, "P-521"), (29, "X25519"), (4588, "X25519MLKEM768")];

/// The server's side of TLS.
pub(super) fn config(config: &Serving, certificates: Arc<Certificates>) -> Result<ServerConfig, Error> {
    let mut provider = provider(&config.tls_cipher_suites)?;
    choose_curves(&mut provider, &config.tls_curve_preferences)?;
    let provider = Arc::new(provider);
    let versions: &[&rustls::SupportedProtocolVersion] = match config.tls_min_version {
        TlsVersion::Tls12 => &[&rustls::version::TLS12, &rustls::version::TLS13],
        TlsVersion::Tls13 => &[&rustls::version::TLS13],
    };
    let mut tls = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(|e| Error::flag("--tls-min-version, --tls-cipher-suites", e))?
        .with_client_cert_verifier(Arc::new(AnyCertificate(provider.signature_verification_algorithms)))
        .with_cert_resolver(certificates);
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    if config.disable_http2 {
        tls.alpn_protocols.remove(0);
    }
    Ok(tls)
}

/// Keeps the key exchanges that are named. As with Go, their order is the
/// library's.
fn choose_curves(provider: &mut CryptoProvider, numbers: &[i32]) -> Result<(), Error> {
    if numbers.is_empty() {
        return Ok(());
    }
    let flag = |number: &i32| format!("--tls-curve-preferences={number}");
    let is = |group: &&'static dyn rustls::crypto::SupportedKxGroup, number: i32| {
        i32::from(u16::from(group.name())) == number
    };
    for number in numbers {
        if provider.kx_groups.iter().any(|group| is(group, *number)) {
            continue;
        }
        match CURVES.iter().find(|(known, _)| known == number) {
            Some((_, name)) => tracing::warn!("{}: {name} is not spoken here", flag(number)),
            None => {
                let known = CURVES.map(|(number, name)| format!("{number} ({name})")).join(", ");
                return Err(Error::flag(
                    flag(number),
                    format!("there is no such key exchange; there are {known}"),
                ));
            }
        }
    }
    provider.kx_groups.retain(|group| numbers.iter().any(|number| is(group, *number)));
    if provider.kx_groups.is_empty() {
        return Err(Error::flag("--tls-curve-preferences", "none of these is spoken here; add 23, 24 or 29"));
    }
    Ok(())
}

/// The library with the suites named. As with Go, the flag chooses among those
/// of TLS 1.2; those of 1.3 are always there.
fn provider(names: &[String]) -> Result<CryptoProvider, Error> {
    let mut provider = ring::default_provider();
    if names.is_empty() {
        return Ok(provider);
    }
    let mut chosen: Vec<CipherSuite> = Vec::new();
    for name in names {
        // Go writes ChaCha suites with and without the hash.
        let long = if name.ends_with("CHACHA20_POLY1305") { format!("{name}_SHA256") } else { name.clone() };
        let known = provider.cipher_suites.iter().map(|suite| suite.suite());
        match known.into_iter().find(|suite| go_name(*suite) == long) {
            Some(suite) => chosen.push(suite),
            None if REFUSED.contains(&name.as_str()) => {
                tracing::warn!(
                    "--tls-cipher-suites: {name} is not spoken: it has no forward secrecy, or is broken"
                );
            }
            None => {
                let all: Vec<String> = provider.cipher_suites.iter().map(|s| go_name(s.suite())).collect();
                return Err(Error::flag(
                    format!("--tls-cipher-suites={name}"),
                    format!("there is no such suite; there are {}", all.join(", ")),
                ));
            }
        }
    }
    let is_13 = |suite: CipherSuite| format!("{suite:?}").starts_with("TLS13_");
    provider.cipher_suites.retain(|suite| is_13(suite.suite()) || chosen.contains(&suite.suite()));
    Ok(provider)
}

/// A suite by Go's name.
fn go_name(suite: CipherSuite) -> String {
    format!("{suite:?}").replacen("TLS13_", "TLS_", 1)
}

/// Takes any certificate whose key the peer has. Whether it is to be trusted is
/// asked later, so that one that is not costs an answer and no connection, and
/// authorities can change.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ClientCertVerifier for AnyCertificate {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_chosen_by_gos_names() {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let suites = |list: &[&str]| provider(&names(list)).map(|p| p.cipher_suites.len());
        assert!(suites(&[]).is_ok_and(|all| all > 4));
        // Three of TLS 1.3, and the one named.
        assert!(matches!(suites(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]), Ok(4)));
        assert!(matches!(suites(&["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"]), Ok(4)));
        assert!(matches!(suites(&["TLS_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA"]), Ok(3)));
        let error = suites(&["TLS_NONE"]).unwrap_err().to_string();
        assert!(error.contains("--tls-cipher-suites=TLS_NONE: there is no such suite"), "{error}");
    }

    #[test]
    fn key_exchanges_are_chosen_by_gos_numbers() {
        let chosen = |numbers: &[i32]| {
            let mut provider = ring::default_provider();
            choose_curves(&mut provider, numbers)
                .map(|()| provider.kx_groups.iter().map(|group| u16::from(group.name())).collect::<Vec<_>>())
        };
        assert!(chosen(&[]).is_ok_and(|all| all.len() == 3));
        assert_eq!(chosen(&[24]).unwrap(), [24]);
        assert_eq!(chosen(&[23, 29, 4588]).unwrap().len(), 2);
        let error = chosen(&[7]).unwrap_err().to_string();
        assert!(error.contains("--tls-curve-preferences=7: there is no such key exchange"), "{error}");
        let error = chosen(&[25]).unwrap_err().to_string();
        assert!(error.contains("none of these is spoken here"), "{error}");
    }
}
