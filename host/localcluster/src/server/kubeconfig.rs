//! The kubeconfig that clients are given.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::pki::Pki;

/// A kubeconfig with one context, for the administrator. Everything is in it, so that it can be copied.
pub fn render(server: &str, pki: &Pki) -> String {
    let encode = |pem: &str| STANDARD.encode(pem);
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: localcluster\n\
        \x20 cluster:\n\
        \x20   server: {server}\n\
        \x20   certificate-authority-data: {}\n\
         users:\n\
         - name: admin\n\
        \x20 user:\n\
        \x20   client-certificate-data: {}\n\
        \x20   client-key-data: {}\n\
         contexts:\n\
         - name: localcluster\n\
        \x20 context:\n\
        \x20   cluster: localcluster\n\
        \x20   user: admin\n\
        \x20   namespace: default\n\
         current-context: localcluster\n",
        encode(&pki.ca),
        encode(&pki.admin),
        encode(&pki.admin_key),
    )
}
