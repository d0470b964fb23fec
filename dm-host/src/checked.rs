//! Records with checksums, over an index of any kind: an option of an index, chosen when it is created
//! ([`IndexOptions::checksums`](crate::session::IndexOptions::checksums), `dm create --checksums`).
//!
//! ```text
//!  the user's record        ┌─────┬────────┐
//!                           │ key │ value  │
//!                           └─────┴────────┘
//!  what the index stores    ┌─────┬────────┬─────────────────────────┐
//!                           │ key │ value  │ CRC-32C of key and value │   4 bytes, little-endian
//!                           └─────┴────────┴─────────────────────────┘
//! ```
//!
//! Everything that opens an index by its catalog entry gets it as a [`Checked`]: sessions, local handles, lanes that serve other
//! compute nodes, and the tools. It *seals* values on their way into the index, where the operation finds them in the scratch, and
//! *opens* what the index has found. The index knows nothing of it: a checksum is the end of a value, and goes wherever values go, into
//! logs, redo records, caches and blocks. An `update_if` compares sealed values.
//!
//! **What is found.** Each record that an operation returns has the checksum that it was stored with, or the operation ends with
//! [`Cause::Checksum`], which names the key, and has changed nothing: in gets, scans, inserts and conditional operations that return
//! what is there, so also in dumps, and in `dm check`. This is how bytes are found that have changed in a leaf, in a block, in a
//! cache or on the way. If the owner of a key executes the operation, it compares the checksum, and the caller gets its error. An
//! upsert, an update or a delete of that key does not look at the value, and repairs it.
//!
//! The mark that an entry is in use has no checksum. But an entry that is not in use is zero: a delete leaves the key only where
//! others are found by it (CHIME, Dolphin), and never the value. If damage clears a mark, the walk of a dump and of `dm check` finds
//! bytes of a record in an entry that is not in use. If damage sets one, value and checksum are zero, which does not fit: of a key of
//! zeros never, of another key of CHIME or Dolphin as seldom as any checksum fits by chance. SMART's checksum of a leaf covers its
//! state.
//!
//! So a dump that walks, and ends with success, has the records of the index: none more, none less, none that differs. With keys of
//! any length it says so if a record is alone in a layer without a link, as a crash may leave one.
//!
//! **What is not found.** Damage that leaves what a writer could have written: a record of one time in the place of a later one of the
//! same key, such as a whole leaf of yesterday; or an entry all of whose bytes are zero by now (of CHIME and Dolphin: value, checksum
//! and mark), as if its record had been deleted. Without a walk, a lost mark is not found: a get of that key finds nothing, nor does
//! a scan, or a dump of an index in use. And a get finds nothing where the entry's key has changed; a scan finds that entry, and
//! fails.
//!
//! **What it costs.** Four bytes a record, so a leaf of the paper's size has fewer: of 8-byte keys and values 46 in Sherman, where it
//! has 57 without. No round trip. On shared memory, with keys and values of 8 bytes, a local handle and 20,000 records, in turns within
//! one process (a dev build, medians, on a busy machine), with checksums and without:
//!
//! | | Sherman | SMART | CHIME | Dolphin | DEX |
//! |---|---|---|---|---|---|
//! | get, ns | 1232, 1102 | 1312, 1151 | 1502, 1382 | 1452, 1342 | 1722, 1613 |
//! | put, ns | 1913, 1753 | 2183, 1993 | 2293, 2174 | 2283, 2134 | 2424, 2354 |

use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::layout::checksum::{CHECKSUM_BYTES, of_record};
use dm_core::memory::orphans::CollectedOrphans;
use dm_core::operation::{
    Cause, Census, KeyStart, OpError, Operation, OperationKind, Outcome, Part, RECORD_HEADER_BYTES, Records,
    ScratchPlan,
};
use dm_core::recovery::Swept;
use dm_core::remote::catalog::IndexSet;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::owners::{LoadWord, OwnerWord};
use dm_core::verbs::{Assumptions, NodeId};
use std::ops::Range;

/// An index as its users see it: with checksums that they do not see, or as it is.
#[derive(Debug)]
pub struct Checked<'a, I> {
    stored: &'a I,
    /// The users' plan. `None`: records have no checksums.
    plan: Option<ScratchPlan>,
}

impl<'a, I: Index> Checked<'a, I> {
    /// `checksums`: as [`IndexParameters::checksums`](crate::kinds::IndexParameters::checksums).
    pub fn new(stored: &'a I, checksums: bool) -> Self {
        Self { stored, plan: checksums.then(|| users_plan(stored.plan())) }
    }
}

impl<'a, I> Checked<'a, I> {
    /// The index, whose values have their checksums.
    pub const fn stored(&self) -> &'a I {
        self.stored
    }
}

/// The plan of an index, as if values ended where their checksums begin.
fn users_plan(stored: &ScratchPlan) -> ScratchPlan {
    let shorter = |range: &Range<usize>| range.start..range.end.saturating_sub(CHECKSUM_BYTES);
    let mut plan = ScratchPlan {
        value_bytes: stored.value_bytes.saturating_sub(CHECKSUM_BYTES),
        value: shorter(&stored.value),
        expected: shorter(&stored.expected),
        output: shorter(&stored.output),
        ..stored.clone()
    };
    if !plan.has_lengths() {
        plan.page.end = plan.page.start + stored.page_records() * (plan.key_bytes + plan.value_bytes);
    }
    plan
}

const fn is_value(part: Part) -> bool {
    matches!(part, Part::Value | Part::Expected)
}

/// Puts checksums behind the values among the arguments of an operation of `kind`.
fn seal((users, stored): (&ScratchPlan, &ScratchPlan), kind: OperationKind, scratch: &mut [u8]) {
    for &part in kind.parts().iter().filter(|part| is_value(**part)) {
        let (at, bytes) = (users.range(part).start, users.length(scratch, part));
        let checksum = of_record(users.part(scratch, Part::Key), users.part(scratch, part));
        if let Some(behind) = scratch.get_mut(at + bytes..at + bytes + CHECKSUM_BYTES) {
            behind.copy_from_slice(&checksum);
        }
        // There is room behind the longest value, too.
        let _ = stored.set_length(scratch, part, bytes + CHECKSUM_BYTES);
    }
}

/// Gives values among the arguments their users' lengths back: the operation may be executed once more, here or elsewhere.
fn unseal((users, stored): (&ScratchPlan, &ScratchPlan), kind: OperationKind, scratch: &mut [u8]) {
    for &part in kind.parts().iter().filter(|part| is_value(**part)) {
        let bytes = stored.length(scratch, part).saturating_sub(CHECKSUM_BYTES);
        let _ = users.set_length(scratch, part, bytes);
    }
}

/// Compares a record with its checksum. Returns its value without that.
fn verify<'r>(key: &[u8], sealed: &'r [u8]) -> Result<&'r [u8], OpError> {
    match sealed.split_last_chunk::<CHECKSUM_BYTES>() {
        Some((value, checksum)) if of_record(key, value) == *checksum => Ok(value),
        _ => Err(OpError::harmless(Cause::Checksum { key: KeyStart::of(key) })),
    }
}

/// Verifies what an operation has found, and leaves it in the scratch as its user expects it.
fn open(
    (users, stored): (&ScratchPlan, &ScratchPlan),
    outcome: Outcome,
    scratch: &mut [u8],
) -> Result<Outcome, OpError> {
    if let Outcome::Page { records, .. } = outcome {
        open_page((users, stored), records, scratch)?;
    } else if outcome.has_value() {
        let bytes = verify(stored.part(scratch, Part::Key), stored.part(scratch, Part::Output))?.len();
        let _ = users.set_length(scratch, Part::Output, bytes);
    }
    Ok(outcome)
}

/// The same of a page, whose records move together where checksums were between them.
fn open_page((users, stored): (&ScratchPlan, &ScratchPlan), records: u32, scratch: &mut [u8]) -> Result<(), OpError> {
    let Some(page) = scratch.get_mut(stored.page.clone()) else { return Ok(()) };
    let header_bytes = if stored.has_lengths() { RECORD_HEADER_BYTES } else { 0 };
    let (mut from, mut to) = (0, 0);
    for _ in 0..records {
        let rest = page.get(from..).unwrap_or_default();
        let found = if header_bytes > 0 {
            Records::with_lengths(rest).next()
        } else {
            let record = rest.get(..stored.key_bytes + stored.value_bytes);
            record.map(|record| record.split_at(stored.key_bytes))
        };
        let Some((key, sealed)) = found else { break };
        let (key_bytes, value_bytes) = (key.len(), verify(key, sealed)?.len());
        let record_bytes = header_bytes + key_bytes + value_bytes;
        page.copy_within(from..from + record_bytes, to);
        if header_bytes > 0 {
            page[to + 2..to + header_bytes].copy_from_slice(&(value_bytes as u32).to_le_bytes());
        }
        from += record_bytes + CHECKSUM_BYTES;
        to += record_bytes;
    }
    debug_assert!(to <= users.page.len(), "as many records as were asked for");
    Ok(())
}

impl<I: Index> Checked<'_, I> {
    /// Both plans, if records have checksums.
    fn plans(&self) -> Option<(&ScratchPlan, &ScratchPlan)> {
        self.plan.as_ref().map(|users| (users, self.stored.plan()))
    }
}

impl<I: Index> Index for Checked<'_, I> {
    fn plan(&self) -> &ScratchPlan {
        self.plan.as_ref().unwrap_or_else(|| self.stored.plan())
    }

    fn assumptions(&self) -> Assumptions {
        self.stored.assumptions()
    }

    /// Keys are in one place of the scratch, with checksums and without.
    fn ask_ahead(&self, lane: &Lane<'_>) -> bool {
        self.stored.ask_ahead(lane)
    }

    async fn execute<'a>(&'a self, lane: &'a Lane<'_>, operation: Operation) -> Result<Outcome, OpError> {
        if operation.caller.is_some() {
            // A step is on entries, not on records.
            return self.stored.execute(lane, operation).await;
        }
        if let Some(plans) = self.plans() {
            lane.port().with(|scratch| seal(plans, operation.kind, scratch));
        }
        let ended = self.stored.execute(lane, operation).await;
        let Some(plans) = self.plans() else { return ended };
        lane.port().with(|scratch| {
            unseal(plans, operation.kind, scratch);
            ended.and_then(|outcome| open(plans, outcome, scratch))
        })
    }

    async fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        self.stored.settle(lane).await
    }

    async fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Result<Census, OpError> {
        let mut census = self.stored.validate(lane).await?;
        if self.plan.is_some() {
            let checksums = census.records * CHECKSUM_BYTES as u64;
            census.item_bytes.1 = census.item_bytes.1.saturating_sub(checksums);
        }
        Ok(census)
    }

    async fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        if let Some(plans) = self.plans() {
            lane.port().with(|scratch| seal(plans, OperationKind::Insert, scratch));
        }
        let ended = self.stored.bulk_append(lane).await;
        if let Some(plans) = self.plans() {
            lane.port().with(|scratch| unseal(plans, OperationKind::Insert, scratch));
        }
        ended
    }

    async fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        self.stored.bulk_finish(lane).await
    }

    async fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId, done: IndexSet) -> Result<Swept, OpError> {
        self.stored.sweep(lane, row, done).await
    }

    async fn collect_orphans<'a>(&'a self, lane: &'a Lane<'_>) -> Result<CollectedOrphans, OpError> {
        self.stored.collect_orphans(lane).await
    }

    async fn leave<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        self.stored.leave(lane).await
    }

    async fn await_writable<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        self.stored.await_writable(lane).await
    }

    fn has_parts(&self) -> bool {
        self.stored.has_parts()
    }

    async fn parts<'a>(&'a self, lane: &'a Lane<'_>) -> Result<u32, OpError> {
        self.stored.parts(lane).await
    }

    async fn take_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32) -> Result<(), OpError> {
        self.stored.take_part(lane, part).await
    }

    async fn keep_parts<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        self.stored.keep_parts(lane).await
    }

    async fn move_part<'a>(&'a self, lane: &'a Lane<'_>, part: u32, to: RowId, wait_ns: u64) -> Result<(), OpError> {
        self.stored.move_part(lane, part, to, wait_ns).await
    }

    async fn cut_part<'a>(&'a self, lane: &'a Lane<'_>, key: &'a [u8], wait_ns: u64) -> Result<(), OpError> {
        self.stored.cut_part(lane, key, wait_ns).await
    }

    async fn vacate_part<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        part: u32,
        from: NodeId,
        wait_ns: u64,
    ) -> Result<u64, OpError> {
        self.stored.vacate_part(lane, part, from, wait_ns).await
    }

    fn part(&self, part: u32) -> Option<(OwnerWord, LoadWord)> {
        self.stored.part(part)
    }

    fn owner_of(&self, key: &[u8]) -> Option<RowId> {
        self.stored.owner_of(key)
    }

    fn part_of(&self, key: &[u8]) -> u32 {
        self.stored.part_of(key)
    }

    fn forwards_steps(&self) -> bool {
        self.stored.forwards_steps()
    }

    fn served_plan(&self) -> &ScratchPlan {
        if self.stored.forwards_steps() { self.stored.served_plan() } else { self.plan() }
    }

    fn cache_bytes(&self) -> (u64, u64) {
        self.stored.cache_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"a key...";
    const VALUE: &[u8] = b"value 12";

    /// Plans of an index with values of up to 8 bytes: the user's, and what is stored.
    fn plans(have_lengths: bool) -> (ScratchPlan, ScratchPlan, Vec<u8>) {
        let mut stored = ScratchPlan::new(KEY.len(), VALUE.len() + CHECKSUM_BYTES);
        if have_lengths {
            stored.lengths = stored.take(5 * 4);
        }
        let header_bytes = if have_lengths { RECORD_HEADER_BYTES } else { 0 };
        stored.page = stored.take(3 * (header_bytes + KEY.len() + stored.value_bytes));
        let scratch = vec![0; stored.total_bytes];
        (users_plan(&stored), stored, scratch)
    }

    /// What the index has for a value.
    fn sealed(key: &[u8], value: &[u8], have_lengths: bool) -> Vec<u8> {
        let (users, stored, mut scratch) = plans(have_lengths);
        assert!(users.put(&mut scratch, Part::Key, key) && users.put(&mut scratch, Part::Value, value));
        seal((&users, &stored), OperationKind::Upsert, &mut scratch);
        let sealed = stored.part(&scratch, Part::Value).to_vec();
        unseal((&users, &stored), OperationKind::Upsert, &mut scratch);
        assert_eq!(users.part(&scratch, Part::Value), value, "it may be sealed once more");
        sealed
    }

    fn refused(key: &[u8]) -> OpError {
        OpError::harmless(Cause::Checksum { key: KeyStart::of(key) })
    }

    #[test]
    fn a_value_comes_back_and_every_bit_of_the_record_matters() {
        for have_lengths in [false, true] {
            let (users, stored, mut scratch) = plans(have_lengths);
            let mut record = [KEY, &sealed(KEY, VALUE, have_lengths)].concat();
            let mut get = |record: &[u8]| {
                let (key, value) = record.split_at(KEY.len());
                assert!(stored.put(&mut scratch, Part::Key, key) && stored.put(&mut scratch, Part::Output, value));
                let outcome = open((&users, &stored), Outcome::Found, &mut scratch)?;
                Ok((outcome, users.part(&scratch, Part::Output).to_vec()))
            };
            assert_eq!(get(&record), Ok((Outcome::Found, VALUE.to_vec())));
            for bit in 0..record.len() * 8 {
                record[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(get(&record), Err(refused(&record[..KEY.len()])), "bit {bit}");
                record[bit / 8] ^= 1 << (bit % 8);
            }
            assert_eq!(get(&[0; 20]), Err(refused(&[0; 8])), "an entry of zeros");
        }
    }

    #[test]
    fn the_records_of_a_page_move_together_and_each_is_verified() {
        for have_lengths in [false, true] {
            let (users, stored, mut scratch) = plans(have_lengths);
            let values: [&[u8]; 3] = if have_lengths { [b"", b"value", VALUE] } else { [VALUE, b"8 bytes.", VALUE] };
            let records: Vec<_> =
                (0..3).map(|n| ([b"a key..", &[b'0' + n][..]].concat(), values[usize::from(n)])).collect();
            let mut page = Vec::new();
            for (key, value) in &records {
                let sealed = sealed(key, value, have_lengths);
                if have_lengths {
                    page.extend((key.len() as u16).to_le_bytes());
                    page.extend((sealed.len() as u32).to_le_bytes());
                }
                page.extend([&key[..], &sealed].concat());
            }
            let at = stored.page.start;
            let outcome = Outcome::Page { records: 3, more: true };
            scratch[at..at + page.len()].copy_from_slice(&page);
            assert_eq!(open((&users, &stored), outcome, &mut scratch), Ok(outcome));
            let found: Vec<_> = users.records(&scratch, 3).map(|(key, value)| (key.to_vec(), value)).collect();
            assert_eq!(found, records);
            for (key, _) in &records {
                scratch[at..at + page.len()].copy_from_slice(&page);
                let last = page.windows(8).position(|bytes| bytes == *key).expect("its key") + 8;
                scratch[at + last] ^= 0x10;
                assert_eq!(open((&users, &stored), outcome, &mut scratch), Err(refused(key)));
            }
        }
    }

    #[test]
    fn an_error_names_the_key() {
        assert!(refused(KEY).to_string().contains("key hex:61206b65792e2e2e does not fit"), "{}", refused(KEY));
        assert!(refused(&[7; 40]).to_string().contains("07... (40 bytes)"), "{}", refused(&[7; 40]));
    }
}
