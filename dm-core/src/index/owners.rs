//! Which rows the ownership tables of a pool still need: asked by every sweep, whatever index it sweeps for.
//!
//! ```text
//!  catalog ──► indexes with a table ──► header, words ──► does any of them keep this row?
//! ```
//!
//! A row stands for more than locks: for a log ring, whose records are in no page yet, and for images of pages in its redo
//! slots. Both go with the row's redo chunks. So a sweep of *any* index asks here before it gives chunks back or frees
//! the row ([`OwnerWord::keeps`]). The catalog names the tables, so that it needs to know nothing of their indexes.
//!
//! **When it is asked.** After the row is DEAD. From then on no entry comes to need it: a dead row comes into no word but
//! as the log of an entry that it owned, which keeps it already; and images of an entry that is recovered later are those
//! of its last writers, which the row is none of once another compute node has flushed and owns the entry. So words may
//! be READ one after the other, and a no stays a no.
//!
//! **An index that is dropped meanwhile** takes its table with it. A table that is none is damage only if the catalog still
//! names it.

use crate::error::VerbError;
use crate::index::catalog;
use crate::lane::{Lane, word_at};
use crate::memory::chunks::{self, Want};
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError};
use crate::remote::address::Address;
use crate::remote::catalog::{EntryState, EntryWord, IndexNumber, owners_offset};
use crate::remote::lock_word::RowId;
use crate::remote::owners::{self, OwnerWord, TableHeader};
use crate::remote::{HOME, NodeGeometry, SCRATCH_BYTES};
use crate::verbs::{Label, Request};
use core::ops::Range;
use static_assertions::const_assert;

/// Words that one READ brings.
const WINDOW: u32 = 32;

const_assert!(WINDOW as usize * 8 <= SCRATCH_BYTES && TableHeader::BYTES <= SCRATCH_BYTES);

/// Names the ownership table of index `number` in the catalog, if none is named yet. Returns the address that is there
/// afterwards. The table is whole, and nobody owns anything in it. One round trip.
pub(crate) async fn publish(
    lane: &Lane<'_>,
    home: &NodeGeometry,
    number: IndexNumber,
    table: Address,
) -> Result<Address, VerbError> {
    let cas = Request::cas(Label::Owner, HOME, owners_offset(home, number), 0, table.to_bits());
    let found = lane.port().call(cas).await?.value;
    Ok(if found == 0 { table } else { Address::from_bits(found) })
}

/// Makes the ownership table of index `number`, whose image is in the scratch at `image`, and names it in the catalog,
/// unless one is named already. Returns the address that is there afterwards. `want`: a request for a chunk of memory node
/// 0 of kind [`Other`](crate::remote::chunk::ChunkKind::Other), which may have old bytes. `scratch` has room for a word.
///
/// Round trips: those of a grant, the table's WRITE, the CAS.
pub async fn make(
    lane: &Lane<'_>,
    home: &NodeGeometry,
    number: IndexNumber,
    want: &Want,
    image: &Range<usize>,
    scratch: usize,
) -> Result<Address, OpError> {
    if image.len() as u64 > home.chunk_bytes {
        let what = "the ownership table is larger than a chunk of the pool";
        return Err(OpError::harmless(Cause::BadInput(what)));
    }
    let chunk = chunks::grant(lane, HOME, home, want, scratch).await?.ok_or(OpError::harmless(Cause::PoolFull))?;
    // Whole before it is named.
    lane.port().call(Request::write(Label::Owner, HOME, chunk.offset, image.len(), image.start)).await?;
    let mine = Address::new(HOME, chunk.offset, 0);
    let named = publish(lane, home, number, mine).await?;
    if named != mine {
        chunks::release(lane, home, &chunk, true).await?;
    }
    Ok(named)
}

/// Where the ownership table of index `number` is; null: the catalog names none yet. `scratch` has room for a word. One
/// round trip.
pub async fn named(
    lane: &Lane<'_>,
    home: &NodeGeometry,
    number: IndexNumber,
    scratch: usize,
) -> Result<Address, VerbError> {
    lane.port().call(Request::read(Label::Owner, HOME, owners_offset(home, number), 8, scratch)).await?;
    Ok(Address::from_bits(word_at(lane, scratch)))
}

/// Whether an entry of an ownership table of this pool keeps a sweep from freeing `row`, which is DEAD.
///
/// Needs [`SCRATCH_BYTES`] of scratch. Round trips: those of a list of the catalog; of each index with a table two, and one
/// per 32 entries.
pub async fn keeps_row(lane: &Lane<'_>, home: &NodeGeometry, row: RowId, scratch: usize) -> Result<bool, OpError> {
    if planted(Mutant::ROW_FREED_WHILE_NAMED) {
        return Ok(false);
    }
    let with_table = catalog::numbers(lane, home, scratch, |entry| !entry.owners.is_null()).await?;
    for number in with_table.iter() {
        let table = named(lane, home, number, scratch).await?;
        if !table.is_null() && table_keeps(lane, home, (number, table), row, scratch).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The same of one table.
async fn table_keeps(
    lane: &Lane<'_>,
    home: &NodeGeometry,
    (number, table): (IndexNumber, Address),
    row: RowId,
    scratch: usize,
) -> Result<bool, OpError> {
    let port = lane.port();
    let ends_in_heap = |bytes: usize| home.chunk_of(table.offset().saturating_add(bytes as u64 - 1)).is_some();
    let is_place = table.node() == HOME && home.chunk_of(table.offset()).is_some();
    let mut entries = Err("a catalog entry names an ownership table that is not in the heap of memory node 0");
    if is_place && ends_in_heap(TableHeader::BYTES) {
        port.call(Request::read(Label::Owner, HOME, table.offset(), TableHeader::BYTES, scratch)).await?;
        let header = port.with(|bytes| bytes.get(scratch..).and_then(TableHeader::from_prefix));
        entries = header.ok_or("scratch too small for an ownership table").and_then(|header| header.entries(number));
    }
    let count = match entries {
        Ok(count) if ends_in_heap(owners::word_at(count)) => count,
        damaged => {
            let what = damaged.err().unwrap_or("an ownership table reaches out of the heap");
            port.call(Request::read(Label::Super, HOME, home.catalog_word(number), 8, scratch)).await?;
            let word = EntryWord(word_at(lane, scratch));
            let is_index = word.is_open() || matches!(word.state(), Some(EntryState::Dropped) | None);
            if is_index {
                return Err(OpError::harmless(Cause::Corrupt { address: table, what }));
            }
            return Ok(false);
        }
    };
    let mut first = 0;
    while first < count {
        let words = WINDOW.min(count - first);
        let at = table.offset() + owners::word_at(first) as u64;
        port.call(Request::read(Label::Owner, HOME, at, words as usize * 8, scratch)).await?;
        if (0..words).any(|word| OwnerWord(word_at(lane, scratch + word as usize * 8)).keeps(row)) {
            return Ok(true);
        }
        first += words;
    }
    Ok(false)
}
