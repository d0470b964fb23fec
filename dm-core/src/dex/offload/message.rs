//! Requests and answers of calls, as bytes. All numbers are little-endian.
//!
//! ```text
//!  request: header (40 bytes) │ of a change: its header (24 bytes) │ key │ value │ expected value │ upper bound of a scan
//!  answer:  header (16 bytes) │ value that was found
//!  page:    header (16 bytes) │ addresses of leaves (64 bytes) │ bound │ records: key and value
//! ```
//!
//! A request brings all that the memory node needs to know of the index: the memory node keeps nothing of any index. Of what
//! stands behind the key a request has what its task needs.

use crate::btree::LEVELS_MAX;
use crate::btree::inner::{InnerShape, SPAN_MAX as INNER_SPAN_MAX};
use crate::dex::image::PageImage;
use crate::dex::leaf::{self, LeafShape, SPAN_MAX, SPAN_MIN};
use crate::operation::{OperationKind, Outcome, Part};
use crate::pages::lsn::Lsn;
use crate::registry::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::remote::address::Address;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The version of both messages.
const VERSION: u8 = 2;
/// Procedures. A compute node, which executes operations for others, has one of another number.
const SEARCH: u8 = 1;
const CHANGE: u8 = 3;
const SCAN: u8 = 4;

/// Flags of a request.
const AFTER: u8 = 1;
const BOUNDED: u8 = 2;
const HAS_IMAGE: u8 = 4;

/// What is in front of the key of a request.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestHeader {
    version: u8,
    procedure: u8,
    index: u8,
    level: u8,
    key_bytes: u8,
    /// An [`OperationKind`] of a change.
    kind: u8,
    flags: u8,
    reserved: u8,
    value_bytes: U16,
    leaf_span: U16,
    inner_span: U16,
    /// Records that a scan wants.
    limit: U16,
    address: U64,
    exposure_ns_max: U32,
    reserved_too: U32,
    lsn: U64,
}

/// What is behind that of a change.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ChangeHeader {
    image_offset: U64,
    incarnation: U32,
    entry: U32,
    epoch: U32,
    reserved: U32,
}

/// What is in front of the value of an answer, or of a page.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AnswerHeader {
    version: u8,
    code: u8,
    level: u8,
    /// An [`Outcome`], by its number.
    outcome: u8,
    /// Whether a leaf was changed; of a page, [`FULL`] and [`LAST`].
    flags: u8,
    leaves: u8,
    records: U16,
    address: U64,
}

const CHANGED: u8 = 1;
const FULL: u8 = 1;
const LAST: u8 = 2;

/// Bytes of a request in front of its key, and of a change's header behind them.
const REQUEST_HEADER_BYTES: usize = size_of::<RequestHeader>();
const CHANGE_HEADER_BYTES: usize = size_of::<ChangeHeader>();
/// Bytes of an answer in front of its value.
pub const ANSWER_HEADER_BYTES: usize = size_of::<AnswerHeader>();
/// Leaves of a page at most.
pub const PAGE_LEAVES_MAX: usize = 8;
const PAGE_LEAVES_BYTES: usize = PAGE_LEAVES_MAX * 8;

/// Bytes of the longest request.
pub const REQUEST_BYTES_MAX: usize = REQUEST_HEADER_BYTES + CHANGE_HEADER_BYTES + KEY_BYTES_MAX + 2 * VALUE_BYTES_MAX;

/// What nodes of the index are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// Catalog number of the index, plus 1: what its nodes carry.
    pub index: u8,
    /// Shape of leaves.
    pub leaf: LeafShape,
    /// Shape of inner nodes.
    pub inner: InnerShape,
    /// A copy of a node that took longer, in ns, is not trusted.
    pub exposure_ns_max: u32,
}

impl Nodes {
    /// Bytes of a node of that level.
    pub const fn bytes_of(&self, level: u8) -> usize {
        if level == 0 { self.leaf.bytes } else { self.inner.bytes }
    }
}

/// A request: from a node on to the leaf that covers a key, and there a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The node.
    pub from: Address,
    /// Its level; 0 is a leaf.
    pub level: u8,
    /// What nodes are like.
    pub nodes: Nodes,
    /// The key.
    pub key: &'a [u8],
    /// What is to be done.
    pub task: Task<'a>,
}

/// What a memory node does at a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task<'a> {
    /// Looks for the key.
    Search,
    /// Changes the leaf. The node of the request is the leaf.
    Change(Change<'a>),
    /// Takes records from the leaf on, and from those at its right.
    Scan(Scan<'a>),
}

/// A change of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// Neither a get nor a scan.
    pub kind: OperationKind,
    /// The new value, if the kind has one.
    pub value: &'a [u8],
    /// The value that the record is expected to have, if the kind has one.
    pub expected: &'a [u8],
    /// The LSN with which the leaf is stamped.
    pub lsn: Lsn,
    /// Where the leaf's image is written first, and what it says.
    pub image: Option<ImagePlace>,
}

/// A redo slot for a leaf's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImagePlace {
    /// Byte offset of the slot on the memory node.
    pub offset: u64,
    /// Incarnation of the row that has the slot.
    pub incarnation: u32,
    /// Entry of the ownership table.
    pub entry: u32,
    /// Epoch of the entry's word.
    pub epoch: u32,
}

impl ImagePlace {
    /// The image of a leaf.
    pub const fn image_of(&self, address: Address, lsn: Lsn) -> PageImage {
        PageImage { address, lsn, entry: self.entry, epoch: self.epoch }
    }
}

/// What a scan wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan<'a> {
    /// Records at most.
    pub limit: u16,
    /// The key itself is not wanted.
    pub after: bool,
    /// Only keys below this are.
    pub high: Option<&'a [u8]>,
}

/// The parts of an operation of this kind behind the key that a change has.
fn has(kind: OperationKind, part: Part) -> bool {
    kind.parts().contains(&part)
}

impl<'a> Request<'a> {
    /// Bytes of a search with a key of `key_bytes`.
    pub const fn bytes(key_bytes: usize) -> usize {
        REQUEST_HEADER_BYTES + key_bytes
    }

    /// Writes the request, and returns its length. `None`: `out` is too short, or a size too large for the message.
    pub fn encode(&self, out: &mut [u8]) -> Option<usize> {
        let mut header = RequestHeader {
            version: VERSION,
            procedure: SEARCH,
            index: self.nodes.index,
            level: self.level,
            key_bytes: u8::try_from(self.key.len()).ok()?,
            kind: 0,
            flags: 0,
            reserved: 0,
            value_bytes: u16::try_from(self.nodes.leaf.value_bytes).ok()?.into(),
            leaf_span: u16::try_from(self.nodes.leaf.span).ok()?.into(),
            inner_span: u16::try_from(self.nodes.inner.span).ok()?.into(),
            limit: 0.into(),
            address: self.from.to_bits().into(),
            exposure_ns_max: self.nodes.exposure_ns_max.into(),
            reserved_too: 0.into(),
            lsn: 0.into(),
        };
        let mut change = None;
        let mut behind: [&[u8]; 2] = [&[], &[]];
        match self.task {
            Task::Search => {}
            Task::Change(Change { kind, value, expected, lsn, image }) => {
                (header.procedure, header.kind, header.lsn) = (CHANGE, kind as u8, lsn.to_bits().into());
                change = Some(image.map_or_else(ChangeHeader::default, |image| {
                    header.flags = HAS_IMAGE;
                    ChangeHeader {
                        image_offset: image.offset.into(),
                        incarnation: image.incarnation.into(),
                        entry: image.entry.into(),
                        epoch: image.epoch.into(),
                        reserved: 0.into(),
                    }
                }));
                behind = [value, expected];
            }
            Task::Scan(Scan { limit, after, high }) => {
                (header.procedure, header.limit) = (SCAN, limit.into());
                header.flags = if after { AFTER } else { 0 } | if high.is_some() { BOUNDED } else { 0 };
                behind = [high.unwrap_or_default(), &[]];
            }
        }
        let mut end = 0;
        let mut put = |bytes: &[u8]| {
            out.get_mut(end..end + bytes.len())?.copy_from_slice(bytes);
            end += bytes.len();
            Some(())
        };
        put(header.as_bytes())?;
        put(change.as_ref().map_or(&[], IntoBytes::as_bytes))?;
        put(self.key)?;
        behind.into_iter().try_for_each(put)?;
        Some(end)
    }

    /// Reads a request. `None`: it is none, or of sizes that no index has.
    pub fn decode(message: &'a [u8]) -> Option<Self> {
        let (header, rest) = RequestHeader::read_from_prefix(message).ok()?;
        let key_bytes = usize::from(header.key_bytes);
        let (value_bytes, leaf_span) = (usize::from(header.value_bytes.get()), usize::from(header.leaf_span.get()));
        let inner_span = usize::from(header.inner_span.get());
        let sound = header.version == VERSION
            && header.level < LEVELS_MAX
            && (8..=KEY_BYTES_MAX).contains(&key_bytes)
            && (8..=VALUE_BYTES_MAX).contains(&value_bytes)
            && (SPAN_MIN..=SPAN_MAX).contains(&leaf_span)
            && (2..=INNER_SPAN_MAX).contains(&inner_span);
        if !sound {
            return None;
        }
        let (change, rest) = if header.procedure == CHANGE {
            ChangeHeader::read_from_prefix(rest).ok().map(|(change, rest)| (Some(change), rest))?
        } else {
            (None, rest)
        };
        let (key, mut rest) = rest.split_at_checked(key_bytes)?;
        let mut cut = |bytes: usize| {
            let (front, behind) = rest.split_at_checked(bytes)?;
            rest = behind;
            Some(front)
        };
        let task = match (header.procedure, change) {
            (SEARCH, _) => Task::Search,
            (CHANGE, Some(change)) => {
                let kind = OperationKind::ALL.get(usize::from(header.kind)).copied()?;
                let image = (header.flags & HAS_IMAGE != 0).then(|| ImagePlace {
                    offset: change.image_offset.get(),
                    incarnation: change.incarnation.get(),
                    entry: change.entry.get(),
                    epoch: change.epoch.get(),
                });
                let bytes_of = |part| if has(kind, part) { value_bytes } else { 0 };
                let (value, expected) = (cut(bytes_of(Part::Value))?, cut(bytes_of(Part::Expected))?);
                let reads_only = matches!(kind, OperationKind::Get | OperationKind::Scan);
                let is_sound = !reads_only && header.level == 0;
                let lsn = Lsn::from_bits(header.lsn.get());
                is_sound.then_some(Task::Change(Change { kind, value, expected, lsn, image }))?
            }
            (SCAN, _) => {
                let high = if header.flags & BOUNDED != 0 { Some(cut(key_bytes)?) } else { None };
                Task::Scan(Scan { limit: header.limit.get(), after: header.flags & AFTER != 0, high })
            }
            _ => return None,
        };
        rest.is_empty().then(|| Self {
            from: Address::from_bits(header.address.get()),
            level: header.level,
            nodes: Nodes {
                index: header.index,
                leaf: leaf::shape(key_bytes, value_bytes, leaf_span),
                inner: InnerShape::with_span(key_bytes, 0, inner_span),
                exposure_ns_max: header.exposure_ns_max.get(),
            },
            key,
            task,
        })
    }
}

/// How a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The leaf at this address has the key. Its value follows the answer's header.
    Found(Address),
    /// The leaf at this address covers the key, and has no record of it.
    Absent(Address),
    /// The search goes on at a node of another memory node, of this level.
    Elsewhere(Address, u8),
    /// A node is being written, or the way is too long.
    Busy,
    /// A node is not what the pointer to it promised, or the leaf has a change that is not older.
    Stale,
    /// The request is none, or of nodes larger than the memory node's room.
    Refused,
    /// The change has ended so. If that has a value, it follows the answer's header.
    Ended {
        /// How.
        outcome: Outcome,
        /// Whether the leaf was changed, and stamped.
        changed: bool,
    },
    /// A record has to go in, and the leaf has no room. Nothing was changed.
    NeedsSplit,
    /// A page of records, which follows the answer's header: see [`Page`].
    Page {
        /// Leaves from which it was taken.
        leaves: u8,
        /// Its records.
        records: u16,
        /// There are more in the last leaf.
        full: bool,
        /// The last leaf ends at the upper bound, or beyond it, or is the last one of the index.
        last: bool,
        /// The right neighbour of the last leaf.
        next: Address,
    },
}

impl Answer {
    /// Bytes of the longest answer about values of `value_bytes`, pages aside.
    pub const fn bytes_max(value_bytes: usize) -> usize {
        ANSWER_HEADER_BYTES + value_bytes
    }

    /// Writes the header of the answer, and returns its length: 0 if `out` is too short.
    pub fn encode(self, out: &mut [u8]) -> usize {
        let (code, level, address) = match self {
            Self::Found(leaf) => (1, 0, leaf),
            Self::Absent(leaf) => (2, 0, leaf),
            Self::Elsewhere(node, level) => (3, level, node),
            Self::Busy => (4, 0, Address::NULL),
            Self::Stale => (5, 0, Address::NULL),
            Self::Refused => (6, 0, Address::NULL),
            Self::Ended { .. } => (7, 0, Address::NULL),
            Self::NeedsSplit => (8, 0, Address::NULL),
            Self::Page { next, .. } => (9, 0, next),
        };
        let (outcome, flags, leaves, records) = match self {
            Self::Ended { outcome, changed } => (outcome.number(), if changed { CHANGED } else { 0 }, 0, 0),
            Self::Page { leaves, records, full, last, .. } => {
                (0, if full { FULL } else { 0 } | if last { LAST } else { 0 }, leaves, records)
            }
            _ => (0, 0, 0, 0),
        };
        let address = address.to_bits().into();
        let header =
            AnswerHeader { version: VERSION, code, level, outcome, flags, leaves, records: records.into(), address };
        match out.get_mut(..ANSWER_HEADER_BYTES) {
            Some(front) => front.copy_from_slice(header.as_bytes()),
            None => return 0,
        }
        ANSWER_HEADER_BYTES
    }

    /// Reads an answer, and what is behind it: a value, which has `value_bytes`, or a page. `None`: it is none.
    pub fn decode(message: &[u8], value_bytes: usize) -> Option<(Self, &[u8])> {
        let (header, behind) = AnswerHeader::read_from_prefix(message).ok()?;
        let address = Address::from_bits(header.address.get());
        let is_named = !address.is_null() && header.level < LEVELS_MAX;
        let (answer, bytes) = match header.code {
            1 if is_named => (Self::Found(address), value_bytes),
            2 if is_named => (Self::Absent(address), 0),
            3 if is_named => (Self::Elsewhere(address, header.level), 0),
            4 => (Self::Busy, 0),
            5 => (Self::Stale, 0),
            6 => (Self::Refused, 0),
            7 => {
                let outcome = Outcome::from_number(header.outcome)?;
                let answer = Self::Ended { outcome, changed: header.flags & CHANGED != 0 };
                (answer, if outcome.has_value() { value_bytes } else { 0 })
            }
            8 => (Self::NeedsSplit, 0),
            9 if usize::from(header.leaves) <= PAGE_LEAVES_MAX && header.leaves > 0 => {
                let (full, last) = (header.flags & FULL != 0, header.flags & LAST != 0);
                let (leaves, records) = (header.leaves, header.records.get());
                (Self::Page { leaves, records, full, last, next: address }, behind.len())
            }
            _ => return None,
        };
        (header.version == VERSION && behind.len() == bytes).then_some((answer, behind))
    }
}

/// What follows the header of a page: leaves, bound, records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    leaves: &'a [u8],
    /// Where the last leaf ends, if it ends anywhere: see [`Answer::Page`].
    pub bound: &'a [u8],
    /// Keys and values, in ascending order of keys.
    pub records: &'a [u8],
}

impl<'a> Page<'a> {
    /// Bytes in front of a page's records, with the answer's header.
    pub const fn front_bytes(key_bytes: usize) -> usize {
        ANSWER_HEADER_BYTES + PAGE_LEAVES_BYTES + key_bytes
    }

    /// Where the address of leaf number `leaf` is in an answer.
    pub const fn leaf_at(leaf: usize) -> usize {
        ANSWER_HEADER_BYTES + leaf * 8
    }

    /// Where the bound is in an answer.
    pub const BOUND_AT: usize = ANSWER_HEADER_BYTES + PAGE_LEAVES_BYTES;

    /// Cuts what is behind the header of a page of so many `leaves` and `records`. `None`: it has other lengths.
    pub fn cut(
        behind: &'a [u8],
        (leaves, records): (u8, u16),
        (key_bytes, value_bytes): (usize, usize),
    ) -> Option<Self> {
        let (named, rest) = behind.split_at_checked(PAGE_LEAVES_BYTES)?;
        let (bound, found) = rest.split_at_checked(key_bytes)?;
        let is_whole = found.len() == usize::from(records) * (key_bytes + value_bytes);
        is_whole.then_some(Self { leaves: named.get(..usize::from(leaves) * 8)?, bound, records: found })
    }

    /// The leaves from which it was taken, from left to right.
    pub fn leaves(&self) -> impl Iterator<Item = Address> + 'a {
        self.leaves
            .chunks_exact(8)
            .map(|leaf| leaf.try_into().map_or(Address::NULL, |bits| Address::from_bits(u64::from_le_bytes(bits))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dex::parameters::Parameters;
    use crate::verbs::NodeId;

    const LEAF: Address = Address::new(NodeId(3), 0x12_3440, 9);

    fn request(key: &[u8]) -> Request<'_> {
        let parameters = Parameters::with_sizes(key.len(), 24);
        let (leaf, inner) = (parameters.leaf(), parameters.inner());
        let nodes = Nodes { index: 7, leaf, inner, exposure_ns_max: 900 };
        Request { from: LEAF, level: 2, nodes, key, task: Task::Search }
    }

    #[test]
    fn a_request_is_read_back_and_nothing_else_is() {
        for key in [&[7; 8][..], &[1; 33], &[0xff; KEY_BYTES_MAX]] {
            let mut message = [0; 128];
            let bytes = request(key).encode(&mut message).unwrap();
            assert_eq!(bytes, Request::bytes(key.len()));
            assert_eq!(Request::decode(&message[..bytes]), Some(request(key)));
            assert_eq!(Request::decode(&message[..bytes - 1]), None, "a byte short");
            assert_eq!(Request::decode(&message[..=bytes]), None, "a byte more");
            for (at, byte) in [(0, 1), (1, 2), (3, LEVELS_MAX), (4, 7), (4, 65), (8, 7), (9, 255), (10, 1), (13, 255)] {
                let mut other = message;
                other[at] = byte;
                assert_eq!(Request::decode(&other[..bytes]), None, "byte {at} = {byte}");
            }
        }
        assert_eq!(request(&[7; 8]).encode(&mut [0; 47]), None);
    }

    #[test]
    fn changes_and_scans_are_read_back() {
        let key = [3; 8];
        let image = ImagePlace { offset: 1 << 40, incarnation: 3, entry: 4, epoch: 5 };
        let changes = OperationKind::ALL.into_iter().filter_map(|kind| {
            let part = |part, bytes: &'static [u8]| if has(kind, part) { bytes } else { &[] };
            let (value, expected) = (part(Part::Value, &[4; 24]), part(Part::Expected, &[5; 24]));
            let image = (kind != OperationKind::Upsert).then_some(image);
            let change = Change { kind, value, expected, lsn: Lsn::new(7, 9), image };
            (!matches!(kind, OperationKind::Get | OperationKind::Scan)).then_some(Task::Change(change))
        });
        let scans = [None, Some(&[9; 8][..])].map(|high| Task::Scan(Scan { limit: 700, after: high.is_none(), high }));
        for task in changes.chain(scans) {
            let (asked, mut message) = (Request { level: 0, task, ..request(&key) }, [0; 256]);
            let bytes = asked.encode(&mut message).unwrap();
            assert_eq!(Request::decode(&message[..bytes]), Some(asked));
            assert_eq!(Request::decode(&message[..bytes - 1]), None, "a byte short");
            assert_eq!(Request::decode(&message[..=bytes]), None, "a byte more");
            assert!(asked.encode(&mut message[..bytes - 1]).is_none());
            // A change is one of a leaf, and of a kind that changes.
            if let Task::Change(_) = task {
                for (at, byte) in
                    [(3, 1), (5, OperationKind::Get as u8), (5, OperationKind::Scan as u8), (5, 8), (1, 9)]
                {
                    let mut other = message;
                    other[at] = byte;
                    assert_eq!(Request::decode(&other[..bytes]), None, "byte {at} = {byte}");
                }
            }
        }
    }

    #[test]
    fn an_answer_is_read_back_with_its_value() {
        let mut message = [0x55; 64];
        for answer in [Answer::Absent(LEAF), Answer::Elsewhere(LEAF, 3), Answer::Busy, Answer::Stale, Answer::Refused] {
            let bytes = answer.encode(&mut message);
            assert_eq!(Answer::decode(&message[..bytes], 8), Some((answer, &[][..])));
            assert_eq!(Answer::decode(&message[..bytes + 8], 8), None, "a value that it has not");
        }
        let bytes = Answer::Found(LEAF).encode(&mut message);
        assert_eq!(Answer::decode(&message[..bytes + 8], 8), Some((Answer::Found(LEAF), &[0x55; 8][..])));
        assert_eq!(Answer::decode(&message[..bytes + 7], 8), None);
        assert_eq!(Answer::decode(&message[..bytes], 8), None);
        assert_eq!(Answer::decode(&message[..bytes - 1], 8), None);
        for outcome in (1..=8).filter_map(Outcome::from_number) {
            let answer = Answer::Ended { outcome, changed: outcome == Outcome::Updated };
            let bytes = answer.encode(&mut message) + if outcome.has_value() { 8 } else { 0 };
            assert_eq!(Answer::decode(&message[..bytes], 8).map(|(said, _)| said), Some(answer));
            assert_eq!(Answer::decode(&message[..=bytes], 8), None);
        }
        let page = Answer::Page { leaves: 2, records: 3, full: true, last: false, next: LEAF };
        page.encode(&mut message);
        assert_eq!(Answer::decode(&message, 8).map(|(said, _)| said), Some(page));
        message[5] = PAGE_LEAVES_MAX as u8 + 1;
        assert_eq!(Answer::decode(&message, 8), None, "more leaves than a page has");
        message[1] = 99;
        assert_eq!(Answer::decode(&message[..bytes], 8), None);
        assert_eq!(Answer::Busy.encode(&mut message[..15]), 0);
    }
}
