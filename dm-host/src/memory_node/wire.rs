//! The control protocol, version 2: a greeting each way, then calls and their returns, little-endian.
//!
//! ```text
//! Hello    0 magic[8]  8 version u32  12 zero u32                                                    16 bytes
//! Welcome  0 magic[8]  8 version u32  12 answer u32  16 connection u32  20 node u16  22 nodes u16
//!         24 region_bytes u64  32 file_bytes u64  40 page_bytes u64  48 device_at u64
//!         56 sequence_at u64   64 slots_at u64    72 device_bytes u32  76 mode u32
//!         80 fencing u32  84 zero u32                                                                 88 bytes
//! Call     0 kind u32  4 zero u32  8 number u64  16 operands u64[4]                                   48 bytes
//! Return   0 number u64  8 value u64                                                                  16 bytes
//! ```
//!
//! A return repeats the number of its call; returns may come in any order. Every call may be made again after an
//! unknown outcome.
//!
//! Magic and version stand at the same place in every version to come, so that two ends of different versions can
//! say so. With [`Answer::Welcome`] comes the region's file descriptor; with any other answer all that follows is
//! zero.

use crate::region::{Layout, LineMode};
use thiserror::Error;

/// How each message begins.
pub const MAGIC: [u8; 8] = *b"dm-memd\n";

/// The version spoken here.
pub const VERSION: u32 = 2;

/// Bytes of a [`Hello`].
pub const HELLO_BYTES: usize = 16;

/// Bytes of a [`Welcome`].
pub const WELCOME_BYTES: usize = 88;

/// Bytes of a [`Call`].
pub const CALL_BYTES: usize = 48;

/// Bytes of a [`Return`].
pub const RETURN_BYTES: usize = 16;

/// Why a message was not understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// Not of this protocol.
    #[error("the other end does not speak the dm-memd protocol")]
    Magic,
    /// Of another version.
    #[error(
        "the other end speaks version {theirs} of the dm-memd protocol, this is version {VERSION}; use the same release on both ends"
    )]
    Version {
        /// Its version.
        theirs: u32,
    },
    /// The memory node has too many connections.
    #[error("the memory node has as many connections as it takes")]
    Full,
    /// An answer of no meaning.
    #[error("unknown answer {0}")]
    Answer(u32),
    /// A call of no meaning.
    #[error("unknown call {0}")]
    Call(u32),
    /// A layout that this release would not make of the same sizes.
    #[error("the memory node's layout is impossible: {0}")]
    Layout(String),
}

/// What a client says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The client's version.
    pub version: u32,
}

impl Hello {
    /// As sent.
    pub fn encode(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes
    }

    /// As received. Any version decodes: the server answers with its own.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Self, WireError> {
        if bytes[..8] != MAGIC {
            return Err(WireError::Magic);
        }
        Ok(Self { version: u32_at(bytes, 8) })
    }
}

/// How a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Answer {
    /// Come in.
    Welcome = 0,
    /// Versions differ.
    Version = 1,
    /// Too many connections.
    Full = 2,
}

/// What a server tells a client it lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Number of this connection, never used twice by a daemon; not 0.
    pub connection: u32,
    /// Number of the memory node.
    pub node: u16,
    /// Memory nodes in its pool.
    pub nodes: u16,
    /// Layout of the file that comes along.
    pub layout: Layout,
    /// Whether the daemon could kill this process, and be sure that it is gone.
    pub fencing: bool,
}

impl Welcome {
    /// As sent.
    pub fn encode(&self) -> [u8; WELCOME_BYTES] {
        let mut bytes = refusal(Answer::Welcome);
        bytes[16..20].copy_from_slice(&self.connection.to_le_bytes());
        bytes[20..22].copy_from_slice(&self.node.to_le_bytes());
        bytes[22..24].copy_from_slice(&self.nodes.to_le_bytes());
        let layout = &self.layout;
        for (at, value) in [
            (24, layout.region_bytes),
            (32, layout.file_bytes),
            (40, layout.page_bytes),
            (48, layout.device_at),
            (56, layout.sequence_at),
            (64, layout.slots_at),
        ] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes[72..76].copy_from_slice(&layout.device_bytes.to_le_bytes());
        bytes[76..80].copy_from_slice(&layout.mode.code().to_le_bytes());
        bytes[80..84].copy_from_slice(&u32::from(self.fencing).to_le_bytes());
        bytes
    }

    /// As received. What comes out is sound: the layout is one that [`Layout::new`] makes.
    pub fn decode(bytes: &[u8; WELCOME_BYTES]) -> Result<Self, WireError> {
        if bytes[..8] != MAGIC {
            return Err(WireError::Magic);
        }
        let theirs = u32_at(bytes, 8);
        if theirs != VERSION {
            return Err(WireError::Version { theirs });
        }
        match u32_at(bytes, 12) {
            0 => {}
            1 => return Err(WireError::Version { theirs }),
            2 => return Err(WireError::Full),
            answer => return Err(WireError::Answer(answer)),
        }
        let code = u32_at(bytes, 76);
        let mode = LineMode::from_code(code).ok_or_else(|| WireError::Layout(format!("line mode {code}")))?;
        let layout = Layout::new(u64_at(bytes, 24), u32_at(bytes, 72), mode, u64_at(bytes, 40))
            .map_err(|error| WireError::Layout(error.to_string()))?;
        let welcome = Self {
            connection: u32_at(bytes, 16),
            node: u16::from_le_bytes([bytes[20], bytes[21]]),
            nodes: u16::from_le_bytes([bytes[22], bytes[23]]),
            layout,
            fencing: u32_at(bytes, 80) == 1,
        };
        if welcome.encode() != *bytes {
            return Err(WireError::Layout("its parts are elsewhere than this release puts them".to_owned()));
        }
        if welcome.connection == 0 || welcome.node >= welcome.nodes {
            return Err(WireError::Layout(format!("memory node {} of {}", welcome.node, welcome.nodes)));
        }
        Ok(welcome)
    }
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CallKind {
    /// A procedure of [`dm_core::remote::rpc`]: its operands and its result.
    Rpc = 1,
    /// `[row, incarnation]`: this process acts for that compute-node row from now on. Returns [`ACCEPTED`], or
    /// [`REFUSED`] if that incarnation was fenced off.
    Announce = 2,
    /// `[row, incarnation]`: this process writes nothing under that name any more. Returns [`ACCEPTED`].
    Withdraw = 3,
}

/// Return of an announcement: noted.
pub const ACCEPTED: u64 = 1;

/// Return of an announcement: that incarnation was fenced off.
pub const REFUSED: u64 = 0;

/// What a compute process asks after the greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// What for.
    pub kind: CallKind,
    /// By which its return is recognised.
    pub number: u64,
    /// Arguments.
    pub operands: [u64; 4],
}

impl Call {
    /// As sent.
    pub fn encode(&self) -> [u8; CALL_BYTES] {
        let mut bytes = [0; CALL_BYTES];
        bytes[..4].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        for (to, word) in bytes[16..].chunks_exact_mut(8).zip(self.operands) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// As received.
    pub fn decode(bytes: &[u8; CALL_BYTES]) -> Result<Self, WireError> {
        let kind = match (u32_at(bytes, 0), u32_at(bytes, 4)) {
            (1, 0) => CallKind::Rpc,
            (2, 0) => CallKind::Announce,
            (3, 0) => CallKind::Withdraw,
            (kind, _) => return Err(WireError::Call(kind)),
        };
        let operands = [16, 24, 32, 40].map(|at| u64_at(bytes, at));
        Ok(Self { kind, number: u64_at(bytes, 8), operands })
    }
}

/// What a daemon answers to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// Number of the call.
    pub number: u64,
    /// The result.
    pub value: u64,
}

impl Return {
    /// As sent.
    pub fn encode(&self) -> [u8; RETURN_BYTES] {
        let mut bytes = [0; RETURN_BYTES];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }

    /// As received.
    pub fn decode(bytes: &[u8; RETURN_BYTES]) -> Self {
        Self { number: u64_at(bytes, 0), value: u64_at(bytes, 8) }
    }
}

/// A message that lets nobody in.
pub fn refusal(answer: Answer) -> [u8; WELCOME_BYTES] {
    let mut bytes = [0; WELCOME_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&(answer as u32).to_le_bytes());
    bytes
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome() -> Welcome {
        let layout = Layout::new(1 << 20, 4096, LineMode::Sequence, 4096).unwrap();
        Welcome { connection: 7, node: 1, nodes: 3, layout, fencing: true }
    }

    #[test]
    fn what_is_sent_is_received() {
        assert_eq!(Welcome::decode(&welcome().encode()), Ok(welcome()));
        assert_eq!(Hello::decode(&Hello { version: 9 }.encode()), Ok(Hello { version: 9 }));
        assert_eq!(Welcome::decode(&refusal(Answer::Full)), Err(WireError::Full));
        assert_eq!(Hello::decode(b"GET / HTTP/1.1\r\n"), Err(WireError::Magic));
        let call = Call { kind: CallKind::Announce, number: 1 << 40, operands: [1, 2, 3, u64::MAX] };
        assert_eq!(Call::decode(&call.encode()), Ok(call));
        assert_eq!(Call::decode(&[7; CALL_BYTES]), Err(WireError::Call(0x0707_0707)));
        let answer = Return { number: 9, value: ACCEPTED };
        assert_eq!(Return::decode(&answer.encode()), answer);
    }

    #[test]
    fn no_single_byte_can_be_wrong_unnoticed_where_it_could_hurt() {
        // Every byte of the layout set to every value: decoding does not panic, and what it lets through is sound.
        let good = welcome().encode();
        for at in 0..WELCOME_BYTES {
            for value in 0..=255 {
                let mut bytes = good;
                bytes[at] = value;
                if let Ok(decoded) = Welcome::decode(&bytes) {
                    assert_eq!(decoded.encode(), bytes);
                    // Less device memory in the same page is a layout, too; nothing reaches past the file.
                    assert_eq!(decoded.layout.file_bytes, welcome().layout.file_bytes, "byte {at} = {value}");
                }
            }
        }
    }
}
