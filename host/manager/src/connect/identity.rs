//! The client certificate of a kubeconfig.

use base64::Engine;
use kube::config::AuthInfo;
use rustls::{
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use secrecy::ExposeSecret;
use x509_cert::{
    Certificate,
    der::{Decode, Encode},
};

use super::Error;

/// Certificate and key, if there are any.
pub(super) fn identity(auth: &AuthInfo) -> Result<Option<CertifiedKey>, Error> {
    let certificate = load(
        auth.client_certificate_data.as_deref(),
        auth.client_certificate.as_deref(),
        "client-certificate",
    )?;
    let key_data = auth.client_key_data.as_ref().map(|data| data.expose_secret());
    let key = load(key_data, auth.client_key.as_deref(), "client-key")?;
    let missing =
        |what| Error::Identity { what, reason: "it is missing, though the other half is there".into() };
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(missing("client-key")),
        (None, Some(_)) => Err(missing("client-certificate")),
        (Some(certificate), Some(key)) => certified(&certificate, &key).map(Some),
    }
}

fn certified(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, Error> {
    let unusable =
        |what, reason: &dyn std::fmt::Display| Error::Identity { what, reason: reason.to_string() };
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| unusable("client-certificate", &e))?;
    if chain.is_empty() {
        return Err(unusable("client-certificate", &"there is no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| unusable("client-key", &e))?;
    let key = any_supported_type(&key).map_err(|e| unusable("client-key", &e))?;
    // rustls' own check takes no certificate of version 1.
    let of_key = key.public_key();
    let of_certificate = chain.first().and_then(|first| Certificate::from_der(first).ok());
    if let (Some(of_key), Some(certificate)) = (of_key, of_certificate) {
        let expected = certificate.tbs_certificate().subject_public_key_info().to_der();
        if expected.is_ok_and(|expected| expected.as_slice() != of_key.as_ref()) {
            return Err(unusable("client-key", &"it does not belong to the client-certificate"));
        }
    }
    Ok(CertifiedKey::new(chain, key))
}

/// Data wins over a file, as client-go has it.
fn load(data: Option<&str>, path: Option<&str>, what: &'static str) -> Result<Option<Vec<u8>>, Error> {
    if let Some(data) = data.filter(|data| !data.is_empty()) {
        let decoded = base64::engine::general_purpose::STANDARD
            .decode(data.trim())
            .map_err(|e| Error::Identity { what, reason: format!("not base64: {e}") })?;
        return Ok(Some(decoded));
    }
    match path.filter(|path| !path.is_empty()) {
        Some(path) => {
            std::fs::read(path).map(Some).map_err(|reason| Error::File { path: path.to_owned(), reason })
        }
        None => Ok(None),
    }
}

/// When the certificate ends, if that can be read out of it.
pub(super) fn end(identity: &CertifiedKey) -> Option<jiff::Timestamp> {
    let certificate = Certificate::from_der(identity.cert.first()?).ok()?;
    let end = certificate.tbs_certificate().validity().not_after.to_unix_duration();
    jiff::Timestamp::from_second(i64::try_from(end.as_secs()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_1_certificate_is_presented() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        // What a small CA script makes: without extensions, openssl writes version 1.
        let script = format!(
            "cd {} && openssl req -newkey rsa:2048 -nodes -keyout k -out r -subj /CN=a && openssl x509 -req -in r -signkey k -out c -days 1",
            dir.path().display()
        );
        let made = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(made.status.success(), "openssl is needed: {}", String::from_utf8_lossy(&made.stderr));
        let auth = AuthInfo {
            client_certificate: Some(path("c")),
            client_key: Some(path("k")),
            ..AuthInfo::default()
        };
        assert!(identity(&auth).unwrap().is_some());
    }

    #[test]
    fn what_is_wrong_with_an_identity_is_said() {
        let auth = |certificate: Option<&str>, key: Option<&str>| AuthInfo {
            client_certificate: certificate.map(str::to_owned),
            client_key: key.map(str::to_owned),
            ..AuthInfo::default()
        };
        assert!(identity(&AuthInfo::default()).unwrap().is_none());
        let error = identity(&auth(Some("/does/not/exist"), None)).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /does/not/exist"), "{error}");
        let empty = tempfile::NamedTempFile::new().unwrap();
        let path = empty.path().to_str();
        let error = identity(&auth(path, path)).unwrap_err().to_string();
        assert!(error.contains("there is no certificate in it"), "{error}");
        let error = identity(&auth(path, None)).unwrap_err().to_string();
        assert!(error.contains("client-key") && error.contains("missing"), "{error}");
    }
}
