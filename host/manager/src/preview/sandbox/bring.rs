//! Bringing resources over from the cluster.

use std::{collections::BTreeMap, collections::HashMap, sync::Arc, time::Duration};

use coxswain_localcluster::{
    crd,
    rest::strategy::{Consulted, Kind, StorageId},
};
use futures::future::join_all;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::Sandbox;
use crate::{
    api::{ApiError, collection_path, query_escape},
    contract::{GroupResource, display_name},
};

/// The group of what admits writes.
const ADMISSION: &str = "admissionregistration.k8s.io";
/// Objects asked for at once.
const PAGE: usize = 500;
/// How long a page may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What is here already.
#[derive(Default)]
pub(super) struct Brought {
    resources: Mutex<HashMap<StorageId, Arc<OnceCell<()>>>>,
    checked_against: OnceCell<()>,
    troubles: Mutex<BTreeMap<String, String>>,
}

impl Brought {
    pub(super) fn troubles(&self) -> BTreeMap<String, String> {
        self.troubles.lock().clone()
    }
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(default)]
    items: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMeta {
    r#continue: String,
}

impl Sandbox {
    /// Has all objects of a resource here.
    pub(super) async fn bring(&self, kind: &Arc<Kind>) -> Result<(), ApiError> {
        let kinds = self.rest.registry().kinds();
        let kind = kinds.stored(&kind.storage).unwrap_or(kind).clone();
        let cell = self.brought.resources.lock().entry(kind.storage.clone()).or_default().clone();
        cell.get_or_try_init(|| self.list(&kind)).await.copied()
    }

    /// Has all custom resources known here.
    pub(super) async fn bring_definitions(&self) -> Result<(), ApiError> {
        let definitions = ("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        let Some(kind) = self.find(definitions) else { return Ok(()) };
        self.bring(&kind).await
    }

    /// Has here what writes are checked against. What cannot be read is taken for empty, and named.
    pub(super) async fn bring_checked_against(&self) {
        let all = async || {
            let kinds = self.rest.registry().kinds();
            let stored = |(group, plural): (&str, &str)| {
                kinds.stored(&StorageId { group: group.into(), plural: plural.into() }).cloned()
            };
            let bring = |kind: Arc<Kind>| async move {
                if let Err(error) = self.bring(&kind).await
                    // A cluster of an older version may not serve it.
                    && error.failure.status != 404
                {
                    self.brought.troubles.lock().insert(display_name(&named(&kind)), error.to_string());
                }
            };
            let all = Consulted::ALL.iter().map(|one| one.resource());
            join_all(all.filter_map(stored).map(bring)).await;
        };
        self.brought.checked_against.get_or_init(all).await;
    }

    /// What of the cluster's admission is not asked here: names of its webhooks and policies. What cannot be
    /// listed is named as such.
    pub(crate) async fn admission(&self) -> Vec<String> {
        let kinds = self.rest.registry().kinds();
        let is_stored =
            |kind: &Arc<Kind>| kinds.stored(&kind.storage).is_some_and(|one| Arc::ptr_eq(one, kind));
        let of_group = kinds.all().iter().filter(|kind| kind.group == ADMISSION && is_stored(kind));
        // A binding says where a policy counts, which is named already.
        let asked = of_group.filter(|kind| !kind.plural.ends_with("bindings")).map(|kind| async move {
            let path = collection_path(&named(kind), "");
            let listed = self.cluster.get(&path, TIMEOUT).await;
            match listed.map(|answer| serde_json::from_slice::<Page>(&answer.body)) {
                Ok(Ok(page)) => {
                    let items = page.items.unwrap_or_default();
                    let name =
                        |item: &Value| item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                    items.iter().map(|item| format!("{} {}", kind.plural, name(item))).collect()
                }
                Ok(Err(error)) => vec![format!("{} (cannot be listed: {error})", kind.plural)],
                // A cluster of an older version may not serve it.
                Err(error) if error.failure.status == 404 => Vec::new(),
                Err(error) => vec![format!("{} (cannot be listed: {error})", kind.plural)],
            }
        });
        join_all(asked).await.concat()
    }

    async fn list(&self, kind: &Arc<Kind>) -> Result<(), ApiError> {
        let path = collection_path(&named(kind), "");
        // A list that outlives what the server remembers is taken in one piece.
        match self.list_pages(kind, &path, Some(PAGE)).await {
            Err(error) if error.failure.status == 410 => self.list_pages(kind, &path, None).await,
            result => result,
        }
    }

    async fn list_pages(&self, kind: &Arc<Kind>, path: &str, limit: Option<usize>) -> Result<(), ApiError> {
        let mut token = String::new();
        loop {
            let mut path = path.to_owned();
            if let Some(limit) = limit {
                path.push_str(&format!("?limit={limit}"));
            }
            if !token.is_empty() {
                path.push_str(&format!("&continue={}", query_escape(&token)));
            }
            let body = self.cluster.get(&path, TIMEOUT).await?.body;
            let page: Page = serde_json::from_slice(&body)
                .map_err(|error| ApiError::no_answer(format!("{path} was answered with no list: {error}")))?;
            for mut object in page.items.unwrap_or_default() {
                if let Some(fields) = object.as_object_mut() {
                    fields.remove("kind");
                    fields.remove("apiVersion");
                    // Webhooks are asked by the cluster alone: one may act on what it is asked.
                    if kind.group == ADMISSION {
                        fields.remove("webhooks");
                    }
                }
                let object = kind.strategy.to_storage(kind, object);
                self.rest.import(kind, &object);
                if kind.is_definition() {
                    crd::serve(&self.rest, &object);
                }
            }
            token = page.metadata.r#continue;
            if token.is_empty() {
                return Ok(());
            }
        }
    }
}

fn named(kind: &Kind) -> GroupResource {
    GroupResource { group: kind.group.clone(), version: kind.version.clone(), resource: kind.plural.clone() }
}
