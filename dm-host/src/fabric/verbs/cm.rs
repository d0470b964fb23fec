//! Connection management by librdmacm: from an IP address to a device, a port, a GID and a path.
//!
//! This file moves queue pairs through their states. librdmacm could do it, but gives no control over timeouts and MTU.

use super::device::Device;
use super::{VerbsError, last_error};
use rdma_sys::{
    ibv_qp_attr, ibv_qp_state, rdma_accept, rdma_ack_cm_event, rdma_bind_addr, rdma_cm_event, rdma_cm_event_type,
    rdma_cm_id, rdma_conn_param, rdma_connect, rdma_create_event_channel, rdma_create_id, rdma_destroy_event_channel,
    rdma_destroy_id, rdma_disconnect, rdma_establish, rdma_event_channel, rdma_event_str, rdma_get_cm_event,
    rdma_get_src_port, rdma_init_qp_attr, rdma_listen, rdma_port_space, rdma_reject, rdma_resolve_addr,
    rdma_resolve_route,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A channel on which events arrive.
#[derive(Debug)]
pub(crate) struct Channel(NonNull<rdma_event_channel>);

// SAFETY: librdmacm is thread-safe (rdma_cm(7)); a channel may be read and its identifiers used from any thread.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

/// An event.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Its kind.
    pub kind: rdma_cm_event_type::Type,
    /// The identifier it is of: to compare with [`Id::key`], never to follow.
    pub id: usize,
    /// An errno, or the peer's reason.
    pub status: i32,
    /// Private data of the peer, possibly followed by zeros.
    pub private: Vec<u8>,
    /// READs and atomics in flight that the peer asks for.
    pub reads_asked: u8,
}

impl Event {
    /// Its name, for messages.
    pub fn name(&self) -> String {
        // SAFETY: the function answers with a constant text for any number.
        unsafe { CStr::from_ptr(rdma_event_str(self.kind)) }.to_string_lossy().into_owned()
    }
}

impl Channel {
    pub(crate) fn new() -> Result<Arc<Self>, VerbsError> {
        // SAFETY: no arguments.
        let channel = NonNull::new(unsafe { rdma_create_event_channel() })
            .ok_or_else(|| last_error("open an event channel of", "/dev/infiniband/rdma_cm"))?;
        Ok(Arc::new(Self(channel)))
    }

    /// The descriptor that becomes readable when there is an event.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel is, and `self` is borrowed as long as the answer.
        unsafe { BorrowedFd::borrow_raw((*self.0.as_ptr()).fd) }
    }

    /// The next event, if one comes within `wait`.
    pub(crate) fn next(&self, wait: Duration) -> Result<Option<Event>, VerbsError> {
        let timeout = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: i64::from(wait.subsec_nanos()) };
        match poll(&mut [PollFd::new(&self.fd(), PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(errno) => {
                let whom = "connection manager".to_owned();
                return Err(VerbsError::Call { doing: "wait for the", whom, source: errno.into() });
            }
        }
        let mut event: *mut rdma_cm_event = ptr::null_mut();
        // SAFETY: a live channel, and a place for the answer.
        if unsafe { rdma_get_cm_event(self.0.as_ptr(), &raw mut event) } != 0 {
            return Err(last_error("read an event of", "the connection manager"));
        }
        // SAFETY: a valid event until it is acknowledged below. For the events that carry connection parameters that
        // member of the union is the one set, its private data as long as it says; for others the union is zeros
        // (librdmacm clears the event), so the pointer is null and nothing is read.
        let copy = unsafe {
            let event = &*event;
            let connection = event.param.conn;
            let private = connection.private_data.cast::<u8>();
            let length = usize::from(connection.private_data_len);
            let private =
                if private.is_null() { Vec::new() } else { std::slice::from_raw_parts(private, length).to_vec() };
            Event {
                kind: event.event,
                id: event.id.expose_provenance(),
                status: event.status,
                private,
                reads_asked: connection.responder_resources,
            }
        };
        // SAFETY: got above, acknowledged once. It is acknowledged at once, since destroying an identifier waits for
        // it.
        unsafe { rdma_ack_cm_event(event) };
        Ok(Some(copy))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: created in `new`; every `Id` on it holds an `Arc` of it, so they are gone.
        unsafe { rdma_destroy_event_channel(self.0.as_ptr()) }
    }
}

/// An identifier: one end of a connection, or a listener.
#[derive(Debug)]
pub(crate) struct Id {
    id: NonNull<rdma_cm_id>,
    channel: Arc<Channel>,
}

// SAFETY: see `Channel`.
unsafe impl Send for Id {}
// SAFETY: see `Channel`.
unsafe impl Sync for Id {}

impl Id {
    pub(crate) fn new(channel: &Arc<Channel>) -> Result<Self, VerbsError> {
        let mut id = ptr::null_mut();
        // SAFETY: a live channel, and a place for the answer. The TCP port space is the one for RC queue pairs.
        let failed =
            unsafe { rdma_create_id(channel.0.as_ptr(), &raw mut id, ptr::null_mut(), rdma_port_space::RDMA_PS_TCP) };
        let id = NonNull::new(id).filter(|_| failed == 0);
        let id = id.ok_or_else(|| last_error("make an identifier of", "the connection manager"))?;
        Ok(Self { id, channel: Arc::clone(channel) })
    }

    /// Takes over the identifier that came with a connection request.
    ///
    /// # Safety
    ///
    /// `key` is [`Event::id`] of a connection request read from `channel`, taken over once.
    pub(crate) unsafe fn adopt(key: usize, channel: &Arc<Channel>) -> Option<Self> {
        let id = NonNull::new(ptr::with_exposed_provenance_mut(key))?;
        Some(Self { id, channel: Arc::clone(channel) })
    }

    /// A key that tells identifiers apart.
    pub(crate) fn key(&self) -> usize {
        self.id.as_ptr().expose_provenance()
    }

    pub(crate) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Binds to an address of an RDMA device.
    pub(crate) fn bind(&self, address: SocketAddr) -> Result<(), VerbsError> {
        let mut address_c = c_address(address);
        // SAFETY: a live identifier and a socket address as long as its family says.
        if unsafe { rdma_bind_addr(self.id.as_ptr(), (&raw mut address_c).cast()) } != 0 {
            let source = std::io::Error::last_os_error();
            return Err(VerbsError::Bind { address, source });
        }
        Ok(())
    }

    pub(crate) fn listen(&self) -> Result<(), VerbsError> {
        // SAFETY: a live identifier.
        match unsafe { rdma_listen(self.id.as_ptr(), 128) } {
            0 => Ok(()),
            _ => Err(last_error("listen with", "the connection manager")),
        }
    }

    /// The port number of a bound identifier, which the kernel chose if it was 0.
    pub(crate) fn port(&self) -> u16 {
        // SAFETY: a live identifier.
        u16::from_be(unsafe { rdma_get_src_port(self.id.as_ptr()) })
    }

    /// The device of a bound or connected identifier, and its port.
    pub(crate) fn device(&self) -> Result<Option<(Arc<Device>, u8)>, VerbsError> {
        // SAFETY: a live identifier; librdmacm sets both when it binds it to a device.
        let (context, port) = unsafe { ((*self.id.as_ptr()).verbs, (*self.id.as_ptr()).port_num) };
        // SAFETY: a context of librdmacm.
        NonNull::new(context).map(|context| Ok((unsafe { Device::of(context) }?, port))).transpose()
    }

    /// Finds the device and the path to `address`.
    pub(crate) fn resolve(
        &self,
        source: Option<SocketAddr>,
        address: SocketAddr,
        wait: Duration,
    ) -> Result<(), VerbsError> {
        let wait_ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        let deadline = Instant::now() + wait;
        let unreachable = |what: String| VerbsError::Unreachable { address, what };
        let mut to = c_address(address);
        let mut from = source.map(c_address);
        let from = from.as_mut().map_or(ptr::null_mut(), |from| ptr::from_mut(from).cast());
        // SAFETY: a live identifier and socket addresses as long as their families say.
        if unsafe { rdma_resolve_addr(self.id.as_ptr(), from, (&raw mut to).cast(), wait_ms) } != 0 {
            return Err(unreachable(std::io::Error::last_os_error().to_string()));
        }
        self.expect(rdma_cm_event_type::RDMA_CM_EVENT_ADDR_RESOLVED, deadline, address)?;
        // SAFETY: a live identifier.
        if unsafe { rdma_resolve_route(self.id.as_ptr(), wait_ms) } != 0 {
            return Err(unreachable(std::io::Error::last_os_error().to_string()));
        }
        self.expect(rdma_cm_event_type::RDMA_CM_EVENT_ROUTE_RESOLVED, deadline, address).map(drop)
    }

    /// Waits for an event of that kind; any other event is a failure.
    pub(crate) fn expect(
        &self,
        kind: rdma_cm_event_type::Type,
        deadline: Instant,
        address: SocketAddr,
    ) -> Result<Event, VerbsError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(event) = self.channel.next(left)? else {
                if left.is_zero() {
                    return Err(VerbsError::Unreachable { address, what: "no answer in time".to_owned() });
                }
                continue;
            };
            if event.kind == kind {
                return Ok(event);
            }
            if event.kind == rdma_cm_event_type::RDMA_CM_EVENT_REJECTED {
                return Err(VerbsError::Rejected { address, private: event.private });
            }
            let what = format!("{} ({})", event.name(), std::io::Error::from_raw_os_error(event.status.abs()));
            return Err(VerbsError::Unreachable { address, what });
        }
    }

    /// Asks the peer for a connection.
    pub(crate) fn connect(&self, queue_pair: u32, reads: u8, private: &[u8]) -> Result<(), VerbsError> {
        let mut parameters = parameters(queue_pair, 0, reads, private);
        // SAFETY: a resolved identifier; the parameters and the private data outlive the call.
        match unsafe { rdma_connect(self.id.as_ptr(), &raw mut parameters) } {
            0 => Ok(()),
            _ => Err(last_error("connect by", "the connection manager")),
        }
    }

    /// Tells the peer that this end, whose queue pair is ready to send, is connected.
    pub(crate) fn establish(&self) -> Result<(), VerbsError> {
        // SAFETY: an identifier that got a connection response.
        match unsafe { rdma_establish(self.id.as_ptr()) } {
            0 => Ok(()),
            _ => Err(last_error("complete a connection by", "the connection manager")),
        }
    }

    /// Accepts a connection request with a queue pair that is ready.
    pub(crate) fn accept(&self, queue_pair: u32, reads: u8, private: &[u8]) -> Result<(), VerbsError> {
        let mut parameters = parameters(queue_pair, reads, 0, private);
        // SAFETY: the identifier of a connection request; the parameters and the private data outlive the call.
        match unsafe { rdma_accept(self.id.as_ptr(), &raw mut parameters) } {
            0 => Ok(()),
            _ => Err(last_error("accept a connection by", "the connection manager")),
        }
    }

    /// Rejects a connection request.
    pub(crate) fn reject(&self, private: &[u8]) {
        // SAFETY: the identifier of a connection request; the private data outlives the call.
        unsafe { rdma_reject(self.id.as_ptr(), private.as_ptr().cast(), private.len() as u8) };
    }

    /// Tells the peer that this end disconnects.
    pub(crate) fn disconnect(&self) {
        // SAFETY: a live identifier. One that is not connected is an error without effect.
        unsafe { rdma_disconnect(self.id.as_ptr()) };
    }

    /// The attributes that a queue pair of this connection needs to get into `state`, as the connection manager says.
    pub(super) fn attributes(&self, state: ibv_qp_state::Type) -> Result<(ibv_qp_attr, i32), VerbsError> {
        // SAFETY: plain integers and structures of them, for which zeros are values.
        let mut attributes: ibv_qp_attr = unsafe { MaybeUninit::zeroed().assume_init() };
        attributes.qp_state = state;
        let mut mask = 0;
        // SAFETY: a live identifier, and places for the answer.
        if unsafe { rdma_init_qp_attr(self.id.as_ptr(), &raw mut attributes, &raw mut mask) } != 0 {
            return Err(last_error("learn queue-pair attributes from", "the connection manager"));
        }
        Ok((attributes, mask))
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: created by this process or taken from a connection request, once; its channel lives. Waits until its
        // events are acknowledged, which happens as they are read.
        unsafe { rdma_destroy_id(self.id.as_ptr()) };
    }
}

fn parameters(queue_pair: u32, answers: u8, asks: u8, private: &[u8]) -> rdma_conn_param {
    rdma_conn_param {
        private_data: private.as_ptr().cast(),
        private_data_len: private.len() as u8,
        responder_resources: answers,
        initiator_depth: asks,
        flow_control: 1,
        // Only librdmacm's own queue pairs use this; this file sets the attributes of ours.
        retry_count: 6,
        rnr_retry_count: 6,
        srq: 0,
        qp_num: queue_pair,
    }
}

/// A socket address as in C.
#[repr(C)]
union CAddress {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

fn c_address(address: SocketAddr) -> CAddress {
    match address {
        SocketAddr::V4(address) => CAddress {
            v4: libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            },
        },
        SocketAddr::V6(address) => CAddress {
            v6: libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            },
        },
    }
}
