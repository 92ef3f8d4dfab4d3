//! What the pods of a node need attached to it.

use std::collections::BTreeSet;

use coxswain_sdk::volumes::{CLAIM_REF_INDEX, is_made_for};
use coxswain_sdk::{Ctx, Object, Query, Result};
use litemap::LiteMap;

use crate::attachable::{Attachable, csi_plugin, is_shareable, plugin_of};
use crate::measures::{self, ByPlugin};
use crate::migration::{self, Inline, access_modes};
use crate::view::{Claim, Pod, PodVolume, Volume};

/// Index of pods by node.
pub const BY_NODE: &str = "node";
const BOUND: &str = "Bound";

/// A volume that is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The volume.
    pub volume: Attachable,
    /// Its name in words to users: of the volume object, or within the pod.
    pub title: String,
    /// The volume object, if there is one.
    pub object: Option<Object<Volume>>,
    /// What it is, if a pod names it without a claim and a CSI driver attaches it.
    pub inline: Option<Inline>,
    /// Whether it may be attached to other nodes as well.
    pub shareable: bool,
    /// The pods that want it.
    pub pods: Vec<Object<Pod>>,
}

/// What a node's pods need.
#[derive(Debug, Default)]
pub struct Wants {
    /// Volumes to attach, by unique name.
    pub wanted: LiteMap<String, Wanted>,
    /// Unique names of further volumes that must stay attached: a pod still
    /// names the claim they are for, though the two are no longer in order.
    pub kept: BTreeSet<String>,
    /// How many volumes of each plugin pods name, those that have ended too.
    pub in_use: ByPlugin,
}

impl Wants {
    /// What the pods of this node need.
    pub fn of_node(ctx: &Ctx<'_>, node: &str) -> Result<Self> {
        let mut wants = Self::default();
        for pod in ctx.list::<Pod>(Query::all().index(BY_NODE, &[node]))? {
            for volume in &pod.spec.volumes {
                wants.add(ctx, &pod, volume)?;
            }
        }
        Ok(wants)
    }

    /// Whether a volume must stay.
    pub fn keeps(&self, name: &str) -> bool {
        self.wanted.contains_key(name) || self.kept.contains(name)
    }

    fn add(&mut self, ctx: &Ctx<'_>, pod: &Object<Pod>, volume: &PodVolume) -> Result<()> {
        let has_ended = pod.has_ended();
        if let Some(plugin) = volume.plugin() {
            measures::add(&mut self.in_use, &plugin);
            if has_ended {
                return Ok(());
            }
        }
        if let Some(inline) = migration::inline(volume) {
            measures::add(&mut self.in_use, &csi_plugin(&inline.csi.driver));
            if !has_ended && let Some(volume) = Attachable::of_csi(ctx, &inline.csi)? {
                self.want(pod, volume, &inline.title.clone(), None, Some(inline));
            }
            return Ok(());
        }
        let inline = volume.fc.as_ref().and_then(Attachable::fc);
        if let Some(inline) = inline.or_else(|| volume.iscsi.as_ref().map(Attachable::iscsi)) {
            self.want(pod, inline, &volume.name, None, None);
            return Ok(());
        }
        let Some(claim_name) = volume.claim_name(&pod.metadata.name) else { return Ok(()) };
        let namespace = &pod.metadata.namespace;
        let made_here = volume.persistent_volume_claim.is_none();
        let claim = ctx.get::<Claim>(namespace, &claim_name)?;
        if let Some(claim) = claim.filter(|claim| {
            claim.status.phase == BOUND && (!made_here || is_made_for(&claim.metadata, &pod.metadata))
        }) {
            if let Some(object) = ctx.get::<Volume>("", &claim.spec.volume_name)? {
                let uid = object.spec.claim_ref.as_ref().map(|claim_ref| claim_ref.uid.as_str());
                if uid == Some(&claim.metadata.uid) {
                    if let Some(plugin) = plugin_of(&object) {
                        measures::add(&mut self.in_use, &plugin);
                    }
                    if has_ended {
                        return Ok(());
                    }
                    if let Some(volume) = Attachable::of_volume(ctx, &object)? {
                        self.want(pod, volume, &object.metadata.name.clone(), Some(object), None);
                    }
                    return Ok(());
                }
            }
        }
        if has_ended {
            return Ok(());
        }
        for object in ctx.list::<Volume>(Query::all().index(CLAIM_REF_INDEX, &[namespace, &claim_name]))? {
            if let Some(volume) = Attachable::of_volume(ctx, &object)? {
                self.kept.insert(volume.name);
            }
        }
        Ok(())
    }

    fn want(
        &mut self,
        pod: &Object<Pod>,
        volume: Attachable,
        title: &str,
        object: Option<Object<Volume>>,
        inline: Option<Inline>,
    ) {
        let shareable = match (&object, &inline) {
            (Some(object), _) => is_shareable(&access_modes(object)),
            (None, Some(inline)) => is_shareable(&[inline.access_mode.to_owned()]),
            (None, None) => true,
        };
        let wanted = self.wanted.entry(volume.name.clone()).or_insert_with(|| Wanted {
            volume,
            title: title.to_owned(),
            object,
            inline,
            shareable,
            pods: Vec::new(),
        });
        if !wanted.pods.iter().any(|known| known.metadata.uid == pod.metadata.uid) {
            wanted.pods.push(pod.clone());
        }
    }
}
