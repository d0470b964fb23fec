//! An open index, and the threads that work on it in a benchmark.

use super::bare;
use super::generator::Shared;
use super::owners::Owners;
use super::plan::Plan;
use crate::failure::Failure;
use crate::workload::trace::TraceWriter;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::remote::catalog::IndexEntry;
use dm_core::verbs::Guarantees;
use dm_host::compute_node::ComputeNode;
use dm_host::fabric::any::AnyFabric;
use dm_host::pool::Pool;
use dm_host::worker::{self, Wakes, Work};
use indicatif::ProgressBar;
use std::fs::File;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

/// A worker's part that outlives single runs.
pub(super) struct Thread<'m> {
    pub(super) lanes: Vec<Lane<'m>>,
    pub(super) fabric: AnyFabric,
}

/// What is measured with.
pub(super) struct Setting<'a> {
    pub(super) plan: &'a Plan,
    pub(super) pool: &'a Pool,
    pub(super) nodes: &'a [ComputeNode],
    pub(super) entry: &'a IndexEntry,
    pub(super) trace: Option<&'a Mutex<TraceWriter<File>>>,
    pub(super) guarantees: Guarantees,
    pub(super) fabric_name: &'static str,
    pub(super) measured_on: String,
}

/// An index that is measured.
pub(super) struct Bench<'a, 's, I> {
    pub(super) setting: &'a Setting<'a>,
    /// On each compute node.
    pub(super) indexes: &'a [I],
    /// The only one, if there is one and the bare loop is of its kind.
    pub(super) bare: Option<&'a bare::Index<'s>>,
}

impl<'a, I> Deref for Bench<'a, '_, I> {
    type Target = Setting<'a>;

    fn deref(&self) -> &Setting<'a> {
        self.setting
    }
}

impl<I: Index> Bench<'_, '_, I> {
    pub(super) fn shared<'b>(&'b self, owners: &Owners) -> Shared<'b> {
        Shared::new(&self.plan.keys, owners.count() > 0, self.trace)
    }

    /// Runs each work on its thread, until it is done or for so long at most; returns them and how long it took from the first
    /// start to the last end. The threads of compute node 0 come first.
    pub(super) fn drive<W: Work + Send>(
        &self,
        threads: &mut [Thread<'_>],
        works: Vec<W>,
        shared: &Shared<'_>,
        progress: &ProgressBar,
        most: Option<Duration>,
    ) -> Result<(Vec<W>, Duration), Failure> {
        let each = usize::from(self.plan.threads);
        let nodes: Vec<_> = self.indexes.iter().zip(self.nodes).collect();
        let wakes: Vec<_> = nodes.iter().map(|_| Wakes::new(each, usize::from(self.plan.lanes))).collect();
        let barrier = &Barrier::new(threads.len());
        let ended = std::thread::scope(|scope| {
            let running: Vec<_> = threads
                .chunks_mut(each)
                .zip(nodes.iter().zip(&wakes))
                .flat_map(|(threads, (&node, wakes))| threads.iter_mut().map(move |thread| (thread, node, wakes)))
                .zip(works)
                .map(|((thread, (index, node), wakes), mut work)| {
                    scope.spawn(move || {
                        barrier.wait();
                        let began = Instant::now();
                        let ended = worker::run(index, &thread.lanes, &mut thread.fabric, &mut work, wakes);
                        if let Err(error) = ended {
                            // Its lanes could not be settled.
                            node.mark_unsettled();
                            shared.fail(error.to_string());
                        }
                        (work, began, Instant::now())
                    })
                })
                .collect();
            let began = Instant::now();
            let mut left = most;
            while (left.is_some() || !progress.is_hidden()) && running.iter().any(|thread| !thread.is_finished()) {
                progress.set_position(shared.done.load(Ordering::Relaxed));
                std::thread::sleep(left.unwrap_or(Duration::MAX).min(Duration::from_millis(50)));
                left = most.and_then(|most| most.checked_sub(began.elapsed()));
                if most.is_some() && left.is_none() {
                    // Operations that have begun come to their ends.
                    shared.stop.store(true, Ordering::Relaxed);
                    break;
                }
            }
            running.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        progress.finish_and_clear();
        let mut works = Vec::new();
        let (mut first, mut last) = (None::<Instant>, None::<Instant>);
        for thread in ended {
            let (work, began, end) = thread.map_err(|_| Failure::Run("a worker thread panicked".to_owned()))?;
            works.push(work);
            first = Some(first.map_or(began, |first| first.min(began)));
            last = Some(last.map_or(end, |last| last.max(end)));
        }
        if let Some(failure) = shared.take_failure() {
            return Err(Failure::Run(failure));
        }
        let wall = first.zip(last).map_or(Duration::ZERO, |(first, last)| last.duration_since(first));
        Ok((works, wall))
    }
}
