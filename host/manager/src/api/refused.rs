//! Refusals that whoever runs the manager can mend, and how.

use crate::contract::Failure;

/// Why the API server refuses a request that is well formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It does not know who asks (401).
    Credentials = 1,
    /// Whoever asks lacks the right (403 of its authorizer).
    Authorization = 2,
    /// Admission forbids it (403): a quota, a policy, a namespace that is being
    /// terminated. No role helps.
    Admission = 4,
}

impl Refused {
    /// The refusal that a failure is, if it is one.
    pub(super) fn of(failure: &Failure) -> Option<Self> {
        match failure.status {
            401 => Some(Self::Credentials),
            403 if is_unauthorized(failure) => Some(Self::Authorization),
            403 => Some(Self::Admission),
            _ => None,
        }
    }

    /// What is told of it, with what to do.
    pub(super) fn text(self, message: &str) -> String {
        match self {
            Self::Credentials => {
                format!("the API server does not accept our credentials (401): {message}")
            }
            Self::Authorization => format!(
                "the API server forbids a request (403): {message}; `coxswain rbac` prints the roles that the modules need"
            ),
            Self::Admission => format!("the API server forbids a request (403): {message}"),
        }
    }
}

/// Whether a refusal is the authorizer's. Admission answers with the same reason;
/// only the message tells them apart:
/// `pods is forbidden: User "u" cannot list resource "pods" in API group ""`.
pub(crate) fn is_unauthorized(failure: &Failure) -> bool {
    let said = failure.message.split_once("forbidden: ").map(|(_, said)| said);
    let said = said.and_then(|said| said.strip_prefix("User \"")?.split_once("\" cannot "));
    failure.status == 403
        && failure.reason == "Forbidden"
        && failure.causes.is_empty()
        && said.is_some_and(|(_, what)| what.contains(" resource \"") || what.contains(" path \""))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::api::parse_status;

    #[test]
    fn only_the_authorizers_refusal_is_mended_by_roles() {
        let forbidden = |details: &str, message: &str| {
            let body = format!(
                r#"{{"kind":"Status","reason":"Forbidden","code":403,"details":{details},"message":{}}}"#,
                serde_json::Value::from(message)
            );
            let failure = parse_status(StatusCode::FORBIDDEN, body.as_bytes());
            let refused = Refused::of(&failure).unwrap();
            let told = refused.text(&failure.message);
            assert!(told.contains(message), "{told}");
            assert_eq!(told.contains("coxswain rbac"), refused == Refused::Authorization, "{told}");
            refused
        };
        let user = r#"User "system:serviceaccount:a:b" cannot"#;
        for message in [
            format!(r#"pods is forbidden: {user} list resource "pods" in API group "" at the cluster scope"#),
            format!(
                r#"pods "x" is forbidden: {user} delete resource "pods" in API group "" in the namespace "a""#
            ),
            format!(r#"forbidden: {user} get path "/healthz""#),
        ] {
            assert_eq!(forbidden("{}", &message), Refused::Authorization, "{message}");
        }
        let terminating = r#"pods "x" is forbidden: unable to create new content in namespace a because it is being terminated"#;
        let cause = r#"{"causes":[{"reason":"NamespaceTerminating","message":"being terminated","field":"metadata.namespace"}]}"#;
        assert_eq!(forbidden(cause, terminating), Refused::Admission);
        for message in [
            terminating,
            r#"pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"#,
            r#"pods "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no resource "pods" here"#,
            r#"pods "x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false"#,
        ] {
            assert_eq!(forbidden("{}", message), Refused::Admission, "{message}");
        }
        let unknown = parse_status(StatusCode::UNAUTHORIZED, b"Unauthorized");
        assert_eq!(Refused::of(&unknown), Some(Refused::Credentials));
        assert_eq!(Refused::of(&parse_status(StatusCode::CONFLICT, b"")), None);
    }
}
