//! A new leader waits until its caches show what the last one wrote.

use std::{collections::HashMap, sync::Arc};

use futures::StreamExt;
use tokio::{sync::OnceCell, time::Instant};

use super::term::Term;
use crate::informer::Informers;

/// Resources that are asked about at once.
const TOGETHER: usize = 16;

impl Term {
    /// Waits until the caches of these resources have caught up with the start
    /// of the term. Each is asked about once a term, whoever needs it. Without an
    /// election nobody else has led, and there is nothing to wait for.
    pub async fn catch_up(&self, resources: Vec<u32>, informers: &Informers) {
        let Some(since) = self.caught_up_since() else { return };
        tokio::time::sleep_until(since).await;
        futures::stream::iter(resources)
            .for_each_concurrent(TOGETHER, |resource| async move {
                let cell = self.cell(resource);
                cell.get_or_init(|| informers.catch_up(resource, since)).await;
            })
            .await;
    }

    fn cell(&self, resource: u32) -> Arc<OnceCell<()>> {
        self.caught_up.lock().entry(resource).or_default().clone()
    }

    fn caught_up_since(&self) -> Option<Instant> {
        self.is_elected().then_some(self.begun)
    }
}

/// What each resource of a term has come to.
pub(super) type CaughtUp = HashMap<u32, Arc<OnceCell<()>>>;
