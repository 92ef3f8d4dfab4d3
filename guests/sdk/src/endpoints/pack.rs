//! Which endpoint goes into which slice: as few changed slices as can be, and
//! none with more endpoints than allowed.
//!
//! An endpoint stays in the slice it is in. What is new fills up slices that
//! change anyway, the fullest first; then one slice that has room for all that
//! is left; and only then new ones. So slices may stay half empty: a full one
//! fewer is not worth a second write, which every node of the cluster watches.

use super::draft::Draft;
use super::slice::{Annotations, Endpoint, EndpointSlice};
use super::wanted::Wanted;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::sort::sorted_by;
use crate::view::Object;

/// How many endpoints a slice may have at most, by an option.
pub fn limit(ctx: &Ctx<'_>, option: &str) -> Result<usize> {
    let limit: i64 = ctx.option_as(option)?;
    match usize::try_from(limit) {
        Ok(limit @ 1..=1000) => Ok(limit),
        _ => Err(Error::Terminal(format!("{option} must be between 1 and 1000, not {limit}"))),
    }
}

/// What becomes of slices.
#[derive(Debug)]
pub struct Packed<A> {
    /// Slices to write, the new ones among them.
    pub drafts: Vec<Draft<A>>,
    /// Slices that stay as they are.
    pub untouched: Vec<Object<EndpointSlice<A>>>,
    /// Slices with nothing left in them.
    pub doomed: Vec<Object<EndpointSlice<A>>>,
    /// Endpoints that were in no slice.
    pub added: usize,
    /// Endpoints that are in a slice and say something else now.
    pub updated: usize,
    /// Endpoints that leave.
    pub removed: usize,
}

/// How many slices so many endpoints would fill.
pub fn slices_for(endpoints: usize, limit: usize) -> usize {
    endpoints.div_ceil(limit.max(1))
}

impl<A> Default for Packed<A> {
    fn default() -> Self {
        Self {
            drafts: Vec::new(),
            untouched: Vec::new(),
            doomed: Vec::new(),
            added: 0,
            updated: 0,
            removed: 0,
        }
    }
}

impl<A> Packed<A> {
    /// Adds what becomes of further slices.
    pub fn append(&mut self, mut other: Self) {
        self.drafts.append(&mut other.drafts);
        self.untouched.append(&mut other.untouched);
        self.doomed.append(&mut other.doomed);
        self.added += other.added;
        self.updated += other.updated;
        self.removed += other.removed;
    }

    /// Whether there will be no slice at all.
    pub fn leaves_nothing(&self) -> bool {
        self.drafts.is_empty() && self.untouched.is_empty()
    }
}

/// Packs endpoints that share their ports. `blank` is a new slice for them; its
/// labels are those that slices should have, and `labels_differ` judges them.
pub fn pack<A: Annotations>(
    slices: Vec<Object<EndpointSlice<A>>>,
    mut wanted: Wanted,
    limit: usize,
    blank: &Draft<A>,
    labels_differ: impl Fn(&EndpointSlice<A>) -> bool,
) -> Packed<A> {
    let limit = limit.max(1);
    let mut packed = Packed::default();
    for slice in slices {
        let kept = kept(&slice, &mut wanted);
        if let Kept::These { endpoints, updated } = &kept {
            packed.updated += updated;
            packed.removed += slice.endpoints.len() - endpoints.len();
        }
        match kept {
            Kept::All if !labels_differ(&slice) => packed.untouched.push(slice),
            Kept::All => {
                let mut draft = Draft::of(&slice);
                draft.labels.clone_from(&blank.labels);
                packed.drafts.push(draft);
            }
            Kept::These { endpoints, .. } if endpoints.is_empty() => packed.doomed.push(slice),
            Kept::These { endpoints, .. } => {
                let mut draft = Draft::of(&slice);
                draft.labels.clone_from(&blank.labels);
                draft.endpoints = endpoints;
                packed.drafts.push(draft);
            }
        }
    }
    packed.added = wanted.len();
    if wanted.is_empty() {
        return packed;
    }
    packed.drafts = sorted_by(packed.drafts, |a, b| b.endpoints.len().cmp(&a.endpoints.len()));
    for draft in &mut packed.drafts {
        fill(draft, wanted.by_ref(), limit);
    }
    while !wanted.is_empty() {
        let mut draft = match take_roomy(&mut packed.untouched, wanted.len(), limit) {
            Some(slice) => Draft::of(&slice),
            None => blank.clone(),
        };
        fill(&mut draft, wanted.by_ref(), limit);
        packed.drafts.push(draft);
    }
    packed
}

enum Kept {
    /// Every endpoint is wanted, just as it is.
    All,
    /// These are left, and so many of them changed.
    These { endpoints: Vec<Endpoint>, updated: usize },
}

/// What a slice keeps; that is wanted no longer.
fn kept<A>(slice: &EndpointSlice<A>, wanted: &mut Wanted) -> Kept {
    let mut kept = Vec::with_capacity(slice.endpoints.len());
    let mut updated = 0;
    for endpoint in &slice.endpoints {
        if let Some(now) = wanted.remove(endpoint) {
            updated += usize::from(!now.says_the_same(endpoint));
            kept.push(now);
        }
    }
    if updated == 0 && kept.len() == slice.endpoints.len() {
        Kept::All
    } else {
        Kept::These { endpoints: kept, updated }
    }
}

fn fill<A>(draft: &mut Draft<A>, wanted: &mut Wanted, limit: usize) {
    let room = limit.saturating_sub(draft.endpoints.len());
    draft.endpoints.extend(wanted.take(room));
}

/// The slice that has room for so many more, and the least of it.
fn take_roomy<A>(
    slices: &mut Vec<Object<EndpointSlice<A>>>,
    more: usize,
    limit: usize,
) -> Option<Object<EndpointSlice<A>>> {
    let has_room =
        |slice: &EndpointSlice<A>| more < limit && slice.endpoints.len().saturating_add(more) <= limit;
    let fitting = slices.iter().enumerate().filter(|(_, slice)| has_room(slice));
    let fullest = fitting.max_by_key(|(at, slice)| (slice.endpoints.len(), std::cmp::Reverse(*at)))?.0;
    Some(slices.remove(fullest))
}
