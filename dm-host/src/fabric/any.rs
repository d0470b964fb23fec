//! The fabric that reaches a pool, whichever it is.

use super::shm::{ShmError, ShmFabric};
#[cfg(feature = "verbs")]
use super::verbs::{VerbsError, VerbsFabric};
#[cfg(feature = "verbs")]
use crate::memory_node::verbs::client::Peer;
use crate::memory_node::{AnnounceError, RemoteNode};
use crate::region::Region;
use dm_core::fabric::{Fabric, Posted};
use dm_core::lane::Lane;
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::{Capabilities, Guarantees, NodeId};
use std::sync::Arc;
use thiserror::Error;

/// Why there is no fabric.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FabricError {
    /// Shared memory failed.
    #[error(transparent)]
    Shm(#[from] ShmError),
    /// An RDMA device failed, or a memory node behind one.
    #[cfg(feature = "verbs")]
    #[error(transparent)]
    Verbs(#[from] VerbsError),
}

/// A memory node of a pool.
#[derive(Clone, Debug)]
pub enum Node {
    /// Its memory is mapped in this process.
    Shm(Arc<RemoteNode>),
    /// It is behind a network.
    #[cfg(feature = "verbs")]
    Verbs(Arc<Peer>),
}

impl Node {
    /// The mapped node, if its memory is mapped here.
    pub fn shm(&self) -> Option<&Arc<RemoteNode>> {
        match self {
            Self::Shm(node) => Some(node),
            #[cfg(feature = "verbs")]
            Self::Verbs(_) => None,
        }
    }

    /// Its control connection, if it is behind a network.
    #[cfg(feature = "verbs")]
    pub fn verbs(&self) -> Option<&Arc<Peer>> {
        match self {
            Self::Shm(_) => None,
            Self::Verbs(peer) => Some(peer),
        }
    }

    /// Its number.
    pub fn node_id(&self) -> NodeId {
        match self {
            Self::Shm(node) => node.node_id(),
            #[cfg(feature = "verbs")]
            Self::Verbs(peer) => peer.node_id(),
        }
    }

    /// Whether the memory node is down. Once down, a connection stays down.
    pub fn is_down(&self) -> bool {
        match self {
            Self::Shm(node) => node.is_down(),
            #[cfg(feature = "verbs")]
            Self::Verbs(peer) => peer.is_down(),
        }
    }

    /// Takes the memory node for dead: its requests complete with `NodeDown` from now on.
    pub fn mark_down(&self) {
        match self {
            Self::Shm(node) => node.mark_down(),
            #[cfg(feature = "verbs")]
            Self::Verbs(peer) => peer.mark_down(),
        }
    }

    /// Tells the memory node that this process is compute-node row `row`, so that fencing the row stops this process.
    pub fn announce(&self, row: RowId, incarnation: u32) -> Result<(), AnnounceError> {
        match self {
            Self::Shm(node) => node.announce(row, incarnation),
            #[cfg(feature = "verbs")]
            Self::Verbs(peer) => peer.announce(row, incarnation),
        }
    }

    /// Promises that this process writes nothing under that name any more, now or later.
    pub fn withdraw(&self, row: RowId, incarnation: u32) -> Result<(), AnnounceError> {
        match self {
            Self::Shm(node) => node.withdraw(row, incarnation),
            #[cfg(feature = "verbs")]
            Self::Verbs(peer) => peer.withdraw(row, incarnation),
        }
    }

    /// Its memory, if it is mapped here.
    pub fn region(&self) -> Option<&Region> {
        match self {
            Self::Shm(node) => Some(node.region()),
            #[cfg(feature = "verbs")]
            Self::Verbs(_) => None,
        }
    }

    /// What its memory is made of, as far as this process can see.
    pub fn pages(&self) -> String {
        self.region().map_or("as its daemon says".to_owned(), |region| region.pages().to_string())
    }
}

/// One worker's access to the memory nodes of a pool.
#[derive(Debug)]
pub enum AnyFabric {
    /// Shared memory.
    Shm(Box<ShmFabric>),
    /// An RDMA device.
    #[cfg(feature = "verbs")]
    Verbs(Box<VerbsFabric>),
}

impl AnyFabric {
    /// Its name, for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Shm(_) => "shm",
            #[cfg(feature = "verbs")]
            Self::Verbs(_) => "verbs",
        }
    }

    /// The RDMA device it uses, if it uses one.
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::Shm(_) => None,
            #[cfg(feature = "verbs")]
            Self::Verbs(fabric) => Some(fabric.device().name()),
        }
    }

    /// The fabric, if it is shared memory.
    pub fn shm(&self) -> Option<&ShmFabric> {
        match self {
            Self::Shm(fabric) => Some(fabric),
            #[cfg(feature = "verbs")]
            Self::Verbs(_) => None,
        }
    }
}

impl<'m> Fabric<'m> for AnyFabric {
    fn capabilities(&self) -> Capabilities {
        match self {
            Self::Shm(fabric) => fabric.capabilities(),
            #[cfg(feature = "verbs")]
            Self::Verbs(fabric) => fabric.capabilities(),
        }
    }

    fn guarantees(&self) -> Guarantees {
        match self {
            Self::Shm(fabric) => fabric.guarantees(),
            #[cfg(feature = "verbs")]
            Self::Verbs(fabric) => fabric.guarantees(),
        }
    }

    #[inline]
    fn post(&mut self, lanes: &[Lane<'m>], lane: usize) -> Posted {
        match self {
            Self::Shm(fabric) => fabric.post(lanes, lane),
            #[cfg(feature = "verbs")]
            Self::Verbs(fabric) => fabric.post(lanes, lane),
        }
    }

    #[inline]
    fn poll(&mut self, lanes: &[Lane<'m>], ready: &mut dyn FnMut(usize)) {
        match self {
            Self::Shm(fabric) => fabric.poll(lanes, ready),
            #[cfg(feature = "verbs")]
            Self::Verbs(fabric) => fabric.poll(lanes, ready),
        }
    }
}
