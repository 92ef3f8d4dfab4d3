//! A private key, and the certificate that goes with it.
//!
//! Keys are RSA of 2048 bits and more, ECDSA on P-256 or P-384, and Ed25519.

use std::sync::Arc;

use der::{Decode, Encode, asn1::OctetString};
use rustls::{
    SignatureScheme,
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::SigningKey,
};
use x509_cert::{Certificate, ext::pkix::SubjectKeyIdentifier, time::Time};

/// How a key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// RSA PKCS #1 with SHA-256.
    Rsa,
    /// ECDSA on P-256 with SHA-256.
    P256,
    /// ECDSA on P-384 with SHA-384.
    P384,
    /// Ed25519.
    Ed25519,
}

/// All of them.
const ALGORITHMS: [(Algorithm, SignatureScheme); 4] = [
    (Algorithm::Rsa, SignatureScheme::RSA_PKCS1_SHA256),
    (Algorithm::P256, SignatureScheme::ECDSA_NISTP256_SHA256),
    (Algorithm::P384, SignatureScheme::ECDSA_NISTP384_SHA384),
    (Algorithm::Ed25519, SignatureScheme::ED25519),
];

/// A key with its certificate, if it has one.
pub(super) struct Identity {
    key: Arc<dyn SigningKey>,
    scheme: SignatureScheme,
    /// How it signs.
    pub algorithm: Algorithm,
    /// Its public key: a SubjectPublicKeyInfo in DER.
    pub public_key: Vec<u8>,
    /// What its certificate says.
    pub issuer: Option<Issuer>,
}

/// What an issuer's certificate says about it.
pub(super) struct Issuer {
    /// Its name, in DER.
    pub name: Vec<u8>,
    /// Its key identifier, if the certificate has one.
    pub key_id: Option<OctetString>,
    /// When the certificate ends.
    pub not_after: Time,
}

/// What is wrong with a key or its certificate.
#[derive(Debug)]
pub(super) struct Trouble {
    /// Whether it is the certificate.
    pub in_certificate: bool,
    /// What it is.
    pub reason: String,
}

impl Identity {
    /// Reads a key and its certificate (PEM).
    pub fn load(key: &[u8], certificate: Option<&[u8]>) -> Result<Self, Trouble> {
        let of_key = |reason: String| Trouble { in_certificate: false, reason };
        let of_certificate = |reason: String| Trouble { in_certificate: true, reason };
        let mut identity = Self::of_key(key).map_err(of_key)?;
        let Some(certificate) = certificate else { return Ok(identity) };
        let certificate = single_certificate(certificate).map_err(of_certificate)?;
        let tbs = certificate.tbs_certificate();
        let der = |what: &str, e: der::Error| of_certificate(format!("its {what} cannot be written: {e}"));
        let public_key = tbs.subject_public_key_info().to_der().map_err(|e| der("public key", e))?;
        if public_key != identity.public_key {
            return Err(of_certificate("it is not the certificate of the private key".into()));
        }
        let key_id = tbs.get_extension::<SubjectKeyIdentifier>().ok().flatten().map(|(_, id)| id.0);
        identity.issuer = Some(Issuer {
            name: tbs.subject().to_der().map_err(|e| der("subject", e))?,
            key_id,
            not_after: tbs.validity().not_after,
        });
        Ok(identity)
    }

    /// The first private key in a file that can be used; other blocks, such as
    /// the parameters that openssl writes before an elliptic curve key, are
    /// passed over.
    fn of_key(pem: &[u8]) -> Result<Self, String> {
        let mut unusable = None;
        for key in PrivateKeyDer::pem_slice_iter(pem) {
            let key = key.map_err(|error| format!("it is not PEM: {error}"))?;
            match any_supported_type(&key) {
                Ok(key) => {
                    let scheme =
                        |(_, scheme): &&(Algorithm, SignatureScheme)| key.choose_scheme(&[*scheme]).is_some();
                    let Some((algorithm, scheme)) = ALGORITHMS.iter().find(scheme) else { continue };
                    let Some(public_key) = key.public_key().map(|der| der.to_vec()) else { continue };
                    return Ok(Self {
                        scheme: *scheme,
                        algorithm: *algorithm,
                        public_key,
                        issuer: None,
                        key,
                    });
                }
                Err(error) => unusable = Some(error),
            }
        }
        Err(match unusable {
            Some(error) => format!(
                "its private key cannot be used ({error}); RSA of 2048 to 4096 bits, ECDSA on P-256 or P-384, and Ed25519 can"
            ),
            None => "there is no private key in it".to_owned(),
        })
    }

    /// Signs. ECDSA signatures are in DER.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let signer = self.key.choose_scheme(&[self.scheme]).ok_or("the key does not sign")?;
        signer.sign(message).map_err(|error| error.to_string())
    }
}

/// The one certificate in a file.
fn single_certificate(pem: &[u8]) -> Result<Certificate, String> {
    let found = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("it is not PEM: {error}"))?;
    match found.as_slice() {
        [one] => {
            Certificate::from_der(one).map_err(|error| format!("its certificate cannot be read: {error}"))
        }
        none_or_many => Err(format!("expected one certificate in it, found {}", none_or_many.len())),
    }
}
