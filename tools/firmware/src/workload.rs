//! What the lanes do. All lanes' keys are in the same leaves, so they meet at locks, splits and merges.

use crate::model::{BYTES, Fate, RECORDS, VERSIONS, key, lane_of, last_value, no_key, record_of, records_of, value};
use crate::{PAGE_RECORDS, Wrong};
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::operation::OperationKind::{Delete, DeleteIf, Get, Insert, Update, UpdateIf, Upsert};
use dm_core::operation::{Operation, OperationKind, Outcome, Part};

/// Operations between two scans.
const SCAN_EVERY: usize = 16;

/// Calls the index for one lane.
struct Caller<'a, 'm, I> {
    index: &'a I,
    lane: &'a Lane<'m>,
}

impl<I: Index> Caller<'_, '_, I> {
    async fn execute(&self, operation: Operation, record: u32) -> Result<Outcome, Wrong> {
        self.lane.port().start();
        let result = self.index.execute(self.lane, operation).await;
        // Unsignaled requests are left: another lane may wait for what they do.
        let sent = self.lane.port().submit().await;
        match (result, sent) {
            (Ok(outcome), Ok(())) => Ok(outcome),
            _ => Err(Wrong { what: "an operation failed", record }),
        }
    }

    fn put(&self, part: Part, bytes: [u8; BYTES]) {
        // All parts have this length: `Index::plan` says so.
        self.lane.port().with(|scratch| self.index.plan().put(scratch, part, &bytes));
    }

    fn has_output(&self, expected: [u8; BYTES]) -> bool {
        self.lane.port().with(|scratch| self.index.plan().part(scratch, Part::Output) == expected)
    }

    /// A point operation, which has to end with `outcome`, and `output` if it returns a value.
    async fn point(
        &self,
        kind: OperationKind,
        record: u32,
        outcome: Outcome,
        output: Option<[u8; BYTES]>,
        what: &'static str,
    ) -> Result<(), Wrong> {
        let ended = self.execute(Operation::point(kind), record).await?;
        let is_right = ended == outcome && output.is_none_or(|output| self.has_output(output));
        if is_right { Ok(()) } else { Err(Wrong { what, record }) }
    }

    /// A page of records from `from` on: calls `see` with the number and the value of each.
    async fn page(
        &self,
        from: [u8; BYTES],
        after: bool,
        mut see: impl FnMut(u32, [u8; BYTES]) -> Result<(), Wrong>,
    ) -> Result<bool, Wrong> {
        self.put(Part::Key, from);
        let scan = Operation { after, ..Operation::scan(PAGE_RECORDS as u32) };
        let Outcome::Page { records, more } = self.execute(scan, u32::MAX).await? else {
            return Err(Wrong::of("a scan returns no page"));
        };
        self.lane.port().with(|scratch| {
            for (key, value) in self.index.plan().records(scratch, records as usize) {
                let (Ok(key), Ok(value)) = (key.try_into(), value.try_into()) else {
                    return Err(Wrong::of("a scan returns a record of another length"));
                };
                let record = record_of(key).ok_or(Wrong::of("a scan returns a key that nobody inserted"))?;
                see(record, value)?;
            }
            Ok(more && records > 0)
        })
    }

    /// A scan from `record`, a key of this lane that is present, while other lanes write: keys ascend, values are some
    /// version's, and those keys of this lane that stay are all there.
    async fn scan(&self, record: u32, is_inserted: impl Fn(u32) -> bool) -> Result<(), Wrong> {
        let lane = self.lane.id().0;
        let mut next = record;
        self.page(key(record), false, |found, found_value| {
            let wrong = |what| Err(Wrong { what, record: found });
            if found < next {
                return wrong("a scan does not ascend");
            }
            let must = |record: &u32| lane_of(*record) == lane && Fate::of(*record).stays() && is_inserted(*record);
            if (next..found).any(|record| must(&record)) {
                return wrong("a scan leaves a key out");
            }
            next = found + 1;
            if (0..VERSIONS).all(|version| value(found, version) != found_value) {
                return wrong("a scan returns a value of another key");
            }
            Ok(())
        })
        .await?;
        if next == record { Err(Wrong { what: "a scan does not find its first key", record }) } else { Ok(()) }
    }
}

/// What one lane does with its keys. No other lane changes them, so every answer is known.
pub async fn work<I: Index>(index: &I, lane: &Lane<'_>) -> Result<(), Wrong> {
    let call = Caller { index, lane };
    for (done, record) in records_of(lane.id().0).enumerate() {
        call.put(Part::Key, key(record));
        call.put(Part::Value, value(record, 0));
        call.point(Insert, record, Outcome::Inserted, None, "insert").await?;
        if done % SCAN_EVERY == 0 {
            call.scan(record, |_| false).await?;
        }
    }
    for (done, record) in records_of(lane.id().0).enumerate() {
        call.put(Part::Key, key(record));
        call.put(Part::Value, value(record, 1));
        call.point(Get, record, Outcome::Found, Some(value(record, 0)), "get").await?;
        call.point(Insert, record, Outcome::Exists, Some(value(record, 0)), "insert of a present key").await?;
        change(&call, record).await?;
        call.put(Part::Key, no_key(record));
        call.point(Get, record, Outcome::Absent, None, "get of an absent key").await?;
        call.point(Update, record, Outcome::Absent, None, "update of an absent key").await?;
        if done % SCAN_EVERY == 0 && Fate::of(record).stays() {
            call.scan(record, |_| true).await?;
        }
    }
    Ok(())
}

/// Brings a record of version 0, whose key is in the scratch, to its fate.
async fn change<I: Index>(call: &Caller<'_, '_, I>, record: u32) -> Result<(), Wrong> {
    let version = |version| value(record, version);
    match Fate::of(record) {
        fate @ (Fate::Deleted | Fate::Reborn) => {
            call.point(Delete, record, Outcome::Deleted, None, "delete").await?;
            call.point(Get, record, Outcome::Absent, None, "get of a deleted key").await?;
            call.point(Delete, record, Outcome::Absent, None, "delete of an absent key").await?;
            if fate == Fate::Reborn {
                call.put(Part::Value, version(2));
                call.point(Upsert, record, Outcome::Inserted, None, "upsert of an absent key").await?;
                call.put(Part::Value, version(3));
                call.point(Upsert, record, Outcome::Replaced, None, "upsert").await?;
            }
        }
        Fate::Updated => call.point(Update, record, Outcome::Updated, None, "update").await?,
        fate @ (Fate::UpdatedIf | Fate::Kept) => {
            call.put(Part::Expected, version(1));
            let mismatch = Outcome::Mismatch;
            call.point(DeleteIf, record, mismatch, Some(version(0)), "delete-if of another value").await?;
            call.point(UpdateIf, record, mismatch, Some(version(0)), "update-if of another value").await?;
            if fate == Fate::UpdatedIf {
                call.put(Part::Value, version(2));
                call.put(Part::Expected, version(0));
                call.point(UpdateIf, record, Outcome::Updated, None, "update-if").await?;
            }
        }
    }
    Ok(())
}

/// Compares everything with the model, when nobody writes: page by page, and key by key. Returns the number of records.
pub async fn look_at_everything<I: Index>(index: &I, lane: &Lane<'_>) -> Result<u32, Wrong> {
    let call = Caller { index, lane };
    let mut next = 0;
    let mut records = 0;
    let absent = |from, to| (from..to).find(|record| last_value(*record).is_some());
    let (mut cursor, mut after) = ([0; BYTES], false);
    while call
        .page(cursor, after, |record, found| {
            if record < next || absent(next, record).is_some() {
                return Err(Wrong { what: "the pages have other keys than the model", record });
            }
            if last_value(record) != Some(found) {
                return Err(Wrong { what: "the pages have another value than the model", record });
            }
            (next, records) = (record + 1, records + 1);
            Ok(())
        })
        .await?
    {
        (cursor, after) = (key(next - 1), true);
    }
    if let Some(record) = absent(next, RECORDS) {
        return Err(Wrong { what: "the pages end too early", record });
    }
    for record in 0..RECORDS {
        let last = last_value(record);
        call.put(Part::Key, key(record));
        let outcome = if last.is_some() { Outcome::Found } else { Outcome::Absent };
        call.point(Get, record, outcome, last, "get at the end").await?;
    }
    Ok(records)
}
