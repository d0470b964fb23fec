//! Compute nodes: the senders of requests.

/// A compute node, 0-based.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeNode(pub u16);
