//! `coxswain cluster` as a process: it may be killed, commanded, and asked who may do what.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use coxswain_tests::{
    built_program,
    program::{Killed, client, said},
};
use serde_json::{Value, json};

/// A running cluster.
struct Running {
    child: Killed,
    client: kube::Client,
}

impl Running {
    async fn start(dir: &Path, more: &[&str]) -> anyhow::Result<Self> {
        let path = built_program();
        ensure!(path.is_file(), "{} is not there; build it with `make build`", path.display());
        let child = Command::new(path)
            .env("RUST_LOG", "warn")
            .args(["cluster", "--json", "--dir"])
            .arg(dir.join("cluster"))
            .arg("--data-dir")
            .arg(dir.join("data"))
            .args(more)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut child = Killed(child);
        let said = said(&mut child)?;
        Ok(Self { client: client(&said).await?, child })
    }

    /// The code of an answer and its JSON.
    async fn ask(&self, method: &str, path: &str, user: &str, body: Value) -> anyhow::Result<(u16, Value)> {
        let mut request = http::Request::builder().method(method).uri(path);
        if !user.is_empty() {
            request = request.header("impersonate-user", user);
        }
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = request.header("content-type", "application/json").body(body)?;
        match self.client.request::<Value>(request).await {
            Ok(value) => Ok((200, value)),
            Err(kube::Error::Api(status)) => Ok((status.code, json!({"message": status.message}))),
            Err(error) => Err(error.into()),
        }
    }
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_cluster_has_all_that_it_answered() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let mut running = Running::start(dir.path(), &["--nodes=0"]).await?;
    for number in 0..300 {
        let map = json!({"metadata": {"name": format!("m{number}")}, "data": {"k": "v"}});
        ensure!(running.ask("POST", MAPS, "", map).await?.0 == 200, "m{number} is not created");
    }
    running.child.kill()?;
    running.child.wait()?;
    drop(running);
    let running = Running::start(dir.path(), &["--nodes=0"]).await?;
    let (_, list) = running.ask("GET", MAPS, "", Value::Null).await?;
    let items = list["items"].as_array().context("items")?;
    let kept = items.iter().filter(|map| map["data"]["k"] == "v").count();
    ensure!(kept == 300, "{kept} of 300 are left");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_commanded_by_those_whom_the_roles_allow() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let flags = ["--nodes=2", "--admin", "--authorization-mode=RBAC"];
    let running = Running::start(dir.path(), &flags).await?;
    const NODES: &str = "/localcluster/nodes";
    let (code, refused) = running.ask("GET", NODES, "bob", Value::Null).await?;
    let expected = r#"forbidden: User "bob" cannot get path "/localcluster/nodes""#;
    ensure!(code == 403 && refused["message"] == expected, "{code} {refused}");
    let states = async || -> anyhow::Result<Value> {
        let (_, all) = running.ask("GET", NODES, "", Value::Null).await?;
        Ok(all["nodes"].as_array().into_iter().flatten().map(|node| node["state"].clone()).collect())
    };
    ensure!(states().await? == json!(["alive", "alive"]));
    for (command, expected) in [
        ("node-1/stop", json!(["stopped", "alive"])),
        ("node-2/vanish", json!(["stopped", "unregistered"])),
        ("node-1/return", json!(["alive", "unregistered"])),
        ("node-2/return", json!(["alive", "alive"])),
    ] {
        let (code, answer) = running.ask("POST", &format!("{NODES}/{command}"), "", Value::Null).await?;
        ensure!(code == 200, "{command}: {answer}");
        let now = states().await?;
        ensure!(now == expected, "after {command}: {now}");
    }
    let (code, _) = running.ask("GET", "/api/v1/nodes/node-2", "", Value::Null).await?;
    ensure!(code == 200, "it registers anew");
    let (code, _) = running.ask("POST", &format!("{NODES}/none/stop"), "", Value::Null).await?;
    ensure!(code == 404, "no such node: {code}");
    let more = json!({"count": 1, "prefix": "big-", "labels": {"size": "big"}});
    ensure!(running.ask("POST", NODES, "", more).await?.0 == 200);
    let (_, big) = running.ask("GET", "/api/v1/nodes?labelSelector=size%3Dbig", "", Value::Null).await?;
    ensure!(big["items"].as_array().map(Vec::len) == Some(1), "{big}");
    let (code, _) = running.ask("POST", NODES, "", json!({"cuont": 1})).await?;
    ensure!(code == 400, "an unknown field: {code}");
    Ok(())
}
