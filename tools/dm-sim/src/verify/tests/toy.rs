//! A table under one lock: an index so simple that it is clearly correct, and ways to make it wrong.

use crate::config::Config;
use crate::memory::Memories;
use crate::rng::Rng;
use crate::verify::accounting::Node;
use crate::verify::draw::Draw;
use crate::verify::subject::{HeldLock, InnerNodeImages, Opened, Subject, TestAccess, With};
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::operation::{Cause, Census, Effect, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use dm_core::recovery::Swept;
use dm_core::remote::catalog::IndexSet;
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::{Assumptions, Guarantees, Label, NodeId, Request};
use std::ops::Range;

/// Bugs that it can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Nothing.
    None,
    /// Reads do not take the lock, and records have two lines.
    UnlockedGet,
    /// It releases the lock before the data has landed.
    EarlyUnlock,
    /// It reads first and locks later.
    LateLock,
    /// A dropped lane keeps its lock.
    ForgetfulSettle,
    /// A delete says that it deleted, and deletes nothing.
    KeepsDeleted,
    /// A full page says that no records follow.
    NoMore,
}

pub struct Toy(pub Mutant);

const NODE: NodeId = NodeId(0);
const LOCK: u64 = 64;
const TABLE: u64 = 4096;
const SLOTS: usize = 64;
const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 96;
/// Occupied, key, value, nothing: two lines.
const SLOT_BYTES: usize = 128;
const TRIES_MAX: u32 = 10_000;

struct Table {
    mutant: Mutant,
    row: u64,
    plan: ScratchPlan,
    lock: usize,
    slots: usize,
}

impl Table {
    fn new(mutant: Mutant, row: u64) -> Self {
        let page = 512..512 + 8 * (KEY_BYTES + VALUE_BYTES);
        let slots = 2048;
        let plan = ScratchPlan {
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
            key: 0..8,
            key_high: 8..16,
            value: 64..64 + VALUE_BYTES,
            expected: 192..192 + VALUE_BYTES,
            output: 320..320 + VALUE_BYTES,
            page,
            lengths: 0..0,
            total_bytes: slots + SLOTS * SLOT_BYTES,
        };
        Self { mutant, row, plan, lock: 16, slots }
    }

    fn tag(&self, lane: &Lane<'_>) -> u64 {
        self.row << 16 | (u64::from(lane.id().0) + 1)
    }

    fn unlock(&self, lane: &Lane<'_>) -> Request {
        Request::cas(Label::Unlock, NODE, LOCK, self.tag(lane), 0)
    }

    async fn acquire(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        for attempt in 0..TRIES_MAX {
            if lane.port().call(Request::cas(Label::Lock, NODE, LOCK, 0, self.tag(lane))).await?.value == 0 {
                return Ok(());
            }
            let pause_ns = 500 + u64::from(lane.id().0) * 300 + u64::from(attempt % 7) * 900;
            lane.port().push(Request::pause(pause_ns));
            lane.port().submit().await?;
        }
        Err(OpError::harmless(Cause::Retries { attempts: TRIES_MAX, what: "the one lock" }))
    }

    async fn read(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.port().call(Request::read(Label::Leaf, NODE, TABLE, SLOTS * SLOT_BYTES, self.slots)).await?;
        Ok(())
    }

    fn slot(&self, slot: usize) -> Range<usize> {
        self.slots + slot * SLOT_BYTES..self.slots + (slot + 1) * SLOT_BYTES
    }

    fn find(&self, scratch: &[u8], wanted: Option<&[u8]>) -> Option<usize> {
        (0..SLOTS).find(|&slot| {
            let slot = &scratch[self.slot(slot)];
            match wanted {
                Some(key) => slot[0] == 1 && &slot[8..16] == key,
                None => slot[0] == 0,
            }
        })
    }

    /// Decides on the table in the scratch. Returns the outcome, and the slot that it changed.
    fn decide(&self, scratch: &mut [u8], kind: OperationKind) -> (Outcome, Option<usize>) {
        let key: [u8; 8] = scratch[self.plan.key.clone()].try_into().unwrap_or_default();
        let found = self.find(scratch, Some(&key));
        let value_of = |slot: usize| self.slot(slot).start + 16..self.slot(slot).start + 16 + VALUE_BYTES;
        let Some(slot) = found else {
            if !matches!(kind, OperationKind::Insert | OperationKind::Upsert) {
                return (Outcome::Absent, None);
            }
            let slot = self.find(scratch, None).expect("a slot per key");
            let start = self.slot(slot).start;
            scratch[start] = 1;
            scratch[start + 8..start + 16].copy_from_slice(&key);
            scratch.copy_within(self.plan.value.clone(), start + 16);
            return (Outcome::Inserted, Some(slot));
        };
        let matches = scratch[value_of(slot)] == scratch[self.plan.expected.clone()];
        scratch.copy_within(value_of(slot), self.plan.output.start);
        match kind {
            OperationKind::Insert => (Outcome::Exists, None),
            OperationKind::UpdateIf | OperationKind::DeleteIf if !matches => (Outcome::Mismatch, None),
            OperationKind::Delete | OperationKind::DeleteIf => {
                scratch[self.slot(slot).start] = 0;
                (Outcome::Deleted, (self.mutant != Mutant::KeepsDeleted).then_some(slot))
            }
            OperationKind::Get | OperationKind::Scan => (Outcome::Found, None),
            OperationKind::Update | OperationKind::UpdateIf | OperationKind::Upsert => {
                scratch.copy_within(self.plan.value.clone(), value_of(slot).start);
                (if kind == OperationKind::Upsert { Outcome::Replaced } else { Outcome::Updated }, Some(slot))
            }
        }
    }

    fn page(&self, scratch: &mut [u8], operation: &Operation) -> Outcome {
        let low: [u8; 8] = scratch[self.plan.key.clone()].try_into().unwrap_or_default();
        let high: [u8; 8] = scratch[self.plan.key_high.clone()].try_into().unwrap_or_default();
        let mut slots: Vec<([u8; 8], usize)> = (0..SLOTS)
            .map(|slot| self.slot(slot).start)
            .filter(|&at| scratch[at] == 1)
            .map(|at| (scratch[at + 8..at + 16].try_into().unwrap_or_default(), at))
            .filter(|(key, _)| if operation.after { *key > low } else { *key >= low })
            .filter(|(key, _)| !operation.bounded || *key < high)
            .collect();
        slots.sort_unstable();
        let wanted = (operation.limit as usize).min(self.plan.page_records());
        for (position, (_, at)) in slots.iter().take(wanted).enumerate() {
            let record = self.plan.record(position);
            scratch.copy_within(at + 8..at + 16 + VALUE_BYTES, record.start);
        }
        let more = slots.len() > wanted && self.mutant != Mutant::NoMore;
        Outcome::Page { records: slots.len().min(wanted) as u32, more }
    }

    async fn run(&self, lane: &Lane<'_>, operation: Operation) -> Result<Outcome, OpError> {
        let port = lane.port();
        if operation.kind == OperationKind::Get && self.mutant == Mutant::UnlockedGet {
            self.read(lane).await?;
            return Ok(port.with(|scratch| self.decide(scratch, operation.kind).0));
        }
        if self.mutant == Mutant::LateLock {
            self.read(lane).await?;
        }
        self.acquire(lane).await?;
        if self.mutant != Mutant::LateLock {
            self.read(lane).await?;
        }
        let (outcome, changed) = port.with(|scratch| match operation.kind {
            OperationKind::Scan => (self.page(scratch, &operation), None),
            kind => self.decide(scratch, kind),
        });
        let unknown = |error: OpError| OpError { effect: Effect::Unknown, ..error };
        if self.mutant == Mutant::EarlyUnlock {
            port.call(self.unlock(lane)).await?;
        }
        if let Some(slot) = changed {
            let at = TABLE + (slot * SLOT_BYTES) as u64;
            port.push(Request::write(Label::Entry, NODE, at, SLOT_BYTES, self.slot(slot).start));
        }
        if self.mutant != Mutant::EarlyUnlock {
            port.push(self.unlock(lane));
        }
        port.submit().await.map_err(|error| unknown(error.into()))?;
        Ok(outcome)
    }
}

impl Index for Table {
    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }

    fn assumptions(&self) -> Assumptions {
        Assumptions::WORD_ATOMIC
            | Assumptions::WRITE_THEN_ATOMIC
            | Assumptions::COMPLETION_IS_VISIBLE
            | Assumptions::LINE_ATOMIC
    }

    async fn execute<'a>(&'a self, lane: &'a Lane<'_>, operation: Operation) -> Result<Outcome, OpError> {
        self.run(lane, operation).await
    }

    async fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        lane.port().call(Request::read(Label::Lock, NODE, LOCK, 8, self.lock)).await?;
        let word = lane.port().with(|scratch| scratch[self.lock..self.lock + 8].to_vec());
        if word == self.tag(lane).to_le_bytes() && self.mutant != Mutant::ForgetfulSettle {
            lane.port().call(self.unlock(lane)).await?;
        }
        Ok(())
    }

    async fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Result<Census, OpError> {
        self.read(lane).await?;
        let used = |scratch: &mut [u8]| (0..SLOTS).filter(|&slot| scratch[self.slot(slot).start] == 1).count();
        Ok(Census { records: lane.port().with(used) as u64, ..Census::default() })
    }

    async fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        self.run(lane, Operation::point(OperationKind::Insert)).await.map(|_| ())
    }

    async fn bulk_finish<'a>(&'a self, _: &'a Lane<'_>) -> Result<(), OpError> {
        Ok(())
    }

    async fn sweep<'a>(&'a self, _: &'a Lane<'_>, _: RowId, _: IndexSet) -> Result<Swept, OpError> {
        Ok(Swept::default())
    }
}

impl TestAccess for Table {
    fn locks_held(&self) -> usize {
        0
    }

    fn for_each_ready(&self, _: &mut dyn FnMut(Node)) {}

    fn restore_copies(&self, _: &InnerNodeImages) {}
}

impl Subject for Toy {
    type Case = ();

    fn name(&self) -> String {
        "toy".to_owned()
    }

    fn marks(&self) -> Vec<(&'static str, &'static [Mark])> {
        Vec::new()
    }

    fn draw(&self, _: &Draw, _: &mut Rng) {}

    fn assumptions(&self, _: &Draw, (): &()) -> Assumptions {
        Table::new(Mutant::None, 1).assumptions()
    }

    fn format(&self, (): &(), _: &Config, _: &mut Memories) {}

    fn open(
        &self,
        draw: &Draw,
        (): &(),
        _: &Config,
        _: Guarantees,
        then: &mut dyn FnMut(&[&dyn Opened]),
    ) -> Result<(), String> {
        let tables: Vec<Table> = (1..).zip(&draw.lanes).map(|(row, _)| Table::new(self.0, row)).collect();
        let opened: Vec<_> = tables.iter().map(|table| With(table, None)).collect();
        let opened: Vec<&dyn Opened> = opened.iter().map(|table| table as &dyn Opened).collect();
        then(&opened);
        Ok(())
    }

    fn remote_locks_held(&self, (): &(), _: &Config, memories: &Memories) -> Vec<HeldLock> {
        let word = memories.get(NODE).map_or(0, |node| node.host.word(LOCK));
        let held =
            || HeldLock { node: NODE, row: RowId((word >> 16) as u16), place: (true, LOCK), word, is_shared: false };
        (word != 0).then(held).into_iter().collect()
    }
}
