//! The four signers: their names, keys and rules.

use coxswain_sdk::csr::{CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY_UNKNOWN, Spec};
use coxswain_sdk::x509::Request;
use coxswain_sdk::{Ctx, Error, Result};

/// Key of all signers, unless any has one of its own.
const COMMON: &str = "cluster-signing";

/// Names of signers, and those of their own keys.
const SIGNERS: [(&str, &str); 4] = [
    (KUBELET_SERVING, "cluster-signing-kubelet-serving"),
    (KUBELET_CLIENT, "cluster-signing-kubelet-client"),
    (CLIENT, "cluster-signing-kube-apiserver-client"),
    (LEGACY_UNKNOWN, "cluster-signing-legacy-unknown"),
];

/// Names of all keys.
pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
    std::iter::once(COMMON).chain(SIGNERS.iter().map(|(_, key)| *key))
}

/// The key of a signer. None if it is no signer of ours, or has no key.
pub(crate) fn key(ctx: &Ctx<'_>, signer: &str) -> Result<Option<&'static str>> {
    let Some((_, own)) = SIGNERS.iter().find(|(name, _)| *name == signer) else { return Ok(None) };
    let files = |key: &str| -> Result<(bool, bool)> {
        let given = |part: &str| Ok(!ctx.option(&format!("{key}-{part}-file"))?.is_empty());
        Ok((given("cert")?, given("key")?))
    };
    let mut any_own = false;
    for (_, key) in SIGNERS {
        let (certificate, private) = files(key)?;
        if certificate != private {
            let (there, missing) = if certificate { ("cert", "key") } else { ("key", "cert") };
            return Err(Error::Terminal(format!(
                "--{key}-{there}-file is given without --{key}-{missing}-file"
            )));
        }
        any_own |= certificate;
    }
    let common = files(COMMON)?;
    match (any_own, common) {
        (true, (true, true)) => Err(Error::Terminal(
            "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same time".to_owned(),
        )),
        (true, _) => Ok(Some(*own).filter(|_| files(own).is_ok_and(|(certificate, _)| certificate))),
        (false, (true, true)) => Ok(Some(COMMON)),
        (false, _) => Ok(None),
    }
}

/// What keeps a signer from signing a request.
pub(crate) fn check(spec: &Spec, request: &Request) -> Result<(), String> {
    match spec.signer_name.as_str() {
        KUBELET_SERVING => spec.check_kubelet_serving(request),
        KUBELET_CLIENT => spec.check_kubelet_client(request),
        CLIENT => spec.check_client(),
        // Whatever was approved.
        _ => Ok(()),
    }
}
