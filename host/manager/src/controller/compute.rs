//! Who computes when: guests share the processors.
//!
//! In: calls of guests, at most one at a time of each version of a controller.
//! Out: their results. Kept: as many calls are started at once as there are
//! processors; one that takes longer than a slice gives its place up and goes on
//! beside the others, stepping back for them (`engine::pace`). So a guest that
//! spins until its deadline costs the others little, and never their turn.

use std::time::Duration;

use tokio::{sync::Semaphore, task::JoinError};

/// How long a call keeps its place. Nearly all are over long before.
const SLICE: Duration = Duration::from_millis(20);

/// The places on the processors.
#[derive(Debug)]
pub struct Compute {
    places: Semaphore,
}

impl Compute {
    /// With so many places.
    pub fn new(places: usize) -> Self {
        Self { places: Semaphore::new(places.max(1)) }
    }

    /// Runs a call on a thread where it may block.
    pub async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        // The semaphore is never closed; an error would only mean no bound.
        let place = self.places.acquire().await;
        let mut running = tokio::task::spawn_blocking(call);
        match tokio::time::timeout(SLICE, &mut running).await {
            Ok(done) => done,
            Err(_) => {
                drop(place);
                running.await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_call_that_takes_long_keeps_nobody_from_a_place() {
        let compute = Arc::new(Compute::new(1));
        let (end, ended) = mpsc::channel::<()>();
        let (begin, begun) = oneshot::channel();
        let slow = compute.clone();
        let call = move || {
            begin.send(()).unwrap();
            ended.recv()
        };
        let slow = tokio::spawn(async move { slow.run(call).await.unwrap() });
        begun.await.unwrap();
        let others = async {
            for n in 0..20 {
                assert_eq!(compute.run(move || n).await.unwrap(), n);
            }
        };
        tokio::time::timeout(Duration::from_secs(60), others).await.expect("a place for the others");
        assert!(!slow.is_finished());
        end.send(()).unwrap();
        slow.await.unwrap().unwrap();
    }
}
