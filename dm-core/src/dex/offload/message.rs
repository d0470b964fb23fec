//! Requests and answers of calls, as bytes. All numbers are little-endian.
//!
//! A request brings all that the memory node needs to know of the index: the memory node keeps nothing of any index.

use crate::btree::LEVELS_MAX;
use crate::btree::inner::{InnerShape, SPAN_MAX as INNER_SPAN_MAX};
use crate::dex::leaf::{self, LeafShape, SPAN_MAX, SPAN_MIN};
use crate::registry::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::remote::address::Address;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The version of both messages.
const VERSION: u8 = 1;
/// The only procedure: search a leaf for a key.
const SEARCH: u8 = 1;

/// What is in front of the key of a request.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestHeader {
    version: u8,
    procedure: u8,
    index: u8,
    level: u8,
    key_bytes: u8,
    reserved: [u8; 3],
    value_bytes: U16,
    leaf_span: U16,
    inner_span: U16,
    reserved_too: U16,
    address: U64,
    exposure_ns_max: U32,
    reserved_last: U32,
}

/// What is in front of the value of an answer.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AnswerHeader {
    version: u8,
    outcome: u8,
    level: u8,
    reserved: [u8; 5],
    address: U64,
}

/// Bytes of a request in front of its key.
const REQUEST_HEADER_BYTES: usize = size_of::<RequestHeader>();
/// Bytes of an answer in front of its value.
pub const ANSWER_HEADER_BYTES: usize = size_of::<AnswerHeader>();

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

/// A search for a key, from a node on.
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
}

impl<'a> Request<'a> {
    /// Bytes of a request with a key of `key_bytes`.
    pub const fn bytes(key_bytes: usize) -> usize {
        REQUEST_HEADER_BYTES + key_bytes
    }

    /// Writes the request, and returns its length. `None`: `out` is too short, or a size too large for the message.
    pub fn encode(&self, out: &mut [u8]) -> Option<usize> {
        let header = RequestHeader {
            version: VERSION,
            procedure: SEARCH,
            index: self.nodes.index,
            level: self.level,
            key_bytes: u8::try_from(self.key.len()).ok()?,
            reserved: [0; 3],
            value_bytes: u16::try_from(self.nodes.leaf.value_bytes).ok()?.into(),
            leaf_span: u16::try_from(self.nodes.leaf.span).ok()?.into(),
            inner_span: u16::try_from(self.nodes.inner.span).ok()?.into(),
            reserved_too: 0.into(),
            address: self.from.to_bits().into(),
            exposure_ns_max: self.nodes.exposure_ns_max.into(),
            reserved_last: 0.into(),
        };
        let bytes = Self::bytes(self.key.len());
        let (front, behind) = out.get_mut(..bytes)?.split_at_mut_checked(REQUEST_HEADER_BYTES)?;
        front.copy_from_slice(header.as_bytes());
        behind.copy_from_slice(self.key);
        Some(bytes)
    }

    /// Reads a request. `None`: it is none, or of sizes that no index has.
    pub fn decode(message: &'a [u8]) -> Option<Self> {
        let (header, key) = RequestHeader::read_from_prefix(message).ok()?;
        let key_bytes = usize::from(header.key_bytes);
        let (value_bytes, leaf_span) = (usize::from(header.value_bytes.get()), usize::from(header.leaf_span.get()));
        let inner_span = usize::from(header.inner_span.get());
        let sound = header.version == VERSION
            && header.procedure == SEARCH
            && header.level < LEVELS_MAX
            && (8..=KEY_BYTES_MAX).contains(&key_bytes)
            && key.len() == key_bytes
            && (8..=VALUE_BYTES_MAX).contains(&value_bytes)
            && (SPAN_MIN..=SPAN_MAX).contains(&leaf_span)
            && (2..=INNER_SPAN_MAX).contains(&inner_span);
        sound.then(|| Self {
            from: Address::from_bits(header.address.get()),
            level: header.level,
            nodes: Nodes {
                index: header.index,
                leaf: leaf::shape(key_bytes, value_bytes, leaf_span),
                inner: InnerShape::with_span(key_bytes, 0, inner_span),
                exposure_ns_max: header.exposure_ns_max.get(),
            },
            key,
        })
    }
}

/// How a search has ended.
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
    /// A node is not what the pointer to it promised.
    Stale,
    /// The request is none, or of nodes larger than the memory node's room.
    Refused,
}

impl Answer {
    /// Bytes of the longest answer about values of `value_bytes`.
    pub const fn bytes_max(value_bytes: usize) -> usize {
        ANSWER_HEADER_BYTES + value_bytes
    }

    /// Writes the header of the answer, and returns its length: 0 if `out` is too short.
    pub fn encode(self, out: &mut [u8]) -> usize {
        let (outcome, level, address) = match self {
            Self::Found(leaf) => (1, 0, leaf),
            Self::Absent(leaf) => (2, 0, leaf),
            Self::Elsewhere(node, level) => (3, level, node),
            Self::Busy => (4, 0, Address::NULL),
            Self::Stale => (5, 0, Address::NULL),
            Self::Refused => (6, 0, Address::NULL),
        };
        let header =
            AnswerHeader { version: VERSION, outcome, level, reserved: [0; 5], address: address.to_bits().into() };
        match out.get_mut(..ANSWER_HEADER_BYTES) {
            Some(front) => front.copy_from_slice(header.as_bytes()),
            None => return 0,
        }
        ANSWER_HEADER_BYTES
    }

    /// Reads an answer, and the value behind it, which has `value_bytes`. `None`: it is none.
    pub fn decode(message: &[u8], value_bytes: usize) -> Option<(Self, &[u8])> {
        let (header, value) = AnswerHeader::read_from_prefix(message).ok()?;
        let address = Address::from_bits(header.address.get());
        let is_named = !address.is_null() && header.level < LEVELS_MAX;
        let answer = match header.outcome {
            1 if is_named && value.len() == value_bytes => return Some((Self::Found(address), value)),
            2 if is_named => Self::Absent(address),
            3 if is_named => Self::Elsewhere(address, header.level),
            4 => Self::Busy,
            5 => Self::Stale,
            6 => Self::Refused,
            _ => return None,
        };
        (header.version == VERSION && value.is_empty()).then_some((answer, value))
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
        Request { from: LEAF, level: 2, nodes: Nodes { index: 7, leaf, inner, exposure_ns_max: 900 }, key }
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
            for (at, byte) in [(0, 2), (1, 2), (3, LEVELS_MAX), (4, 7), (4, 65), (8, 7), (9, 255), (10, 1), (13, 255)] {
                let mut other = message;
                other[at] = byte;
                assert_eq!(Request::decode(&other[..bytes]), None, "byte {at} = {byte}");
            }
        }
        assert_eq!(request(&[7; 8]).encode(&mut [0; 39]), None);
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
        message[1] = 9;
        assert_eq!(Answer::decode(&message[..bytes], 8), None);
        assert_eq!(Answer::Busy.encode(&mut message[..15]), 0);
    }
}
