//! What a memory node is made of: host memory and device memory, and the effect of one verb on one place.
//!
//! Every change marks its 4 KiB page, so that [`Memories::clear`] and [`Memories::restore`] touch only what a history
//! touched: small histories on large memories stay cheap.

use dm_core::verbs::{NodeId, Request, Space, Status, Verb};
use dm_host::assembly::huge_zeroes;
use dm_host::fetch;
use memmap2::MmapMut;
use std::ops::{Deref, DerefMut, Range};

/// Unit of change tracking, in bytes.
const PAGE_BYTES: usize = 4096;

/// One memory: bytes, and which pages were changed since the last clear.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    bytes: Bytes,
    changed: Vec<u64>,
}

/// Zeroed bytes. Many are mapped with huge pages: an index reads its nodes at random, and with pages of 4 KiB most of those reads
/// miss the TLB. Few are not: histories of the judge took a quarter longer with a mapping for each of their small memories.
#[derive(Debug)]
enum Bytes {
    Few(Vec<u8>),
    Many(MmapMut),
}

/// From so many on, bytes are mapped with huge pages: more than a memory of the judge has.
const MANY_BYTES: usize = 16 << 20;

impl Bytes {
    fn zeroed(bytes: usize) -> Self {
        if bytes < MANY_BYTES {
            return Self::Few(vec![0; bytes]);
        }
        Self::Many(huge_zeroes(bytes).expect("this machine has the memory of a simulated one"))
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Self::zeroed(0)
    }
}

impl Clone for Bytes {
    fn clone(&self) -> Self {
        let mut copy = Self::zeroed(self.len());
        copy.copy_from_slice(self);
        copy
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Few(bytes) => bytes,
            Self::Many(bytes) => bytes,
        }
    }
}

impl DerefMut for Bytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Few(bytes) => bytes,
            Self::Many(bytes) => bytes,
        }
    }
}

impl Memory {
    /// Zeroed memory.
    pub fn new(bytes: usize) -> Self {
        Self { bytes: Bytes::zeroed(bytes), changed: vec![0; bytes.div_ceil(PAGE_BYTES).div_ceil(64)] }
    }

    /// Its content.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether `offset..offset + bytes` lies inside.
    pub fn holds(&self, offset: u64, bytes: u64) -> bool {
        offset.checked_add(bytes).is_some_and(|end| end <= self.bytes.len() as u64)
    }

    /// A range to write to; the caller has checked that it lies inside.
    #[inline]
    pub fn range_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        if !range.is_empty() {
            for page in range.start / PAGE_BYTES..=(range.end - 1) / PAGE_BYTES {
                self.changed[page / 64] |= 1 << (page % 64);
            }
        }
        &mut self.bytes[range]
    }

    /// The little-endian word at `offset`, which the caller has checked.
    #[inline]
    pub fn word(&self, offset: u64) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[offset as usize..offset as usize + 8]);
        u64::from_le_bytes(word)
    }

    /// Replaces the word at `offset`, which the caller has checked.
    #[inline]
    pub fn set_word(&mut self, offset: u64, word: u64) {
        self.range_mut(offset as usize..offset as usize + 8).copy_from_slice(&word.to_le_bytes());
    }

    /// Calls `reset` with every changed byte range and forgets the changes.
    fn for_changed(&mut self, mut reset: impl FnMut(Range<usize>, &mut [u8])) {
        for (group, bits) in self.changed.iter_mut().enumerate() {
            while *bits != 0 {
                let page = group * 64 + bits.trailing_zeros() as usize;
                *bits &= *bits - 1;
                let range = page * PAGE_BYTES..((page + 1) * PAGE_BYTES).min(self.bytes.len());
                reset(range.clone(), &mut self.bytes[range]);
            }
        }
    }

    fn clear(&mut self) {
        self.for_changed(|_, page| page.fill(0));
    }

    fn restore(&mut self, from: &Self) {
        self.for_changed(|range, page| page.copy_from_slice(&from.bytes[range]));
    }
}

/// Both memories of one memory node.
#[derive(Clone, Debug, Default)]
pub struct MemoryNode {
    /// Host DRAM.
    pub host: Memory,
    /// On-chip memory of its NIC.
    pub device: Memory,
}

impl MemoryNode {
    /// The memory that `space` names.
    #[inline]
    pub fn space(&self, space: Space) -> &Memory {
        match space {
            Space::Host => &self.host,
            Space::Device => &self.device,
        }
    }

    /// The memory that `space` names.
    #[inline]
    pub fn space_mut(&mut self, space: Space) -> &mut Memory {
        match space {
            Space::Host => &mut self.host,
            Space::Device => &mut self.device,
        }
    }
}

/// The memories of all memory nodes.
#[derive(Clone, Debug, Default)]
pub struct Memories {
    nodes: Vec<MemoryNode>,
}

impl Memories {
    /// Zeroed memories: host bytes per node, and as many device bytes on each.
    pub fn new(host_bytes: &[usize], device_bytes: usize) -> Self {
        let node = |&host| MemoryNode { host: Memory::new(host), device: Memory::new(device_bytes) };
        Self { nodes: host_bytes.iter().map(node).collect() }
    }

    /// Number of memory nodes.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// One node, if there is one of that number.
    #[inline]
    pub fn get(&self, node: NodeId) -> Option<&MemoryNode> {
        self.nodes.get(node.0 as usize)
    }

    /// One node, if there is one of that number.
    #[inline]
    pub fn get_mut(&mut self, node: NodeId) -> Option<&mut MemoryNode> {
        self.nodes.get_mut(node.0 as usize)
    }

    /// The memory a request names; the caller has checked that it exists.
    #[inline]
    pub(crate) fn of(&mut self, request: &Request) -> &mut Memory {
        self.nodes[request.node.0 as usize].space_mut(request.space)
    }

    /// Begins to bring the lines near that a request will touch, without waiting for them.
    #[inline]
    pub(crate) fn prefetch(&self, request: &Request) {
        let range = request.offset as usize..(request.offset as usize).saturating_add(request.bytes as usize);
        // What is not there is refused when the request arrives.
        if let Some(lines) = self.get(request.node).and_then(|node| node.space(request.space).bytes().get(range)) {
            fetch::lines(lines);
        }
    }

    /// Zeroes everything that was written since the last clear, restore or keep.
    pub fn clear(&mut self) {
        for node in &mut self.nodes {
            node.host.clear();
            node.device.clear();
        }
    }

    /// Takes over the content of `from` as far as this one changed since it was last equal to it. `from` must be a
    /// [`Memories::keep`] of this one.
    pub fn restore(&mut self, from: &Self) {
        for (node, from) in self.nodes.iter_mut().zip(&from.nodes) {
            node.host.restore(&from.host);
            node.device.restore(&from.device);
        }
    }

    /// A copy to [`Memories::restore`] from. Changes count from here.
    #[must_use]
    pub fn keep(&mut self) -> Self {
        for node in &mut self.nodes {
            node.host.changed.fill(0);
            node.device.changed.fill(0);
        }
        self.clone()
    }

    /// Whether a memory node would take this request at all.
    pub(crate) fn admit(&self, request: &Request, masked_atomics: bool) -> Result<(), Status> {
        let node = self.get(request.node).ok_or(Status::Refused)?;
        let memory = node.space(request.space);
        if request.space == Space::Device && memory.bytes.is_empty() {
            return Err(Status::Unsupported);
        }
        let atomic = match request.verb {
            Verb::Read | Verb::Write => false,
            Verb::MaskedCas if !masked_atomics => return Err(Status::Unsupported),
            Verb::Cas | Verb::MaskedCas | Verb::FetchAdd => true,
            _ => return Ok(()),
        };
        let bytes = if atomic { 8 } else { u64::from(request.bytes) };
        if (atomic && !request.offset.is_multiple_of(8)) || !memory.holds(request.offset, bytes) {
            return Err(Status::Refused);
        }
        Ok(())
    }
}

/// What an atomic makes of the old word: the new word, or `None` for a comparison that failed.
#[inline]
pub fn atomic_result(request: &Request, old: u64) -> Option<u64> {
    let [first, swap, compare_mask, swap_mask] = request.operands;
    match request.verb {
        Verb::Cas => (old == first).then_some(swap),
        Verb::MaskedCas => ((old ^ first) & compare_mask == 0).then_some((old & !swap_mask) | (swap & swap_mask)),
        _ => Some(old.wrapping_add(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dm_core::verbs::Label;

    #[test]
    fn masked_cas_compares_and_replaces_only_masked_bits() {
        let request = |operands| Request::masked_cas(Label::Lock, NodeId(0), 0, operands);
        assert_eq!(atomic_result(&request([0x00, 0xFF, 0x01, 0x0F]), 0xA0), Some(0xAF));
        assert_eq!(atomic_result(&request([0x00, 0xFF, 0x01, 0x0F]), 0xA1), None);
        assert_eq!(atomic_result(&request([7, 9, 0, u64::MAX]), 1), Some(9), "an empty compare mask always matches");
    }

    #[test]
    fn restore_brings_back_what_was_kept_and_nothing_else_is_copied() {
        let mut memories = Memories::new(&[10_000], 64);
        memories.get_mut(NodeId(0)).unwrap().host.set_word(8192, 7);
        let kept = memories.keep();
        memories.get_mut(NodeId(0)).unwrap().host.set_word(8192, 8);
        memories.get_mut(NodeId(0)).unwrap().device.set_word(0, 9);
        memories.restore(&kept);
        assert_eq!(memories.get(NodeId(0)).unwrap().host.word(8192), 7);
        assert_eq!(memories.get(NodeId(0)).unwrap().device.word(0), 0);
    }
}
