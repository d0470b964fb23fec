//! What the control protocols of both fabrics have in common; little-endian.
//!
//! Every greeting begins with a [`Head`]. Magic and version will be at the same place in every later version, so that
//! two ends of different versions can report that. A return repeats the id of its call; returns may come in any order.
//! Every call may be repeated after an unknown outcome.

use thiserror::Error;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

/// Bytes of a [`Call`].
pub const CALL_BYTES: usize = 40;

/// Bytes of a [`Return`].
pub const RETURN_BYTES: usize = 16;

/// A procedure of the control connection, beside those of [`dm_core::remote::rpc::Procedure`]: this process acts for
/// compute-node row `a`, incarnation `b`, from now on. Returns `Done`, or `Impossible` if that incarnation was fenced.
pub const ANNOUNCE: u64 = 1 << 32;

/// The reverse of [`ANNOUNCE`]: this process writes nothing under that name any more.
pub const WITHDRAW: u64 = ANNOUNCE + 1;

/// Why a greeting failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeadError {
    /// The other end speaks another protocol.
    #[error("the other end does not speak the dm-memd protocol")]
    Magic,
    /// The other end has another version.
    #[error(
        "the other end speaks version {theirs} of the dm-memd protocol, this is version {ours}; use the same release on both ends"
    )]
    Version {
        /// The other end's version.
        theirs: u32,
        /// This end's version.
        ours: u32,
    },
    /// The memory node has too many connections.
    #[error("the memory node has as many connections as it takes")]
    Full,
}

/// The beginning of a greeting.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Head {
    magic: [u8; 8],
    version: U32,
    /// In most messages an answer.
    number: U32,
}

impl Head {
    /// The head of a message.
    pub const fn new(magic: [u8; 8], version: u32, number: u32) -> Self {
        Self { magic, version: U32::new(version), number: U32::new(number) }
    }
}

/// The version and the number of a message that begins with `magic`, of any version.
pub fn any_head(bytes: &[u8], magic: [u8; 8]) -> Result<(u32, u32), HeadError> {
    match Head::ref_from_prefix(bytes) {
        Ok((head, _)) if head.magic == magic => Ok((head.version.get(), head.number.get())),
        _ => Err(HeadError::Magic),
    }
}

/// The number of a message that begins with `magic` and is of version `ours`.
pub fn same_head(bytes: &[u8], magic: [u8; 8], ours: u32) -> Result<u32, HeadError> {
    match any_head(bytes, magic)? {
        (theirs, number) if theirs == ours => Ok(number),
        (theirs, _) => Err(HeadError::Version { theirs, ours }),
    }
}

/// A call of a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Identifies the call in its return; not 0. A repeated call has the id of the first.
    pub id: u64,
    /// Which procedure, and its arguments.
    pub operands: [u64; 4],
}

impl Call {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; CALL_BYTES] {
        let [a, b, c, d] = self.operands;
        transmute!([self.id, a, b, c, d].map(U64::new))
    }

    /// Decodes received bytes: any bytes are a call.
    pub fn decode(bytes: &[u8; CALL_BYTES]) -> Self {
        let words: [U64; 5] = transmute!(*bytes);
        let [id, operands @ ..] = words.map(U64::get);
        Self { id, operands }
    }
}

/// What a daemon answers to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// The id of the call.
    pub id: u64,
    /// The result.
    pub value: u64,
}

impl Return {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; RETURN_BYTES] {
        transmute!([self.id, self.value].map(U64::new))
    }

    /// Decodes received bytes.
    pub fn decode(bytes: &[u8; RETURN_BYTES]) -> Self {
        let words: [U64; 2] = transmute!(*bytes);
        let [id, value] = words.map(U64::get);
        Self { id, value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_received() {
        let call = Call { id: 3, operands: [ANNOUNCE, 2, 3, u64::MAX] };
        assert_eq!(Call::decode(&call.encode()), call);
        let answer = Return { id: 1 << 40, value: 5 };
        assert_eq!(Return::decode(&answer.encode()), answer);
        assert_eq!(&call.encode()[8..16], [0, 0, 0, 0, 1, 0, 0, 0], "the procedure");
    }

    #[test]
    fn another_version_is_told_from_another_protocol() {
        let magic = *b"dm-test\n";
        assert_eq!(same_head(Head::new(magic, 3, 7).as_bytes(), magic, 3), Ok(7));
        assert_eq!(any_head(Head::new(magic, 9, 1).as_bytes(), magic), Ok((9, 1)));
        let error = same_head(Head::new(magic, 9, 7).as_bytes(), magic, 3).unwrap_err();
        assert_eq!(error, HeadError::Version { theirs: 9, ours: 3 });
        assert!(error.to_string().contains("version 9") && error.to_string().contains("version 3"));
        assert_eq!(same_head(b"GET / HTTP/1.1\r\n", magic, 3), Err(HeadError::Magic));
        assert_eq!(any_head(&magic, magic), Err(HeadError::Magic), "too short");
    }
}
