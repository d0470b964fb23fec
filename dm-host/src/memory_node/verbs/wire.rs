//! The greeting over TCP, and the private data of connection requests; version 3, little-endian. Both ends' messages
//! after the greeting are in `message`.
//!
//! ```text
//!   client                                                      memory node
//!     Hello ──────────────────────────────────────────────────────────►
//!     ◄────────────────────────────────── Challenge, which is a Hello, too
//!     Proof: HMAC-SHA256(secret, "client" nonce nonce)[32] ───────────►
//!     ◄────────── Welcome with a proof of its own, and four bytes per key
//! ```
//!
//! The memory node sends no key of the region before the proof was right. It proves that it knows the secret, too. The
//! nonces of both ends are in both proofs, so that neither end can be made to answer for the other, and no old proof is
//! accepted.
//!
//! librdmacm connects the queue pairs themselves. Its private data (56 bytes at most in a request) is too small for a
//! challenge and its answer, let alone a list of keys. It carries the *ticket* that the welcome gave: a request and its
//! response are a [`Pair`], a refusal is a head with the reason.
//!
//! Nothing here is encrypted, nor are RDMA packets: a party that can read the network can take a queue pair over. The
//! secret keeps out those that can merely connect.

use crate::fabric::verbs::profile::Profile;
use crate::memory_node::message::{Head, HeadError, any_head, same_head};
use dm_core::verbs::Callee;
use thiserror::Error;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

/// How control messages begin.
pub const MAGIC: [u8; 8] = *b"dm-rdma\n";

/// How private data begins.
pub const PAIR_MAGIC: [u8; 8] = *b"dm-pair\n";

/// The version of this protocol.
pub const VERSION: u32 = 3;

/// Bytes of a nonce and of a proof.
pub const PROOF_BYTES: usize = 32;

/// Bytes of a [`Hello`] or a challenge.
pub const HELLO_BYTES: usize = size_of::<HelloFrame>();

/// Bytes of a welcome without its keys.
pub const WELCOME_BYTES: usize = size_of::<WelcomeFrame>();

/// A [`Hello`] as sent; its head's number is an [`Answer`].
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct HelloFrame {
    head: Head,
    nonce: [u8; PROOF_BYTES],
}

/// A [`Welcome`] as sent, before its keys; its head's number is an [`Answer`].
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WelcomeFrame {
    head: Head,
    proof: [u8; PROOF_BYTES],
    ticket: U64,
    node: U16,
    nodes: U16,
    profile: U32,
    region_bytes: U64,
    device_bytes: U32,
    device_key: U32,
    base: U64,
    registration_bytes: U64,
    keys: U64,
    features: U32,
    zero: U32,
}

/// A [`Pair`] as sent; its head's number is the largest packet.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PairFrame {
    head: Head,
    ticket: U64,
    number: U64,
    calls: U32,
    zero: U32,
    serves: U64,
}

const _: () = assert!(HELLO_BYTES == 48 && WELCOME_BYTES == 112 && PAIR_BYTES == 48, "sizes on the wire");

/// Most registrations of one region.
pub const KEYS_MAX: usize = 4096;

/// Reply to a call of a compute node that has been fenced. When the fence happens, it is also sent without a call, with
/// id 0.
pub const FENCED: u64 = 1 << 32;

/// A memory node's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Answer {
    /// To a hello: prove that you know the secret. To a proof: you are let in.
    Yes = 0,
    /// Versions differ.
    Version = 1,
    /// The memory node has too many connections.
    Full = 2,
    /// The proof is wrong.
    Secret = 3,
    /// The memory node asks for no secret.
    Open = 4,
    /// The ticket is not known, or its owner was fenced.
    Ticket = 5,
    /// The device refused: see the memory node's log.
    Device = 6,
}

impl Answer {
    /// The answer of that number.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Yes),
            1 => Some(Self::Version),
            2 => Some(Self::Full),
            3 => Some(Self::Secret),
            4 => Some(Self::Open),
            5 => Some(Self::Ticket),
            6 => Some(Self::Device),
            _ => None,
        }
    }
}

/// Why a message was not understood, or the other end refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The head is wrong.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The secrets differ.
    #[error("the memory node refuses the secret; give both ends the same --secret-file")]
    Secret,
    /// The memory node's proof is wrong.
    #[error("the memory node does not know the secret; give both ends the same --secret-file")]
    Imposter,
    /// A secret was given for a memory node that asks for none.
    #[error("the memory node asks for no secret, though one was given; start it with --secret-file, or give none")]
    Open,
    /// A secret is needed.
    #[error("the memory node asks for a secret; give --secret-file")]
    Needed,
    /// The compute node was fenced.
    #[error(
        "the memory node does not take this compute node any more: it was fenced off, or the memory node restarted"
    )]
    Ticket,
    /// The memory node's device refused.
    #[error("the memory node's device refused; see its log")]
    Device,
    /// A value that no memory node sends.
    #[error("the memory node says {what} = {value}, which makes no sense")]
    Field {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
}

/// A client's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Its version.
    pub version: u32,
    /// In a challenge the memory node's answer; otherwise [`Answer::Yes`].
    pub answer: Answer,
    /// A random number.
    pub nonce: [u8; PROOF_BYTES],
}

impl Hello {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let head = Head::new(MAGIC, self.version, self.answer as u32);
        transmute!(HelloFrame { head, nonce: self.nonce })
    }

    /// Decodes received bytes. Any version decodes.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Self, WireError> {
        let (version, number) = any_head(bytes, MAGIC)?;
        let answer =
            Answer::from_number(number).ok_or(WireError::Field { what: "answer", value: u64::from(number) })?;
        let HelloFrame { nonce, .. } = transmute!(*bytes);
        Ok(Self { version, answer, nonce })
    }
}

/// What a memory node tells a client that it lets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The ticket, which the client's connection requests have to contain.
    pub ticket: u64,
    /// Number of the memory node.
    pub node: u16,
    /// Memory nodes in its pool.
    pub nodes: u16,
    /// The profile of its device.
    pub profile: Profile,
    /// Bytes of its region.
    pub region_bytes: u64,
    /// Bytes of its device memory.
    pub device_bytes: u32,
    /// The key of its device memory, which begins at address 0.
    pub device_key: u32,
    /// Whether its device executes masked atomics.
    pub masked_atomics: bool,
    /// Whether its processor changes leaves for calls, by WRITEs of its device.
    pub calls_change: bool,
    /// Address of its region.
    pub base: u64,
    /// Bytes from the beginning of one registration of the region to that of the next; each reaches [`OVERLAP_BYTES`]
    /// into the next. A power of two.
    pub registration_bytes: u64,
    /// Keys of the registrations.
    pub keys: Vec<u32>,
}

/// How far a registration reaches into the next, so that no request of up to this size needs two keys.
pub const OVERLAP_BYTES: u64 = 2 << 20;

impl Welcome {
    /// The bytes to send.
    pub fn encode(&self, proof: &[u8; PROOF_BYTES]) -> Vec<u8> {
        let frame = WelcomeFrame {
            head: Head::new(MAGIC, VERSION, Answer::Yes as u32),
            proof: *proof,
            ticket: self.ticket.into(),
            node: self.node.into(),
            nodes: self.nodes.into(),
            profile: (self.profile as u32).into(),
            region_bytes: self.region_bytes.into(),
            device_bytes: self.device_bytes.into(),
            device_key: self.device_key.into(),
            base: self.base.into(),
            registration_bytes: self.registration_bytes.into(),
            keys: (self.keys.len() as u64).into(),
            features: (u32::from(self.masked_atomics) | u32::from(self.calls_change) << 1).into(),
            zero: U32::ZERO,
        };
        let mut bytes = frame.as_bytes().to_vec();
        bytes.extend(self.keys.iter().flat_map(|key| key.to_le_bytes()));
        bytes
    }

    /// Decodes the part without keys. Returns how many keys follow.
    pub fn decode(bytes: &[u8; WELCOME_BYTES]) -> Result<(Self, [u8; PROOF_BYTES], usize), WireError> {
        let number = same_head(bytes, MAGIC, VERSION)?;
        match Answer::from_number(number) {
            Some(Answer::Yes) => {}
            Some(Answer::Full) => return Err(HeadError::Full.into()),
            Some(Answer::Secret) => return Err(WireError::Secret),
            _ => return Err(WireError::Field { what: "answer", value: u64::from(number) }),
        }
        let field = |what, value| Err(WireError::Field { what, value });
        let frame: WelcomeFrame = transmute!(*bytes);
        let number = frame.profile.get();
        let Some(profile) = Profile::from_number(number) else { return field("profile", u64::from(number)) };
        let welcome = Self {
            ticket: frame.ticket.get(),
            node: frame.node.get(),
            nodes: frame.nodes.get(),
            profile,
            region_bytes: frame.region_bytes.get(),
            device_bytes: frame.device_bytes.get(),
            device_key: frame.device_key.get(),
            masked_atomics: frame.features.get() & 1 != 0,
            calls_change: frame.features.get() & 2 != 0,
            base: frame.base.get(),
            registration_bytes: frame.registration_bytes.get(),
            keys: Vec::new(),
        };
        let Self { registration_bytes, region_bytes, .. } = welcome;
        if welcome.node >= welcome.nodes {
            return field("node", u64::from(welcome.node));
        }
        if !registration_bytes.is_power_of_two() || registration_bytes < OVERLAP_BYTES {
            return field("registration_bytes", registration_bytes);
        }
        if region_bytes == 0 || welcome.base.checked_add(region_bytes).is_none() {
            return field("region_bytes", region_bytes);
        }
        let keys = frame.keys.get();
        if keys > KEYS_MAX as u64 || keys != region_bytes.div_ceil(registration_bytes) {
            return field("keys", keys);
        }
        Ok((welcome, frame.proof, keys as usize))
    }

    /// The key that names `bytes` bytes at `offset`; `None` if they are not in the region or in no single registration.
    #[inline]
    pub fn key(&self, offset: u64, bytes: u32) -> Option<u32> {
        let bytes = u64::from(bytes);
        if bytes > OVERLAP_BYTES || offset.checked_add(bytes)? > self.region_bytes {
            return None;
        }
        self.keys.get((offset >> self.registration_bytes.trailing_zeros()) as usize).copied()
    }
}

/// A message that lets no client in, in place of a challenge or a welcome.
pub fn refusal(answer: Answer) -> [u8; WELCOME_BYTES] {
    let head = Head::new(MAGIC, VERSION, answer as u32);
    transmute!(WelcomeFrame { head, ..WelcomeFrame::new_zeroed() })
}

/// Private data of a connection request or of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The exponent of the largest packet of this end: 1..=5 for 256 to 4096 bytes.
    pub mtu: u8,
    /// The ticket; 0 in a response.
    pub ticket: u64,
    /// The client's number for the queue pair; 0 in a response.
    pub number: u64,
    /// In a request, how many calls the client would like to have under way; in a response, how many it may have.
    pub calls: u32,
    /// In a request, the callee whose calls are passed on by this queue pair, for its client to serve; the memory node: none.
    pub serves: Callee,
}

/// Bytes of a [`Pair`].
pub const PAIR_BYTES: usize = size_of::<PairFrame>();

impl Pair {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; PAIR_BYTES] {
        let head = Head::new(PAIR_MAGIC, VERSION, u32::from(self.mtu));
        let (ticket, number, calls) = (self.ticket.into(), self.number.into(), self.calls.into());
        transmute!(PairFrame { head, ticket, number, calls, zero: U32::ZERO, serves: self.serves.0.into() })
    }

    /// Decodes received bytes; zeros may follow.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let Some(bytes) = bytes.first_chunk::<PAIR_BYTES>() else { return Err(HeadError::Magic.into()) };
        let mtu = same_head(bytes, PAIR_MAGIC, VERSION)?;
        if !(1..=5).contains(&mtu) {
            return Err(WireError::Field { what: "mtu", value: u64::from(mtu) });
        }
        let PairFrame { ticket, number, calls, serves, .. } = transmute!(*bytes);
        let serves = Callee(serves.get());
        Ok(Self { mtu: mtu as u8, ticket: ticket.get(), number: number.get(), calls: calls.get(), serves })
    }
}

/// Private data of a refused connection request.
pub fn pair_refusal(answer: Answer) -> Head {
    Head::new(PAIR_MAGIC, VERSION, answer as u32)
}

/// Why a connection request was refused, by its private data.
pub fn decode_pair_refusal(bytes: &[u8]) -> Option<WireError> {
    let (theirs, number) = any_head(bytes, PAIR_MAGIC).ok()?;
    Some(match Answer::from_number(number)? {
        Answer::Version => HeadError::Version { theirs, ours: VERSION }.into(),
        Answer::Ticket => WireError::Ticket,
        Answer::Full => HeadError::Full.into(),
        _ => WireError::Device,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome() -> Welcome {
        Welcome {
            ticket: 77,
            node: 1,
            nodes: 3,
            profile: Profile::SoftRoce,
            region_bytes: (8 << 20) + 4096,
            device_bytes: 0,
            device_key: 0,
            masked_atomics: true,
            calls_change: true,
            base: 0x7000_0000_0000,
            registration_bytes: 4 << 20,
            keys: vec![5, 6, 7],
        }
    }

    #[test]
    fn what_is_sent_is_received() {
        let bytes = welcome().encode(&[9; 32]);
        let (mut decoded, proof, keys) = Welcome::decode(bytes.first_chunk().unwrap()).unwrap();
        decoded.keys =
            bytes[WELCOME_BYTES..].chunks_exact(4).map(|key| u32::from_le_bytes(key.try_into().unwrap())).collect();
        assert_eq!((decoded, proof, keys), (welcome(), [9; 32], 3));
        let pair = Pair { mtu: 3, ticket: 1 << 60, number: 9, calls: 16, serves: Callee::compute_node(5, 2) };
        assert_eq!(Pair::decode(&pair.encode()), Ok(pair));
        assert_eq!(decode_pair_refusal(pair_refusal(Answer::Ticket).as_bytes()), Some(WireError::Ticket));
        let refused = Welcome::decode(&refusal(Answer::Secret));
        assert_eq!(refused, Err(WireError::Secret));
    }

    #[test]
    fn a_request_finds_the_one_registration_that_holds_all_of_it() {
        let welcome = welcome();
        assert_eq!(welcome.key(0, 8), Some(5));
        assert_eq!(welcome.key((4 << 20) - 4, 1024), Some(5), "reaches into the next by less than the overlap");
        assert_eq!(welcome.key(4 << 20, 1024), Some(6));
        assert_eq!(welcome.key((8 << 20) + 4095, 1), Some(7));
        assert_eq!(welcome.key((8 << 20) + 4095, 2), None);
        assert_eq!(welcome.key(u64::MAX, 2), None);
        assert_eq!(welcome.key(0, 3 << 20), None);
    }

    #[test]
    fn bytes_of_any_content_are_an_error_or_sound() {
        let good = welcome().encode(&[0; 32]);
        for at in 0..WELCOME_BYTES {
            for value in 0..=255 {
                let mut bytes: [u8; WELCOME_BYTES] = *good.first_chunk().unwrap();
                bytes[at] = value;
                if let Ok((decoded, _, keys)) = Welcome::decode(&bytes) {
                    assert!(keys <= KEYS_MAX && decoded.node < decoded.nodes);
                    assert!(keys as u64 * decoded.registration_bytes >= decoded.region_bytes);
                }
            }
        }
        assert_eq!(Hello::decode(&[0; HELLO_BYTES]), Err(HeadError::Magic.into()));
        assert!(Pair::decode(b"short").is_err());
    }
}
