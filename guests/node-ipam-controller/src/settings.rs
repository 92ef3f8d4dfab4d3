//! The options of the controller.

use coxswain_sdk::contract::{Level, OptionKind};
use coxswain_sdk::{Ctx, Declaration, Result};

use crate::cidr::{Cidr, Family};
use crate::range::Range;

const ALLOCATE: &str = "allocate-node-cidrs";
const ALLOCATOR: &str = "cidr-allocator-type";
const CLUSTER: &str = "cluster-cidr";
const SERVICES: &str = "service-cluster-ip-range";
const SHARE: &str = "node-cidr-mask-size";
const SHARE_V4: &str = "node-cidr-mask-size-ipv4";
const SHARE_V6: &str = "node-cidr-mask-size-ipv6";

/// By how many bits a share of IPv6 may be longer than the range.
const MOST_BITS_V6: u32 = 16;

/// What is dealt out.
#[derive(Debug, PartialEq)]
pub struct Settings {
    /// The ranges; a node gets a share of each.
    pub ranges: Vec<Range>,
    /// Blocks that belong to services.
    pub services: Vec<Cidr>,
}

/// Options as text, as far as they matter for the ranges.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given<'a> {
    pub cluster: &'a str,
    pub share: i64,
    pub share_v4: i64,
    pub share_v6: i64,
}

/// Declares the options.
pub fn declare(declared: Declaration) -> Declaration {
    declared
        .option(ALLOCATE, OptionKind::Boolean, "false", "give each node a range of pod addresses")
        .option(ALLOCATOR, OptionKind::Text, "RangeAllocator", "how; there is only RangeAllocator")
        .option(
            CLUSTER,
            OptionKind::Text,
            "",
            "range of pod addresses; two, of both families, for dual stack",
        )
        .option(SERVICES, OptionKind::Text, "", "ranges of service addresses, which no node gets")
        .option(
            SHARE,
            OptionKind::Integer,
            "0",
            "mask size of a node's range; 24 for IPv4 and 64 for IPv6 if 0",
        )
        .option(SHARE_V4, OptionKind::Integer, "0", "the same for IPv4")
        .option(SHARE_V6, OptionKind::Integer, "0", "the same for IPv6")
}

impl Settings {
    /// As the operator has it. None if nothing is to be given; the inner error
    /// says what makes no sense.
    pub fn of(ctx: &Ctx<'_>) -> Result<Option<std::result::Result<Self, String>>> {
        if !ctx.option_as::<bool>(ALLOCATE)? {
            ctx.log(Level::Info, &format!("nodes are given no ranges of addresses without --{ALLOCATE}"));
            return Ok(None);
        }
        let given = Given {
            cluster: ctx.option(CLUSTER)?,
            share: ctx.option_as(SHARE)?,
            share_v4: ctx.option_as(SHARE_V4)?,
            share_v6: ctx.option_as(SHARE_V6)?,
        };
        let allocator = ctx.option(ALLOCATOR)?;
        if allocator != "RangeAllocator" {
            return Ok(Some(Err(format!("invalid CIDR allocator type: {allocator}"))));
        }
        let mut services = Vec::new();
        for text in ctx.option(SERVICES)?.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            match Cidr::parse(text) {
                Some(block) => services.push(block),
                None => ctx.log(Level::Warn, &format!("{SERVICES}: {text:?} is no range of addresses")),
            }
        }
        if let [a, b] = services.as_slice()
            && a.family == b.family
        {
            return Ok(Some(Err(format!("{SERVICES}: two ranges must be of different families"))));
        }
        Ok(Some(given.ranges().map(|ranges| Self { ranges, services })))
    }
}

impl Given<'_> {
    /// The ranges; the error says what makes no sense.
    pub fn ranges(&self) -> std::result::Result<Vec<Range>, String> {
        let mut blocks = Vec::new();
        for text in self.cluster.split(',').map(str::trim) {
            let block = Cidr::parse(text);
            blocks.push(block.ok_or_else(|| format!("{CLUSTER}: {text:?} is no range of addresses"))?);
        }
        if blocks.len() > 2 {
            return Err(format!("{CLUSTER}: {} ranges, no more than 2 are allowed", blocks.len()));
        }
        if let [a, b] = blocks.as_slice()
            && a.family == b.family
        {
            return Err(format!("{CLUSTER}: two ranges must be of different families"));
        }
        blocks.iter().map(|block| self.range(block, blocks.len() > 1)).collect()
    }

    fn range(&self, block: &Cidr, dual: bool) -> std::result::Result<Range, String> {
        let Self { share, share_v4, share_v6, .. } = *self;
        let (name, own, other, other_name, default) = match block.family {
            Family::V4 => ("IPv4", share_v4, share_v6, SHARE_V6, 24),
            Family::V6 => ("IPv6", share_v6, share_v4, SHARE_V4, 64),
        };
        if share != 0 && dual {
            return Err(format!("{SHARE} is not allowed with two ranges; use {SHARE_V4} and {SHARE_V6}"));
        }
        if share != 0 && (own != 0 || other != 0) {
            return Err(format!("{SHARE} is not allowed along with {SHARE_V4} and {SHARE_V6}"));
        }
        if !dual && share == 0 && other != 0 {
            return Err(format!("{other_name} is not allowed for a cluster of {name} alone"));
        }
        let size = [share, own].into_iter().find(|size| *size != 0).unwrap_or(default);
        let fits = |size: &u32| (block.prefix..=block.family.bits()).contains(size);
        let size = u32::try_from(size)
            .ok()
            .filter(fits)
            .ok_or_else(|| format!("{size} is no mask size of a node's range within {block}"))?;
        if block.family == Family::V6 && size - block.prefix > MOST_BITS_V6 {
            return Err(format!(
                "the mask size of a node's range may exceed that of {block} by {MOST_BITS_V6} at most"
            ));
        }
        Ok(Range { whole: *block, share: size })
    }
}
