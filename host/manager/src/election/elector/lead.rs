//! Holding a lease: renewing it, and giving it up.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::{Elector, End, Observed};
use crate::election::{
    config::Timing,
    record::{Lease, Record, micro_time},
    state::add,
    term::{Moment, Term},
};

/// What came of an attempt to renew.
enum Renewal {
    Done(Moment),
    Lost(String),
    Failed,
}

impl Elector {
    /// Renews until the lease is lost or we are to stop.
    pub(super) async fn lead(&mut self, term: &Term) -> End {
        let Timing { retry, renew_deadline, lease, .. } = self.shared.timing;
        let group = self.group.clone();
        loop {
            tokio::select! {
                () = group.unwanted() => return End::Stopped,
                () = sleep(retry) => {}
            }
            let begun = Instant::now();
            let give_up = begun + renew_deadline.min(lease.saturating_sub(term.age()));
            loop {
                if term.age() >= lease {
                    return End::Lost(format!("not renewed for {:.1?}", term.age()));
                }
                match self.renew(give_up).await {
                    Renewal::Done(sent) => {
                        // The server's answer may have taken longer than the lease.
                        if sent.elapsed(&self.shared.clock) >= lease || term.age() >= lease {
                            return End::Lost(format!("not renewed for {:.1?}", term.age()));
                        }
                        term.renewed(sent);
                        add(&self.group.counters.renewals);
                        break;
                    }
                    Renewal::Lost(reason) => return End::Lost(reason),
                    Renewal::Failed => {}
                }
                tokio::select! {
                    () = group.unwanted() => return End::Stopped,
                    () = sleep(retry) => {}
                    () = sleep_until(give_up) => {}
                }
                if Instant::now() >= give_up {
                    let last = self.trouble.last();
                    return End::Lost(format!("not renewed for {:.1?}; last: {last}", term.age()));
                }
            }
        }
    }

    /// Renews the lease: as it was last seen, and if that fails after a look.
    async fn renew(&mut self, give_up: Instant) -> Renewal {
        let shared = self.shared.clone();
        let timeout = || {
            let left = give_up.saturating_duration_since(Instant::now());
            shared.timing.request().min(left).max(Duration::from_millis(1))
        };
        if let Some(Observed { lease, .. }) = &self.observed {
            let record = self.renewed(&lease.record);
            let sent = Moment::now(&shared.clock);
            match shared.client.update(lease, &record, timeout()).await {
                Ok(lease) => return self.renewed_to(lease, sent),
                Err(error) if error.failure.status == 409 || error.failure.status == 404 => {
                    tracing::debug!(lease = self.group.lease, %error, "the lease has changed; reading it");
                }
                // A look would fare no better; if the write got through after all, the next one finds out.
                Err(error) => {
                    self.failed("renew the lease", &error);
                    return Renewal::Failed;
                }
            }
        }
        add(&self.group.counters.slow_renewals);
        let lease = match shared.client.get(&self.group.lease, timeout()).await {
            Ok(Some(lease)) => lease,
            // Whoever makes it anew first has it; nobody else has had it yet.
            Ok(None) => {
                let record = self.record(None);
                let sent = Moment::now(&shared.clock);
                return match shared.client.create(&self.group.lease, &record, timeout()).await {
                    Ok(lease) => self.renewed_to(lease, sent),
                    Err(error) => {
                        self.failed("make the lease anew", &error);
                        Renewal::Failed
                    }
                };
            }
            Err(error) => {
                self.failed("read the lease", &error);
                return Renewal::Failed;
            }
        };
        if lease.record.holder_identity != shared.identity {
            let holder = lease.record.holder_identity.clone();
            self.observe(lease);
            let by = if holder.is_empty() { "nobody".to_owned() } else { holder };
            return Renewal::Lost(format!("it is held by {by} now"));
        }
        let record = self.renewed(&lease.record);
        let sent = Moment::now(&shared.clock);
        match shared.client.update(&lease, &record, timeout()).await {
            Ok(lease) => self.renewed_to(lease, sent),
            Err(error) => {
                self.failed("renew the lease", &error);
                Renewal::Failed
            }
        }
    }

    fn renewed_to(&mut self, lease: Lease, sent: Moment) -> Renewal {
        self.trouble.over(&self.group);
        self.observe(lease);
        Renewal::Done(sent)
    }

    /// Gives the lease up, so that nobody has to wait for its end.
    pub(super) async fn release(&mut self) {
        let shared = self.shared.clone();
        let timeout = shared.timing.request();
        for fresh in [false, true] {
            if fresh {
                match shared.client.get(&self.group.lease, timeout).await {
                    Ok(Some(lease)) => self.observe(lease),
                    Ok(None) => return,
                    Err(error) => return self.failed("release the lease", &error),
                }
            }
            let Some(Observed { lease, .. }) = &self.observed else { continue };
            if lease.record.holder_identity != shared.identity {
                return;
            }
            let now = micro_time(shared.clock.now());
            let record = Record {
                holder_identity: String::new(),
                lease_duration_seconds: 1,
                acquire_time: now.clone(),
                renew_time: now,
                lease_transitions: lease.record.lease_transitions,
            };
            match shared.client.update(lease, &record, timeout).await {
                Ok(lease) => {
                    self.observe(lease);
                    tracing::info!(lease = self.group.lease, "released the lease");
                    return;
                }
                Err(error) if error.failure.status == 409 && !fresh => {}
                Err(error) => return self.failed("release the lease", &error),
            }
        }
    }
}
