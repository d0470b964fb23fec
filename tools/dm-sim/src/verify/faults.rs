//! What goes wrong besides schedules: a plan, drawn from a seed before the history begins.
//!
//! The plan is data. Who wants a certain fault at a certain place writes a plan of his own; [`super::load`] carries
//! them out.

use super::draw::{Profile, Settings};
use crate::rng::Rng;
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
    /// When something of it is half done; at once, if it does not come to that for a while.
    InAWrite,
    /// When some compute node replays a WRITE, of a dead one or its own. That one dies, and not the one that is named.
    InAReplay,
}

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
        /// From then until its queue pairs are confirmed closed.
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
        /// From then until it is closed and made again.
        outage_ns: u32,
    },
    /// Take a picture of the inner nodes, for [`Fault::Recall`].
    Remember,
    /// Put a picture that was taken into the cache of a compute node, in place of newer copies.
    Recall {
        /// Whose cache.
        compute_node: u16,
        /// Which picture, modulo those there are.
        picture: u32,
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
            Self::Remember | Self::Recall { .. } => FaultKind::StaleCache,
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

/// What goes wrong in one history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// In the order of their steps.
    pub faults: Vec<Planned>,
    /// See [`crate::Config::rpc_lost_percent`].
    pub rpc_lost_percent: u32,
    /// See [`crate::Config::rpc_repeated_percent`].
    pub rpc_repeated_percent: u32,
}

/// Faults of one kind in a plan, at most: histories end long before.
const FAULTS_MAX: usize = 160;

impl FaultPlan {
    /// Draws a plan for `compute_nodes` and `memory_nodes`. Each kind that is allowed is in some of the plans.
    pub fn new(settings: &Settings, profile: Profile, compute_nodes: u32, memory_nodes: u32, rng: &mut Rng) -> Self {
        let mut plan = Self::default();
        let mut chosen = |kind: FaultKind, percent| {
            // Drawn in any case: whether one kind is allowed changes nothing about the others.
            let drawn = rng.percent(percent);
            drawn && settings.faults.contains(kind)
        };
        let drops = chosen(FaultKind::Drops, 30);
        let crash = chosen(FaultKind::Crash, 35);
        let death = chosen(FaultKind::NodeDeath, 20) && memory_nodes > 1;
        let reuses = matches!(profile, Profile::Churn | Profile::Reuse | Profile::OldRoutes);
        let queue_pairs = chosen(FaultKind::QpError, if reuses { 10 } else { 35 });
        // Where nodes are reused all the time, old pointers hurt most.
        let stale = chosen(FaultKind::StaleCache, if reuses { 80 } else { 35 });
        if chosen(FaultKind::RpcLost, 35) {
            plan.rpc_lost_percent = 10;
        }
        if chosen(FaultKind::RpcRepeated, 35) {
            plan.rpc_repeated_percent = 10;
        }
        if drops {
            let gap = 50 + rng.below(800);
            plan.repeat(rng, gap, |rng| Fault::Drop { lane: rng.below(1 << 16) });
        }
        if crash {
            // At least one survives.
            let dead = 1 + rng.below(if compute_nodes > 2 { 2 } else { 1 });
            for compute_node in 0..dead.min(compute_nodes.saturating_sub(1)) as u16 {
                let step = u64::from(rng.below(2000));
                let closed_after_ns = 10_000 + rng.below(2_000_000);
                let moment = if rng.percent(70) { Moment::InAWrite } else { Moment::Any };
                plan.faults.push(Planned { step, fault: Fault::Crash { compute_node, moment, closed_after_ns } });
            }
        }
        if death {
            let node = rng.below(memory_nodes) as u16;
            plan.faults.push(Planned { step: u64::from(rng.below(2000)), fault: Fault::NodeDeath { node } });
        }
        if queue_pairs {
            let gap = 150 + rng.below(2000);
            plan.repeat(rng, gap, |rng| Fault::QueuePair {
                lane: rng.below(1 << 16),
                node: rng.below(memory_nodes) as u16,
                in_a_chain: rng.percent(50),
                outage_ns: 5_000 + rng.below(300_000),
            });
        }
        if stale {
            let gap = if reuses { 20 + rng.below(80) } else { 100 + rng.below(1000) };
            plan.repeat(rng, gap, |rng| match rng.below(3) {
                0 => Fault::Remember,
                _ => Fault::Recall { compute_node: rng.below(compute_nodes) as u16, picture: rng.below(1 << 16) },
            });
        }
        plan.faults.sort_by_key(|planned| planned.step);
        plan
    }

    /// Of two compute nodes that die, the second one dies while it repairs what the first one left. For histories in which the dead are
    /// recovered: a repair takes a few of some thousand steps, and left to chance no repairer died in 10,000 histories.
    pub(super) fn kill_a_repairer(&mut self) {
        let mut deaths = self.faults.iter_mut().filter(|planned| planned.fault.kind() == FaultKind::Crash);
        let (Some(first), Some(second)) = (deaths.next(), deaths.next()) else { return };
        for (planned, when) in [(first, Moment::InAWrite), (second, Moment::InAReplay)] {
            if let Fault::Crash { moment, .. } = &mut planned.fault {
                *moment = when;
            }
        }
    }

    /// Adds faults with `gap` steps between them on average.
    fn repeat(&mut self, rng: &mut Rng, gap: u32, mut fault: impl FnMut(&mut Rng) -> Fault) {
        let mut step = 0;
        for _ in 0..FAULTS_MAX {
            step += 1 + u64::from(rng.below(gap * 2));
            let fault = fault(rng);
            self.faults.push(Planned { step, fault });
        }
    }

    /// Whether a fault of this kind is planned.
    pub fn has(&self, kind: FaultKind) -> bool {
        match kind {
            FaultKind::RpcLost => self.rpc_lost_percent > 0,
            FaultKind::RpcRepeated => self.rpc_repeated_percent > 0,
            _ => self.faults.iter().any(|planned| planned.fault.kind() == kind),
        }
    }

    /// Whether a lane may come into doubt and has to be settled.
    pub fn doubts(&self) -> bool {
        self.has(FaultKind::Drops) || self.has(FaultKind::QpError) || self.has(FaultKind::NodeDeath)
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

    #[test]
    fn one_kind_more_leaves_the_others_as_they_are() {
        let drops = Settings { faults: Faults::only(FaultKind::Drops), ..Settings::default() };
        let both = Settings { faults: Faults::parse("drops,rpc-lost").expect("both are known"), ..drops.clone() };
        for seed in 0..100 {
            let one = FaultPlan::new(&drops, Profile::Mixed, 3, 2, &mut Rng::new(seed));
            let other = FaultPlan::new(&both, Profile::Mixed, 3, 2, &mut Rng::new(seed));
            assert_eq!(one.faults, other.faults);
        }
    }
}
