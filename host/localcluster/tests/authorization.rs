//! Who may do what, over real sockets, in the words of kube-apiserver 1.36.2.

use coxswain_localcluster::AuthorizationMode;
use serde_json::{Value, json};

mod support;

use support::{Reply, Running, read_all, send, start};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const JSON: &str = "content-type: application/json";
const MERGE: &str = "content-type: application/merge-patch+json";
const BOB: &str = "impersonate-user: bob";

async fn rbac() -> Running {
    start(|config| config.authorization = AuthorizationMode::Rbac).await
}

async fn post(running: &Running, path: &str, as_user: &[&str], object: &Value) -> Reply {
    let headers: Vec<&str> = [JSON].iter().chain(as_user).copied().collect();
    running.ask("POST", path, &headers, object.to_string().as_bytes()).await
}

/// A cluster role for bob, bound in the whole cluster.
async fn grant(running: &Running, name: &str, rules: Value) {
    let role = json!({"metadata": {"name": name}, "rules": rules});
    let reply = post(running, &format!("{RBAC}/clusterroles"), &[], &role).await;
    assert_eq!(reply.code, 201, "{}", reply.body);
    bind(running, name, &json!({"kind": "User", "name": "bob"})).await;
}

async fn bind(running: &Running, role: &str, subject: &Value) {
    let binding = json!({
        "metadata": {"name": role}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
    });
    let reply = post(running, &format!("{RBAC}/clusterrolebindings"), &[], &binding).await;
    assert_eq!(reply.code, 201, "{}", reply.body);
}

fn message(reply: &Reply) -> String {
    let body: Value = serde_json::from_str(&reply.body).unwrap_or_default();
    body["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn without_a_role_a_user_is_refused_in_the_words_of_the_real_server() {
    let running = rbac().await;
    for (path, expected) in [
        (
            "/api/v1/namespaces/default/pods",
            r#"pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default""#,
        ),
        (
            "/api/v1/nodes/n1/status",
            r#"nodes "n1" is forbidden: User "bob" cannot get resource "nodes/status" in API group "" at the cluster scope"#,
        ),
        ("/metrics", r#"forbidden: User "bob" cannot get path "/metrics""#),
        (
            "/apis/nosuch.io/v1/foos",
            r#"foos.nosuch.io is forbidden: User "bob" cannot list resource "foos" in API group "nosuch.io" at the cluster scope"#,
        ),
        (
            "/api/v1/pods?watch=1&fieldSelector=metadata.name%3Dx",
            r#"pods "x" is forbidden: User "bob" cannot watch resource "pods" in API group "" at the cluster scope"#,
        ),
        (
            "/api/v1/namespaces/foo",
            r#"namespaces "foo" is forbidden: User "bob" cannot get resource "namespaces" in API group "" in the namespace "foo""#,
        ),
    ] {
        let reply = running.ask("GET", path, &[BOB], b"").await;
        assert_eq!((reply.code, message(&reply).as_str()), (403, expected), "{path}");
        assert!(reply.head.contains("x-content-type-options: nosniff"), "{}", reply.head);
    }
    for path in ["/apis", "/api/v1", "/version", "/openapi/v3"] {
        assert_eq!(running.ask("GET", path, &[BOB], b"").await.code, 200, "{path}");
    }
}

#[tokio::test]
async fn without_a_credential_one_is_anonymous() {
    let running = rbac().await;
    let ask = async |path: &str, headers: &[&str]| {
        let mut stream = running.connect(false).await;
        send(&mut stream, "GET", path, headers, b"").await;
        read_all(&mut stream).await.expect("an answer")
    };
    let reply = ask("/api/v1/pods", &[]).await;
    let expected = r#"pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope"#;
    assert_eq!((reply.code, message(&reply).as_str()), (403, expected));
    assert_eq!(ask("/version", &[]).await.code, 200);
    assert_eq!(ask("/healthz", &[]).await.code, 200);
    assert_eq!(ask("/healthz/ping", &[]).await.code, 403);
    assert_eq!(ask("/api", &["authorization: Bearer x"]).await.code, 401);
}

#[tokio::test]
async fn roles_allow_what_they_say_and_their_removal_takes_it_away() {
    let running = rbac().await;
    grant(
        &running,
        "reader",
        json!([
            {"apiGroups": [""], "resources": ["pods", "configmaps/status"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["mine"]},
        ]),
    )
    .await;
    let code = async |path: &str| running.ask("GET", path, &[BOB], b"").await.code;
    assert_eq!(code("/api/v1/pods").await, 200);
    assert_eq!(code("/api/v1/pods?watch=1").await, 403);
    assert_eq!(code("/api/v1/namespaces/default/pods/x/log").await, 403);
    assert_eq!(code("/api/v1/namespaces/default/secrets/mine").await, 404, "allowed, but absent");
    assert_eq!(code("/api/v1/namespaces/default/secrets/yours").await, 403);
    assert_eq!(code("/api/v1/namespaces/default/secrets").await, 403);
    let gone = running.ask("DELETE", &format!("{RBAC}/clusterrolebindings/reader"), &[], b"").await;
    assert_eq!(gone.code, 200);
    assert_eq!(code("/api/v1/pods").await, 403);
    // A binding without its role is told.
    bind(&running, "nope", &json!({"kind": "User", "name": "bob"})).await;
    let reply = running.ask("GET", "/api/v1/namespaces/x/secrets", &[BOB], b"").await;
    let expected = r#"secrets is forbidden: User "bob" cannot list resource "secrets" in API group "" in the namespace "x": RBAC: clusterrole.rbac.authorization.k8s.io "nope" not found"#;
    assert_eq!(message(&reply), expected);
}

#[tokio::test]
async fn nobody_grants_what_they_do_not_have() {
    let running = rbac().await;
    grant(
        &running,
        "rolemaker",
        json!([
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "update", "patch", "get", "delete"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"], "resourceNames": ["a"]},
        ]),
    )
    .await;
    bind(&running, "nope", &json!({"kind": "User", "name": "bob"})).await;
    let roles = format!("{RBAC}/clusterroles");
    let too_much = json!({"metadata": {"name": "r1"}, "rules": [
        {"apiGroups": ["", "apps"], "resources": ["pods", "pods/log", "secrets"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a", "b"]},
        {"nonResourceURLs": ["/x", "/api/*"], "verbs": ["get", "post"]},
    ]});
    let reply = post(&running, &roles, &[BOB], &too_much).await;
    let expected = r#"clusterroles.rbac.authorization.k8s.io "r1" is forbidden: user "bob" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}
{APIGroups:[""], Resources:["pods"], Verbs:["get" "list" "watch"]}
{APIGroups:[""], Resources:["pods/log"], Verbs:["get" "list" "watch"]}
{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}
{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list" "watch"]}
{APIGroups:["apps"], Resources:["pods/log"], Verbs:["get" "list" "watch"]}
{APIGroups:["apps"], Resources:["secrets"], Verbs:["get" "list" "watch"]}
{NonResourceURLs:["/api/*"], Verbs:["post"]}
{NonResourceURLs:["/x"], Verbs:["get"]}
{NonResourceURLs:["/x"], Verbs:["post"]}; resolution errors: [clusterroles.rbac.authorization.k8s.io "nope" not found]"#;
    assert_eq!((reply.code, message(&reply).as_str()), (403, expected));

    let held = json!({"metadata": {"name": "r2"}, "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]}]});
    assert_eq!(post(&running, &roles, &[BOB], &held).await.code, 201);
    let wider = json!({"rules": [{"apiGroups": ["x"], "resources": ["secrets"], "verbs": ["get"]}]});
    let path = format!("{roles}/r2");
    let reply = running.ask("PATCH", &path, &[MERGE, BOB], wider.to_string().as_bytes()).await;
    assert_eq!(reply.code, 403, "{}", reply.body);

    let gathering = json!({"metadata": {"name": "r3"}, "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    let reply = post(&running, &roles, &[BOB], &gathering).await;
    assert!(message(&reply).ends_with("must have cluster-admin privileges to use the aggregationRule"));

    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let binding = |role: &str| {
        json!({"metadata": {"name": "b1"}, "roleRef":
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
    };
    let reply = post(&running, &bindings, &[BOB], &binding("missing")).await;
    let expected = r#"rolebindings.rbac.authorization.k8s.io "missing" not found"#;
    assert_eq!((reply.code, message(&reply).as_str()), (404, expected));
    assert_eq!(post(&running, &bindings, &[BOB], &binding("cluster-admin")).await.code, 403);
    assert_eq!(post(&running, &bindings, &[BOB], &binding("r2")).await.code, 201);

    // The verbs `bind` and `escalate` allow it.
    grant(
        &running,
        "escalator",
        json!([
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["escalate"]},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"],
             "resourceNames": ["cluster-admin"]},
        ]),
    )
    .await;
    assert_eq!(post(&running, &roles, &[BOB], &too_much).await.code, 201);
    let mut admin = binding("cluster-admin");
    admin["metadata"]["name"] = "b2".into();
    assert_eq!(post(&running, &bindings, &[BOB], &admin).await.code, 201);
}

#[tokio::test]
async fn who_may_impersonate_is_asked_of_the_roles() {
    let running = rbac().await;
    let account = json!({"metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(post(&running, accounts, &[], &account).await.code, 201);
    let wanted = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let reply = post(&running, &format!("{accounts}/robot/token"), &[], &wanted).await;
    let answer: Value = serde_json::from_str(&reply.body).expect("a token");
    let bearer = format!("authorization: Bearer {}", answer["status"]["token"].as_str().expect("text"));
    let whoami = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let ask = async |headers: &[&str]| {
        let headers: Vec<&str> = [JSON, &bearer].iter().chain(headers).copied().collect();
        let mut stream = running.connect(false).await;
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        send(&mut stream, "POST", path, &headers, whoami.to_string().as_bytes()).await;
        read_all(&mut stream).await.expect("an answer")
    };
    assert!(ask(&[]).await.body.contains("system:serviceaccount:default:robot"));
    let reply = ask(&[BOB]).await;
    assert!(message(&reply).contains(r#"User "system:serviceaccount:default:robot" cannot impersonate-on:user-info:create resource "selfsubjectreviews""#), "{}", reply.body);
    let rules = json!([{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["bob"]}]);
    let role = json!({"metadata": {"name": "actor"}, "rules": rules});
    assert_eq!(post(&running, &format!("{RBAC}/clusterroles"), &[], &role).await.code, 201);
    bind(&running, "actor", &json!({"kind": "ServiceAccount", "namespace": "default", "name": "robot"}))
        .await;
    let reply = ask(&[BOB]).await;
    let answer: Value = serde_json::from_str(&reply.body).expect("JSON");
    assert_eq!(answer["status"]["userInfo"], json!({"username": "bob", "groups": ["system:authenticated"]}));
    assert_eq!(ask(&["impersonate-user: eve"]).await.code, 403);
    assert_eq!(ask(&[BOB, "impersonate-group: system:masters"]).await.code, 403);
    let reply = ask(&["impersonate-group: g"]).await;
    let expected = r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string(nil)} without impersonating a user name"#;
    assert_eq!((reply.code, message(&reply).as_str()), (400, expected));
}

#[tokio::test]
async fn reviews_are_answered_from_the_roles() {
    let running = rbac().await;
    grant(&running, "reader", json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}])).await;
    let review = async |kind: &str, namespace: &str, spec: Value, headers: &[&str]| {
        let path = format!("/apis/authorization.k8s.io/v1{namespace}/{}s", kind.to_lowercase());
        let object = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
        let reply = post(&running, &path, headers, &object).await;
        let answer: Value = serde_json::from_str(&reply.body).expect("JSON");
        answer["status"].clone()
    };
    let asked = |verb: &str| json!({"verb": verb, "resource": "pods", "namespace": "x", "name": "a"});
    let allowed = json!({"allowed": true, "reason":
        r#"RBAC: allowed by ClusterRoleBinding "reader" of ClusterRole "reader" to User "bob""#});
    let spec = |verb: &str| json!({"user": "bob", "resourceAttributes": asked(verb)});
    assert_eq!(review("SubjectAccessReview", "", spec("get"), &[]).await, allowed);
    assert_eq!(review("SubjectAccessReview", "", spec("delete"), &[]).await, json!({"allowed": false}));
    assert_eq!(review("LocalSubjectAccessReview", "/namespaces/x", spec("get"), &[]).await, allowed);
    let own = json!({"resourceAttributes": asked("get")});
    assert_eq!(review("SelfSubjectAccessReview", "", own, &[BOB]).await, allowed);
    let rules = review("SelfSubjectRulesReview", "", json!({"namespace": "x"}), &[BOB]).await;
    let pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    assert!(rules["resourceRules"].as_array().expect("rules").contains(&pods), "{rules}");
    assert_eq!(rules["incomplete"], false);
}

#[tokio::test]
async fn a_service_account_may_do_what_its_roles_allow_and_a_put_that_creates_needs_create() {
    let running = rbac().await;
    grant(
        &running,
        "updater",
        json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["update", "patch", "escalate"]}]),
    )
    .await;
    let role = json!({"metadata": {"name": "new"}, "rules": []});
    let path = format!("{RBAC}/clusterroles/new");
    let reply = running.ask("PUT", &path, &[JSON, BOB], role.to_string().as_bytes()).await;
    let expected = r#"clusterroles.rbac.authorization.k8s.io "new" is forbidden: User "bob" cannot create resource "clusterroles" in API group "rbac.authorization.k8s.io" at the cluster scope"#;
    assert_eq!((reply.code, message(&reply).as_str()), (403, expected));
    // What the API server brings: a controller's role is bound to its service account.
    let headers = ["impersonate-user: system:serviceaccount:kube-system:replicaset-controller"];
    assert_eq!(running.ask("GET", "/api/v1/pods", &headers, b"").await.code, 200);
    assert_eq!(running.ask("GET", "/api/v1/secrets", &headers, b"").await.code, 403);
}
