//! The way of a memory node's processor to its own region, by its device.
//!
//! ```text
//!  processor ── copy ──► block ── WRITE ──► queue pair ═══ queue pair ──► region ◄── READ ── compute nodes
//!                                           └── both are this process's ──┘
//! ```
//!
//! A change by a call writes a leaf that compute nodes READ meanwhile. What the processor stores by itself is whole for such a READ
//! only word by word: the device may fetch a line between two stores. So the processor has its device WRITE, as a compute node would.
//! All that the profile grants of WRITEs holds then, and nothing has to be known of processors.
//!
//! **A WRITE that fails** may have been executed, or may be still. Both queue pairs are destroyed at once: when that has returned, it
//! is not executed any more. Whether it was, nobody knows, so the call gets no answer ([`OwnPath::take_lost`]).
//!
//! **A stranger** may ask the listener for a connection while a path is made. The request has to repeat a random number that this
//! process has just drawn; others are rejected.

use super::secret::nonce;
use super::wire::Welcome;
use crate::fabric::verbs::cm::{Channel, Id};
use crate::fabric::verbs::device::Device;
use crate::fabric::verbs::memory::Block;
use crate::fabric::verbs::queue_pair::{CompletionQueue, QueuePair, Sizes};
use crate::fabric::verbs::{Patience, VerbsError};
use crate::memory_node::call_server::{ROOM_BYTES, Writes};
use crate::region::Region;
use rdma_sys::{ibv_wc, ibv_wc_status, rdma_cm_event_type};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long connecting to itself may take.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// How long a WRITE may take. A device that works says by itself that a WRITE failed, after the queue pair's retries.
const WRITE_WAIT: Duration = Duration::from_secs(10);

/// Looks for a completion before others get the processor: a software device may need it.
const LOOKS: u32 = 64;

/// Where a path leads.
#[derive(Clone, Debug)]
pub(super) struct Home {
    /// The memory node's device, and its address there.
    pub device: Arc<Device>,
    pub address: IpAddr,
    /// What compute nodes learn, too: where the region is, its keys, and the profile.
    pub welcome: Arc<Welcome>,
    /// The exponent of the largest packet.
    pub mtu: u8,
}

/// See the module's documentation. Rust drops the fields in this order: queue pairs before the memory that they read.
#[derive(Debug)]
pub(super) struct OwnPath {
    /// `None`: a WRITE has failed. The next change makes another one.
    pairs: Option<Pairs>,
    is_lost: bool,
    block: Block,
    home: Home,
}

/// Two queue pairs that are connected to each other.
#[derive(Debug)]
struct Pairs {
    asking: QueuePair,
    _answering: QueuePair,
    _ids: [Id; 2],
    completions: Arc<CompletionQueue>,
}

impl OwnPath {
    /// Connects.
    pub(super) fn new(home: &Home) -> Result<Self, VerbsError> {
        let block = Block::new(&home.device, ROOM_BYTES)?;
        Ok(Self { pairs: Some(Pairs::connect(home)?), is_lost: false, block, home: home.clone() })
    }

    /// Whether a WRITE has failed since this was asked before.
    pub(super) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.is_lost)
    }
}

impl Writes for OwnPath {
    fn write(&mut self, _: &Region, offset: u64, bytes: &[u8]) -> Option<()> {
        let key = self.home.welcome.key(offset, u32::try_from(bytes.len()).ok()?)?;
        if bytes.len() > self.block.bytes() {
            return None;
        }
        if self.pairs.is_none() {
            let connected = Pairs::connect(&self.home);
            self.pairs = connected.inspect_err(|error| tracing::error!("no change by a call: {error}")).ok();
        }
        let pairs = self.pairs.as_mut()?;
        self.block.put(0, bytes);
        // The offset is inside the region, whose end is an address.
        let to = (self.home.welcome.base + offset, key);
        // SAFETY: `block` is dropped after the queue pair. Its bytes change at the next WRITE, before which this one has completed,
        // or its queue pair was destroyed.
        let posted = unsafe { pairs.asking.write(0, &self.block, bytes.len() as u32, to) };
        if posted && pairs.await_write() {
            return Some(());
        }
        self.pairs = None;
        self.is_lost = true;
        None
    }
}

impl Pairs {
    fn connect(home: &Home) -> Result<Self, VerbsError> {
        let listener = Id::new(&Channel::new()?)?;
        listener.bind(SocketAddr::new(home.address, 0))?;
        listener.listen()?;
        let address = SocketAddr::new(home.address, listener.port());
        let deadline = Instant::now() + CONNECT_WAIT;
        let id = Id::new(&Channel::new()?)?;
        id.resolve(Some(SocketAddr::new(home.address, 0)), address, CONNECT_WAIT)?;
        if !id.device()?.is_some_and(|(device, _)| Arc::ptr_eq(&device, &home.device)) {
            let what = "the way to this memory node's own address is not by its device".to_owned();
            return Err(VerbsError::Unreachable { address, what });
        }
        let completions = CompletionQueue::new(&home.device, 1)?;
        let pair = |requests| QueuePair::new(&completions, Sizes { requests, receives: 0, inline_bytes: 0 }, None);
        let (asking, answering) = (pair(1)?, pair(0)?);
        let patience = Patience::of(home.welcome.profile);
        asking.initialise(&id)?;
        let drawn = nonce().map_err(|source| VerbsError::Call {
            doing: "draw a random number for",
            whom: "a connection".to_owned(),
            source,
        })?;
        id.connect(asking.number(), 1, &drawn)?;
        let other = loop {
            let request = listener.expect(rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST, deadline, address)?;
            // SAFETY: the identifier of a connection request just read from this channel.
            let Some(other) = (unsafe { Id::adopt(request.id, listener.channel()) }) else { continue };
            if request.private.starts_with(&drawn) {
                break other;
            }
            other.reject(&[]);
        };
        answering.initialise(&other)?;
        answering.make_ready(&other, home.mtu, patience)?;
        other.accept(answering.number(), 1, &[])?;
        id.expect(rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_RESPONSE, deadline, address)?;
        asking.make_ready(&id, home.mtu, patience)?;
        id.establish()?;
        Ok(Self { asking, _answering: answering, _ids: [id, other], completions })
    }

    /// Waits for the one WRITE that was posted. `false`: it is not known whether it was executed.
    fn await_write(&self) -> bool {
        let until = Instant::now() + WRITE_WAIT;
        let mut completion = [MaybeUninit::<ibv_wc>::uninit()];
        for look in 1_u32.. {
            if self.completions.poll(&mut completion) > 0 {
                // SAFETY: written by the device's library, as `poll` says.
                let status = unsafe { completion[0].assume_init_ref() }.status;
                if status != ibv_wc_status::IBV_WC_SUCCESS {
                    tracing::error!("a WRITE of this memory node to its own region failed: status {status}");
                }
                return status == ibv_wc_status::IBV_WC_SUCCESS;
            }
            if look.is_multiple_of(LOOKS) {
                if Instant::now() > until {
                    tracing::error!("a WRITE of this memory node to its own region does not end");
                    break;
                }
                std::thread::yield_now();
            }
        }
        false
    }
}
