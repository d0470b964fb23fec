//! Carries out the faults of a history's plan, and what follows from them.

use super::inherited::{Dead, Inherited};
use super::{Consequence, Doing, Ended, Load};
use crate::check::Answer;
use crate::compute_node::ComputeNode;
use crate::driver::{Driver, LaneAt};
use crate::verify::faults::{Fault, FaultKind, Moment, STALL_LEASES};
use crate::verify::subject::{HeldLock, InnerNodeImages};
use crate::verify::wide::WideOption;
use dm_core::operation::Effect;
use dm_core::verbs::NodeId;

/// Steps for which a fault waits for its moment; after that it happens in any case.
const PATIENCE_STEPS: u64 = 400;

/// Steps for which a death waits for a replay: a waiter notices only after a lease that the holder of a lock is dead.
const REPLAY_STEPS: u64 = 10_000;

/// Sets of images that are kept.
const KEPT_IMAGES_MAX: usize = 8;

impl<'a> Load<'a, '_> {
    /// Carries out a fault. Returns `false` if its moment has not come.
    pub(super) fn inject(&mut self, driver: &mut Driver<'a, '_, Ended>, fault: Fault) -> bool {
        let lane_of = |driver: &Driver<'a, '_, Ended>, number: u32| {
            let lanes: Vec<LaneAt> = driver.lanes().collect();
            lanes[number as usize % lanes.len()]
        };
        let happened = match fault {
            Fault::Drop { lane } => self.drop_future(driver, lane_of(driver, lane)),
            Fault::Crash { compute_node, moment, closed_after_ns } => {
                let drawn = ComputeNode(compute_node);
                if self.draw.wide.fences_the_living() && self.injected.dead.len() + 1 >= self.opened.len() {
                    // The last one lives.
                    return true;
                }
                let (victim, patience_steps) = match moment {
                    Moment::Any => (Some(drawn), 0),
                    Moment::InAWrite => (driver.world().is_writing(drawn).then_some(drawn), PATIENCE_STEPS),
                    Moment::InAReplay => {
                        let dead = &self.injected.dead;
                        (driver.world().replaying().find(|node| !dead.contains(node)), REPLAY_STEPS)
                    }
                    Moment::InACall => {
                        let dead = &self.injected.dead;
                        (driver.world().changing().find(|node| !dead.contains(node)), PATIENCE_STEPS)
                    }
                };
                if victim.is_none() && self.patience < patience_steps {
                    self.patience += 1;
                    return false;
                }
                let compute_node = victim.unwrap_or(drawn);
                self.patience = 0;
                if self.injected.dead.contains(&compute_node) {
                    return true;
                }
                if moment == Moment::InACall && victim.is_some() {
                    let lease_ns =
                        self.opened[usize::from(compute_node.0)].lease().map_or(0, |lease| lease.config().lease_ns());
                    let stalled = driver.world().stall_calls(compute_node, STALL_LEASES * lease_ns);
                    self.met[WideOption::Stalls as usize] += stalled;
                }
                self.dies(driver, compute_node);
                let at_ns = driver.now_ns() + u64::from(closed_after_ns);
                let at_ns = if self.recovered { u64::MAX } else { at_ns };
                self.consequences.push((at_ns, Consequence::Closed(compute_node)));
                true
            }
            Fault::NodeDeath { node } => {
                driver.world().kill_memory_node(NodeId(node));
                self.injected.down = Some(NodeId(node));
                true
            }
            Fault::QueuePair { lane, node, in_a_chain, outage_ns } => {
                let busy = if in_a_chain { driver.world().queue_pair_with_writes(2) } else { None };
                if in_a_chain && busy.is_none() && self.patience < PATIENCE_STEPS {
                    self.patience += 1;
                    return false;
                }
                self.patience = 0;
                let drawn = lane_of(driver, lane);
                let (worker, node) = busy.unwrap_or((driver.worker(drawn), NodeId(node)));
                let lanes: Vec<LaneAt> = driver.lanes().collect();
                let at = lanes.into_iter().find(|at| driver.worker(*at) == worker).unwrap_or(drawn);
                let failed = self.consequences.iter().any(|(_, what)| *what == Consequence::Reconnected(worker, node));
                let joins = !self.has_opened(at.compute_node);
                if failed || joins || self.injected.down == Some(node) || self.injected.dead.contains(&at.compute_node)
                {
                    false
                } else {
                    driver.world().fail_queue_pair(worker, node);
                    let at_ns = driver.now_ns() + u64::from(outage_ns);
                    self.consequences.push((at_ns, Consequence::Reconnected(worker, node)));
                    true
                }
            }
            Fault::KeepImages => {
                let images = self.subject.inner_node_images(driver.world().memories());
                if self.kept_images.len() < KEPT_IMAGES_MAX {
                    self.kept_images.push(images);
                } else {
                    let oldest = self.taken % KEPT_IMAGES_MAX;
                    self.kept_images[oldest] = images;
                }
                self.taken += 1;
                false
            }
            Fault::RestoreCopies { compute_node, images } => {
                let nothing = InnerNodeImages::default();
                let which = images as usize % (self.kept_images.len() + 1);
                self.opened[usize::from(compute_node)].restore_copies(self.kept_images.get(which).unwrap_or(&nothing));
                true
            }
        };
        self.injected.counts[fault.kind() as usize] += u64::from(happened);
        true
    }

    /// Compute nodes that others fenced, since their lease was over, end as soon as a memory node has fenced them off, or
    /// when they read it in their rows. A silent one whose keys have owners goes on as long as it is silent: it needs no
    /// request for a leaf that it has cached, and only its clock tells it that others may have its keys.
    pub(super) fn end_the_fenced(&mut self, driver: &mut Driver<'a, '_, Ended>) {
        if self.draw.wide.fences_the_living() {
            let now_ns = driver.now_ns();
            for compute_node in driver.world().fenced_by_others() {
                if self.injected.dead.contains(&compute_node) {
                    continue;
                }
                let silent = self.clocks.as_ref().is_some_and(|clocks| clocks.is_silent(compute_node, now_ns));
                if silent && self.history.has_owners {
                    self.note_if_wronged(compute_node, now_ns);
                } else {
                    self.end(driver, compute_node);
                }
            }
        }
        for compute_node in std::mem::take(&mut self.noticed) {
            self.end(driver, compute_node);
        }
    }

    /// A compute node dies.
    pub(super) fn dies(&mut self, driver: &mut Driver<'a, '_, Ended>, compute_node: ComputeNode) {
        driver.kill_compute_node(compute_node);
        self.injected.dead.push(compute_node);
        if self.recovered && !self.history.has_owners {
            self.inherited.push((compute_node, Inherited::default()));
        }
        self.may_come_back(false, driver.now_ns());
    }

    /// A compute node that was fenced while it lived ends.
    pub fn end(&mut self, driver: &mut Driver<'a, '_, Ended>, compute_node: ComputeNode) {
        if !self.injected.dead.contains(&compute_node) {
            self.dies(driver, compute_node);
            self.injected.counts[FaultKind::Crash as usize] += 1;
            self.met[WideOption::ShortLeases as usize] += u64::from(self.draw.wide.has(WideOption::ShortLeases));
            self.note_if_wronged(compute_node, driver.now_ns());
        }
    }

    /// Takes note of a compute node that was fenced although its heartbeats came.
    fn note_if_wronged(&mut self, fenced: ComputeNode, now_ns: u64) {
        let wronged = self.clocks.as_ref().is_some_and(|clocks| clocks.wronged(fenced, now_ns));
        if wronged && !self.wronged.contains(&fenced) {
            self.wronged.push(fenced);
        }
    }

    /// Drops the future of a lane: that of an operation, or that of the settling after one.
    fn drop_future(&mut self, driver: &mut Driver<'a, '_, Ended>, at: LaneAt) -> bool {
        if self.injected.dead.contains(&at.compute_node) {
            return false;
        }
        match *self.doing(at) {
            Doing::Operation(operation) => {
                *self.doing(at) = Doing::Settling(Some(operation));
                self.history.respond(operation, driver.now_ns(), Answer::Failed(Effect::Unknown));
            }
            Doing::Pack => {
                *self.doing(at) = Doing::Settling(None);
                self.drop_pack(at, driver.now_ns());
            }
            Doing::OrphanCollection
            | Doing::Sweep(_)
            | Doing::Move
            | Doing::Keep
            | Doing::Cut
            | Doing::Vacate
            | Doing::Serve => {
                *self.doing(at) = Doing::Settling(None);
            }
            Doing::Settling(_) => {}
            Doing::Nothing | Doing::Turn | Doing::Join | Doing::Doubt(_) => return false,
        }
        driver.drop_future(at);
        true
    }

    pub(super) fn carry_out(&mut self, driver: &mut Driver<'a, '_, Ended>, what: Consequence) {
        match what {
            Consequence::Closed(compute_node) => {
                driver.world().close_queue_pairs(compute_node);
                self.close_all(compute_node, driver.now_ns());
            }
            Consequence::Reconnected(worker, node) => driver.world().reconnect(worker, node),
        }
    }

    /// No operation of a dead compute node can take effect any more.
    fn close_all(&mut self, compute_node: ComputeNode, now_ns: u64) {
        if self.recovered {
            // Survivors may complete half-done changes at any later time.
            return;
        }
        for doing in self.doing[usize::from(compute_node.0)].clone() {
            let operation = match doing {
                Doing::Operation(operation) => Some(operation),
                Doing::Doubt(operation) | Doing::Settling(operation) => operation,
                // Packed operations outlive their callers.
                Doing::Nothing
                | Doing::Pack
                | Doing::Turn
                | Doing::OrphanCollection
                | Doing::Sweep(_)
                | Doing::Move
                | Doing::Keep
                | Doing::Cut
                | Doing::Vacate
                | Doing::Serve
                | Doing::Join => None,
            };
            if let Some(operation) = operation {
                self.history.close(operation, now_ns);
            }
        }
    }

    /// Closes the operations of the dead whose locks survivors have released: nothing that they had begun takes effect any more.
    pub(super) fn close_inherited(&mut self, driver: &mut Driver<'a, '_, Ended>) {
        if self.inherited.is_empty() || !std::mem::take(&mut self.has_ended) {
            return;
        }
        let now_ns = driver.now_ns();
        let world = driver.world();
        let held = self.subject.remote_locks_held(world.memories());
        let dead = &self.injected.dead;
        let history = &mut self.history;
        self.inherited.retain_mut(|(compute_node, inherited)| {
            let died = |lock: &HeldLock| {
                let tenant = world.tenant(lock.row).filter(|tenant| dead.contains(tenant))?;
                Some(if tenant == *compute_node { Dead::This } else { Dead::Other })
            };
            let is_over = inherited.look(&held, died);
            if is_over {
                history.close_all_of(*compute_node, now_ns);
            }
            !is_over
        });
    }

    /// All is quiet: carries out the pending consequences of faults.
    pub fn finish(&mut self, driver: &mut Driver<'a, '_, Ended>) {
        self.explain(driver.world());
        for (_, what) in std::mem::take(&mut self.consequences) {
            self.carry_out(driver, what);
        }
        let rpc = driver.world().rpc_faults();
        self.injected.counts[FaultKind::RpcLost as usize] = rpc.lost;
        self.injected.counts[FaultKind::RpcRepeated as usize] = rpc.repeated;
    }
}
