//! Accounts for memory. Every node of every chunk granted to the index is reached, ready, in a lane's stock, or retired
//! for good. Any other node is leaked.

use dm_core::verbs::NodeId;
use std::fmt;

/// A place for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_field_names, reason = "a node of an index on a memory node")]
pub struct Node {
    /// The memory node.
    pub node: NodeId,
    /// Its first byte there.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
}

/// A granted chunk. It consists of nodes of one size from its first byte on, or, where nodes differ in size, of units
/// of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chunk {
    /// The memory node.
    pub node: NodeId,
    /// Its first byte there.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
    /// Size of its nodes, or of the units they are made of.
    pub node_bytes: u64,
    /// They are made of units.
    pub is_of_units: bool,
    /// They are pieces of any size: blocks of items.
    pub is_of_pieces: bool,
}

/// Pieces of any size are multiples of this.
pub const UNIT_BYTES: u64 = 16;

/// The index as it is found in remote memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Chunks granted to the index.
    pub chunks: Vec<Chunk>,
    /// Nodes reached from the root, every one once.
    pub reached: Vec<Node>,
}

/// Sums, in nodes, or in units of chunks of units; of one history or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Nodes the granted chunks have room for.
    pub granted: u64,
    /// Reached from the root.
    pub reached: u64,
    /// Ready on free lists or in stocks.
    pub ready: u64,
    /// Out of the index, and not to be used again.
    pub retired: u64,
    /// None of these: lost until the pool is swept.
    pub leaked: u64,
    /// Of these, in chunks for pieces of any size.
    pub leaked_pieces: u64,
}

impl Account {
    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.granted += other.granted;
        self.reached += other.reached;
        self.ready += other.ready;
        self.retired += other.retired;
        self.leaked += other.leaked;
        self.leaked_pieces += other.leaked_pieces;
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { granted, reached, ready, retired, leaked, .. } = self;
        write!(f, "{granted} nodes granted = {reached} reached + {ready} ready + {retired} retired + {leaked} leaked")
    }
}

/// Draws up the account. `retired_bytes`: bytes in chunks of units that compute nodes took out of the index for good.
/// The error names a place that is claimed twice, or a claimed place outside every granted chunk.
pub fn account(holdings: &Holdings, ready: &[Node], retired_bytes: u64) -> Result<Account, String> {
    let mut chunks = holdings.chunks.clone();
    chunks.sort_unstable();
    let reached = holdings.reached.iter().map(|node| (*node, "reached"));
    let mut claims: Vec<(Node, &str)> = reached.chain(ready.iter().map(|node| (*node, "ready"))).collect();
    claims.sort_unstable();
    for pair in claims.windows(2) {
        let [(one, how), (other, also)] = pair else { continue };
        if one.node == other.node && one.offset + one.bytes > other.offset {
            return Err(format!(
                "the node at {}:{:#x} is {how}, and the one at {}:{:#x} in the same place is {also}",
                one.node.0, one.offset, other.node.0, other.offset
            ));
        }
    }
    let pieces = chunks.iter().filter(|chunk| chunk.is_of_pieces);
    let mut leaked_pieces: u64 = pieces.map(|chunk| chunk.bytes / chunk.node_bytes).sum();
    let (mut reached, mut ready) = (0, 0);
    for (node, how) in &claims {
        let home = chunks.partition_point(|chunk| (chunk.node, chunk.offset) <= (node.node, node.offset));
        let home = home.checked_sub(1).map(|at| chunks[at]).filter(|chunk| {
            chunk.node == node.node
                && node.offset + node.bytes <= chunk.offset + chunk.bytes
                && (chunk.node_bytes == node.bytes || chunk.is_of_units && node.bytes.is_multiple_of(chunk.node_bytes))
        });
        let Some(home) = home else {
            return Err(format!(
                "the node of {} bytes at {}:{:#x} is {how}, and no chunk for such nodes was granted there",
                node.bytes, node.node.0, node.offset
            ));
        };
        let count = node.bytes / home.node_bytes;
        *(if *how == "ready" { &mut ready } else { &mut reached }) += count;
        if home.is_of_pieces {
            leaked_pieces -= count;
        }
    }
    let granted: u64 = chunks.iter().map(|chunk| chunk.bytes / chunk.node_bytes).sum();
    let unit_bytes = chunks.iter().find(|chunk| chunk.is_of_units).map_or(1, |chunk| chunk.node_bytes);
    let retired = retired_bytes / unit_bytes;
    // Every claim lies in a chunk and none overlap, so there are no more of them than room.
    let leaked = (granted - reached - ready).checked_sub(retired).ok_or_else(|| {
        format!("{granted} units granted, {reached} reached, {ready} ready, and {retired} are said to be retired")
    })?;
    Ok(Account { granted, reached, ready, retired, leaked, leaked_pieces })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn node(offset: u64) -> Node {
        Node { node: NodeId(0), offset, bytes: 128 }
    }

    fn holdings(reached: &[Node]) -> Holdings {
        let chunk = Chunk {
            node: NodeId(0),
            offset: 4096,
            bytes: 1024,
            node_bytes: 128,
            is_of_units: false,
            is_of_pieces: false,
        };
        Holdings { chunks: vec![chunk], reached: reached.to_vec() }
    }

    #[test]
    fn what_is_neither_reached_nor_ready_has_leaked() {
        let account = account(&holdings(&[node(4096), node(4224)]), &[node(4992)], 0);
        assert_eq!(account, Ok(Account { granted: 8, reached: 2, ready: 1, retired: 0, leaked: 5, leaked_pieces: 0 }));
    }

    #[test]
    fn units_are_counted_where_nodes_differ_in_size() {
        let mut holdings = holdings(&[node(4096), Node { bytes: 48, ..node(4224) }]);
        (holdings.chunks[0].node_bytes, holdings.chunks[0].is_of_units) = (16, true);
        let rest = Node { bytes: 512, ..node(4608) };
        let found = account(&holdings, &[rest], 80);
        assert_eq!(
            found,
            Ok(Account { granted: 64, reached: 11, ready: 32, retired: 5, leaked: 16, leaked_pieces: 0 })
        );
        assert!(account(&holdings, &[rest], 1024).is_err(), "more than there is");
        assert!(account(&holdings, &[Node { bytes: 40, ..rest }], 0).is_err(), "half a unit");
    }

    #[test]
    fn a_place_has_one_use() {
        let twice = account(&holdings(&[node(4096)]), &[node(4096)], 0).expect_err("reached and ready");
        assert!(twice.contains("reached") && twice.contains("ready"), "{twice}");
        assert!(account(&holdings(&[node(4096), node(4160)]), &[], 0).is_err(), "they overlap");
        assert!(account(&holdings(&[node(8192)]), &[], 0).is_err(), "nobody was granted that");
        assert!(account(&holdings(&[Node { bytes: 256, ..node(4096) }]), &[], 0).is_err(), "of another size");
    }
}
