//! The collection set: chunks that are *closed*, because a compute node collects the memory in them that no compute
//! node knows of. No place in them is taken or put back.
//!
//! ```text
//!  row 0, second line     word 0                                 words 1..8
//!                        ┌─────────────┬──────┬─────────────┐   ┌─────────────┬───────────┐
//!                        │ incarnation │ row  │ number      │   │ memory node │ chunk + 1 │   0 = none
//!                        └─────────────┴──────┴─────────────┘   └─────────────┴───────────┘
//! ```
//!
//! Word 0 names the collector and is changed by CAS; 0: there is none. The other words belong to the collector. See
//! [`mark_and_sweep`](crate::manual::mark_and_sweep) for its purpose and the proof.
//!
//! A compute node READs the line whenever it learns of another epoch, *before* it takes that epoch for its own. Before
//! a pool hands out a place it looks at [`Closed::version`], and *gives up* what it has in chunks that were closed
//! since it looked last. It refuses a place in a closed chunk; the check is made under the lock under which it would
//! keep the place. Before the line was READ for the first time, pools reuse nothing.

use crate::layout::fields::Field;
use crate::layout::record::{cut, mask};
use crate::remote::NodeGeometry;
use crate::remote::lock_word::RowId;
use crate::remote::row::{CHUNKS_AT_ONCE, LINE_WORDS, Member};
use crate::verbs::NodeId;
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use spin::Mutex;

/// Lists that are remembered for pools that hand out no places. A pool that missed more gives up everything.
const LISTS: usize = 64;

/// The collector of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collector(pub u64);

impl Collector {
    /// There is no collector.
    pub const NOBODY: Self = Self(0);

    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(0, 0, 32, "number", "of the collection, among those of this incarnation"),
        Field::bits(0, 32, 16, "row", "compute-node row of who collects"),
        Field::bits(0, 48, 16, "incarnation", "incarnation of who collects; all 0 = nobody does"),
    ];

    /// Collection `number` of `member`.
    pub const fn new(member: Member, number: u32) -> Self {
        Self(number as u64 | (member.row.0 as u64) << 32 | (member.incarnation as u64 & mask(16)) << 48)
    }

    /// Which collection of that incarnation.
    pub const fn number(self) -> u32 {
        cut(self.0, 0, 32) as u32
    }

    /// The row.
    pub const fn row(self) -> RowId {
        RowId(cut(self.0, 32, 16) as u16)
    }

    /// The incarnation.
    pub const fn incarnation(self) -> u16 {
        (self.0 >> 48) as u16
    }
}

/// A chunk of the collection set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkName(pub u64);

impl ChunkName {
    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(0, 0, 32, "chunk", "its number on its memory node, plus 1; 0 = none"),
        Field::bits(0, 32, 16, "node", "memory node"),
        Field::bits(0, 48, 16, "reserved", "zero"),
    ];

    /// Chunk `chunk` of `node`.
    pub const fn new(node: NodeId, chunk: u32) -> Self {
        Self((chunk as u64 + 1) & mask(32) | (node.0 as u64) << 32)
    }

    /// The memory node.
    pub const fn node(self) -> NodeId {
        NodeId(cut(self.0, 32, 16) as u16)
    }

    /// The chunk's number on its memory node; `None`: it names none.
    pub const fn chunk(self) -> Option<u32> {
        (cut(self.0, 0, 32) as u32).checked_sub(1)
    }

    /// The chunk of the byte at `offset` of `node`, if that is in the heap.
    pub fn of(geometry: &[NodeGeometry], node: NodeId, offset: u64) -> Option<Self> {
        Some(Self::new(node, geometry.get(usize::from(node.0))?.chunk_of(offset)?))
    }
}

/// More chunks than can be closed.
const UNREAD: u32 = u32::MAX;

type List = [ChunkName; CHUNKS_AT_ONCE];

#[derive(Debug)]
struct Lists {
    /// As READ last.
    line: [u64; LINE_WORDS],
    /// The last collection of this compute node that ended: a line that was READ before its end may be learned after
    /// it.
    over: Collector,
    /// By version.
    closed: [List; LISTS],
}

/// What a compute node knows of the collection set; part of its [`super::Epochs`].
#[derive(Debug)]
pub struct Closed {
    /// Number of collection sets there have been.
    version: AtomicU32,
    /// Chunks that are closed now; [`UNREAD`]: the line was never READ.
    count: AtomicU32,
    lists: Mutex<Lists>,
}

impl Default for Closed {
    fn default() -> Self {
        Self::new()
    }
}

impl Closed {
    /// Of a compute node that has not READ the line.
    pub const fn new() -> Self {
        Self {
            version: AtomicU32::new(0),
            count: AtomicU32::new(UNREAD),
            lists: Mutex::new(Lists {
                line: [0; LINE_WORDS],
                over: Collector::NOBODY,
                closed: [[ChunkName(0); CHUNKS_AT_ONCE]; LISTS],
            }),
        }
    }

    /// Notes the line. A READ may bring words of two collections. Then the READ of the next epoch, for which the later
    /// collection waits, brings other words, and a chunk that was closed in error is open again.
    pub(crate) fn learn(&self, line: [u64; LINE_WORDS]) {
        let mut lists = self.lists.lock();
        let is_over = lists.over != Collector::NOBODY && line.first() == Some(&lists.over.0);
        if is_over || lists.line == line && self.is_read() {
            return;
        }
        lists.line = line;
        let mut list = List::default();
        if line.first().is_some_and(|collector| *collector != Collector::NOBODY.0) {
            for (to, from) in list.iter_mut().zip(line.iter().skip(1)) {
                *to = ChunkName(*from);
            }
        }
        let count = list.iter().filter(|name| name.0 != 0).count() as u32;
        if count > 0 {
            let version = self.version.load(SeqCst).wrapping_add(1);
            if let Some(to) = lists.closed.get_mut(version as usize % LISTS) {
                *to = list;
            }
            // Before the version, by which pools know that they have to look.
            self.count.store(count, SeqCst);
            self.version.store(version, SeqCst);
        } else {
            self.count.store(0, SeqCst);
        }
    }

    /// The collection of `collector`, which is this compute node, has ended.
    pub(crate) fn end(&self, collector: Collector) {
        let mut lists = self.lists.lock();
        lists.over = collector;
        if lists.line.first() == Some(&collector.0) {
            lists.line = [0; LINE_WORDS];
            self.count.store(0, SeqCst);
        }
    }

    /// Whether the line was READ at some time.
    pub(crate) fn is_read(&self) -> bool {
        self.count.load(SeqCst) != UNREAD
    }

    /// Changes when chunks are closed.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(SeqCst)
    }

    /// Whether that chunk is known to be closed now.
    #[inline]
    pub fn has(&self, name: Option<ChunkName>) -> bool {
        !matches!(self.count.load(SeqCst), 0 | UNREAD) && self.has_now(name)
    }

    fn has_now(&self, name: Option<ChunkName>) -> bool {
        let lists = self.lists.lock();
        let list = lists.closed.get(self.version.load(SeqCst) as usize % LISTS);
        !matches!(self.count.load(SeqCst), 0 | UNREAD)
            && list.zip(name).is_some_and(|(list, name)| list.contains(&name))
    }

    /// What was closed since version `seen`, and the version now.
    pub fn since(&self, seen: u32) -> Since<'_> {
        Since { closed: self, seen, version: self.version() }
    }
}

/// What was closed in a while.
#[derive(Clone, Copy, Debug)]
pub struct Since<'a> {
    closed: &'a Closed,
    seen: u32,
    /// Up to which version.
    pub version: u32,
}

impl Since<'_> {
    /// Whether what was kept of that chunk has to be given up.
    pub fn has(&self, name: Option<ChunkName>) -> bool {
        let lists = self.closed.lists.lock();
        // Later sets may have been added meanwhile: they count, too.
        let version = self.closed.version.load(SeqCst);
        let count = version.wrapping_sub(self.seen);
        if count as usize > LISTS {
            return true;
        }
        let Some(name) = name else { return false };
        let lists = (0..count).filter_map(|back| lists.closed.get(version.wrapping_sub(back) as usize % LISTS));
        lists.flatten().any(|closed| *closed == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, chunks: &[u32]) -> [u64; LINE_WORDS] {
        let mut line = [0; LINE_WORDS];
        line[0] = 1 << 48 | 2 << 32 | number;
        for (to, chunk) in line.iter_mut().skip(1).zip(chunks) {
            *to = ChunkName::new(NodeId(3), *chunk).0;
        }
        line
    }

    fn named(chunk: u32) -> ChunkName {
        ChunkName::new(NodeId(3), chunk)
    }

    #[test]
    fn a_chunk_is_closed_until_the_line_says_otherwise() {
        let closed = Closed::new();
        assert!(!closed.has(Some(named(4))) && !closed.is_read(), "nobody has looked");
        closed.learn([0; LINE_WORDS]);
        assert!(!closed.has(Some(named(4))) && closed.is_read());
        closed.learn(line(1, &[4, 0]));
        assert!(
            closed.has(Some(named(4)))
                && closed.has(Some(named(0)))
                && !closed.has(Some(named(5)))
                && !closed.has(None)
        );
        assert!(!closed.has(Some(ChunkName::new(NodeId(2), 4))));
        closed.learn(line(1, &[5]));
        assert!(closed.has(Some(named(5))) && !closed.has(Some(named(4))), "words of two collections were READ before");
        closed.learn([0; LINE_WORDS]);
        assert!(!closed.has(Some(named(5))));
        let mut nobodys = line(0, &[6]);
        nobodys[0] = Collector::NOBODY.0;
        closed.learn(nobodys);
        assert!(!closed.has(Some(named(6))), "words of nobody's collection");
        closed.learn(line(2, &[7]));
        closed.end(Collector(line(2, &[])[0]));
        assert!(!closed.has(Some(named(7))));
        closed.learn(line(2, &[7]));
        assert!(!closed.has(Some(named(7))), "READ before the end");
    }

    #[test]
    fn who_looks_late_learns_what_was_closed_meanwhile() {
        let closed = Closed::new();
        for number in 1..=LISTS as u32 {
            closed.learn(line(u64::from(number), &[number]));
            closed.learn([0; LINE_WORDS]);
        }
        let since = closed.since(0);
        let last = LISTS as u32;
        assert!(
            (1..=last).all(|chunk| since.has(Some(named(chunk))))
                && !since.has(Some(named(last + 1)))
                && !since.has(None)
        );
        assert!(!closed.since(3).has(Some(named(3))) && closed.since(3).has(Some(named(4))));
        assert!(!closed.since(closed.version()).has(Some(named(last))));
        closed.learn(line(99, &[9]));
        assert!(closed.since(0).has(Some(named(99))), "what was closed first is forgotten: everything");
        assert!(!closed.since(1).has(Some(named(99))));
    }
}
