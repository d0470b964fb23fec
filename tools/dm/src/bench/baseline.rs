//! Compares the engine with a bare loop.
//!
//! The bare loop does only what an operation cannot do without, on the same index in the same process. It finds the
//! leaf in the index cache, copies it out of the mapped region, looks the key up in the copy, and checks the value. For
//! an update it first takes the leaf's lock word by CAS, then stores the changed entry and frees the word by CAS.
//!
//! The bare loop has no port, futures, requests, lanes, timestamps or counters, and it checks no results. There is one
//! thread. Short rounds of both run in turn, so that a disturbance of the machine affects both. What is measured is
//! processor time of the thread, which other processes do not affect. Results are medians.

use super::comparison::{Comparison, OPERATIONS, Pair, ROUNDS};
use super::key_source::KeySource;
use super::threads::{Bench, Thread};
use crate::failure::Failure;
use crate::rounds::thread_ns;
use crate::workload::keys::{check, fill};
use crate::workload::spec::{Proportions, Spec};
use crate::workload::stream::{self, InsertCounter, Workload};
use dm_core::index::Index;
use dm_core::operation::{Operation, OperationKind, Outcome, Part, ScratchPlan};
use dm_core::remote::lock_word::{LockWord, lock_of};
use dm_core::sherman::layout::{Leaf, LeafMut};
use dm_core::verbs::Space;
use dm_host::worker::{self, Finished, Next, Wakes, Work};
use std::fmt;
use std::iter;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Draws records, the same way for both.
struct Draws {
    stream: stream::Lane<'static>,
}

impl Draws {
    #[inline]
    fn next(&mut self) -> u64 {
        // The stream has no end and no inserts.
        self.stream.next().and_then(Result::ok).map_or(0, |draw| draw.record)
    }
}

/// One round of the engine.
struct Engine<'a> {
    keys: &'a KeySource,
    draws: &'a mut Draws,
    update: bool,
    left: u64,
    identities: Vec<u64>,
    version: u32,
    wrong: u64,
}

impl Work for Engine<'_> {
    const TIMED: bool = false;

    #[inline]
    fn next(&mut self, at: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next {
        if self.left == 0 {
            return Next::Finished;
        }
        self.left -= 1;
        let record = self.draws.next();
        self.keys.put(record, scratch, plan);
        self.identities[at] = self.keys.identity(record, plan.part(scratch, Part::Key));
        if self.update {
            self.version += 1;
            fill(self.identities[at], self.version, &mut scratch[plan.value.clone()]);
            return Next::Run(Operation::point(OperationKind::Update));
        }
        Next::Run(Operation::point(OperationKind::Get))
    }

    #[inline]
    fn done(&mut self, at: usize, finished: Finished<'_>) {
        let right = match finished.result {
            Ok(Outcome::Found) => check(self.identities[at], &finished.scratch[finished.plan.output.clone()]).is_some(),
            Ok(Outcome::Updated) => self.update,
            _ => false,
        };
        self.wrong += u64::from(!right);
    }
}

/// Runs the comparison on an index of `records` records.
pub(super) fn compare<I: Index>(
    bench: &Bench<'_, '_, I>,
    thread: &mut Thread<'_>,
    records: u64,
) -> Result<Comparison, Failure> {
    let base = bench.plan.runs.first().map_or(Spec::core(), |run| run.spec.clone());
    let read = Proportions { read: 1.0, update: 0.0, insert: 0.0, scan: 0.0, read_modify_write: 0.0 };
    let spec = Spec {
        phase: crate::workload::spec::Phase::Run,
        record_count: records,
        operation_count: None,
        proportions: read,
        ..base
    };
    let workload = Workload::new(spec, bench.plan.seed ^ 0x6261_7265, NonZeroU32::MIN).map_err(Failure::usage)?;
    let mut draws = Draws { stream: workload.lane(0, Arc::new(InsertCounter::new(records))) };
    let mut one = |update: bool| -> Result<Pair, Failure> {
        let mut ns = [Vec::new(), Vec::new(), Vec::new()];
        let mut bare_missed = 0;
        for round in 0..ROUNDS {
            for turn in 0..3 {
                // The order changes from round to round, so that no engine is always the first.
                let who = (turn + round) % 3;
                let began_ns = thread_ns();
                match who {
                    0 => {
                        let records = iter::repeat_with(|| draws.next()).take(OPERATIONS as usize);
                        bare_missed += bare(bench, thread, records, update)?;
                    }
                    1 => engine(bench, thread, 1, &mut draws, update)?,
                    _ => engine(bench, thread, usize::MAX, &mut draws, update)?,
                }
                ns[who].push((thread_ns() - began_ns) as f64 / OPERATIONS as f64);
            }
        }
        let median = |ns: &mut Vec<f64>| {
            ns.sort_unstable_by(f64::total_cmp);
            ns[ns.len() / 2]
        };
        let [bare_ns, engine_ns, engine_lanes_ns] = &mut ns;
        Ok(Pair {
            engine_ns: median(engine_ns),
            engine_lanes_ns: median(engine_lanes_ns),
            bare_ns: median(bare_ns),
            bare_missed,
        })
    };
    let search = one(false)?;
    let update = one(true)?;
    Ok(Comparison { lanes: u32::from(bench.plan.lanes), search, update })
}

fn engine<I: Index>(
    bench: &Bench<'_, '_, I>,
    thread: &mut Thread<'_>,
    lanes: usize,
    draws: &mut Draws,
    update: bool,
) -> Result<(), Failure> {
    let lanes = &thread.lanes[..lanes.min(thread.lanes.len())];
    let wakes = Wakes::new(1, lanes.len());
    let mut work = Engine {
        keys: &bench.plan.keys,
        draws,
        update,
        left: OPERATIONS,
        identities: vec![0; lanes.len()],
        version: 1 << 30,
        wrong: 0,
    };
    worker::run(&bench.indexes[0], lanes, &mut thread.fabric, &mut work, &wakes).map_err(|error| {
        bench.nodes[0].mark_unsettled();
        Failure::run(error)
    })?;
    match work.wrong {
        0 => Ok(()),
        wrong => Err(Failure::Run(format!("baseline: {wrong} operations of the engine went wrong"))),
    }
}

/// One round of the bare loop; returns how many operations it could not do.
pub(super) fn bare<I: Index>(
    bench: &Bench<'_, '_, I>,
    thread: &Thread<'_>,
    records: impl Iterator<Item = u64>,
    update: bool,
) -> Result<u64, Failure> {
    let failed = |error: &dyn fmt::Display| Failure::Run(format!("baseline: {error}"));
    let pool = bench.pool;
    let Some(index) = bench.bare else { return Err(failed(&"the bare loop is Sherman's")) };
    let (tree, shape) = (index.tree(), index.leaf_shape());
    let key_bytes = index.plan().key_bytes;
    let mut key = vec![0; key_bytes];
    let mut value = vec![0; index.plan().value_bytes];
    let mut image = vec![0; shape.bytes + 64];
    let aligned = image.as_ptr().align_offset(64);
    let image = &mut image[aligned..aligned + shape.bytes];
    let mut missed = 0;
    for (turn, record) in (0_u64..).zip(records) {
        bench.plan.keys.write(record, &mut key);
        let identity = bench.plan.keys.identity(record, &key);
        let Some((root, level)) = tree.root.get() else { return Err(failed(&"the root is not known")) };
        let route = tree.cache.route(root, level, 0, &key, 0);
        if route.level != 0 {
            missed += 1;
            continue;
        }
        let (node, offset) = (route.address.node(), route.address.offset());
        let Some(region) = pool.nodes()[usize::from(node.0)].region() else {
            return Err(failed(&"a bare loop needs memory that is mapped here: --fabric shm"));
        };
        let area = region.area(Space::Host);
        if !update {
            area.read(offset, image).map_err(|error| failed(&error))?;
            let leaf = Leaf::new(shape, image);
            match leaf.find(&key) {
                Ok(Some(slot)) => {
                    leaf.read_value(slot, &mut value);
                    if check(identity, &value).is_none() {
                        return Err(failed(&"a wrong value"));
                    }
                }
                _ => missed += 1,
            }
            continue;
        }
        fill(identity, turn as u32, &mut value);
        let geometry = &pool.geometry()[usize::from(node.0)];
        let locks = region.area(geometry.lock_space);
        let lock = geometry.lock_offset(lock_of(route.address, geometry.lock_count).index);
        let word = LockWord::new(tree.owner.row, turn).ok_or_else(|| failed(&"no lock word is left"))?.0;
        if locks.cas(lock, 0, word).map_err(|error| failed(&error))? != 0 {
            missed += 1;
            continue;
        }
        area.read(offset, image).map_err(|error| failed(&error))?;
        let slot = Leaf::new(shape, image).find(&key).ok().flatten();
        if let Some(slot) = slot {
            LeafMut::new(shape, image).set_value(slot, &value);
            let range = shape.entry_range(slot);
            let Some(writer) = thread.fabric.shm().and_then(|fabric| fabric.writer(node)) else {
                return Err(failed(&"no writer slot"));
            };
            area.write(writer, offset + range.start as u64, &image[range]).map_err(|error| failed(&error))?;
        } else {
            missed += 1;
        }
        locks.cas(lock, word, 0).map_err(|error| failed(&error))?;
    }
    Ok(missed)
}
