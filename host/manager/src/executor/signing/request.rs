//! Certificate requests (PKCS #10).

use der::{Any, Decode, Encode, Sequence, asn1::BitString};
use rustls::{
    crypto::ring::default_provider,
    pki_types::{
        SignatureVerificationAlgorithm,
        pem::{PemObject, SectionKind},
    },
};
use x509_cert::{
    request::CertReqInfo,
    spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned},
};

/// A request, its content not parsed: that is what is signed.
#[derive(Sequence)]
struct Signed {
    info: Any,
    algorithm: AlgorithmIdentifierOwned,
    signature: BitString,
}

/// The public key of a request (PEM) whose signature holds.
pub(super) fn public_key(pem: &str) -> Result<SubjectPublicKeyInfoOwned, String> {
    let (kind, der) = <(SectionKind, Vec<u8>)>::from_pem_slice(pem.as_bytes())
        .map_err(|error| format!("the request is not PEM: {error}"))?;
    if kind != SectionKind::Csr {
        return Err("the request is not a CERTIFICATE REQUEST".to_owned());
    }
    let unreadable = |error: der::Error| format!("the request cannot be read: {error}");
    let request = Signed::from_der(&der).map_err(unreadable)?;
    let signed = request.info.to_der().map_err(unreadable)?;
    let key = CertReqInfo::from_der(&signed).map_err(unreadable)?.public_key;
    let algorithm = verifier(&key.algorithm, &request.algorithm).map_err(unreadable)?.ok_or_else(|| {
        format!(
            "signatures of the algorithm {} by keys of {} are not supported",
            request.algorithm.oid, key.algorithm.oid
        )
    })?;
    algorithm
        .verify_signature(key.subject_public_key.raw_bytes(), &signed, request.signature.raw_bytes())
        .map_err(|_| "the signature of the request does not hold".to_owned())?;
    Ok(key)
}

/// What verifies this kind of signature by this kind of key.
fn verifier(
    key: &AlgorithmIdentifierOwned,
    signature: &AlgorithmIdentifierOwned,
) -> der::Result<Option<&'static dyn SignatureVerificationAlgorithm>> {
    let (key, signature) = (content(key)?, content(signature)?);
    let all = default_provider().signature_verification_algorithms.all;
    Ok(all
        .iter()
        .find(|one| *one.public_key_alg_id() == *key && *one.signature_alg_id() == *signature)
        .copied())
}

/// An algorithm's identifier without its outer header.
fn content(identifier: &AlgorithmIdentifierOwned) -> der::Result<Vec<u8>> {
    Ok(Any::encode_from(identifier)?.value().to_vec())
}
