//! Files that are replaced while a client is used.

use std::path::Path;

use coxswain_localcluster::{Cluster, ClusterConfig};
use kube::config::{
    AuthInfo, Cluster as Named, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use serde_json::Value;

use super::*;

async fn config(auth: AuthInfo, kubeconfig: &Path, authority: &Path) -> Config {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let server = file.clusters[0].cluster.clone().unwrap().server;
    let cluster =
        Named { server, certificate_authority: Some(authority.display().to_string()), ..Named::default() };
    let context = Context { cluster: "c".into(), user: Some("u".into()), ..Context::default() };
    let file = Kubeconfig {
        clusters: vec![NamedCluster { name: "c".into(), cluster: Some(cluster), ..Default::default() }],
        contexts: vec![NamedContext { name: "c".into(), context: Some(context), ..Default::default() }],
        auth_infos: vec![NamedAuthInfo { name: "u".into(), auth_info: Some(auth), ..Default::default() }],
        current_context: Some("c".into()),
        ..Kubeconfig::default()
    };
    Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap()
}

/// Looks at the files before each request.
fn always(authority: &Path) -> Reload {
    Reload { authority: Some(authority.to_owned()), period: Duration::ZERO, ..Reload::default() }
}

async fn whoami(client: &kube::Client) -> Result<String, String> {
    let review = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(review.as_bytes().to_vec())
        .unwrap();
    let answer = client.request::<Value>(request).await.map_err(|error| error.to_string())?;
    Ok(answer["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned())
}

async fn cluster(dir: &Path) -> Cluster {
    let _ = crate::install_crypto();
    Cluster::start(ClusterConfig::new(dir.join("cluster"))).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_replaced_is_presented_and_a_broken_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = cluster(dir.path()).await;
    let pki = cluster.kubeconfig_path().with_file_name("pki");
    let (certificate, key) = (dir.path().join("client.crt"), dir.path().join("client.key"));
    let admin = |name: &str| std::fs::read(pki.join(name)).unwrap();
    std::fs::write(&certificate, admin("admin.crt")).unwrap();
    std::fs::write(&key, admin("admin.key")).unwrap();
    let auth = AuthInfo {
        client_certificate: Some(certificate.display().to_string()),
        client_key: Some(key.display().to_string()),
        ..AuthInfo::default()
    };
    let authority = pki.join("ca.crt");
    let client =
        client(config(auth, cluster.kubeconfig_path(), &authority).await, always(&authority)).unwrap();
    let first = whoami(&client).await.unwrap();
    // Half of another pair: the first goes on.
    let other = signed(&pki, "somebody-else", "somebody-elses-group");
    std::fs::write(&certificate, &other.0).unwrap();
    assert_eq!(whoami(&client).await.as_deref(), Ok(first.as_str()));
    std::fs::write(&key, &other.1).unwrap();
    assert_eq!(whoami(&client).await.as_deref(), Ok("somebody-else"));
    std::fs::write(&certificate, "no certificate").unwrap();
    assert_eq!(whoami(&client).await.as_deref(), Ok("somebody-else"));
    std::fs::remove_file(&certificate).unwrap();
    assert_eq!(whoami(&client).await.as_deref(), Ok("somebody-else"));
    cluster.shutdown().await;
}

/// A client certificate of the cluster's authority, and its key.
fn signed(pki: &Path, name: &str, group: &str) -> (String, String) {
    let run = |command: &str| {
        let done = std::process::Command::new("sh").args(["-c", command]).output().unwrap();
        assert!(done.status.success(), "openssl is needed: {}", String::from_utf8_lossy(&done.stderr));
    };
    let dir = tempfile::tempdir().unwrap();
    let (own, pki) = (dir.path().display(), pki.display());
    run(&format!(
        "cd {own} && echo extendedKeyUsage=clientAuth > e && openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout k -out r -subj /O={group}/CN={name} && \
         openssl x509 -req -in r -CA {pki}/ca.crt -CAkey {pki}/ca.key -set_serial 7 -out c -days 1 -extfile e"
    ));
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    (read("c"), read("k"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_replaced_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = cluster(dir.path()).await;
    let authority = cluster.kubeconfig_path().with_file_name("pki").join("ca.crt");
    let token = dir.path().join("token");
    std::fs::write(&token, "nobody's\n").unwrap();
    let auth = AuthInfo { token_file: Some(token.display().to_string()), ..AuthInfo::default() };
    // Only a request that was refused has the file looked at.
    let reload = Reload { period: Duration::from_secs(3600), ..always(&authority) };
    let client = client(config(auth, cluster.kubeconfig_path(), &authority).await, reload).unwrap();
    assert!(whoami(&client).await.is_err());
    let admin = Kubeconfig::read_from(cluster.kubeconfig_path()).unwrap();
    let file = Config::from_custom_kubeconfig(admin, &Default::default()).await.unwrap();
    let asker = kube::Client::try_from(file).unwrap();
    let request = http::Request::post("/api/v1/namespaces/default/serviceaccounts")
        .header("content-type", "application/json")
        .body(br#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"own"}}"#.to_vec())
        .unwrap();
    asker.request::<Value>(request).await.unwrap();
    let request = http::Request::post("/api/v1/namespaces/default/serviceaccounts/own/token")
        .header("content-type", "application/json")
        .body(br#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#.to_vec())
        .unwrap();
    let made = asker.request::<Value>(request).await.unwrap();
    std::fs::write(&token, made["status"]["token"].as_str().unwrap()).unwrap();
    assert_eq!(whoami(&client).await.as_deref(), Ok("system:serviceaccount:default:own"));
    // An empty file is half a file.
    std::fs::write(&token, "").unwrap();
    assert_eq!(whoami(&client).await.as_deref(), Ok("system:serviceaccount:default:own"));
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_is_replaced_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let (cluster, other) = (cluster(dir.path()).await, cluster(&dir.path().join("other")).await);
    let pki = |cluster: &Cluster| cluster.kubeconfig_path().with_file_name("pki");
    let authority = dir.path().join("ca.crt");
    std::fs::copy(pki(&other).join("ca.crt"), &authority).unwrap();
    let auth = AuthInfo {
        client_certificate: Some(pki(&cluster).join("admin.crt").display().to_string()),
        client_key: Some(pki(&cluster).join("admin.key").display().to_string()),
        ..AuthInfo::default()
    };
    let client =
        client(config(auth, cluster.kubeconfig_path(), &authority).await, always(&authority)).unwrap();
    assert!(whoami(&client).await.is_err());
    std::fs::copy(pki(&cluster).join("ca.crt"), &authority).unwrap();
    whoami(&client).await.unwrap();
    cluster.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_time_is_over_is_not_sent() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = cluster(dir.path()).await;
    let file = Kubeconfig::read_from(cluster.kubeconfig_path()).unwrap();
    let config = Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
    let client = client(config, Reload::default()).unwrap();
    let create = async |name: &str, until: Option<NotAfter>| {
        let body = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#);
        let mut request = http::Request::post("/api/v1/namespaces/default/configmaps")
            .header("content-type", "application/json")
            .body(kube::client::Body::from(body.into_bytes()))
            .unwrap();
        request.extensions_mut().extend(
            until
                .map(|until| {
                    let mut one = http::Extensions::new();
                    one.insert(until);
                    one
                })
                .unwrap_or_default(),
        );
        client
            .send(request)
            .await
            .map(|answer| answer.status().as_u16())
            .map_err(|error| format!("{error:?}"))
    };
    let now = tokio::time::Instant::now();
    assert_eq!(create("no-time", None).await, Ok(201));
    assert_eq!(create("in-time", Some(NotAfter(now + Duration::from_secs(60)))).await, Ok(201));
    let late = create("too-late", Some(NotAfter(now))).await.unwrap_err();
    assert!(late.contains("its time was over before it was sent"), "{late}");
    // The pool is none the worse for it, and the server has nothing.
    assert_eq!(create("after", None).await, Ok(201));
    let request = http::Request::get("/api/v1/namespaces/default/configmaps").body(Vec::new()).unwrap();
    let all = client.request::<Value>(request).await.unwrap();
    let names: Vec<_> = all["items"].as_array().unwrap().iter().map(|one| &one["metadata"]["name"]).collect();
    assert!(
        names.iter().all(|name| *name != "too-late") && names.iter().any(|name| *name == "after"),
        "{names:?}"
    );
    cluster.shutdown().await;
}
