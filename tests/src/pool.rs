//! A small pool in the memory of a simulated fabric, formatted and ready for an index.

use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::Member;
use dm_core::verbs::{Capabilities, Guarantees};
use dm_host::assembly::Place;
use dm_sim::{Config, Memories, pool};

/// A formatted pool's description.
pub struct Pool {
    /// The fabric it is for.
    pub config: Config,
    /// Where things are, per memory node.
    pub geometry: Vec<NodeGeometry>,
    simulated: pool::Pool,
}

impl Pool {
    /// Plans a pool on the memory nodes of `config`, with chunks of 4 KiB and few lock words, so that chunks run out
    /// and locks are shared often.
    pub fn new(config: &Config) -> Self {
        Self::with(config, 4096, 61)
    }

    /// As [`Pool::new`], with chunks of `chunk_bytes` and `lock_count` lock words per memory node.
    pub fn with(config: &Config, chunk_bytes: u64, lock_count: u32) -> Self {
        let pool = pool::Pool::new(config, chunk_bytes, lock_count).expect("a test asks for a pool that can be");
        Self { config: config.clone(), geometry: pool.geometry().to_vec(), simulated: pool }
    }

    /// The bytes at offset 0 of each memory node.
    pub fn superblocks(&self) -> impl Iterator<Item = &[u8]> {
        self.simulated.superblocks()
    }

    /// Writes the superblocks into zeroed memories.
    pub fn format(&self, memories: &mut Memories) {
        self.simulated.format(memories);
    }

    /// How compute node `number` (0-based) opens index 0.
    pub fn place(&self, number: u16) -> Place<'_> {
        place(&self.geometry, number, self.config.capabilities(), self.config.guarantees())
    }
}

/// How compute node `number` (0-based) opens index 0 of a pool.
pub fn place(geometry: &[NodeGeometry], number: u16, capabilities: Capabilities, guarantees: Guarantees) -> Place<'_> {
    Place {
        geometry,
        number: IndexNumber::new(0).expect("the first entry"),
        member: Member { row: RowId(number + 1), incarnation: 1, nonce: 1 },
        capabilities,
        guarantees,
        recovery: None,
        requests: None,
        layers: None,
        given_up: None,
        first_sequence: 1,
        epochs: None,
    }
}
