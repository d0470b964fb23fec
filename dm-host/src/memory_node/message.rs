//! What the control protocols of both fabrics have in common; little-endian.
//!
//! ```text
//! Head     0 magic[8]  8 version u32  12 a number u32: mostly an answer                               16 bytes
//! Call     0 id u64    8 procedure u64  16 a u64  24 b u64  32 c u64                                   40 bytes
//! Return   0 id u64    8 value u64                                                                    16 bytes
//! ```
//!
//! Every greeting begins with a head. Magic and version stand at the same place in every version to come, so that two ends of
//! different versions can say so. A return repeats the id of its call; returns may come in any order. Every call may be made again after an
//! unknown outcome.

use thiserror::Error;

/// Bytes of a head.
pub const HEAD_BYTES: usize = 16;

/// Bytes of a [`Call`].
pub const CALL_BYTES: usize = 40;

/// Bytes of a [`Return`].
pub const RETURN_BYTES: usize = 16;

/// A procedure of the control connection, beside those of [`dm_core::remote::rpc::Procedure`]: this process acts for
/// compute-node row `a`, incarnation `b`, from now on. Returns `Done`, or `Impossible` if that incarnation was fenced off.
pub const ANNOUNCE: u64 = 1 << 32;

/// The reverse of [`ANNOUNCE`]: this process writes nothing under that name any more.
pub const WITHDRAW: u64 = ANNOUNCE + 1;

/// Why a greeting cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeadError {
    /// Not of this protocol.
    #[error("the other end does not speak the dm-memd protocol")]
    Magic,
    /// Of another version.
    #[error(
        "the other end speaks version {theirs} of the dm-memd protocol, this is version {ours}; use the same release on both ends"
    )]
    Version {
        /// Its version.
        theirs: u32,
        /// Ours.
        ours: u32,
    },
    /// Too many connections.
    #[error("the memory node has as many connections as it takes")]
    Full,
}

/// A head.
pub fn head(magic: [u8; 8], version: u32, number: u32) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[..8].copy_from_slice(&magic);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes[12..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The version and the number of a message that begins with `magic`, whatever they are.
pub fn any_head(bytes: &[u8], magic: [u8; 8]) -> Result<(u32, u32), HeadError> {
    match bytes.first_chunk::<HEAD_BYTES>() {
        Some(bytes) if bytes[..8] == magic => Ok((u32_at(bytes, 8), u32_at(bytes, 12))),
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
    /// Names it, for the return; not 0. A repeated call has the id of the first.
    pub id: u64,
    /// Which procedure, and its arguments.
    pub operands: [u64; 4],
}

impl Call {
    /// As sent.
    pub fn encode(&self) -> [u8; CALL_BYTES] {
        let mut bytes = [0; CALL_BYTES];
        bytes[..8].copy_from_slice(&self.id.to_le_bytes());
        for (to, word) in bytes[8..].chunks_exact_mut(8).zip(self.operands) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// As received: any bytes are one.
    pub fn decode(bytes: &[u8; CALL_BYTES]) -> Self {
        Self { id: u64_at(bytes, 0), operands: [8, 16, 24, 32].map(|at| u64_at(bytes, at)) }
    }
}

/// What a daemon answers to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// That of the call.
    pub id: u64,
    /// The result.
    pub value: u64,
}

impl Return {
    /// As sent.
    pub fn encode(&self) -> [u8; RETURN_BYTES] {
        let mut bytes = [0; RETURN_BYTES];
        bytes[..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }

    /// As received.
    pub fn decode(bytes: &[u8; RETURN_BYTES]) -> Self {
        Self { id: u64_at(bytes, 0), value: u64_at(bytes, 8) }
    }
}

/// The number at byte `at`; 0 past the end.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u16::from_le_bytes(*word))
}

/// The number at byte `at`; 0 past the end.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u32::from_le_bytes(*word))
}

/// The number at byte `at`; 0 past the end.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word))
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
        assert_eq!(same_head(&head(magic, 3, 7), magic, 3), Ok(7));
        assert_eq!(any_head(&head(magic, 9, 1), magic), Ok((9, 1)));
        let error = same_head(&head(magic, 9, 7), magic, 3).unwrap_err();
        assert_eq!(error, HeadError::Version { theirs: 9, ours: 3 });
        assert!(error.to_string().contains("version 9") && error.to_string().contains("version 3"));
        assert_eq!(same_head(b"GET / HTTP/1.1\r\n", magic, 3), Err(HeadError::Magic));
        assert_eq!(any_head(&magic, magic), Err(HeadError::Magic), "too short");
    }
}
