//! Why a device, a connection or a fabric is not available.

use crate::memory_node::verbs::client::PeerError;
use crate::memory_node::verbs::secret::SecretError;
use crate::memory_node::verbs::wire::WireError;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Why a device, a connection or a fabric is not available.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// The list of memory nodes is empty.
    #[error("a pool needs at least one memory node")]
    NoNodes,
    /// A memory node is not at the position of its number.
    #[error("memory node {found} stands where memory node {expected} belongs")]
    Order {
        /// The position in the list.
        expected: u16,
        /// The number of the memory node at that position.
        found: u16,
    },
    /// A memory node is missing.
    #[error("{given} {} connected, memory node {node} belongs to a pool of {pool}", if *given == 1 { "memory node is" } else { "memory nodes are" })]
    Count {
        /// Memory nodes that are connected.
        given: usize,
        /// The memory node that says otherwise.
        node: u16,
        /// Memory nodes of the pool, as that memory node says.
        pool: u16,
    },
    /// The control connection failed.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The secret is not usable.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A call of a library failed.
    #[error("cannot {doing} {whom}: {source}")]
    Call {
        /// What was tried.
        doing: &'static str,
        /// What it was tried with.
        whom: String,
        /// The reason.
        source: io::Error,
    },
    /// No device has the address.
    #[error("cannot bind to {address}: {source}; {}", addresses())]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// A registration was refused.
    #[error(
        "{device} cannot register {bytes} bytes: {source}; see `dm doctor` for its limits and those of this process"
    )]
    Register {
        /// The device.
        device: String,
        /// Bytes of the registration.
        bytes: u64,
        /// The reason.
        source: io::Error,
    },
    /// The region needs a larger registration than the device takes.
    #[error(
        "a region of {bytes} bytes in registrations of {piece} bytes: {device} registers at most {max} bytes at once; use --registration-size"
    )]
    RegistrationSize {
        /// The device.
        device: String,
        /// Bytes of the region.
        bytes: u64,
        /// Bytes of one registration.
        piece: u64,
        /// The device's limit.
        max: u64,
    },
    /// RLIMIT_MEMLOCK is too low.
    #[error(
        "{needed} bytes would be locked, this process may lock {limit}; run `ulimit -l unlimited` as root, or set LimitMEMLOCK=infinity in its unit"
    )]
    LockedMemory {
        /// Bytes needed, with those that are locked already.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// There is no path to the address.
    #[error("{address}: no RDMA path: {what}; see `dm doctor`")]
    Unreachable {
        /// The address.
        address: SocketAddr,
        /// The reason.
        what: String,
    },
    /// The connection manager at the other end rejected the connection.
    #[error("{address}: the connection was rejected by something that is not a memory node of this release")]
    Rejected {
        /// The address.
        address: SocketAddr,
        /// The private data of the rejection.
        private: Vec<u8>,
    },
    /// The memory node refused.
    #[error("{address}: {source}")]
    Refused {
        /// Its address.
        address: String,
        /// The reason.
        source: WireError,
    },
    /// Memory nodes are reached by different devices.
    #[error("memory node {address} is reached by {found}, the first one by {first}; name one device with --ib-dev")]
    Devices {
        /// The address of the one that differs.
        address: String,
        /// Its device.
        found: String,
        /// The device of the first one.
        first: String,
    },
    /// The device has no atomics.
    #[error("{device} has no atomics (atomic_cap is NONE), and locks need them")]
    NoAtomics {
        /// The device.
        device: String,
    },
    /// The port is not active.
    #[error("port {port} of {device} is down; see `ip link` or `ibstat`, and `dm doctor`")]
    PortDown {
        /// The device.
        device: String,
        /// Its port.
        port: u8,
    },
    /// The port has a smaller packet size.
    #[error("--mtu {asked}: the active MTU of {device} is {active}; give at most that, or raise the interface's")]
    Mtu {
        /// The device.
        device: String,
        /// The packet size that was asked for, in bytes.
        asked: u32,
        /// The port's packet size, in bytes.
        active: u32,
    },
    /// A name, number or address does not exist.
    #[error("{0}")]
    Choice(String),
}

/// The error of a call that has set `errno`.
pub(crate) fn last_error(doing: &'static str, whom: &str) -> VerbsError {
    VerbsError::Call { doing, whom: whom.to_owned(), source: io::Error::last_os_error() }
}

/// The addresses that RDMA devices of this machine have, as advice.
fn addresses() -> String {
    let found: Vec<_> = crate::fabric::devices::list()
        .into_iter()
        .flat_map(|device| device.ports.into_iter().flat_map(|port| port.gids))
        .filter_map(|gid| gid.address())
        .map(|address| address.to_string())
        .collect();
    if found.is_empty() {
        "no RDMA device of this machine has an IP address; see `dm doctor`".to_owned()
    } else {
        format!("RDMA devices of this machine have {}", found.join(", "))
    }
}
