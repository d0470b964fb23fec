//! The faults of one history: a plan, drawn from a seed before the history begins.
//!
//! The plan is data. To have a certain fault at a certain place, write a plan by hand; [`super::load`] carries plans
//! out.

use super::faults::{Fault, FaultKind, Moment, Planned};
use super::settings::{Profile, Settings};
use crate::rng::Rng;

/// The faults of one history.
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
            // Drawn in any case, so that allowing one kind does not change the faults of other kinds.
            let drawn = rng.percent(percent);
            drawn && settings.faults.contains(kind)
        };
        let drops = chosen(FaultKind::Drops, 30);
        let crash = chosen(FaultKind::Crash, 35);
        let death = chosen(FaultKind::NodeDeath, 20) && memory_nodes > 1;
        let reuses = matches!(profile, Profile::Churn | Profile::Reuse | Profile::OldRoutes);
        let queue_pairs = chosen(FaultKind::QpError, if reuses { 10 } else { 35 });
        // Old pointers do most harm where nodes are reused all the time.
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
                0 => Fault::KeepImages,
                _ => Fault::RestoreCopies { compute_node: rng.below(compute_nodes) as u16, images: rng.below(1 << 16) },
            });
        }
        plan.faults.sort_by_key(|planned| planned.step);
        plan
    }

    /// If two compute nodes die, makes the second one die while it repairs what the first one left. For histories in
    /// which survivors recover the dead: a repair takes a few of some thousand steps, so without this no repairer died
    /// in 10,000 histories.
    pub(super) fn kill_a_repairer(&mut self) {
        let mut deaths = self.faults.iter_mut().filter(|planned| planned.fault.kind() == FaultKind::Crash);
        let (Some(first), Some(second)) = (deaths.next(), deaths.next()) else { return };
        for (planned, when) in [(first, Moment::InAWrite), (second, Moment::InAReplay)] {
            if let Fault::Crash { moment, .. } = &mut planned.fault {
                *moment = when;
            }
        }
    }

    /// Makes the first compute node that dies one whose call is being executed.
    pub(super) fn kill_a_caller(&mut self) {
        for planned in &mut self.faults {
            if let Fault::Crash { moment, .. } = &mut planned.fault {
                *moment = Moment::InACall;
                return;
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

    /// Whether the plan may leave a lane in doubt, which then has to be settled.
    pub fn doubts(&self) -> bool {
        self.has(FaultKind::Drops) || self.has(FaultKind::QpError) || self.has(FaultKind::NodeDeath)
    }
}

#[cfg(test)]
mod tests {
    use super::super::faults::Faults;
    use super::*;

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
