//! The memory node's side of a call: from a node to the leaf of a key, and there a task.
//!
//! [`Walk`] does no I/O. It says which bytes of the memory node's region it wants next; its driver (a daemon, a simulator,
//! firmware) copies them into a room, or from there, and asks again:
//!
//! ```text
//!  Walk::new(request, node) ─► next(moved, room, answer) ─┬─► Copy { offset, bytes }: to the room, measure, ask again
//!                                                         ├─► Write { offset, from }: from the room, ask again
//!                                                         └─► Answer(bytes): send so many bytes of `answer`
//! ```
//!
//! Bytes change while they are copied: compute nodes WRITE. A node is judged as a compute node judges what it has READ, by
//! its versions, its generation and its fences, and a copy that took too long for its versions is not trusted. A torn node is
//! copied again, [`TORN_MAX`] times. The walk copies [`NODES_MAX`] nodes at most, so it ends whatever the bytes say.
//!
//! **A leaf that no parent names** is left to the caller ([`Answer::Elsewhere`]): a split that was given up may have landed, and then
//! the caller's frame of the leaf in front of it has all keys of both, and newer ones.
//!
//! **A change** writes what its caller would have WRITTEN, in the same order: the leaf's image to a redo slot of the caller's
//! lane, where a death in between could tear the leaf, and then the leaf, with a node version of its own. The caller has the
//! leaf for itself as long as the change may be executed. A leaf whose LSN is not below the change's is left alone: the change
//! was executed before, or comes too late.
//!
//! **A scan** takes records from one leaf after the other, each as of one instant, as long as each begins where the one before
//! it ended. It ends with what it has at the first leaf that does not, or is on another memory node.

use super::message::{Answer, Change, PAGE_LEAVES_MAX, Page, REQUEST_BYTES_MAX, Request, Scan, Task};
use crate::btree::inner::Inner;
use crate::btree::leaves::SPAN_MAX;
use crate::btree::link::raise_node_version;
use crate::btree::node::{self, FenceCheck, Header, Wanted};
use crate::dex::leaf::{self, Leaf};
use crate::dex::step::{self, Planned, Step};
use crate::error::DecodeError;
use crate::membership::redo::HEADER_BYTES;
use crate::mutants::{Mutant, planted};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::verbs::NodeId;
use core::cmp::Ordering;
use core::ops::Range;
use heapless::Vec;

/// Copies of one node that may be torn.
pub const TORN_MAX: u32 = 4;

/// Copies of a walk: more than the levels of any tree, and as many neighbours.
pub const NODES_MAX: u32 = 64;

/// Where a node is in the room. In front of it is place for the header of a leaf's image.
pub const NODE_AT: usize = HEADER_BYTES;

/// What a driver has done since it asked before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Nothing: the walk begins.
    Nothing,
    /// The bytes are in the room, or were written from there, and that took so long, in ns.
    In(u32),
    /// The region has no such bytes, or they do not fit into the room.
    Outside,
}

/// What a walk wants next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Copy bytes of the region to the room, from [`NODE_AT`] on.
    Copy {
        /// Where they begin, a multiple of 64.
        offset: u64,
        /// How many.
        bytes: usize,
    },
    /// Write bytes of the room to the region.
    Write {
        /// Where they go, a multiple of 64.
        offset: u64,
        /// Which.
        from: Range<usize>,
    },
    /// The answer is complete: its first so many bytes.
    Answer(usize),
}

/// What a walk is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It looks for the leaf, or for the next one of a scan.
    Walks,
    /// The image of a leaf that was changed in the room is being written.
    WritesImage(Planned),
    /// The leaf is.
    WritesLeaf(Planned),
}

/// The page of a scan, as far as it has come.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    leaves: u8,
    records: u16,
}

/// A request under way.
#[derive(Clone, Debug)]
pub struct Walk {
    /// The memory node that walks.
    node: NodeId,
    /// The request; nothing, if it is none.
    asked: Vec<u8, REQUEST_BYTES_MAX>,
    at: Address,
    level: u8,
    torn: u32,
    copies: u32,
    stage: Stage,
    taken: Taken,
    /// Where a scan goes on. Of its first leaf the request says it.
    bound: [u8; KEY_BYTES_MAX],
}

impl Walk {
    /// What memory node `node` does for `request`.
    pub fn new(request: &[u8], node: NodeId) -> Self {
        let (mut asked, mut bound) = (Vec::new(), [0; KEY_BYTES_MAX]);
        let (mut at, mut level) = (Address::NULL, 0);
        if let Some(sound) = Request::decode(request)
            && let Some(place) = bound.get_mut(..sound.key.len())
            && asked.extend_from_slice(request).is_ok()
        {
            place.copy_from_slice(sound.key);
            (at, level) = (sound.from, sound.level);
        }
        Self { node, asked, at, level, torn: 0, copies: 0, stage: Stage::Walks, taken: Taken::default(), bound }
    }

    /// Goes on with what was moved to or from `room`. What is in `answer` counts when it is complete.
    pub fn next(&mut self, moved: Moved, room: &mut [u8], answer: &mut [u8]) -> Next {
        // Taken out of the walk, which changes meanwhile.
        let asked = core::mem::take(&mut self.asked);
        let next = match Request::decode(&asked) {
            Some(request) => self.go_on(&request, moved, room, answer).unwrap_or_else(|ended| {
                let bytes = self.end(&request, ended, answer);
                Next::Answer(bytes)
            }),
            None => Next::Answer(Answer::Refused.encode(answer)),
        };
        self.asked = asked;
        next
    }

    /// `Err`: the walk has ended.
    fn go_on(
        &mut self,
        request: &Request<'_>,
        moved: Moved,
        room: &mut [u8],
        answer: &mut [u8],
    ) -> Result<Next, Answer> {
        let nodes = &request.nodes;
        match (moved, self.stage) {
            (Moved::Outside, _) => return Err(Answer::Refused),
            (Moved::Nothing, Stage::Walks) => {}
            (Moved::In(elapsed_ns), Stage::Walks) => {
                let trusted = elapsed_ns <= nodes.exposure_ns_max || planted(Mutant::SLOW_COPY_BELIEVED);
                let judged = if trusted { self.judge(request, room, answer) } else { Err(DecodeError::Torn) };
                match judged {
                    Ok(Found::Ended(ended)) => return Err(ended),
                    Ok(Found::Answer(bytes)) => return Ok(Next::Answer(bytes)),
                    Ok(Found::Changes(planned, image)) => {
                        self.stage =
                            if image.is_some() { Stage::WritesImage(planned) } else { Stage::WritesLeaf(planned) };
                        let leaf = NODE_AT..NODE_AT + nodes.leaf.bytes;
                        let (offset, from) = image.map_or((self.at.offset(), leaf.clone()), |slot| (slot, 0..leaf.end));
                        return Ok(Next::Write { offset, from });
                    }
                    Ok(Found::To(address, level)) => (self.at, self.level, self.torn) = (address, level, 0),
                    Err(DecodeError::Torn) => self.torn += 1,
                    Err(_) => return Err(Answer::Stale),
                }
            }
            (_, Stage::WritesImage(planned)) => {
                self.stage = Stage::WritesLeaf(planned);
                return Ok(Next::Write { offset: self.at.offset(), from: NODE_AT..NODE_AT + nodes.leaf.bytes });
            }
            (_, Stage::WritesLeaf(planned)) => return Err(Answer::Ended { outcome: planned.outcome, changed: true }),
        }
        self.copies += 1;
        match () {
            () if self.at.is_null() => Err(Answer::Stale),
            () if self.at.node() != self.node => Err(Answer::Elsewhere(self.at, self.level)),
            () if self.torn > TORN_MAX || self.copies > NODES_MAX => Err(Answer::Busy),
            () => Ok(Next::Copy { offset: self.at.offset(), bytes: nodes.bytes_of(self.level) }),
        }
    }

    /// Writes an answer without a value. A scan that has records ends with them, wherever it could not go on.
    fn end(&self, request: &Request<'_>, ended: Answer, answer: &mut [u8]) -> usize {
        let Taken { leaves, records } = self.taken;
        if leaves == 0 {
            return ended.encode(answer);
        }
        let page = Answer::Page { leaves, records, full: false, last: false, next: self.at };
        Self::end_page(page, records, request, answer)
    }

    /// Writes the header of a page.
    fn end_page(page: Answer, records: u16, request: &Request<'_>, answer: &mut [u8]) -> usize {
        let (key_bytes, value_bytes) = (request.key.len(), request.nodes.leaf.value_bytes);
        let bytes = Page::front_bytes(key_bytes) + usize::from(records) * (key_bytes + value_bytes);
        if bytes > answer.len() || page.encode(answer) == 0 { 0 } else { bytes }
    }

    fn judge(&mut self, request: &Request<'_>, room: &mut [u8], answer: &mut [u8]) -> Result<Found, DecodeError> {
        let nodes = &request.nodes;
        let wanted = Wanted { address: self.at, index: nodes.index, level: self.level };
        let room = room.get_mut(..NODE_AT + nodes.bytes_of(self.level)).ok_or(DecodeError::Torn)?;
        let image = room.get(NODE_AT..).unwrap_or_default();
        let mut bound = self.bound;
        let bound = bound.get_mut(..request.key.len()).unwrap_or_default();
        let judged = node::judge(image, &wanted, bound)?;
        match judged {
            FenceCheck::Right(other) | FenceCheck::Forward(other) => {
                // No parent names the leaf at the right of the first one.
                let is_first = self.level == 0 && self.taken.leaves == 0 && !planted(Mutant::NEIGHBOUR_ANSWERED);
                let is_unnamed = is_first && matches!(judged, FenceCheck::Right(_));
                // The caller of a change has this leaf for itself, and no other one. The last leaf has none at its right.
                let ends = matches!(request.task, Task::Change(_)) || is_unnamed;
                let goes_on = !ends || other.is_null();
                let there = Answer::Elsewhere(other, self.level);
                return Ok(if goes_on { Found::To(other, self.level) } else { Found::Ended(there) });
            }
            FenceCheck::Here => {}
        }
        if self.level > 0 {
            let inner = Inner::new(&nodes.inner, image)
                .ok_or(DecodeError::Corrupt("an inner node with more separators than its span"))?;
            return Ok(Found::To(inner.child(inner.position(bound)), self.level - 1));
        }
        match request.task {
            Task::Search => Ok(Self::search(request, self.at, image, answer)),
            Task::Change(change) => Ok(Self::change(request, &change, self.at, room, answer)),
            Task::Scan(scan) => self.scan(request, &scan, image, answer),
        }
    }

    fn search(request: &Request<'_>, at: Address, image: &[u8], answer: &mut [u8]) -> Found {
        let leaf = Leaf::over(&request.nodes.leaf, image);
        match leaf.scan_for(request.key) {
            Some(slot) => Self::shown(Answer::Found(at), request, image, slot, answer),
            None => Found::Ended(Answer::Absent(at)),
        }
    }

    /// Writes an answer with the value in a slot.
    fn shown(ended: Answer, request: &Request<'_>, image: &[u8], slot: usize, answer: &mut [u8]) -> Found {
        let shape = &request.nodes.leaf;
        let header = ended.encode(answer);
        let bytes = header + shape.value_bytes;
        let Some(value) = answer.get_mut(header..bytes).filter(|_| header > 0) else {
            return Found::Ended(Answer::Refused);
        };
        Leaf::over(shape, image).read_value(slot, value);
        Found::Answer(bytes)
    }

    /// Changes the leaf in the room, if the change does.
    fn change(request: &Request<'_>, change: &Change<'_>, at: Address, room: &mut [u8], answer: &mut [u8]) -> Found {
        let shape = &request.nodes.leaf;
        let image = room.get_mut(NODE_AT..).unwrap_or_default();
        if leaf::lsn(shape, &*image) >= change.lsn && !planted(Mutant::LATE_CHANGE_MADE) {
            return Found::Ended(Answer::Stale);
        }
        let planned = step::plan(&Leaf::over(shape, &*image), change.kind, request.key, change.expected);
        let unchanged = Answer::Ended { outcome: planned.outcome, changed: false };
        match planned {
            Planned { step: Step::NoRoom, .. } => return Found::Ended(Answer::NeedsSplit),
            Planned { step: Step::Nothing, shows: Some(slot), .. } => {
                return Self::shown(unchanged, request, image, slot, answer);
            }
            Planned { step: Step::Nothing, .. } => return Found::Ended(unchanged),
            _ => {}
        }
        step::make(shape, image, planned.step, (request.key, change.value), change.lsn);
        raise_node_version(image);
        if let Some(place) = change.image {
            place.image_of(at, change.lsn).seal(place.incarnation, room);
        }
        Found::Changes(planned, change.image.map(|place| place.offset))
    }

    /// Takes the records of a leaf that the scan wants.
    fn scan(
        &mut self,
        request: &Request<'_>,
        scan: &Scan<'_>,
        image: &[u8],
        answer: &mut [u8],
    ) -> Result<Found, DecodeError> {
        let shape = &request.nodes.leaf;
        let leaf = Leaf::new(shape, image);
        leaf.all_whole()?;
        let (key_bytes, record_bytes) = (request.key.len(), request.key.len() + shape.value_bytes);
        let low = self.bound.get(..key_bytes).unwrap_or_default();
        let mut slots = [0; SPAN_MAX];
        let count = leaf.sorted(low, scan.high, &mut slots);
        let Taken { leaves, mut records } = self.taken;
        let mut full = false;
        for &slot in slots.get(..count).unwrap_or_default() {
            let start = Page::front_bytes(key_bytes) + usize::from(records) * record_bytes;
            let place = answer.get_mut(start..start + record_bytes).filter(|_| records < scan.limit);
            let Some(place) = place else {
                full = true;
                break;
            };
            leaf.read_record(usize::from(slot), place);
            let is_cursor = scan.after && place.starts_with(request.key);
            records += u16::from(!is_cursor);
        }
        let named = Page::leaf_at(usize::from(leaves));
        let Some(place) = answer.get_mut(named..named + 8) else { return Ok(Found::Ended(Answer::Refused)) };
        place.copy_from_slice(&self.at.to_bits().to_le_bytes());
        self.taken = Taken { leaves: leaves + 1, records };
        let fence = self.bound.get_mut(..key_bytes).unwrap_or_default();
        let bounded = node::read_high(image, fence);
        let last = !bounded || scan.high.is_some_and(|high| (*fence).cmp(high) != Ordering::Less);
        let next = Header::read(image).sibling;
        let Some(place) = answer.get_mut(Page::BOUND_AT..Page::BOUND_AT + key_bytes) else {
            return Ok(Found::Ended(Answer::Refused));
        };
        place.copy_from_slice(fence);
        let Taken { leaves, records } = self.taken;
        if full || last || records == scan.limit || usize::from(leaves) == PAGE_LEAVES_MAX {
            let page = Answer::Page { leaves, records, full, last, next };
            return Ok(Found::Answer(Self::end_page(page, records, request, answer)));
        }
        Ok(Found::To(next, 0))
    }

    /// Runs the walk to its end, with a driver that moves bytes of the region at once: `copy(offset, room)` to the room, and
    /// `write(offset, bytes)` back. Each says how long it took, in ns; `None`: there are no such bytes. Returns the length of the
    /// answer and how many nodes were copied.
    pub fn run(
        mut self,
        room: &mut [u8],
        answer: &mut [u8],
        mut copy: impl FnMut(u64, &mut [u8]) -> Option<u32>,
        mut write: impl FnMut(u64, &[u8]) -> Option<u32>,
    ) -> (usize, u32) {
        let mut moved = Moved::Nothing;
        loop {
            moved = match self.next(moved, room, answer) {
                Next::Answer(bytes) => return (bytes, self.copies),
                Next::Copy { offset, bytes } => {
                    room.get_mut(NODE_AT..NODE_AT + bytes).and_then(|room| copy(offset, room))
                }
                Next::Write { offset, from } => room.get(from).and_then(|bytes| write(offset, bytes)),
            }
            .map_or(Moved::Outside, Moved::In);
        }
    }
}

/// Where a node leads.
enum Found {
    /// To another node, of this level.
    To(Address, u8),
    /// To an answer without a value.
    Ended(Answer),
    /// To an answer of so many bytes, which is written.
    Answer(usize),
    /// To a change, which was made in the room. Where the leaf's image goes first.
    Changes(Planned, Option<u64>),
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::message::{ImagePlace, Nodes};
    use super::*;
    use crate::btree::inner::InnerMut;
    use crate::btree::node::NodeFlags;
    use crate::dex::image::PageImage;
    use crate::dex::leaf::LeafMut;
    use crate::dex::parameters::Parameters;
    use crate::layout::stripes;
    use crate::mutants::with_planted;
    use crate::operation::{OperationKind, Outcome, Part};
    use crate::pages::lsn::Lsn;
    use std::vec;
    use std::vec::Vec;

    const NODE: NodeId = NodeId(0);
    const KEY: u64 = 50;

    fn at(node: u16, number: u64) -> Address {
        Address::new(NodeId(node), number * 1024, 5)
    }

    fn nodes() -> Nodes {
        let parameters = Parameters::with_sizes(8, 8);
        Nodes { index: 3, leaf: parameters.leaf(), inner: parameters.inner(), exposure_ns_max: 1000 }
    }

    fn request(from: Address, level: u8) -> Vec<u8> {
        let mut message = [0; 128];
        let (nodes, key) = (nodes(), &KEY.to_be_bytes());
        let bytes = Request { from, level, nodes, key, task: Task::Search }.encode(&mut message).unwrap();
        message[..bytes].to_vec()
    }

    fn start(image: &mut [u8], level: u8, low: u64, high: Option<u64>, sibling: Address) {
        let header = Header { generation: 5, level, index: 3, flags: NodeFlags::empty(), count: 0, sibling };
        let high = high.map(u64::to_be_bytes);
        node::start(image, &header, &low.to_be_bytes(), high.as_ref().map(|high| &high[..]));
    }

    /// Inner node 1 leads to leaf 2 of keys 0 to 9, and to the right: inner node 4 leads to leaf 3, which has the key. `mend`:
    /// changes nodes.
    fn region(mend: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut region = vec![0; 8 * 1024];
        let nodes = nodes();
        for (inner, low, high, right, child) in [(1, 0, Some(10), at(0, 4), 2), (4, 10, None, Address::NULL, 3)] {
            let inner = &mut region[inner * 1024..][..1024];
            start(inner, 1, low, high, right);
            InnerMut::new(&nodes.inner, inner).set_child(0, at(0, child));
        }
        start(&mut region[2048..3072], 0, 0, Some(10), at(0, 3));
        start(&mut region[3072..4096], 0, 10, None, Address::NULL);
        LeafMut::new(&nodes.leaf, &mut region[3072..4096]).put(4, &KEY.to_be_bytes(), &99u64.to_le_bytes());
        mend(&mut region);
        region
    }

    /// The answer, its value, and how many nodes were copied; each copy takes `ns`.
    fn walked(region: &[u8], request: &[u8], ns: u32) -> (Answer, Option<u64>, u32) {
        let (mut answer, mut room) = ([0xaa; 64], vec![0; NODE_AT + 1024]);
        let copy = |offset: u64, room: &mut [u8]| {
            room.copy_from_slice(region.get(offset as usize..)?.get(..room.len())?);
            Some(ns)
        };
        let (bytes, copies) = Walk::new(request, NODE).run(&mut room, &mut answer, copy, |_, _| None);
        let (answer, value) = Answer::decode(&answer[..bytes], 8).unwrap();
        (answer, value.try_into().ok().map(u64::from_le_bytes), copies)
    }

    #[test]
    fn a_walk_follows_children_and_neighbours_to_the_leaf() {
        let found = (Answer::Found(at(0, 3)), Some(99));
        let all = region(|_| ());
        assert_eq!(walked(&all, &request(at(0, 1), 1), 0), (found.0, found.1, 3));
        assert_eq!(walked(&all, &request(at(0, 3), 0), 1000), (found.0, found.1, 1));
        let absent = region(|region| LeafMut::new(&nodes().leaf, &mut region[3072..4096]).clear(4));
        assert_eq!(walked(&absent, &request(at(0, 1), 1), 0), (Answer::Absent(at(0, 3)), None, 3));
    }

    #[test]
    fn a_walk_stops_where_it_cannot_go_on() {
        let from = request(at(0, 1), 1);
        let all = region(|_| ());
        let ends = |region: &[u8], request: &[u8], ns, answer| assert_eq!(walked(region, request, ns).0, answer);
        ends(&all, &request(at(1, 3), 0), 0, Answer::Elsewhere(at(1, 3), 0));
        // A leaf that no parent names: its left neighbour may have newer keys of both in a frame.
        ends(&all, &request(at(0, 2), 0), 0, Answer::Elsewhere(at(0, 3), 0));
        ends(
            &region(|region| InnerMut::new(&nodes().inner, &mut region[4096..5120]).set_child(0, at(7, 2))),
            &from,
            0,
            Answer::Elsewhere(at(7, 2), 0),
        );
        ends(&all, &from, 1001, Answer::Busy);
        ends(&region(|region| region[3072 + 64] ^= 1), &from, 0, Answer::Busy);
        ends(&region(|region| start(&mut region[3072..4096], 0, 60, None, Address::NULL)), &from, 0, Answer::Stale);
        ends(&region(|region| start(&mut region[4096..5120], 1, 0, Some(10), at(0, 4))), &from, 0, Answer::Busy);
        ends(
            &region(|region| InnerMut::new(&nodes().inner, &mut region[4096..5120]).set_child(0, Address::NULL)),
            &from,
            0,
            Answer::Stale,
        );
        ends(
            &region(|region| stripes::write(&mut region[4096..5120], node::COUNT_AT, &[255, 255])),
            &from,
            0,
            Answer::Stale,
        );
        ends(&all, &request(at(0, 1), 0), 0, Answer::Stale);
        ends(&all, &request(at(0, 100), 0), 0, Answer::Refused);
        ends(&all, &from[..47], 0, Answer::Refused);
        let slow = with_planted(Some(Mutant::SLOW_COPY_BELIEVED), || walked(&all, &from, 1001).0);
        assert_eq!(slow, Answer::Found(at(0, 3)));
    }

    const LSN: Lsn = Lsn::new(4, 70);

    /// A change of leaf 3, whose image goes to the place of node 6.
    fn change(kind: OperationKind, key: u64, lsn: Lsn) -> Vec<u8> {
        let part = |part, value: &'static [u8]| if kind.parts().contains(&part) { value } else { &[] };
        let image = Some(ImagePlace { offset: 6 * 1024, incarnation: 8, entry: 2, epoch: 4 });
        let (value, expected) = (part(Part::Value, &[7; 8]), part(Part::Expected, &[9; 8]));
        let task = Task::Change(Change { kind, value, expected, lsn, image });
        let (nodes, key, mut message) = (nodes(), &key.to_be_bytes(), [0; 256]);
        let bytes = Request { from: at(0, 3), level: 0, nodes, key, task }.encode(&mut message).unwrap();
        message[..bytes].to_vec()
    }

    /// Makes a change in `region`, but no more than `writes` of its writes. Returns the answer, its value, and where it wrote.
    fn changed(region: &mut [u8], request: &[u8], writes: usize) -> (Option<Answer>, Option<u64>, Vec<u64>) {
        let (mut answer, mut room) = ([0xaa; 64], vec![0; 2048]);
        let (mut walk, mut moved, mut written) = (Walk::new(request, NODE), Moved::Nothing, Vec::new());
        loop {
            moved = match walk.next(moved, &mut room, &mut answer) {
                Next::Answer(bytes) => {
                    let (answer, value) = Answer::decode(&answer[..bytes], 8).unwrap();
                    return (Some(answer), value.try_into().ok().map(u64::from_le_bytes), written);
                }
                Next::Copy { offset, bytes } => {
                    room[NODE_AT..NODE_AT + bytes].copy_from_slice(&region[offset as usize..offset as usize + bytes]);
                    Moved::In(0)
                }
                Next::Write { .. } if written.len() == writes => return (None, None, written),
                Next::Write { offset, from } => {
                    region[offset as usize..offset as usize + from.len()].copy_from_slice(&room[from]);
                    written.push(offset);
                    Moved::In(0)
                }
            };
        }
    }

    #[test]
    fn a_change_writes_the_leafs_image_and_then_the_leaf() {
        let all = region(|_| ());
        let ended = |outcome, changed| Some(Answer::Ended { outcome, changed });
        for (kind, key, outcome) in [
            (OperationKind::Update, KEY, Outcome::Updated),
            (OperationKind::Upsert, KEY, Outcome::Replaced),
            (OperationKind::Upsert, 51, Outcome::Inserted),
            (OperationKind::Insert, 51, Outcome::Inserted),
            (OperationKind::Delete, KEY, Outcome::Deleted),
        ] {
            let mut region = all.clone();
            let request = change(kind, key, LSN);
            assert_eq!(changed(&mut region, &request, 9), (ended(outcome, true), None, vec![6 * 1024, 3 * 1024]));
            let leaf = nodes().leaf;
            let image = &region[3 * 1024..][..leaf.bytes];
            assert_eq!(leaf::lsn(&leaf, image), LSN);
            let found = Leaf::over(&leaf, image).scan_for(&key.to_be_bytes());
            assert_eq!(found.is_some(), outcome != Outcome::Deleted);
            let before = stripes::node_version(&all[3 * 1024..][..leaf.bytes]).unwrap();
            assert_eq!(stripes::node_version(image), Some(before.wrapping_add(1)));
            // The image is what was written, and says whose it is.
            let slot = &region[6 * 1024..][..HEADER_BYTES + leaf.bytes];
            let (said, bytes) = PageImage::read(slot, 8, leaf.bytes).unwrap();
            assert_eq!((said.address, said.lsn, said.entry, said.epoch), (at(0, 3), LSN, 2, 4));
            assert_eq!(bytes, image);
            // Again, or later than another change: not once more.
            let whole = region.clone();
            assert_eq!(changed(&mut region, &request, 9), (Some(Answer::Stale), None, vec![]));
            assert_eq!(region, whole);
            // A processor that stops between the two has changed nothing.
            let mut region = all.clone();
            assert_eq!(changed(&mut region, &request, 1).2, [6 * 1024]);
            assert_eq!(region[3 * 1024..4 * 1024], all[3 * 1024..4 * 1024]);
        }
    }

    #[test]
    fn a_change_that_changes_nothing_writes_nothing() {
        let all = region(|_| ());
        let ended = |outcome| Some(Answer::Ended { outcome, changed: false });
        let full = region(|region| {
            for slot in 0..nodes().leaf.span {
                let key = (100 + slot as u64).to_be_bytes();
                LeafMut::new(&nodes().leaf, &mut region[3072..4096]).put(slot, &key, &[1; 8]);
            }
        });
        for (region, request, answer, value) in [
            (&all, change(OperationKind::Insert, KEY, LSN), ended(Outcome::Exists), Some(99)),
            (&all, change(OperationKind::UpdateIf, KEY, LSN), ended(Outcome::Mismatch), Some(99)),
            (&all, change(OperationKind::DeleteIf, KEY, LSN), ended(Outcome::Mismatch), Some(99)),
            (&all, change(OperationKind::Delete, 51, LSN), ended(Outcome::Absent), None),
            (&all, change(OperationKind::Insert, 51, Lsn::NONE), Some(Answer::Stale), None),
            (&full, change(OperationKind::Insert, 51, LSN), Some(Answer::NeedsSplit), None),
            // The leaf has keys from 10 on, and the one at its left names it; only its own node is the caller's.
            (&all, change(OperationKind::Insert, 5, LSN), Some(Answer::Stale), None),
        ] {
            let mut after = region.clone();
            assert_eq!(changed(&mut after, &request, 9), (answer, value, vec![]));
            assert_eq!(after, *region);
        }
        // A leaf that has split since: the right half is not the caller's.
        let mut split = region(|region| start(&mut region[3072..4096], 0, 10, Some(40), at(0, 5)));
        let request = change(OperationKind::Upsert, KEY, LSN);
        assert_eq!(changed(&mut split, &request, 9).0, Some(Answer::Elsewhere(at(0, 5), 0)));
        // One that ends in front of the key, and says that nothing is behind it.
        let mut cut = region(|region| start(&mut region[3072..4096], 0, 10, Some(40), Address::NULL));
        assert_eq!(changed(&mut cut, &request, 9).0, Some(Answer::Stale));
    }

    #[test]
    fn a_scan_takes_leaf_after_leaf() {
        let leaves = region(|region| {
            let leaf = nodes().leaf;
            for (slot, key) in [(0, 3_u64), (1, 1), (2, 7)] {
                LeafMut::new(&leaf, &mut region[2048..3072]).put(slot, &key.to_be_bytes(), &key.to_le_bytes());
            }
            LeafMut::new(&leaf, &mut region[3072..4096]).put(0, &12_u64.to_be_bytes(), &12_u64.to_le_bytes());
        });
        let page = |low: u64, scan: Scan<'_>, room: usize| {
            let (nodes, mut message, mut answer) = (nodes(), [0; 256], [0xaa; 512]);
            let (key, task) = (&low.to_be_bytes(), Task::Scan(scan));
            let bytes = Request { from: at(0, 1), level: 1, nodes, key, task }.encode(&mut message).unwrap();
            let copy = |offset: u64, room: &mut [u8]| {
                room.copy_from_slice(&leaves[offset as usize..offset as usize + room.len()]);
                Some(0)
            };
            let walk = Walk::new(&message[..bytes], NODE);
            let (bytes, _) = walk.run(&mut vec![0; 2048], &mut answer[..room], copy, |_, _| None);
            let (answer, behind) = Answer::decode(&answer[..bytes], 8).unwrap();
            let Answer::Page { leaves, records, full, last, .. } = answer else { panic!("{answer:?}") };
            let page = Page::cut(behind, (leaves, records), (8, 8)).unwrap();
            let key = |record: &[u8]| u64::from_be_bytes(record[..8].try_into().unwrap());
            let keys: Vec<u64> = page.records.chunks_exact(16).map(key).collect();
            (keys, page.leaves().collect::<Vec<_>>(), key(page.bound), full, last)
        };
        let scan = Scan { limit: 100, after: false, high: None };
        let both = vec![at(0, 2), at(0, 3)];
        let (keys, leaves, _, full, last) = page(0, scan, 512);
        assert_eq!((keys, leaves, full, last), (vec![1, 3, 7, 12, KEY], both.clone(), false, true));
        assert_eq!(page(3, Scan { after: true, ..scan }, 512).0, [7, 12, KEY]);
        // A limit within a leaf, at its end, and room for two records.
        assert_eq!(page(0, Scan { limit: 2, ..scan }, 512), (vec![1, 3], vec![at(0, 2)], 10, true, false));
        assert_eq!(page(0, Scan { limit: 3, ..scan }, 512), (vec![1, 3, 7], vec![at(0, 2)], 10, false, false));
        assert_eq!(page(0, scan, Page::front_bytes(8) + 40).0, [1, 3]);
        // Bounds in the second leaf, and where the first one ends.
        let (high, border) = (20_u64.to_be_bytes(), 10_u64.to_be_bytes());
        let (keys, leaves, _, _, last) = page(0, Scan { high: Some(&high), ..scan }, 512);
        assert_eq!((keys, leaves, last), (vec![1, 3, 7, 12], both, true));
        let bounded = page(0, Scan { high: Some(&border), ..scan }, 512);
        assert_eq!(bounded, (vec![1, 3, 7], vec![at(0, 2)], 10, false, true));
    }

    #[test]
    fn any_bytes_end_a_walk() {
        let mut bits = 1_u64;
        let mut random = move || {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            (bits >> 16) as u8
        };
        for _ in 0..2000 {
            let mut all = region(|_| ());
            for _ in 0..=random() % 40 {
                let at = 1024 + (usize::from(random()) << 8 | usize::from(random())) % 3072;
                all[at] = random();
            }
            assert!(walked(&all, &request(at(0, 1), 1), 0).2 <= NODES_MAX + 1);
            let mut asked = request(at(0, 1), 1);
            let byte = usize::from(random()) % asked.len();
            asked[byte] = random();
            let (mut answer, mut room) = ([0; 2048], vec![0; NODE_AT + 1024]);
            let copy = |offset: u64, room: &mut [u8]| {
                room.copy_from_slice(all.get(usize::try_from(offset).ok()?..)?.get(..room.len())?);
                Some(0)
            };
            let (bytes, _) = Walk::new(&asked, NODE).run(&mut room, &mut answer, copy, |_, _| Some(0));
            assert!(bytes <= answer.len());
        }
    }
}
