//! The memory node's side of a call: from a node to the leaf of a key.
//!
//! [`Walk`] does no I/O. It says which bytes of the memory node's region it wants next; its driver (a daemon, a simulator,
//! firmware) copies them into a room, and asks again:
//!
//! ```text
//!  Walk::new(request, node) ─► next(copied, room, answer) ─┬─► Copy { offset, bytes }: copy, measure, call next again
//!                                                          └─► Answer(bytes): send so many bytes of `answer`
//! ```
//!
//! Bytes change while they are copied: compute nodes WRITE. A node is judged as a compute node judges what it has READ, by
//! its versions, its generation and its fences, and a copy that took too long for its versions is not trusted. A torn node is
//! copied again, [`TORN_MAX`] times. The walk copies [`NODES_MAX`] nodes at most, so it ends whatever the bytes say.

use super::message::{Answer, Nodes, Request};
use crate::btree::inner::Inner;
use crate::btree::node::{self, FenceCheck, Wanted};
use crate::dex::leaf::{Leaf, LeafShape};
use crate::error::DecodeError;
use crate::mutants::{Mutant, planted};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::verbs::NodeId;

/// Copies of one node that may be torn.
pub const TORN_MAX: u32 = 4;

/// Copies of a walk: more than the levels of any tree, and as many neighbours.
pub const NODES_MAX: u32 = 64;

/// What a driver has done since it asked before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// Nothing: the walk begins.
    Nothing,
    /// The bytes are in the room, and the copy took so long, in ns.
    In(u32),
    /// The region has no such bytes, or they do not fit into the room.
    Outside,
}

/// What a walk wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Copy bytes of the region to the beginning of the room.
    Copy {
        /// Where they begin, a multiple of 64.
        offset: u64,
        /// How many.
        bytes: usize,
    },
    /// The answer is complete: its first so many bytes.
    Answer(usize),
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct Walk {
    /// The memory node that walks.
    node: NodeId,
    /// `None`: the request is none.
    nodes: Option<Nodes>,
    key: [u8; KEY_BYTES_MAX],
    key_bytes: usize,
    at: Address,
    level: u8,
    torn: u32,
    copies: u32,
}

impl Walk {
    /// A search that memory node `node` does for `request`.
    pub fn new(request: &[u8], node: NodeId) -> Self {
        let key = [0; KEY_BYTES_MAX];
        let mut walk = Self { node, nodes: None, key, key_bytes: 0, at: Address::NULL, level: 0, torn: 0, copies: 0 };
        if let Some(Request { from, level, nodes, key }) = Request::decode(request)
            && let Some(room) = walk.key.get_mut(..key.len())
        {
            room.copy_from_slice(key);
            (walk.nodes, walk.key_bytes, walk.at, walk.level) = (Some(nodes), key.len(), from, level);
        }
        walk
    }

    /// Goes on with what was copied into `room`. Writes into `answer` only when it is complete.
    pub fn next(&mut self, copied: Copied, room: &[u8], answer: &mut [u8]) -> Next {
        match self.go_on(copied, room, answer) {
            Ok(next) => next,
            Err(ended) => Next::Answer(ended.encode(answer)),
        }
    }

    /// `Err`: the search has ended without a value.
    fn go_on(&mut self, copied: Copied, room: &[u8], answer: &mut [u8]) -> Result<Next, Answer> {
        let nodes = self.nodes.ok_or(Answer::Refused)?;
        match copied {
            Copied::Nothing => {}
            Copied::Outside => return Err(Answer::Refused),
            Copied::In(elapsed_ns) => {
                let trusted = elapsed_ns <= nodes.exposure_ns_max || planted(Mutant::SLOW_COPY_BELIEVED);
                let judged = if trusted { self.judge(&nodes, room) } else { Err(DecodeError::Torn) };
                match judged {
                    Ok(Step::Leaf(value)) => return Ok(Self::found(self.at, value, answer)),
                    Ok(Step::Absent) => return Err(Answer::Absent(self.at)),
                    Ok(Step::To(address, level)) => {
                        (self.at, self.level, self.torn) = (address, level, 0);
                    }
                    Err(DecodeError::Torn) => self.torn += 1,
                    Err(_) => return Err(Answer::Stale),
                }
            }
        }
        self.copies += 1;
        match () {
            () if self.at.is_null() => Err(Answer::Stale),
            () if self.at.node() != self.node => Err(Answer::Elsewhere(self.at, self.level)),
            () if self.torn > TORN_MAX || self.copies > NODES_MAX => Err(Answer::Busy),
            () => Ok(Next::Copy { offset: self.at.offset(), bytes: nodes.bytes_of(self.level) }),
        }
    }

    fn judge<'r>(&self, nodes: &Nodes, room: &'r [u8]) -> Result<Step<'r>, DecodeError> {
        let key = self.key.get(..self.key_bytes).unwrap_or_default();
        let wanted = Wanted { address: self.at, index: nodes.index, level: self.level };
        let image = room.get(..nodes.bytes_of(self.level)).ok_or(DecodeError::Torn)?;
        match node::judge(image, &wanted, key)? {
            FenceCheck::Right(other) | FenceCheck::Forward(other) => return Ok(Step::To(other, self.level)),
            FenceCheck::Here => {}
        }
        if self.level > 0 {
            let inner = Inner::new(&nodes.inner, image)
                .ok_or(DecodeError::Corrupt("an inner node with more separators than its span"))?;
            return Ok(Step::To(inner.child(inner.position(key)), self.level - 1));
        }
        let leaf = Leaf::over(&nodes.leaf, image);
        Ok(leaf.scan_for(key).map_or(Step::Absent, |slot| Step::Leaf(Record { shape: nodes.leaf, image, slot })))
    }

    /// Writes the answer with the value.
    fn found(leaf: Address, record: Record<'_>, answer: &mut [u8]) -> Next {
        let header = Answer::Found(leaf).encode(answer);
        let bytes = header + record.shape.value_bytes;
        let Some(value) = answer.get_mut(header..bytes).filter(|_| header > 0) else {
            return Next::Answer(Answer::Refused.encode(answer));
        };
        Leaf::over(&record.shape, record.image).read_value(record.slot, value);
        Next::Answer(bytes)
    }

    /// Runs the walk to its end, with a driver that copies bytes of the region at once. `copy(offset, room)` says how long it
    /// took, in ns; `None`: there are no such bytes. Returns the length of the answer and how many nodes were copied.
    pub fn run(
        mut self,
        room: &mut [u8],
        answer: &mut [u8],
        mut copy: impl FnMut(u64, &mut [u8]) -> Option<u32>,
    ) -> (usize, u32) {
        let mut copied = Copied::Nothing;
        loop {
            match self.next(copied, room, answer) {
                Next::Answer(bytes) => return (bytes, self.copies),
                Next::Copy { offset, bytes } => {
                    let copy = room.get_mut(..bytes).and_then(|room| copy(offset, room));
                    copied = copy.map_or(Copied::Outside, Copied::In);
                }
            }
        }
    }
}

/// A record of a leaf that was judged.
#[derive(Clone, Copy)]
struct Record<'r> {
    shape: LeafShape,
    image: &'r [u8],
    slot: usize,
}

/// Where a node leads.
enum Step<'r> {
    Leaf(Record<'r>),
    Absent,
    To(Address, u8),
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::btree::inner::InnerMut;
    use crate::btree::node::{Header, NodeFlags};
    use crate::dex::leaf::LeafMut;
    use crate::dex::parameters::Parameters;
    use crate::layout::stripes;
    use crate::mutants::with_planted;
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
        let bytes = Request { from, level, nodes: nodes(), key: &KEY.to_be_bytes() }.encode(&mut message).unwrap();
        message[..bytes].to_vec()
    }

    fn start(image: &mut [u8], level: u8, low: u64, high: Option<u64>, sibling: Address) {
        let header = Header { generation: 5, level, index: 3, flags: NodeFlags::empty(), count: 0, sibling };
        let high = high.map(u64::to_be_bytes);
        node::start(image, &header, &low.to_be_bytes(), high.as_ref().map(|high| &high[..]));
    }

    /// Inner node 1 leads to leaf 2 of keys 0 to 9, which leads to the right: leaf 3 has the key. `mend`: changes nodes.
    fn region(mend: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut region = vec![0; 8 * 1024];
        let nodes = nodes();
        let inner = &mut region[1024..2048];
        start(inner, 1, 0, None, Address::NULL);
        InnerMut::new(&nodes.inner, inner).set_child(0, at(0, 2));
        start(&mut region[2048..3072], 0, 0, Some(10), at(0, 3));
        start(&mut region[3072..4096], 0, 10, None, Address::NULL);
        LeafMut::new(&nodes.leaf, &mut region[3072..4096]).put(4, &KEY.to_be_bytes(), &99u64.to_le_bytes());
        mend(&mut region);
        region
    }

    /// The answer, its value, and how many nodes were copied; each copy takes `ns`.
    fn walked(region: &[u8], request: &[u8], ns: u32) -> (Answer, Option<u64>, u32) {
        let (mut answer, mut room) = ([0xaa; 64], vec![0; 1024]);
        let copy = |offset: u64, room: &mut [u8]| {
            room.copy_from_slice(region.get(offset as usize..)?.get(..room.len())?);
            Some(ns)
        };
        let (bytes, copies) = Walk::new(request, NODE).run(&mut room, &mut answer, copy);
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
        ends(
            &region(|region| InnerMut::new(&nodes().inner, &mut region[1024..2048]).set_child(0, at(7, 2))),
            &from,
            0,
            Answer::Elsewhere(at(7, 2), 0),
        );
        ends(&all, &from, 1001, Answer::Busy);
        ends(&region(|region| region[3072 + 64] ^= 1), &from, 0, Answer::Busy);
        ends(&region(|region| start(&mut region[3072..4096], 0, 60, None, Address::NULL)), &from, 0, Answer::Stale);
        ends(&region(|region| start(&mut region[2048..3072], 0, 0, Some(10), at(0, 2))), &from, 0, Answer::Busy);
        ends(
            &region(|region| InnerMut::new(&nodes().inner, &mut region[1024..2048]).set_child(0, Address::NULL)),
            &from,
            0,
            Answer::Stale,
        );
        ends(
            &region(|region| stripes::write(&mut region[1024..2048], node::COUNT_AT, &[255, 255])),
            &from,
            0,
            Answer::Stale,
        );
        ends(&all, &request(at(0, 1), 0), 0, Answer::Stale);
        ends(&all, &request(at(0, 100), 0), 0, Answer::Refused);
        ends(&all, &from[..30], 0, Answer::Refused);
        let slow = with_planted(Some(Mutant::SLOW_COPY_BELIEVED), || walked(&all, &from, 1001).0);
        assert_eq!(slow, Answer::Found(at(0, 3)));
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
            let (mut answer, mut room) = ([0; 2048], vec![0; 1024]);
            let copy = |offset: u64, room: &mut [u8]| {
                room.copy_from_slice(all.get(usize::try_from(offset).ok()?..)?.get(..room.len())?);
                Some(0)
            };
            let (bytes, _) = Walk::new(&asked, NODE).run(&mut room, &mut answer, copy);
            assert!(bytes <= answer.len());
        }
    }
}
