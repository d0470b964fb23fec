//! Why a device, a connection or a fabric cannot be had.

use crate::memory_node::verbs::client::PeerError;
use crate::memory_node::verbs::secret::SecretError;
use crate::memory_node::verbs::wire::WireError;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Why a device, a connection or a fabric cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// No memory nodes.
    #[error("a pool needs at least one memory node")]
    NoNodes,
    /// Memory nodes are addressed by position.
    #[error("memory node {found} stands where memory node {expected} belongs")]
    Order {
        /// The position.
        expected: u16,
        /// The number of the node there.
        found: u16,
    },
    /// One is missing.
    #[error("{given} memory nodes are connected, memory node {node} belongs to a pool of {pool}")]
    Count {
        /// Connected.
        given: usize,
        /// Who says otherwise.
        node: u16,
        /// What it says.
        pool: u16,
    },
    /// Control connection.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// Secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A call failed.
    #[error("cannot {doing} {whom}: {source}")]
    Call {
        /// What was tried.
        doing: &'static str,
        /// With what.
        whom: String,
        /// Why not.
        source: io::Error,
    },
    /// No device has the address.
    #[error("cannot bind to {address}: {source}; {}", addresses())]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// A registration was refused.
    #[error(
        "{device} cannot register {bytes} bytes: {source}; see `dm doctor` for its limits and those of this process"
    )]
    Register {
        /// The device.
        device: String,
        /// How many.
        bytes: u64,
        /// Why not.
        source: io::Error,
    },
    /// More than the device registers at once.
    #[error(
        "a region of {bytes} bytes in registrations of {piece} bytes: {device} registers at most {max} bytes at once; use --registration-size"
    )]
    RegistrationSize {
        /// The device.
        device: String,
        /// Of the region.
        bytes: u64,
        /// Of one registration.
        piece: u64,
        /// The limit.
        max: u64,
    },
    /// RLIMIT_MEMLOCK.
    #[error(
        "{needed} bytes would be locked, this process may lock {limit}; run `ulimit -l unlimited` as root, or set LimitMEMLOCK=infinity in its unit"
    )]
    LockedMemory {
        /// With what is locked already.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// No way there.
    #[error("{address}: no RDMA path: {what}; see `dm doctor`")]
    Unreachable {
        /// Where.
        address: SocketAddr,
        /// Why not.
        what: String,
    },
    /// The connection manager of the other end said no.
    #[error("{address}: the connection was rejected by something that is not a memory node of this release")]
    Rejected {
        /// Where.
        address: SocketAddr,
        /// What it said.
        private: Vec<u8>,
    },
    /// The memory node said no.
    #[error("{address}: {source}")]
    Refused {
        /// Where.
        address: String,
        /// Why.
        source: WireError,
    },
    /// Memory nodes are reached by different devices.
    #[error("memory node {address} is reached by {found}, the first one by {first}; name one device with --ib-dev")]
    Devices {
        /// Which.
        address: String,
        /// Its device.
        found: String,
        /// The first one's.
        first: String,
    },
    /// No atomics.
    #[error("{device} has no atomics (atomic_cap is NONE), and locks need them")]
    NoAtomics {
        /// The device.
        device: String,
    },
    /// Port not active.
    #[error("port {port} of {device} is down; see `ip link` or `ibstat`, and `dm doctor`")]
    PortDown {
        /// The device.
        device: String,
        /// Its port.
        port: u8,
    },
    /// A packet size that the port does not have.
    #[error("--mtu {asked}: the active MTU of {device} is {active}; give at most that, or raise the interface's")]
    Mtu {
        /// The device.
        device: String,
        /// Asked for, in bytes.
        asked: u32,
        /// What the port has, in bytes.
        active: u32,
    },
    /// A name, number or address that is not there.
    #[error("{0}")]
    Choice(String),
}

/// An error of a call that sets `errno`.
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
