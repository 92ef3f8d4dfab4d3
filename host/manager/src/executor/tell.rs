//! The events of a plan.
//!
//! In: events as a module words them. Out: occurrences for the recorder, about
//! an object with apiVersion, kind and resourceVersion.

use super::run::Run;
use crate::{
    contract::{Event, GroupResource},
    events::{Involved, Occurrence},
    grants::{self, Access, Place},
};

impl Run<'_> {
    /// Records an event.
    pub(super) fn record(&self, event: &Event, message: String) {
        let shared = &self.executor.shared;
        let about = &event.about;
        if !self.may_tell(&about.namespace) {
            return;
        }
        let Some((api_version, kind)) = shared.registry.kind_of(about.resource) else {
            tracing::warn!(controller = shared.config.controller, key = %self.key, reason = event.reason, "no event: the cluster does not serve the resource it is about");
            return;
        };
        let resource_version = self
            .executor
            .cache
            .by_name(about.resource, &about.namespace, &about.name)
            .filter(|seen| *seen.uid == *about.uid)
            .map(|seen| seen.resource_version)
            .unwrap_or_default();
        let occurrence = Occurrence {
            component: shared.config.event_component.clone(),
            controller: shared.config.controller.clone(),
            involved: Involved {
                api_version,
                kind,
                namespace: about.namespace.clone(),
                name: about.name.clone(),
                uid: about.uid.clone(),
                resource_version,
            },
            kind: event.kind,
            reason: event.reason.clone(),
            message,
        };
        self.executor.events.record_through(occurrence, self.gate.clone());
    }
}

impl Run<'_> {
    /// Whether the operator lets the controller record events there.
    fn may_tell(&self, namespace: &str) -> bool {
        let grants = &self.executor.shared.config.grants;
        if grants.is_open() {
            return true;
        }
        let resource =
            GroupResource { group: String::new(), version: "v1".into(), resource: "events".into() };
        // Events about objects of the cluster are in the default namespace.
        let place = Place::Namespace(if namespace.is_empty() { "default" } else { namespace });
        if grants.allow(&Access::Resource { verb: "create", resource: &resource, subresource: "", place }) {
            return true;
        }
        let reason = format!("the operator's policy does not grant create of events{}", grants::show(place));
        grants.refuse("an event was", &grants.refusals.events, &reason);
        false
    }
}

/// Fills `{name}` and `{message}` in, in one go: what is filled in is not read
/// again.
pub(crate) fn fill_in(template: &str, name: &str, message: &str) -> String {
    let mut text = String::with_capacity(template.len() + name.len() + message.len());
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("{name}") {
            text.push_str(name);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("{message}") {
            text.push_str(message);
            rest = after;
        } else {
            text.push('{');
            rest = &rest[1..];
        }
    }
    text.push_str(rest);
    text
}
