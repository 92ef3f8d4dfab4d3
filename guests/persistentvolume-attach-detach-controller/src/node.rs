//! What to do about the volumes of a node.
//!
//! Attaching: the attachment is made, its driver marks it as attached, the node
//! lists the volume; only then does the kubelet mount it. Detaching is the same
//! backwards, and begins only once the kubelet no longer has the volume in use:
//! the node ceases to list it, the node is read past the cache lest the kubelet
//! was faster, the attachment is deleted.

use std::collections::BTreeSet;
use std::time::Duration;

use coxswain_sdk::memory;
use coxswain_sdk::resource::{NODES, VOLUME_ATTACHMENTS};
use coxswain_sdk::sort::{TextSet, lite_map_of, set_of};
use coxswain_sdk::{About, Action, Ask, Ctx, Object, Plan, Query, Result, Step, Time};
use litemap::LiteMap;
use serde_json::{Value, json};

use crate::NODE_SOURCE;
use crate::attachable::Attachable;
use crate::elsewhere::{Elsewhere, elsewhere, in_words};
use crate::measures::{self, Force};
use crate::memory::{Memory, Told};
use crate::migration::csi_of;
use crate::options::Options;
use crate::view::{Attachment, Node, Pod, Volume};
use crate::wants::{Wanted, Wants};

/// Index of attachments by node.
pub const BY_NODE: &str = "node";
/// How long a kubelet that does not answer is waited for.
const UNMOUNT_WAIT: Duration = Duration::from_secs(6 * 60);
/// How long a driver may take to attach before pods are told; they are told
/// again after as long.
const ATTACH_WAIT: Duration = Duration::from_secs(2 * 60);
/// How often a node that is gone is looked after.
const GONE_PERIOD: Duration = Duration::from_secs(60);
const MULTI_ATTACH: &str = "Multi-Attach error";
const FAILED: &str = "FailedAttachVolume";
const SUCCEEDED: &str = "SuccessfulAttachVolume";

/// One reconcile of a node.
struct Run<'a, 'c> {
    ctx: &'a Ctx<'c>,
    options: Options,
    name: &'a str,
    node: Option<&'a Node>,
    memory: Memory,
    /// Whether the node is gone and was never seen.
    blind: bool,
    writes: Vec<Action>,
    /// Why some of them detach by force.
    forced: BTreeSet<Force>,
    list: LiteMap<String, Value>,
    plan: Plan,
}

/// Reconciles the volumes of a node, which may be gone.
pub fn reconcile(ctx: &Ctx<'_>, options: Options, name: &str, node: Option<&Node>) -> Result<Plan> {
    let before: Memory = memory::read(ctx);
    let listed = node.map(|node| node.status.volumes_attached.as_slice()).unwrap_or_default();
    let mut run = Run {
        ctx,
        options,
        name,
        node,
        memory: before.clone(),
        blind: node.is_none() && !before.seen,
        writes: Vec::new(),
        forced: BTreeSet::new(),
        list: by_name(listed),
        plan: Plan::new(),
    };
    let wants = Wants::of_node(ctx, name)?;
    let attached = run.attachments(&wants)?;
    let names = set_of(wants.wanted.keys().chain(run.list.keys()).chain(attached.keys()).cloned());
    run.note_use(&names);
    for volume in names.iter().filter_map(|name| Attachable::of_name(name)) {
        let attachment = attached.get(&volume.name);
        if wants.keeps(&volume.name) {
            run.memory.unwanted.remove(&volume.name);
            run.memory.leaving.remove(&volume.name);
            run.keep(&volume, attachment, wants.wanted.get(&volume.name))?;
        } else {
            run.let_go(&volume, attachment)?;
        }
    }
    run.memory.retain(|name| names.contains(name));
    // Once a node is gone, what is attached to it is told by the key of its attachments.
    if node.is_some() == (ctx.source() == NODE_SOURCE) {
        run.measure(&wants, &attached, listed);
    }
    if node.is_none() && !attached.is_empty() {
        // What is left of a node is forgotten with its last plan.
        run.plan.come_back(ctx.now() + GONE_PERIOD);
    }
    run.finish(&before, listed)
}

impl Run<'_, '_> {
    /// The attachments to the node that are ours, by the volume's unique name.
    fn attachments(&self, wants: &Wants) -> Result<LiteMap<String, Object<Attachment>>> {
        let names = self.list.keys().chain(&self.memory.leaving).chain(wants.wanted.keys());
        let volumes = names.filter_map(|name| Attachable::of_name(name));
        let known =
            lite_map_of(volumes.filter_map(|volume| Some((volume.attachment_name(self.name)?, volume))));
        let mut attached = LiteMap::new();
        for object in self.ctx.list::<Attachment>(Query::all().index(BY_NODE, &[self.name]))? {
            let mut volume = known.get(&object.metadata.name).cloned();
            if volume.is_none() {
                volume = self.volume_of(&object)?;
            }
            if let Some(volume) = volume {
                attached.insert(volume.name, object);
            }
        }
        Ok(attached)
    }

    /// The volume that an attachment is of, if it bears the name we would give.
    fn volume_of(&self, attachment: &Attachment) -> Result<Option<Attachable>> {
        let source = &attachment.spec.source;
        let csi = match (&source.inline_volume_spec, &source.persistent_volume_name) {
            (Some(inline), _) => inline.csi.clone(),
            (None, Some(name)) => self.ctx.get::<Volume>("", name)?.and_then(|object| csi_of(&object)),
            (None, None) => None,
        };
        let volume = csi.map(|csi| Attachable::csi(&csi.driver, &csi.volume_handle));
        Ok(volume
            .filter(|volume| volume.attachment_name(self.name).as_deref() == Some(&attachment.metadata.name)))
    }

    /// Remembers what the kubelet has in use of what is attached.
    fn note_use(&mut self, names: &BTreeSet<String>) {
        if let Some(node) = self.node {
            let in_use = node.status.volumes_in_use.iter().filter(|name| names.contains(*name));
            self.memory.in_use = set_of(in_use.cloned());
            self.memory.seen = !names.is_empty();
        }
    }

    fn is_mounted(&self, name: &str) -> bool {
        self.blind || self.memory.in_use.contains(name)
    }

    /// A volume that is to be, or to stay, attached.
    fn keep(
        &mut self,
        volume: &Attachable,
        attachment: Option<&Object<Attachment>>,
        wanted: Option<&Wanted>,
    ) -> Result<()> {
        let name = &volume.name;
        let is_attached = attachment.is_some_and(|attachment| attachment.status.attached);
        if self.list.contains_key(name) && volume.driver.is_some() && !is_attached {
            if !self.options.verify {
                return Ok(());
            }
            self.list.remove(name);
        }
        let is_listed = self.list.contains_key(name);
        match (attachment, wanted) {
            (Some(_), Some(_)) if is_listed && is_attached => {}
            (Some(attachment), Some(wanted)) if is_attached && !attachment.metadata.is_deleting() => {
                self.list(wanted);
            }
            (Some(attachment), Some(wanted)) => self.tell_pending(wanted, attachment),
            // A volume without a driver needs no more than to be listed.
            (None, Some(wanted)) if !is_listed => self.attach(wanted)?,
            _ => {}
        }
        Ok(())
    }

    fn list(&mut self, wanted: &Wanted) {
        let name = &wanted.volume.name;
        // Where the node finds it is for the driver to know.
        self.list.insert(name.clone(), json!({ "name": name, "devicePath": "" }));
        self.memory.told.remove(name);
        let text = format!("AttachVolume.Attach succeeded for volume {:?} ", wanted.title);
        for pod in &wanted.pods {
            self.plan.event(About::of::<Pod, _>(&pod.metadata).normal(SUCCEEDED, text.clone()));
        }
    }

    fn attach(&mut self, wanted: &Wanted) -> Result<()> {
        if !self.is_managed() {
            return Ok(());
        }
        if !wanted.shareable {
            match elsewhere(self.ctx, self.name, wanted)? {
                Elsewhere::Nowhere => {}
                Elsewhere::OnTheWay => return Ok(()),
                Elsewhere::At(nodes) => {
                    let text = in_words(self.ctx, wanted, &nodes)?;
                    let text = format!("{MULTI_ATTACH} for volume {:?} {text}", wanted.title);
                    // Said once: that it can be attached will show soon enough.
                    self.tell(wanted, text, None);
                    return Ok(());
                }
            }
        }
        let (Some((driver, _)), Some(name)) =
            (&wanted.volume.driver, wanted.volume.attachment_name(self.name))
        else {
            self.list(wanted);
            return Ok(());
        };
        let tag = format!("attach {name}");
        let failure = self.ctx.failures(&tag).find(|failure| failure.reason != "AlreadyExists");
        if let Some(message) = failure.map(|failure| failure.message.clone()) {
            self.tell_failure(wanted, &format!("kubernetes.io/csi: attacher.Attach failed: {message}"));
        }
        let source = match &wanted.inline {
            Some(inline) => json!({ "inlineVolumeSpec": inline.spec }),
            None => json!({ "persistentVolumeName": wanted.title }),
        };
        let body = json!({
            "apiVersion": VOLUME_ATTACHMENTS.api_version(),
            "kind": VOLUME_ATTACHMENTS.kind,
            "metadata": { "name": name },
            "spec": {
                "attacher": driver,
                "nodeName": self.name,
                "source": source,
            },
        });
        self.writes.push(Action::create(VOLUME_ATTACHMENTS, "", &name, &body)?.tag(&tag));
        Ok(())
    }

    /// The driver has yet to attach it; pods are told of what holds it up.
    fn tell_pending(&mut self, wanted: &Wanted, attachment: &Attachment) {
        if attachment.metadata.is_deleting() {
            self.tell_failure(wanted, "volume attachment is being deleted");
        } else if let Some(error) = &attachment.status.attach_error {
            self.tell_failure(wanted, &error.message);
        } else if let Some(made) = attachment.metadata.creation_timestamp {
            let late = made + ATTACH_WAIT;
            if self.ctx.now() < late {
                self.plan.come_back(late);
                return;
            }
            let (driver, handle) = wanted.volume.driver.clone().unwrap_or_default();
            let text = format!(
                "timed out waiting for external-attacher of {driver} CSI driver to attach volume {handle}"
            );
            self.tell_failure(wanted, &text);
        }
    }

    fn tell_failure(&mut self, wanted: &Wanted, why: &str) {
        let text = format!("AttachVolume.Attach failed for volume {:?} : {why}", wanted.title);
        self.tell(wanted, text, Some(ATTACH_WAIT));
    }

    /// Tells pods of what lasts: once, and again after a while.
    fn tell(&mut self, wanted: &Wanted, text: String, again_after: Option<Duration>) {
        let (now, name) = (self.ctx.now(), &wanted.volume.name);
        let told = self.memory.told.get(name);
        if again_after.is_none() && told.is_some_and(|told| told.text.starts_with(MULTI_ATTACH)) {
            return;
        }
        if let Some(told) = told.filter(|told| told.text == text) {
            let Some(after) = again_after else { return };
            let again = Time::from_unix(told.at) + after;
            if now < again && told.at <= now.unix() {
                self.plan.come_back(again);
                return;
            }
        }
        for pod in &wanted.pods {
            self.plan.event(About::of::<Pod, _>(&pod.metadata).warning(FAILED, text.clone()));
        }
        self.memory.told.insert(name.clone(), Told { text, at: now.unix() });
        if let Some(after) = again_after {
            self.plan.come_back(now + after);
        }
    }

    /// A volume that no pod wants any more.
    fn let_go(&mut self, volume: &Attachable, attachment: Option<&Object<Attachment>>) -> Result<()> {
        let (name, now) = (&volume.name, self.ctx.now());
        let since = *self.memory.unwanted.entry(name.clone()).or_insert(now.unix());
        let patience_ends = Time::from_unix(since) + UNMOUNT_WAIT;
        let expired = now > patience_ends && !self.options.no_force;
        let is_ready = self.node.is_some_and(Node::is_ready);
        let out_of_service = self.node.is_some_and(Node::is_out_of_service);
        let overruled = expired && !is_ready || out_of_service;
        if self.is_mounted(name) && !overruled {
            if !expired && !self.options.no_force {
                self.plan.come_back(patience_ends + Duration::from_millis(1));
            }
            return Ok(());
        }
        if self.list.remove(name).is_some() {
            self.memory.leaving.insert(name.clone());
            return Ok(());
        }
        let Some(attachment) = attachment.filter(|attachment| !attachment.metadata.is_deleting()) else {
            return Ok(());
        };
        if !expired && !out_of_service && self.is_in_use_live(name)? {
            // The change of the node's status wakes this key.
            return Ok(());
        }
        let force =
            if expired { Some(Force::Timeout) } else { out_of_service.then_some(Force::OutOfService) };
        if let Some(force) = force {
            self.forced.insert(force);
        }
        let tag = force.map_or_else(|| "detach".to_owned(), Force::tag);
        let meta = &attachment.metadata;
        self.writes.push(Action::delete(VOLUME_ATTACHMENTS, "", &meta.name).uid(&meta.uid).tag(&tag));
        Ok(())
    }

    /// Whether the kubelet has it in use, past the cache.
    fn is_in_use_live(&self, name: &str) -> Result<bool> {
        let node = self.ctx.find_live::<Node>(Ask::get(NODES, "", self.name))?;
        Ok(node.is_some_and(|node| node.status.volumes_in_use.iter().any(|in_use| in_use == name)))
    }

    /// Tells of the volumes as they are now.
    fn measure(&mut self, wants: &Wants, attached: &LiteMap<String, Object<Attachment>>, listed: &[Value]) {
        measures::in_use(&mut self.plan, self.name, &wants.in_use);
        let listed = listed.iter().filter_map(|entry| entry["name"].as_str());
        let attached = attached.iter().filter(|(_, attachment)| attachment.status.attached);
        let actual: TextSet<'_> = attached.map(|(name, _)| name.as_str()).chain(listed).collect();
        if self.is_managed() {
            let kept = wants.kept.iter().map(String::as_str).filter(|name| actual.contains(name));
            let desired: TextSet<'_> = wants.wanted.keys().map(String::as_str).chain(kept).collect();
            measures::volumes(&mut self.plan, "desired_state_of_world", desired.iter());
        }
        measures::volumes(&mut self.plan, "actual_state_of_world", actual.iter());
    }

    /// Whether the node's kubelet leaves attaching to us.
    fn is_managed(&self) -> bool {
        self.node.is_some_and(|node| node.metadata.annotations.managed.is_some())
    }

    /// The plan: attachments, which do not wait for each other, and the list.
    fn finish(mut self, before: &Memory, listed: &[Value]) -> Result<Plan> {
        memory::keep(&self.memory, before, &mut self.plan)?;
        for force in self.forced {
            measures::forced(&mut self.plan, force);
        }
        self.plan.then(Step::new(self.writes).or_go_on());
        if let Some(node) = self.node {
            if by_name(listed) != self.list {
                let entries: Vec<&Value> = self.list.values().collect();
                let list = if entries.is_empty() { Value::Null } else { json!(entries) };
                let body = json!({ "status": { "volumesAttached": list } });
                let patch = Action::merge(NODES, "", self.name, &body).uid(&node.metadata.uid);
                self.plan.then(patch.subresource("status").tag("list"));
            }
        }
        Ok(self.plan)
    }
}

/// A node's list by unique name.
fn by_name(listed: &[Value]) -> LiteMap<String, Value> {
    let name = |entry: &Value| entry["name"].as_str().unwrap_or_default().to_owned();
    lite_map_of(listed.iter().map(|entry| (name(entry), entry.clone())))
}
