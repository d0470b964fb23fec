//! Who owns the keys of an index, and the log rings of compute nodes, as they lie in the pool.
//!
//! It only READs. What is in the memory of an owner cannot be seen from here: which pages it has changed and not written
//! back, and records that are not in its ring yet.

use crate::failure::Failure;
use crate::members::{Member, WINDOW_BYTES, on_lane};
use crate::report::text::{counted, counted_as};
use dm_core::dex::log::replay::{Next, Replay};
use dm_core::dex::log::ring::{Ring, RingDescription, RingHead, RingOwner};
use dm_core::dex::ownership::table::{Table, TableShape};
use dm_core::lane::Lane;
use dm_core::layout::LINE_BYTES;
use dm_core::remote::address::Address;
use dm_core::remote::catalog::{IndexEntry, IndexNumber};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::owners::{LoadWord, Owner, OwnerWord, TableHeader, word_at};
use dm_core::remote::{HOME, NodeGeometry};
use dm_core::verbs::{Label, NodeId, Request};
use dm_host::fabric::any::AnyFabric;
use dm_host::pool::Pool;
use dm_host::solo::block_on;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The ownership table of an index.
#[derive(Clone, Debug, Default, Serialize)]
pub(in crate::commands) struct Ownership {
    /// Its byte offset on memory node 0.
    table: u64,
    /// What is wrong with it; then the rest is of what could be read.
    broken: Option<String>,
    entries: u32,
    capacity: u32,
    free: u32,
    owned: u32,
    recovering: u32,
    /// Owned, and asked for by another compute node.
    draining: u32,
    /// Given up for another compute node, which has not taken it yet.
    kept: u32,
    corrupt: u32,
    /// The greatest epoch of an entry.
    epoch_max: u32,
    /// By row: compute nodes that a word names.
    owners: Vec<OwnerView>,
}

/// What a compute node has of an index.
#[derive(Clone, Debug, Default, Serialize)]
struct OwnerView {
    row: u16,
    /// State of the row.
    state: &'static str,
    /// It is live, and its heartbeat has moved while rows were watched, if they were.
    beats: bool,
    /// Entries that it owns.
    owned: u32,
    /// Entries that it recovers.
    recovers: u32,
    /// Entries that another one recovers from its log ring.
    recovered: u32,
    /// The greatest epoch of these.
    epoch_max: u32,
}

/// The log ring of a compute node.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct RingView {
    node: u16,
    offset: u64,
    index: Option<u8>,
    chunks: u16,
    lines: u64,
    /// The line at which a replay would begin.
    head: Option<u64>,
    /// Records from the head on.
    records: u64,
    /// Lines of these.
    record_lines: u64,
    broken: Option<String>,
}

/// A range of keys, as the ownership table has it.
#[derive(Clone, Debug)]
pub(in crate::commands) struct KeyRange {
    /// Its first key.
    pub(in crate::commands) low: Vec<u8>,
    /// Who has it.
    pub(in crate::commands) word: OwnerWord,
    /// How many operations come for it.
    pub(in crate::commands) load: LoadWord,
}

/// Read access to a pool.
pub(in crate::commands) struct Access<'a, 'm> {
    pub(in crate::commands) pool: &'a Pool,
    pub(in crate::commands) fabric: &'a mut AnyFabric,
    pub(in crate::commands) lane: &'a Lane<'m>,
}

impl Access<'_, '_> {
    /// READs `bytes` bytes, at most [`WINDOW_BYTES`]. `Err`: they are not in the heap of that memory node.
    fn read(&mut self, node: NodeId, offset: u64, bytes: usize) -> Result<Result<Vec<u8>, &'static str>, Failure> {
        let geometry = self.pool.geometry().get(usize::from(node.0));
        let ends = offset.saturating_add(bytes as u64).saturating_sub(1);
        let in_heap =
            |geometry: &NodeGeometry| geometry.chunk_of(offset).is_some() && geometry.chunk_of(ends).is_some();
        if !geometry.is_some_and(in_heap) || bytes > WINDOW_BYTES {
            return Ok(Err("it is not in the heap of its memory node"));
        }
        let read = Request::read(Label::Tool, node, offset, bytes, 0);
        on_lane(self.fabric, self.lane, |fabric, lane| block_on(fabric, lane, lane.port().call(read)))
            .map_err(Failure::run)?;
        Ok(Ok(self.lane.port().with(|scratch| scratch[..bytes].to_vec())))
    }

    /// The ownership table of an index; `None`: its keys have no owners, or no compute node has opened it yet.
    pub(in crate::commands) fn ownership(
        &mut self,
        entry: &IndexEntry,
        rows: &[Member],
    ) -> Result<Option<Ownership>, Failure> {
        if entry.owners.is_null() {
            return Ok(None);
        }
        let mut ownership = Ownership { table: entry.owners.offset(), ..Ownership::default() };
        if let Err(what) = self.read_words(entry, rows, &mut ownership)? {
            ownership.broken = Some(what.to_owned());
        }
        Ok(Some(ownership))
    }

    /// The ranges of the keys of an index, in the order of keys. `None`: its keys have no owners, or no
    /// compute node has opened it yet.
    pub(in crate::commands) fn ranges(&mut self, entry: &IndexEntry) -> Result<Option<Vec<KeyRange>>, Failure> {
        if entry.owners.is_null() {
            return Ok(None);
        }
        let bad = |what: String| Failure::Run(format!("the ownership table of index \"{}\": {what}", entry.name()));
        let offset = entry.owners.offset();
        let header = self.read(HOME, offset, TableHeader::BYTES)?.map_err(|what| bad(what.to_owned()))?;
        let header = TableHeader::from_prefix(&header).unwrap_or(TableHeader::ZERO);
        header.entries(entry.number).map_err(|what| bad(what.to_owned()))?;
        let shape = TableShape::new(header.key_bytes.get().into(), header.capacity.get());
        let shape = shape.map_err(|error| bad(error.to_string()))?;
        let mut image = Vec::new();
        while image.len() < shape.bytes() {
            let bytes = (shape.bytes() - image.len()).min(WINDOW_BYTES);
            let read = self.read(HOME, offset + image.len() as u64, bytes)?;
            image.extend(read.map_err(|what| bad(what.to_owned()))?);
        }
        let incarnation = self.pool.descriptions()[0].identity.pool_incarnation;
        let table = Table::decode(shape, entry.number, incarnation, &image).map_err(|error| bad(error.to_string()))?;
        let range = |number| KeyRange {
            low: table.boundary(number).to_vec(),
            word: table.word(number),
            load: table.load(number),
        };
        let mut ranges: Vec<_> = (0..table.count()).map(range).collect();
        ranges.sort_by(|range, other| range.low.cmp(&other.low));
        Ok(Some(ranges))
    }

    /// The index whose log is in the ring of a row; `None`: it has no ring, or none that can be read.
    pub(in crate::commands) fn ring_index(&mut self, member: &Member) -> Result<Option<IndexNumber>, Failure> {
        let address = Address::from_bits(member.ring);
        if address.is_null() {
            return Ok(None);
        }
        let description = self.read(address.node(), address.offset(), RingDescription::BYTES)?.unwrap_or_default();
        let description = RingDescription::from_prefix(&description).unwrap_or(RingDescription::ZERO);
        Ok(IndexNumber::new(usize::from(description.index)))
    }

    fn read_words(
        &mut self,
        entry: &IndexEntry,
        rows: &[Member],
        ownership: &mut Ownership,
    ) -> Result<Result<(), &'static str>, Failure> {
        if entry.owners.node() != HOME {
            return Ok(Err("the catalog names one that is not on memory node 0"));
        }
        let table = entry.owners.offset();
        let header = match self.read(HOME, table, TableHeader::BYTES)? {
            Ok(bytes) => TableHeader::from_prefix(&bytes).unwrap_or(TableHeader::ZERO),
            Err(what) => return Ok(Err(what)),
        };
        ownership.capacity = header.capacity.get();
        let entries = match header.entries(entry.number) {
            Ok(entries) => entries,
            Err(what) => return Ok(Err(what)),
        };
        ownership.entries = entries;
        let words = match self.read(HOME, table + word_at(0) as u64, entries as usize * 8)? {
            Ok(bytes) => bytes,
            Err(what) => return Ok(Err(what)),
        };
        let words = words.chunks_exact(8).map(|word| word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
        let mut owners = BTreeMap::new();
        for word in words.map(OwnerWord) {
            ownership.count(word, &mut owners);
        }
        for owner in owners.values_mut() {
            let member = rows.iter().find(|member| member.row.0 == owner.row);
            owner.state = member.map_or("nobody", |member| member.state.name());
            owner.beats = member.is_some_and(|member| member.is_live() && member.unresponsive.is_zero());
        }
        ownership.owners = owners.into_values().collect();
        Ok(Ok(()))
    }

    /// The log ring of a row; `None`: it has none.
    pub(super) fn ring(&mut self, member: &Member) -> Result<Option<RingView>, Failure> {
        if member.ring == 0 {
            return Ok(None);
        }
        let address = Address::from_bits(member.ring);
        let mut view = RingView { node: address.node().0, offset: address.offset(), ..RingView::default() };
        if let Err(what) = self.read_ring(member, address, &mut view)? {
            view.broken = Some(what);
        }
        Ok(Some(view))
    }

    fn read_ring(
        &mut self,
        member: &Member,
        address: Address,
        view: &mut RingView,
    ) -> Result<Result<(), String>, Failure> {
        let node = address.node();
        let description = match self.read(node, address.offset(), RingDescription::BYTES)? {
            Ok(bytes) => RingDescription::from_prefix(&bytes).unwrap_or(RingDescription::ZERO),
            Err(what) => return Ok(Err(what.to_owned())),
        };
        let identity = self.pool.descriptions()[0].identity;
        let owner = RingOwner {
            pool_id: identity.pool_id,
            pool_incarnation: identity.pool_incarnation,
            index: IndexNumber::new(usize::from(description.index)).unwrap_or(IndexNumber::NONE),
            row: member.row,
            incarnation: member.word.incarnation(),
            // Only the ring says it.
            token: 0,
        };
        let decoded = description.decode(&owner, node, &self.pool.geometry()[usize::from(node.0)]);
        let (ring, seal) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => return Ok(Err(error.to_string())),
        };
        (view.index, view.chunks, view.lines) = (Some(description.index), description.chunk_count.get(), ring.lines());
        let head = match self.read(node, ring.head_offset(), RingHead::BYTES)? {
            Ok(bytes) => RingHead::from_prefix(&bytes).unwrap_or(RingHead::ZERO).decode(owner.incarnation),
            Err(what) => return Ok(Err(what.to_owned())),
        };
        let head = match head {
            Ok(head) => head,
            Err(error) => return Ok(Err(error.to_string())),
        };
        view.head = Some(head);
        let mut replay = Replay::new(&ring, seal, head);
        // Each round reads a record at least, or ends.
        while let Some(records) = self.read_records(&ring, &mut replay)? {
            view.records += records;
        }
        view.record_lines = replay.next_line() - head;
        Ok(Ok(()))
    }

    /// Counts the records in some of the lines that come next. `None`: the log ends there.
    fn read_records(&mut self, ring: &Ring, replay: &mut Replay) -> Result<Option<u64>, Failure> {
        let (first, wanted) = (replay.next_line(), replay.lines_left().min((WINDOW_BYTES / LINE_BYTES) as u64));
        let mut bytes = Vec::new();
        let mut lines = 0;
        while lines < wanted {
            let run = ring.run(first + lines, wanted - lines);
            let Ok(more) = self.read(ring.node(), run.offset, run.lines as usize * LINE_BYTES)? else { break };
            bytes.extend_from_slice(&more);
            lines += run.lines;
        }
        let (mut at, mut records) = (0, 0);
        loop {
            match replay.next(bytes.get(at..).unwrap_or_default()) {
                Next::Record(_, lines) => {
                    at += lines * LINE_BYTES;
                    records += 1;
                }
                Next::Read(_) | Next::End if records > 0 => return Ok(Some(records)),
                Next::Read(_) | Next::End => return Ok(None),
            }
        }
    }
}

impl Ownership {
    fn count(&mut self, word: OwnerWord, owners: &mut BTreeMap<u16, OwnerView>) {
        self.epoch_max = self.epoch_max.max(word.epoch());
        let mut of = |row: RowId, note: fn(&mut OwnerView)| {
            let view = owners.entry(row.0).or_insert(OwnerView { row: row.0, ..OwnerView::default() });
            view.epoch_max = view.epoch_max.max(word.epoch());
            note(view);
        };
        match word.owner() {
            Ok(Owner::Free) => self.free += 1,
            Ok(Owner::Owned(row)) => {
                self.owned += 1;
                of(row, |view| view.owned += 1);
            }
            Ok(Owner::Draining { owner, .. }) => {
                self.draining += 1;
                of(owner, |view| view.owned += 1);
            }
            Ok(Owner::Kept(_)) => self.kept += 1,
            Ok(Owner::Recovering { finder, log }) => {
                self.recovering += 1;
                of(finder, |view| view.recovers += 1);
                of(log, |view| view.recovered += 1);
            }
            Err(_) => self.corrupt += 1,
        }
    }

    /// What a walk from outside does not see, since compute nodes own keys. `None`: they own none.
    pub(in crate::commands) fn unseen(&self) -> Option<String> {
        let with_owners = self.owned + self.draining + self.recovering;
        let owned = counted(u64::from(with_owners), "range");
        (with_owners > 0).then(|| {
            format!("{owned} of keys have owners, whose changes are seen as far as they have written them back")
        })
    }

    /// Why an index may look damaged although it is not: an owner does not respond, and nobody has recovered yet what it
    /// left.
    pub(in crate::commands) fn unrecovered(&self) -> Option<String> {
        let owner = self.owners.iter().find(|owner| !owner.beats && owner.owned + owner.recovered > 0)?;
        let ranges = counted(u64::from(owner.owned + owner.recovered), "range");
        let (row, state) = (owner.row, owner.state);
        Some(format!(
            "compute-node row {row} ({state}) does not respond and has left {ranges} of keys, which are recovered when a program needs \
             them: its last changes are in its log, and a leaf may be torn"
        ))
    }

    /// Lines for people.
    pub(super) fn render(&self, text: &mut String) -> std::fmt::Result {
        let Self {
            table,
            broken,
            entries,
            capacity,
            free,
            owned,
            recovering,
            draining,
            kept,
            corrupt,
            epoch_max,
            owners,
        } = self;
        if let Some(what) = broken {
            writeln!(text, "  ownership table at {table:#x}: DAMAGED: {what}")?;
        }
        writeln!(
            text,
            "  ownership table at {table:#x}: {}, room for {capacity}: {free} free, {owned} owned, {draining} draining, {kept} kept, \
             {recovering} recovering, {corrupt} corrupt; epochs up to {epoch_max}",
            counted_as(u64::from(*entries), "entry", "entries")
        )?;
        for OwnerView { row, state, owned, recovers, recovered, epoch_max, .. } in owners {
            writeln!(
                text,
                "    row {row} ({state}): owns {owned}, recovers {recovers}; others recover {recovered} from its ring; epochs up to \
                 {epoch_max}"
            )?;
        }
        if !owners.is_empty() {
            writeln!(
                text,
                "    (pages that an owner has changed and not written back are in its memory: neither they nor their number can be \
                 seen from here)"
            )?;
        }
        Ok(())
    }
}

impl RingView {
    /// A part of the row's line for people.
    pub(super) fn render(&self, text: &mut String) -> std::fmt::Result {
        let Self { node, offset, chunks, lines, head, records, record_lines, broken, .. } = self;
        write!(text, ", log ring on memory node {node} at {offset:#x}")?;
        match (head, broken) {
            (_, Some(what)) => write!(text, ": DAMAGED: {what}"),
            (Some(head), None) => write!(
                text,
                ": {} in {}, from line {head} on {} in {}",
                counted(*lines, "line"),
                counted(u64::from(*chunks), "chunk"),
                counted(*records, "record"),
                counted(*record_lines, "line")
            ),
            (None, None) => Ok(()),
        }
    }
}
