//! Kinds of faults.

use crate::compute_node::ComputeNode;
use dm_core::verbs::NodeId;
use std::fmt;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FaultKind {
    /// The future of an operation, or of the settling after it, is dropped; its lane is settled.
    Drops,
    /// A compute node dies: between requests, inside a chain, inside a WRITE.
    Crash,
    /// A memory node dies.
    NodeDeath,
    /// A queue pair fails; it is closed at the memory node and made again.
    QpError,
    /// An RPC is lost, on its way there or back.
    RpcLost,
    /// An RPC is executed twice.
    RpcRepeated,
    /// The copies of inner nodes a compute node has are replaced by old ones, or lost.
    StaleCache,
}

impl FaultKind {
    /// Every kind, in numeric order.
    pub const ALL: [Self; 7] =
        [Self::Drops, Self::Crash, Self::NodeDeath, Self::QpError, Self::RpcLost, Self::RpcRepeated, Self::StaleCache];

    /// Its name on command lines and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drops => "drops",
            Self::Crash => "crash",
            Self::NodeDeath => "node-death",
            Self::QpError => "qp-error",
            Self::RpcLost => "rpc-lost",
            Self::RpcRepeated => "rpc-repeated",
            Self::StaleCache => "stale-cache",
        }
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults(u8);

impl Faults {
    /// No kind.
    pub const NONE: Self = Self(0);
    /// Every kind.
    pub const ALL: Self = Self((1 << FaultKind::ALL.len()) - 1);

    /// This one kind.
    pub const fn only(kind: FaultKind) -> Self {
        Self(1 << kind as u8)
    }

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `kind` is among them.
    pub const fn contains(self, kind: FaultKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// The kinds.
    pub fn kinds(self) -> impl Iterator<Item = FaultKind> {
        FaultKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }

    /// `none`, `all`, or names separated by commas. The error names what is not known.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "none" => return Ok(Self::NONE),
            "all" => return Ok(Self::ALL),
            _ => {}
        }
        text.split(',').try_fold(Self::NONE, |faults, name| {
            let kind = FaultKind::ALL.into_iter().find(|kind| kind.name() == name.trim());
            kind.map(|kind| faults.and(Self::only(kind))).ok_or_else(|| {
                let known: Vec<&str> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
                format!("there is no fault \"{}\"; there are none, all, {}", name.trim(), known.join(", "))
            })
        })
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.kinds().map(FaultKind::name).collect();
        f.write_str(if names.is_empty() { "none".to_owned() } else { names.join(",") }.as_str())
    }
}

/// When a compute node dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At once.
    Any,
    /// While a request of it has not taken full effect; at once, if that does not occur for a while.
    InAWrite,
    /// When some compute node replays a WRITE, of a dead compute node or its own. That compute node dies, not the drawn
    /// one.
    InAReplay,
    /// When a memory node executes a call of some compute node that changes a leaf. That compute node dies, not the drawn one, and
    /// the memory node's processor stops there for up to four leases.
    InACall,
}

/// See [`Moment::InACall`].
pub const STALL_LEASES: u64 = 4;

/// One fault. Numbers of lanes and memory nodes are taken modulo how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Drop the future of a lane.
    Drop {
        /// The lane, of all compute nodes' together.
        lane: u32,
    },
    /// Kill a compute node.
    Crash {
        /// Which.
        compute_node: u16,
        /// When, from its step on.
        moment: Moment,
        /// Time from then until its queue pairs are confirmed closed.
        closed_after_ns: u32,
    },
    /// Kill a memory node.
    NodeDeath {
        /// Which.
        node: u16,
    },
    /// Fail a queue pair.
    QueuePair {
        /// One of the lanes that use it.
        lane: u32,
        /// To which memory node.
        node: u16,
        /// Wait (for a while) until some queue pair has several WRITEs under way, and fail that one.
        in_a_chain: bool,
        /// Time from then until it is closed and made again.
        outage_ns: u32,
    },
    /// Keep images of the inner nodes as they are, for [`Fault::RestoreCopies`].
    KeepImages,
    /// Put images that were kept into the cache of a compute node, in place of newer copies.
    RestoreCopies {
        /// Whose cache.
        compute_node: u16,
        /// Which of the kept images, modulo how many were kept.
        images: u32,
    },
}

impl Fault {
    /// Its kind.
    pub const fn kind(self) -> FaultKind {
        match self {
            Self::Drop { .. } => FaultKind::Drops,
            Self::Crash { .. } => FaultKind::Crash,
            Self::NodeDeath { .. } => FaultKind::NodeDeath,
            Self::QueuePair { .. } => FaultKind::QpError,
            Self::KeepImages | Self::RestoreCopies { .. } => FaultKind::StaleCache,
        }
    }
}

/// A fault and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Before this step of the driver.
    pub step: u64,
    /// What.
    pub fault: Fault,
}

/// The faults of a plan that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InjectedFaults {
    /// Faults that happened, by [`FaultKind`].
    pub counts: [u64; FaultKind::ALL.len()],
    /// Compute nodes that are dead.
    pub dead: Vec<ComputeNode>,
    /// The memory node that is down.
    pub down: Option<NodeId>,
}

impl InjectedFaults {
    /// Whether a fault of this kind happened.
    pub fn any(&self, kind: FaultKind) -> bool {
        self.counts[kind as usize] > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_sets_and_back() {
        assert_eq!(Faults::parse("none"), Ok(Faults::NONE));
        assert_eq!(Faults::parse("all"), Ok(Faults::ALL));
        let two = Faults::parse("qp-error,drops").expect("both are known");
        assert_eq!(two.to_string(), "drops,qp-error");
        assert_eq!(Faults::parse(&two.to_string()), Ok(two));
        let wrong = Faults::parse("drops,floods").expect_err("there are no floods");
        assert!(wrong.contains("\"floods\"") && wrong.contains("stale-cache"), "{wrong}");
    }
}
