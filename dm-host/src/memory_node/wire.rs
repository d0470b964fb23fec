//! The greeting over a Unix socket, version 3; what both ends say after it is in [`super::message`].
//!
//! ```text
//! Hello    0 head, its number zero                                                                    16 bytes
//! Welcome  0 head, its number an answer  16 connection u32  20 node u16  22 nodes u16
//!         24 region_bytes u64  32 file_bytes u64  40 page_bytes u64  48 device_at u64
//!         56 sequence_at u64   64 slots_at u64    72 device_bytes u32  76 mode u32
//!         80 fencing u32  84 zero u32                                                                 88 bytes
//! ```
//!
//! With [`Answer::Welcome`] comes the region's file descriptor; with any other answer all that follows is zero.

use super::message::{HEAD_BYTES, HeadError, any_head, head, same_head, u16_at, u32_at, u64_at};
use crate::region::{Layout, LineMode};
use thiserror::Error;

/// How each message begins.
pub const MAGIC: [u8; 8] = *b"dm-memd\n";

/// The version spoken here.
pub const VERSION: u32 = 3;

/// Bytes of a [`Hello`].
pub const HELLO_BYTES: usize = HEAD_BYTES;

/// Bytes of a [`Welcome`].
pub const WELCOME_BYTES: usize = 88;

/// Why a message was not understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// What it begins with.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// An answer of no meaning.
    #[error("unknown answer {0}")]
    Answer(u32),
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
        head(MAGIC, self.version, 0)
    }

    /// As received. Any version decodes: the server answers with its own.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Self, WireError> {
        let (version, _) = any_head(bytes, MAGIC)?;
        Ok(Self { version })
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
        match same_head(bytes, MAGIC, VERSION)? {
            0 => {}
            2 => return Err(HeadError::Full.into()),
            answer => return Err(WireError::Answer(answer)),
        }
        let code = u32_at(bytes, 76);
        let mode = LineMode::from_code(code).ok_or_else(|| WireError::Layout(format!("line mode {code}")))?;
        let layout = Layout::new(u64_at(bytes, 24), u32_at(bytes, 72), mode, u64_at(bytes, 40))
            .map_err(|error| WireError::Layout(error.to_string()))?;
        let welcome = Self {
            connection: u32_at(bytes, 16),
            node: u16_at(bytes, 20),
            nodes: u16_at(bytes, 22),
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

/// A message that lets nobody in.
pub fn refusal(answer: Answer) -> [u8; WELCOME_BYTES] {
    let mut bytes = [0; WELCOME_BYTES];
    bytes[..HEAD_BYTES].copy_from_slice(&head(MAGIC, VERSION, answer as u32));
    bytes
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
        assert_eq!(Welcome::decode(&refusal(Answer::Full)), Err(HeadError::Full.into()));
        assert_eq!(Hello::decode(b"GET / HTTP/1.1\r\n"), Err(HeadError::Magic.into()));
        let version = Welcome::decode(refusal(Answer::Version).as_slice().try_into().unwrap());
        assert_eq!(version, Err(WireError::Answer(1)), "of our own version: makes no sense");
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
