//! Calls to a memory node's processor, or by way of it to a compute node, as messages of SEND; little-endian.
//!
//! ```text
//!  call:   id u64 │ callee u64 │ room for the answer u32 │ 0 u32 │ the request
//!  reply:  id u64 │ calls that waited u16 │ outcome u16 │ service time in ns u32 │ the answer
//! ```
//!
//! The caller chooses the id; the reply repeats it. Each message is checked by the end that receives it: a length is that of the
//! message, and the rest is bounded.

use dm_core::verbs::{CALL_BYTES_MAX, CallAnswer, Callee};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

/// Most calls that one queue pair may have under way.
pub(crate) const CREDITS_MAX: u32 = 64;

/// The id of a message that says that a compute node serves no more: to the memory node a reply, and a call in return.
pub(crate) const STOP: u64 = 0;

/// Bytes in front of a request.
pub(crate) const CALL_HEAD_BYTES: usize = size_of::<CallHead>();

/// Bytes in front of an answer.
pub(crate) const REPLY_HEAD_BYTES: usize = size_of::<ReplyHead>();

/// Bytes of a buffer for one message: the longest, on whole lines.
pub(crate) const MESSAGE_BYTES: usize = (CALL_HEAD_BYTES + CALL_BYTES_MAX).next_multiple_of(64);

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CallHead {
    id: U64,
    callee: U64,
    answer_bytes: U32,
    zero: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ReplyHead {
    id: U64,
    queued: U16,
    outcome: U16,
    service_ns: U32,
}

const _: () = assert!(CALL_HEAD_BYTES == 24 && REPLY_HEAD_BYTES == 16, "sizes on the wire");

/// The head of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallMessage {
    /// Its caller's name for it.
    pub id: u64,
    /// The callee.
    pub callee: Callee,
    /// Room for the answer, at most [`CALL_BYTES_MAX`].
    pub answer_bytes: usize,
}

impl CallMessage {
    /// The bytes to send in front of the request.
    pub(crate) fn encode(&self) -> [u8; CALL_HEAD_BYTES] {
        let answer_bytes = (self.answer_bytes.min(CALL_BYTES_MAX) as u32).into();
        transmute!(CallHead { id: self.id.into(), callee: self.callee.0.into(), answer_bytes, zero: U32::ZERO })
    }

    /// The head of a received message, and the request. `None`: the message is too short.
    pub(crate) fn decode(message: &[u8]) -> Option<(Self, &[u8])> {
        let (head, request) = CallHead::read_from_prefix(message).ok()?;
        let answer_bytes = (head.answer_bytes.get() as usize).min(CALL_BYTES_MAX);
        Some((Self { id: head.id.get(), callee: Callee(head.callee.get()), answer_bytes }, request))
    }
}

/// The head of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyMessage {
    /// The call's id.
    pub id: u64,
    /// Whether the call was executed. If not, nobody has begun, and nobody will.
    pub is_served: bool,
    /// Calls that waited in front of it.
    pub queued: u16,
    /// How long the processor worked for it, in ns.
    pub service_ns: u32,
}

impl ReplyMessage {
    /// The bytes to send in front of the answer.
    pub(crate) fn encode(&self) -> [u8; REPLY_HEAD_BYTES] {
        transmute!(ReplyHead {
            id: self.id.into(),
            queued: self.queued.into(),
            outcome: u16::from(self.is_served).into(),
            service_ns: self.service_ns.into(),
        })
    }

    /// The head of a received message.
    pub(crate) fn decode(head: &[u8; REPLY_HEAD_BYTES]) -> Self {
        let ReplyHead { id, queued, outcome, service_ns } = transmute!(*head);
        let is_served = outcome.get() == 1;
        Self { id: id.get(), is_served, queued: queued.get(), service_ns: service_ns.get() }
    }

    /// What the caller learns of an answer of `bytes` bytes.
    pub(crate) fn answer(&self, bytes: usize) -> CallAnswer {
        CallAnswer::new(bytes, self.queued, self.service_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_received() {
        let call = CallMessage { id: 7 << 40, callee: Callee::compute_node(3, 9), answer_bytes: 99 };
        let mut message = call.encode().to_vec();
        assert_eq!(CallMessage::decode(&message), Some((call, &[][..])));
        message.extend([1, 2, 3]);
        assert_eq!(CallMessage::decode(&message), Some((call, &[1, 2, 3][..])));
        assert_eq!(CallMessage::decode(&message[..CALL_HEAD_BYTES - 1]), None);
        for is_served in [true, false] {
            let reply = ReplyMessage { id: u64::MAX, is_served, queued: 4, service_ns: 1 << 31 };
            assert_eq!(ReplyMessage::decode(&reply.encode()), reply);
            assert_eq!(reply.answer(40), CallAnswer::new(40, 4, 1 << 31));
        }
    }

    #[test]
    fn the_room_that_a_call_asks_for_is_bounded() {
        let mut message = CallMessage { id: 1, callee: Callee::MEMORY_NODE, answer_bytes: 8 }.encode();
        message[16..20].fill(0xff);
        assert_eq!(CallMessage::decode(&message).unwrap().0.answer_bytes, CALL_BYTES_MAX);
    }
}
