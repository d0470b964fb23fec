//! No index at all: an operation is one READ. What is left is the NIC, the link and the thread.

use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::operation::{Census, OpError, Operation, Outcome, ScratchPlan};
use dm_core::recovery::Swept;
use dm_core::remote::catalog::IndexSet;
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::{Assumptions, Label, NodeId, Request};

/// READs of so many bytes at places chosen by the key, all over the memories.
#[derive(Clone, Debug)]
pub struct RawReads {
    plan: ScratchPlan,
    bytes: usize,
    /// Places per memory node.
    places: u64,
    memory_nodes: u64,
}

impl RawReads {
    /// READs of `bytes` bytes, at least 8 and at most what a memory node has (`host_bytes`).
    pub fn new(bytes: usize, host_bytes: usize, memory_nodes: usize) -> Self {
        let key = 0..8;
        let value = 64..72;
        let empty = 72..72;
        let plan = ScratchPlan {
            key_bytes: 8,
            value_bytes: 8,
            key,
            key_high: empty.clone(),
            value: value.clone(),
            expected: empty.clone(),
            output: value,
            page: empty,
            lengths: 0..0,
            total_bytes: (128 + bytes).next_multiple_of(64),
        };
        let stride = bytes.next_multiple_of(64).max(64);
        Self { plan, bytes, places: (host_bytes / stride).max(1) as u64, memory_nodes: memory_nodes as u64 }
    }

    /// Bytes of a READ.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

const NOTHING: OpError =
    OpError::harmless(dm_core::operation::Cause::BadInput("raw READs have no index: only look-ups can be run"));

impl Index for RawReads {
    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }

    fn assumptions(&self) -> Assumptions {
        Assumptions::empty()
    }

    /// The outcome is always `Absent`: what the READ returned is not looked at.
    async fn execute<'a>(&'a self, lane: &'a Lane<'_>, _: Operation) -> Result<Outcome, OpError> {
        let number = lane.port().with(|scratch| {
            let mut word = [0; 8];
            word.copy_from_slice(&scratch[..8]);
            u64::from_le_bytes(word)
        });
        let node = NodeId((number % self.memory_nodes) as u16);
        let stride = self.bytes.next_multiple_of(64).max(64) as u64;
        let offset = number / self.memory_nodes % self.places * stride;
        lane.port().call(Request::read(Label::Tool, node, offset, self.bytes, 128)).await?;
        Ok(Outcome::Absent)
    }

    async fn settle<'a>(&'a self, _: &'a Lane<'_>) -> Result<(), OpError> {
        Ok(())
    }

    async fn validate<'a>(&'a self, _: &'a Lane<'_>) -> Result<Census, OpError> {
        Err(NOTHING)
    }

    async fn bulk_append<'a>(&'a self, _: &'a Lane<'_>) -> Result<(), OpError> {
        Err(NOTHING)
    }

    async fn bulk_finish<'a>(&'a self, _: &'a Lane<'_>) -> Result<(), OpError> {
        Err(NOTHING)
    }

    async fn sweep<'a>(&'a self, _: &'a Lane<'_>, _: RowId, _: IndexSet) -> Result<Swept, OpError> {
        Err(NOTHING)
    }
}
