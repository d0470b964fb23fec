//! Presents an index of keys and values of any length as one of fixed sizes, so that tests of the latter test the
//! former.
//!
//! Every short key of a test becomes another key of the index, in the same order; every value becomes another value:
//!
//! - A key loses its trailing zeros, and each of its bytes is repeated. This makes short keys and long ones, with long
//!   common prefixes; some keys are prefixes of others.
//! - A value is written once, twice or three times in a row, as its first byte says. Or it loses its trailing zeros:
//!   then some values are prefixes of others.

use crate::verify::accounting::Node;
use crate::verify::subject::{InnerNodeImages, TestAccess};
use dm_core::index::Index;
use dm_core::items::parameters::Parameters;
use dm_core::lane::Lane;
use dm_core::memory::orphans::CollectedOrphans;
use dm_core::operation::{Census, OpError, Operation, Outcome, Part, RECORD_HEADER_BYTES, ScratchPlan};
use dm_core::recovery::Swept;
use dm_core::remote::catalog::IndexSet;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::owners::{LoadWord, OwnerWord};
use dm_core::verbs::{Assumptions, NodeId};
use std::future::Future;

/// How often a value is repeated at most.
pub const VALUE_REPEATS_MAX: usize = 3;

/// Sizes of keys and values before they are stretched, and how far they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How long a byte of a key becomes.
    pub key_repeats: usize,
    /// Values lose their trailing zeros, and are not repeated.
    pub trims_values: bool,
}

impl Stretch {
    /// Parameters of the index that holds the stretched keys and values.
    pub const fn parameters(&self) -> Parameters {
        Parameters {
            key_bytes_max: self.key_bytes * self.key_repeats,
            value_bytes_max: self.value_bytes * VALUE_REPEATS_MAX,
        }
    }

    /// Bytes of a page of that index with `page_records` records.
    pub const fn page_bytes(&self, page_records: usize) -> usize {
        let Parameters { key_bytes_max, value_bytes_max } = self.parameters();
        page_records * (RECORD_HEADER_BYTES + key_bytes_max + value_bytes_max)
    }
}

/// The stretched index.
pub struct Stretched<'i, I> {
    index: &'i I,
    plan: ScratchPlan,
    key_repeats: usize,
    trims_values: bool,
}

impl<'i, I: Index> Stretched<'i, I> {
    /// A view of `index`, which has [`Stretch::parameters`]. Pages have room for `page_records`.
    pub fn new(index: &'i I, stretch: &Stretch, page_records: usize) -> Self {
        let Stretch { key_bytes, value_bytes, key_repeats, trims_values } = *stretch;
        let mut plan = ScratchPlan::behind(index.plan().total_bytes, (key_bytes, key_bytes), value_bytes);
        plan.page = plan.take(page_records * (key_bytes + value_bytes));
        Self { index, plan, key_repeats, trims_values }
    }

    fn stretch_key(&self, key: &[u8]) -> Vec<u8> {
        without_zeros(key).iter().flat_map(|&byte| std::iter::repeat_n(byte, self.key_repeats)).collect()
    }

    /// The key whose stretched form this is. Bytes that no key stretches to become 0xee, which no test writes.
    fn shrink_key(&self, stretched: &[u8], key: &mut [u8]) {
        key.fill(0);
        for (to, from) in key.iter_mut().zip(stretched.chunks(self.key_repeats)) {
            *to = from[0];
        }
        if self.stretch_key(key) != stretched {
            key.fill(0xee);
        }
    }

    fn stretch_value(&self, value: &[u8]) -> Vec<u8> {
        if self.trims_values {
            return without_zeros(value).to_vec();
        }
        let repeats = 1 + value.first().map_or(0, |&first| usize::from(first)) % VALUE_REPEATS_MAX;
        value.repeat(repeats)
    }

    fn shrink_value(&self, stretched: &[u8], value: &mut [u8]) {
        let bytes = value.len();
        if self.trims_values {
            value.fill(0xee);
            if stretched.len() <= bytes && without_zeros(stretched).len() == stretched.len() {
                value.fill(0);
                value[..stretched.len()].copy_from_slice(stretched);
            }
            return;
        }
        match stretched.get(..bytes) {
            Some(first) if self.stretch_value(first) == stretched => value.copy_from_slice(first),
            _ => value.fill(0xee),
        }
    }

    fn stretch_arguments(&self, scratch: &mut [u8]) {
        let below = self.index.plan();
        for (part, range) in [(Part::Key, &self.plan.key), (Part::KeyHigh, &self.plan.key_high)] {
            let key = self.stretch_key(&scratch[range.clone()]);
            assert!(below.put(scratch, part, &key), "a stretched key fits");
        }
        for (part, range) in [(Part::Value, &self.plan.value), (Part::Expected, &self.plan.expected)] {
            let value = self.stretch_value(&scratch[range.clone()]);
            assert!(below.put(scratch, part, &value), "a stretched value fits");
        }
    }

    fn shrink_results(&self, scratch: &mut [u8], outcome: Outcome) {
        let below = self.index.plan();
        match outcome {
            Outcome::Found | Outcome::Exists | Outcome::Mismatch => {
                let (front, ours) = scratch.split_at_mut(self.plan.key.start);
                let output = self.plan.output.start - self.plan.key.start;
                self.shrink_value(below.part(front, Part::Output), &mut ours[output..output + self.plan.value_bytes]);
            }
            Outcome::Page { records, .. } => {
                let (front, ours) = scratch.split_at_mut(self.plan.key.start);
                let found = below.records(front, records as usize);
                for (position, (key, value)) in found.enumerate() {
                    let record = self.plan.record(position);
                    let start = record.start - self.plan.key.start;
                    let (to_key, to_value) = ours[start..start + record.len()].split_at_mut(self.plan.key_bytes);
                    self.shrink_key(key, to_key);
                    self.shrink_value(value, to_value);
                }
            }
            _ => {}
        }
    }
}

/// The bytes without trailing zeros.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)]
}

impl<I: Index> Index for Stretched<'_, I> {
    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }

    fn assumptions(&self) -> Assumptions {
        self.index.assumptions()
    }

    async fn execute<'a>(&'a self, lane: &'a Lane<'_>, operation: Operation) -> Result<Outcome, OpError> {
        if operation.caller.is_some() {
            return self.index.execute(lane, operation).await;
        }
        lane.port().with(|scratch| self.stretch_arguments(scratch));
        let limit = operation.limit.min(self.plan.page_records() as u32);
        let outcome = self.index.execute(lane, Operation { limit, ..operation }).await?;
        lane.port().with(|scratch| self.shrink_results(scratch, outcome));
        Ok(outcome)
    }

    fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.index.settle(lane)
    }

    fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<Census, OpError>> + 'a {
        self.index.validate(lane)
    }

    fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        lane.port().with(|scratch| self.stretch_arguments(scratch));
        self.index.bulk_append(lane)
    }

    fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.index.bulk_finish(lane)
    }

    fn sweep<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        row: RowId,
        done: IndexSet,
    ) -> impl Future<Output = Result<Swept, OpError>> + 'a {
        self.index.sweep(lane, row, done)
    }

    fn forwards_steps(&self) -> bool {
        self.index.forwards_steps()
    }

    fn served_plan(&self) -> &ScratchPlan {
        if self.index.forwards_steps() { self.index.served_plan() } else { &self.plan }
    }

    fn has_parts(&self) -> bool {
        self.index.has_parts()
    }

    fn parts<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<u32, OpError>> + 'a {
        self.index.parts(lane)
    }

    fn take_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.index.take_part(lane, part)
    }

    fn keep_parts<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.index.keep_parts(lane)
    }

    fn move_part<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        part: u32,
        to: RowId,
        wait_ns: u64,
    ) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.index.move_part(lane, part, to, wait_ns)
    }

    async fn cut_part<'a>(&'a self, lane: &'a Lane<'_>, key: &'a [u8], wait_ns: u64) -> Result<(), OpError> {
        let key = self.stretch_key(key);
        self.index.cut_part(lane, &key, wait_ns).await
    }

    fn vacate_part<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        part: u32,
        from: NodeId,
        wait_ns: u64,
    ) -> impl Future<Output = Result<u64, OpError>> + 'a {
        self.index.vacate_part(lane, part, from, wait_ns)
    }

    fn part(&self, part: u32) -> Option<(OwnerWord, LoadWord)> {
        self.index.part(part)
    }

    fn owner_of(&self, _: &[u8]) -> Option<RowId> {
        None
    }

    fn leave<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.index.leave(lane)
    }

    fn collect_orphans<'a>(
        &'a self,
        lane: &'a Lane<'_>,
    ) -> impl Future<Output = Result<CollectedOrphans, OpError>> + 'a {
        self.index.collect_orphans(lane)
    }

    fn cache_bytes(&self) -> (u64, u64) {
        self.index.cache_bytes()
    }
}

impl<I: TestAccess> TestAccess for Stretched<'_, I> {
    fn locks_held(&self) -> usize {
        self.index.locks_held()
    }

    fn for_each_ready(&self, visit: &mut dyn FnMut(Node)) {
        self.index.for_each_ready(visit);
    }

    fn retired_bytes(&self) -> u64 {
        self.index.retired_bytes()
    }

    fn left_places(&self) -> u64 {
        self.index.left_places()
    }

    fn restore_copies(&self, images: &InnerNodeImages) {
        self.index.restore_copies(images);
    }

    fn demand_collection(&self) -> bool {
        self.index.demand_collection()
    }

    fn has_epochs(&self) -> bool {
        self.index.has_epochs()
    }

    fn capacity(&self) -> u64 {
        self.index.capacity()
    }

    fn turn<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.index.turn(lane)
    }

    fn turn_after<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        waited: (u64, u64),
    ) -> impl Future<Output = Result<(), OpError>> + 'a {
        self.index.turn_after(lane, waited)
    }
}
