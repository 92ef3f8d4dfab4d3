//! The three requests an informer makes: a list in pages, a list as a stream,
//! and a watch.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, header};
use tokio::time::timeout;

use super::{
    stream::Stream,
    trouble::Trouble,
    wire::{self, Event, Page},
};
use crate::{
    api::{ApiClient, ApiError, collection_path, query_escape},
    contract::GroupResource,
    store::{Object, PruneSpec},
};

const PAGE: usize = 500;
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// A list in one piece may be large.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(300);
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// A server that streams lists begins soon; one that took the request for a
/// plain watch stays silent, or never says that the list is complete.
const SILENCE: Duration = Duration::from_secs(15);

/// A complete list.
pub(super) struct Listed {
    pub(super) objects: Vec<Object>,
    pub(super) resource_version: String,
}

/// Reads one resource for one union of fields.
pub(super) struct Reader {
    api: ApiClient,
    path: String,
    spec: Arc<PruneSpec>,
}

impl Reader {
    pub(super) fn new(api: ApiClient, name: &GroupResource, spec: Arc<PruneSpec>) -> Self {
        Self { api, path: collection_path(name, ""), spec }
    }

    /// Which union of fields this reads.
    pub(super) fn generation(&self) -> u64 {
        self.spec.generation()
    }

    /// An object for the store, which knows itself what kind of object it is:
    /// items of a list need not say, and metadata alone says something else.
    pub(super) fn object(&self, raw: &str) -> Result<Object, Trouble> {
        self.spec.prune(raw.as_bytes()).map_err(|e| Trouble::Unreadable(e.to_string()))
    }

    /// Lists in pages. Each list is as of now, never older, so that a relist
    /// does not take the cache back in time.
    pub(super) async fn list(&self) -> Result<Listed, Trouble> {
        match self.list_pages(Some(PAGE)).await {
            // The pages outlived what the server remembers: take it in one piece.
            Err(trouble) if trouble.expired() => self.list_pages(None).await,
            result => result,
        }
    }

    async fn list_pages(&self, limit: Option<usize>) -> Result<Listed, Trouble> {
        let mut listed = Listed { objects: Vec::new(), resource_version: String::new() };
        let mut token = String::new();
        loop {
            let mut path = self.path.clone();
            if let Some(limit) = limit {
                path.push_str(&format!("?limit={limit}"));
                if !token.is_empty() {
                    path.push_str(&format!("&continue={}", query_escape(&token)));
                }
            }
            let timeout = if limit.is_some() { PAGE_TIMEOUT } else { WHOLE_TIMEOUT };
            let body = self.get(&path, timeout).await?;
            let page: Page =
                serde_json::from_slice(&body).map_err(|e| Trouble::Unreadable(format!("a list: {e}")))?;
            let items = page.items.unwrap_or_default();
            listed.objects.reserve(items.len());
            for chunk in items.chunks(PAGE) {
                for raw in chunk {
                    listed.objects.push(self.object(raw.get())?);
                }
                tokio::task::yield_now().await;
            }
            listed.resource_version = page.metadata.resource_version;
            token = page.metadata.r#continue;
            if token.is_empty() || limit.is_none() {
                break;
            }
        }
        if listed.resource_version.is_empty() {
            return Err(Trouble::Unreadable(
                "a list without a resourceVersion, which cannot be watched".into(),
            ));
        }
        Ok(listed)
    }

    async fn get(&self, path: &str, timeout: Duration) -> Result<Bytes, ApiError> {
        let accept = if self.spec.metadata_only() { wire::METADATA_LIST } else { wire::WHOLE };
        let headers = [(header::ACCEPT, accept)];
        Ok(self.api.send(Method::GET, path, &headers, Bytes::new(), timeout).await?.body)
    }

    /// Lists by a watch that begins with what there is. The watch goes on.
    pub(super) async fn list_streaming(&self, promised: Duration) -> Result<(Listed, Stream), Trouble> {
        let query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let mut stream = self.open(query, promised).await?;
        // By name, for the watch may change what it has already told.
        let mut objects = BTreeMap::new();
        loop {
            let Ok(next) = timeout(SILENCE, stream.next()).await else {
                return Err(Trouble::NoStreamingList("its watch began, and told nothing"));
            };
            let Some(range) = next? else {
                return Err(if stream.ran_its_time() {
                    Trouble::NoStreamingList("its watch ended before the list was complete")
                } else {
                    Trouble::Cut("the stream ended before the list was complete".into())
                });
            };
            let name = |object: &Object| (object.namespace().to_owned(), object.name().to_owned());
            match wire::parse_event(stream.line(range)).map_err(unreadable)? {
                Event::Added(raw) | Event::Modified(raw) => {
                    let object = self.object(raw)?;
                    objects.insert(name(&object), object);
                }
                Event::Deleted(raw) => {
                    objects.remove(&name(&self.object(raw)?));
                }
                Event::Bookmark { resource_version, initial_events_end: true } => {
                    let objects = objects.into_values().collect();
                    return Ok((Listed { objects, resource_version }, stream));
                }
                Event::Bookmark { .. } | Event::Unknown(_) => {}
                Event::Error(failure) => return Err(Trouble::Api(ApiError { failure, retry_after: None })),
            }
        }
    }

    /// Watches what comes after a resourceVersion.
    pub(super) async fn watch(&self, resource_version: &str, promised: Duration) -> Result<Stream, Trouble> {
        self.open(&format!("&resourceVersion={}", query_escape(resource_version)), promised).await
    }

    async fn open(&self, query: &str, promised: Duration) -> Result<Stream, Trouble> {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}{query}",
            self.path,
            promised.as_secs()
        );
        let accept = if self.spec.metadata_only() { wire::METADATA } else { wire::WHOLE };
        let response = self.api.open(&path, accept, HEAD_TIMEOUT).await?;
        Ok(Stream::new(response.into_body(), promised))
    }
}

pub(super) fn unreadable(error: serde_json::Error) -> Trouble {
    Trouble::Unreadable(format!("an event: {error}"))
}

/// The resourceVersion the server is at, for one resource.
pub(super) async fn latest(api: &ApiClient, name: &GroupResource) -> Result<String, ApiError> {
    let path = format!("{}?limit=1", collection_path(name, ""));
    let headers = [(header::ACCEPT, wire::METADATA_LIST)];
    let body = api.send(Method::GET, &path, &headers, Bytes::new(), PAGE_TIMEOUT).await?.body;
    let page: Page = serde_json::from_slice(&body).map_err(|e| {
        ApiError::no_answer(format!("{path} was answered with something else than a list: {e}"))
    })?;
    Ok(page.metadata.resource_version)
}
