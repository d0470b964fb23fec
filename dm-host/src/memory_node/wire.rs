//! The greeting over a Unix socket, version 5; both ends' messages after it are in `message`.
//!
//! [`Answer::Welcome`] comes with the region's file descriptor, and with that of the slots for calls, if it says so; with any other answer all that follows is zero.

use super::message::{Head, HeadError, any_head, same_head};
use crate::region::{Layout, LineMode};
use thiserror::Error;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

/// How each message begins.
pub const MAGIC: [u8; 8] = *b"dm-memd\n";

/// The version of this protocol.
pub const VERSION: u32 = 5;

/// Bytes of a [`Hello`].
pub const HELLO_BYTES: usize = size_of::<Head>();

/// Bytes of a [`Welcome`].
pub const WELCOME_BYTES: usize = size_of::<WelcomeFrame>();

/// A [`Welcome`] as sent; its head's number is an [`Answer`].
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WelcomeFrame {
    head: Head,
    connection: U32,
    node: U16,
    nodes: U16,
    region_bytes: U64,
    file_bytes: U64,
    page_bytes: U64,
    device_at: U64,
    sequence_at: U64,
    slots_at: U64,
    device_bytes: U32,
    mode: U32,
    fencing: U32,
    calls: U32,
}

const _: () = assert!(HELLO_BYTES == 16 && WELCOME_BYTES == 88, "sizes on the wire");

/// Why a message was not understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The head is wrong.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The answer has no meaning.
    #[error("unknown answer {0}")]
    Answer(u32),
    /// A layout that this release would not make from the same sizes.
    #[error("the memory node's layout is impossible: {0}")]
    Layout(String),
}

/// A client's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The client's version.
    pub version: u32,
}

impl Hello {
    /// The bytes to send.
    pub fn encode(self) -> [u8; HELLO_BYTES] {
        transmute!(Head::new(MAGIC, self.version, 0))
    }

    /// Decodes received bytes. Any version decodes: the server answers with its own.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Self, WireError> {
        let (version, _) = any_head(bytes, MAGIC)?;
        Ok(Self { version })
    }
}

/// A server's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Answer {
    /// The client is let in.
    Welcome = 0,
    /// Versions differ.
    Version = 1,
    /// The server has too many connections.
    Full = 2,
}

/// What a server tells a client that it lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Number of this connection, which a daemon never uses twice; not 0.
    pub connection: u32,
    /// Number of the memory node.
    pub node: u16,
    /// Memory nodes in its pool.
    pub nodes: u16,
    /// Layout of the file that is sent along.
    pub layout: Layout,
    /// Whether the daemon could kill this process, and verify that it is gone.
    pub fencing: bool,
    /// Whether the daemon answers calls: the file with the slots for them comes along.
    pub calls: bool,
}

impl Welcome {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; WELCOME_BYTES] {
        let Layout { region_bytes, device_bytes, mode, page_bytes, device_at, sequence_at, slots_at, file_bytes } =
            self.layout;
        transmute!(WelcomeFrame {
            head: Head::new(MAGIC, VERSION, Answer::Welcome as u32),
            connection: self.connection.into(),
            node: self.node.into(),
            nodes: self.nodes.into(),
            region_bytes: region_bytes.into(),
            file_bytes: file_bytes.into(),
            page_bytes: page_bytes.into(),
            device_at: device_at.into(),
            sequence_at: sequence_at.into(),
            slots_at: slots_at.into(),
            device_bytes: device_bytes.into(),
            mode: mode.code().into(),
            fencing: u32::from(self.fencing).into(),
            calls: u32::from(self.calls).into(),
        })
    }

    /// Decodes received bytes. The result is sound: its layout is one that [`Layout::new`] makes.
    pub fn decode(bytes: &[u8; WELCOME_BYTES]) -> Result<Self, WireError> {
        match same_head(bytes, MAGIC, VERSION)? {
            0 => {}
            2 => return Err(HeadError::Full.into()),
            answer => return Err(WireError::Answer(answer)),
        }
        let frame: WelcomeFrame = transmute!(*bytes);
        let code = frame.mode.get();
        let mode = LineMode::from_code(code).ok_or_else(|| WireError::Layout(format!("line mode {code}")))?;
        let layout = Layout::new(frame.region_bytes.get(), frame.device_bytes.get(), mode, frame.page_bytes.get())
            .map_err(|error| WireError::Layout(error.to_string()))?;
        let welcome = Self {
            connection: frame.connection.get(),
            node: frame.node.get(),
            nodes: frame.nodes.get(),
            layout,
            fencing: frame.fencing == 1,
            calls: frame.calls == 1,
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

/// A message that lets no client in.
pub fn refusal(answer: Answer) -> [u8; WELCOME_BYTES] {
    let head = Head::new(MAGIC, VERSION, answer as u32);
    transmute!(WelcomeFrame { head, ..WelcomeFrame::new_zeroed() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome() -> Welcome {
        let layout = Layout::new(1 << 20, 4096, LineMode::Sequence, 4096).unwrap();
        Welcome { connection: 7, node: 1, nodes: 3, layout, fencing: true, calls: true }
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
        // Every byte of the layout is set to every value: decoding does not panic, and the layouts it accepts are
        // sound.
        let good = welcome().encode();
        for at in 0..WELCOME_BYTES {
            for value in 0..=255 {
                let mut bytes = good;
                bytes[at] = value;
                if let Ok(decoded) = Welcome::decode(&bytes) {
                    assert_eq!(decoded.encode(), bytes);
                    // Less device memory in the same page is a valid layout, too; nothing reaches past the file.
                    assert_eq!(decoded.layout.file_bytes, welcome().layout.file_bytes, "byte {at} = {value}");
                }
            }
        }
    }
}
