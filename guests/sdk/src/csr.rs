//! CertificateSigningRequests, and what Kubernetes asks of those of kubelets.
//!
//! Rules: <https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/>.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::condition::Condition;
use crate::meta::ObjectMeta;
use crate::read::FromJson;
use crate::resource::{CERTIFICATE_SIGNING_REQUESTS, Resource};
use crate::sort::sort_by;
use crate::view::View;
use crate::x509::{self, Request};

/// Signer of client certificates that kubelets use.
pub const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signer of serving certificates of kubelets.
pub const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// Signer of client certificates.
pub const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// Signer of whatever is asked for.
pub const LEGACY_UNKNOWN: &str = "kubernetes.io/legacy-unknown";

/// A CertificateSigningRequest.
#[derive(Debug, FromJson)]
pub struct SigningRequest {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(default)]
    pub spec: Spec,
    /// What became of it.
    #[serde(default)]
    pub status: Status,
}

impl View for SigningRequest {
    const RESOURCE: Resource = CERTIFICATE_SIGNING_REQUESTS;
}

/// What is asked for.
#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The request in PEM, in base64.
    pub request: String,
    /// Who is to sign it.
    pub signer_name: String,
    /// For how long, in seconds.
    pub expiration_seconds: Option<i32>,
    /// For what.
    pub usages: Vec<String>,
    /// Who asks: name.
    pub username: String,
}

/// What became of it.
#[derive(Debug, Default, FromJson)]
#[serde(default)]
pub struct Status {
    /// The certificate in PEM, in base64.
    pub certificate: String,
    /// Decisions.
    pub conditions: Vec<Condition>,
}

impl Status {
    fn has(&self, kind: &str) -> bool {
        self.conditions.iter().any(|condition| condition.kind == kind)
    }

    /// Whether somebody approved it; that a condition is there is enough.
    pub fn is_approved(&self) -> bool {
        self.has("Approved")
    }

    /// Whether somebody denied it.
    pub fn is_denied(&self) -> bool {
        self.has("Denied")
    }

    /// Whether it failed.
    pub fn is_failed(&self) -> bool {
        let failed = |c: &Condition| c.kind == "Failed" && matches!(c.status.as_str(), "" | "True");
        self.conditions.iter().any(failed)
    }

    /// Whether there is a certificate.
    pub fn is_issued(&self) -> bool {
        !self.certificate.is_empty()
    }
}

impl Spec {
    /// The request in PEM.
    pub fn pem(&self) -> Result<String, x509::Unreadable> {
        let bytes = STANDARD.decode(&self.request).map_err(|_| "the request is not base64")?;
        String::from_utf8(bytes).map_err(|_| "the request is not UTF-8")
    }

    /// What the request says.
    pub fn parse(&self) -> Result<Request, x509::Unreadable> {
        x509::request(self.pem()?.as_bytes())
    }

    /// Whether exactly these usages are asked for, in any order.
    fn asks_for(&self, usages: &[&str]) -> bool {
        usages.iter().all(|usage| self.usages.iter().any(|u| u == usage))
            && self.usages.iter().all(|u| usages.contains(&u.as_str()))
    }

    /// What keeps it from being a client certificate of a kubelet.
    pub fn check_kubelet_client(&self, request: &Request) -> Result<(), String> {
        check_organization(request)?;
        if !request.dns_names.is_empty() {
            return Err("DNS subjectAltNames are not allowed".to_owned());
        }
        check_mail(request)?;
        if !request.ip_addresses.is_empty() {
            return Err("IP subjectAltNames are not allowed".to_owned());
        }
        check_uris(request)?;
        check_common_name(request)?;
        self.check_usages("client auth")
    }

    /// What keeps it from being a serving certificate of a kubelet.
    pub fn check_kubelet_serving(&self, request: &Request) -> Result<(), String> {
        check_organization(request)?;
        if request.dns_names.is_empty() && request.ip_addresses.is_empty() {
            return Err("DNS or IP subjectAltName is required".to_owned());
        }
        check_mail(request)?;
        check_uris(request)?;
        self.check_usages("server auth")?;
        check_common_name(request)
    }

    /// What keeps it from being a client certificate.
    pub fn check_client(&self) -> Result<(), String> {
        let optional = ["digital signature", "key encipherment", "client auth"];
        if let Some(other) = self.usages.iter().find(|usage| !optional.contains(&usage.as_str())) {
            return Err(format!("invalid usage for client certificate: {other}"));
        }
        if !self.usages.iter().any(|usage| usage == "client auth") {
            return Err("missing required usage for client certificate: client auth".to_owned());
        }
        Ok(())
    }

    /// Key encipherment is for RSA keys, and may be there for others.
    fn check_usages(&self, auth: &str) -> Result<(), String> {
        if self.asks_for(&["digital signature", auth])
            || self.asks_for(&["digital signature", "key encipherment", auth])
        {
            return Ok(());
        }
        let mut wanted = ["digital signature", "key encipherment", auth];
        sort_by(&mut wanted, Ord::cmp);
        Err(format!("usages did not match [{}]", wanted.join(" ")))
    }
}

fn check_organization(request: &Request) -> Result<(), String> {
    if request.subject.organization == ["system:nodes"] {
        return Ok(());
    }
    Err("subject organization is not system:nodes".to_owned())
}

fn check_common_name(request: &Request) -> Result<(), String> {
    if request.subject.common_name.starts_with("system:node:") {
        return Ok(());
    }
    Err("subject common name does not begin with system:node:".to_owned())
}

fn check_mail(request: &Request) -> Result<(), String> {
    if request.email_addresses.is_empty() {
        return Ok(());
    }
    Err("Email subjectAltNames are not allowed".to_owned())
}

fn check_uris(request: &Request) -> Result<(), String> {
    if request.uris.is_empty() {
        return Ok(());
    }
    Err("URI subjectAltNames are not allowed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x509::Subject;

    fn spec(usages: &[&str]) -> Spec {
        Spec { usages: usages.iter().map(|usage| (*usage).to_owned()).collect(), ..Spec::default() }
    }

    fn node() -> Request {
        let organization = vec!["system:nodes".to_owned()];
        let subject = Subject { organization, common_name: "system:node:n1".into(), ..Subject::default() };
        Request { subject, ..Request::default() }
    }

    const CLIENT_USAGES: &[&str] = &["client auth", "digital signature", "key encipherment"];
    const SERVING_USAGES: &[&str] = &["server auth", "digital signature"];

    #[test]
    fn a_kubelets_client_certificate() {
        let changed = |change: fn(&mut Request)| {
            let mut request = node();
            change(&mut request);
            request
        };
        for (request, usages, verdict) in [
            (node(), CLIENT_USAGES, ""),
            (node(), &["digital signature", "client auth"], ""),
            (node(), &["client auth", "client auth", "digital signature"], ""),
            (
                node(),
                &["client auth"],
                "usages did not match [client auth digital signature key encipherment]",
            ),
            (node(), &[], "usages did not match [client auth digital signature key encipherment]"),
            (
                node(),
                &["client auth", "digital signature", "any"],
                "usages did not match [client auth digital signature key encipherment]",
            ),
            (
                changed(|r| r.subject.organization.push("system:masters".into())),
                CLIENT_USAGES,
                "subject organization is not system:nodes",
            ),
            (
                changed(|r| r.subject.organization.clear()),
                CLIENT_USAGES,
                "subject organization is not system:nodes",
            ),
            (
                changed(|r| r.subject.common_name = "node".into()),
                CLIENT_USAGES,
                "subject common name does not begin with system:node:",
            ),
            (changed(|r| r.dns_names.push("a".into())), CLIENT_USAGES, "DNS subjectAltNames are not allowed"),
            (
                changed(|r| r.email_addresses.push("a".into())),
                CLIENT_USAGES,
                "Email subjectAltNames are not allowed",
            ),
            (
                changed(|r| r.ip_addresses.push([1; 4].into())),
                CLIENT_USAGES,
                "IP subjectAltNames are not allowed",
            ),
            (changed(|r| r.uris.push("a".into())), CLIENT_USAGES, "URI subjectAltNames are not allowed"),
        ] {
            let found = spec(usages).check_kubelet_client(&request).err().unwrap_or_default();
            assert_eq!(found, verdict, "{request:?} {usages:?}");
        }
    }

    #[test]
    fn a_kubelets_serving_certificate() {
        let mut request = node();
        let check =
            |request: &Request, usages| spec(usages).check_kubelet_serving(request).err().unwrap_or_default();
        assert_eq!(check(&request, SERVING_USAGES), "DNS or IP subjectAltName is required");
        request.ip_addresses.push([1; 4].into());
        assert_eq!(check(&request, SERVING_USAGES), "");
        assert_eq!(check(&request, &["digital signature", "key encipherment", "server auth"]), "");
        assert_eq!(
            check(&request, CLIENT_USAGES),
            "usages did not match [digital signature key encipherment server auth]"
        );
        request.subject.common_name.clear();
        assert_eq!(check(&request, SERVING_USAGES), "subject common name does not begin with system:node:");
        request.uris.push("a".into());
        assert_eq!(check(&request, SERVING_USAGES), "URI subjectAltNames are not allowed");
        request.email_addresses.push("a".into());
        assert_eq!(check(&request, SERVING_USAGES), "Email subjectAltNames are not allowed");
        request.subject.organization.clear();
        assert_eq!(check(&request, SERVING_USAGES), "subject organization is not system:nodes");
    }

    #[test]
    fn a_client_certificate() {
        for (usages, verdict) in [
            (&["client auth"][..], ""),
            (CLIENT_USAGES, ""),
            (&["digital signature"], "missing required usage for client certificate: client auth"),
            (&[], "missing required usage for client certificate: client auth"),
            (&["client auth", "server auth"], "invalid usage for client certificate: server auth"),
        ] {
            assert_eq!(spec(usages).check_client().err().unwrap_or_default(), verdict, "{usages:?}");
        }
    }

    #[test]
    fn what_is_decided() {
        let status = |json: &str| serde_json::from_str::<Status>(json).unwrap();
        let of = |conditions: &str| status(&format!(r#"{{"conditions":{conditions}}}"#));
        assert!(!status("{}").is_approved() && !status(r#"{"conditions":null}"#).is_failed());
        assert!(of(r#"[{"type":"Approved","status":"False"}]"#).is_approved());
        assert!(of(r#"[{"type":"Denied","status":"True"}]"#).is_denied());
        assert!(of(r#"[{"type":"Failed"}]"#).is_failed());
        assert!(!of(r#"[{"type":"Failed","status":"False"}]"#).is_failed());
        assert!(status(r#"{"certificate":"eA=="}"#).is_issued());
    }
}
