//! One Secret.

use std::time::Duration;

use coxswain_sdk::contract::Level;
use coxswain_sdk::resource::SECRETS;
use coxswain_sdk::service_account::{ServiceAccount, TOKEN};
use coxswain_sdk::{Action, Ask, Ctx, Error, FromJson, Object, Plan, Query, Result, Time, from_json};
use serde_json::json;

use crate::{PERIOD, Pod, TokenSecret};

/// The API server writes here when a token was last used.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// A token with this label is refused.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// The API server writes in this ConfigMap since when it tracks.
pub(crate) const TRACKING: &str =
    "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(FromJson)]
struct Tracking {
    #[serde(default)]
    data: Since,
}

#[derive(Default, FromJson)]
#[serde(default)]
struct Since {
    since: String,
}

pub(crate) fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let period = ctx.option_duration(PERIOD)?;
    if period.is_zero() {
        return Err(Error::Terminal(format!("--{PERIOD} must be above 0")));
    }
    let Some(secret) = ctx.primary::<TokenSecret>()? else { return Ok(plan) };
    let meta = &secret.metadata;
    if secret.kind != TOKEN || meta.is_deleting() {
        return Ok(plan);
    }
    // The cheap questions come first: few Secrets are left for the others.
    let now = ctx.now();
    if let Some(due) = meta.creation_timestamp.map(|made| after(made + period)).filter(|due| *due > now) {
        plan.come_back(due);
        return Ok(plan);
    }
    if let Some(used) = meta.labels.get(LAST_USED) {
        let Some(used) = day(used) else {
            ctx.log(Level::Error, &format!("label {LAST_USED}={used:?} is no date"));
            return Ok(plan);
        };
        if let Some(due) = ends(used, period, now) {
            plan.come_back(due);
            return Ok(plan);
        }
    }
    if !was_made_by_kubernetes(ctx, &secret)? || is_mounted(ctx, &secret)? {
        return Ok(plan);
    }
    let since = match tracked_since(ctx)? {
        Ok(since) => since,
        Err(why) => {
            ctx.log(Level::Error, &why);
            plan.come_back(now + DAY);
            return Ok(plan);
        }
    };
    // From the day after: on the first one not all of the day was tracked.
    if let Some(due) = Some(since + DAY + period).filter(|due| *due > now) {
        plan.come_back(due);
        return Ok(plan);
    }
    match meta.labels.get(INVALID_SINCE).and_then(|since| day(since)) {
        None => {
            let body = json!({"metadata": {"labels": {INVALID_SINCE: date(now)}}});
            let mark = Action::merge(SECRETS, &meta.namespace, &meta.name, &body).uid(&meta.uid);
            plan.then(mark.tag("mark"));
        }
        Some(since) => match ends(since, period, now) {
            Some(due) => drop(plan.come_back(due)),
            None => {
                plan.then(
                    Action::delete(SECRETS, &meta.namespace, &meta.name).as_seen(&secret).tag("delete"),
                );
            }
        },
    }
    Ok(plan)
}

/// When a date lies more than a period in the past; None if it does already.
fn ends(date: Time, period: Duration, now: Time) -> Option<Time> {
    Some(date + DAY + period).filter(|due| *due > now)
}

/// Just after a time that must have passed.
fn after(time: Time) -> Time {
    time + Duration::from_millis(1)
}

/// Only such Secrets are in their account's list.
fn was_made_by_kubernetes(ctx: &Ctx<'_>, secret: &Object<TokenSecret>) -> Result<bool> {
    let (meta, of) = (&secret.metadata, &secret.metadata.annotations);
    let account = ctx.get::<ServiceAccount>(&meta.namespace, &of.name)?;
    Ok(account.is_some_and(|account| of.is(&account.metadata.uid) && account.lists(&meta.name)))
}

fn is_mounted(ctx: &Ctx<'_>, secret: &Object<TokenSecret>) -> Result<bool> {
    let pods = ctx.list::<Pod>(Query::all().namespace(&secret.metadata.namespace))?;
    Ok(pods.iter().any(|pod| pod.names(&secret.metadata.name)))
}

/// Since when the API server tracks; or why that is not known.
fn tracked_since(ctx: &Ctx<'_>) -> Result<Result<Time, String>> {
    let found = match ctx.look_up(Ask::Raw(TRACKING.to_owned()))? {
        Ok(found) => found,
        Err(failure) => {
            return Ok(Err(format!("since when tokens are tracked is not known: {}", failure.message)));
        }
    };
    let since = match from_json::<Tracking>(&found) {
        Ok(tracking) => tracking.data.since,
        Err(error) => return Ok(Err(format!("since when tokens are tracked cannot be read: {error}"))),
    };
    Ok(day(&since).ok_or_else(|| format!("since when tokens are tracked is no date: {since:?}")))
}

/// A date as labels have it.
fn day(text: &str) -> Option<Time> {
    if text.len() == 10 { Time::parse(&format!("{text}T00:00:00Z")) } else { None }
}

fn date(time: Time) -> String {
    let mut text = time.to_string();
    text.truncate(10);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_whole_days() {
        let at = |text: &str| Time::parse(text).unwrap();
        assert_eq!(day("2026-01-02"), Some(at("2026-01-02T00:00:00Z")));
        for text in ["", "2026-1-2", "2026-02-30", "2026-01-02T00:00:00Z", "yesterday!"] {
            assert_eq!(day(text), None, "{text}");
        }
        assert_eq!(date(at("2026-01-02T23:59:59Z")), "2026-01-02");
        // Used on the second: through the third minus a day's period it counts as used.
        let due = |now: &str| ends(at("2026-01-02T00:00:00Z"), DAY, at(now));
        assert_eq!(due("2026-01-03T23:59:59Z"), Some(at("2026-01-04T00:00:00Z")));
        assert_eq!(due("2026-01-04T00:00:00Z"), None);
    }
}
