//! Scan: ascending records from a key on, a page at a time.
//!
//! A scan begins at the root slot, READ now, and trusts no copy. It takes each byte of a node once, in ascending order,
//! so keys ascend and none comes twice. Each leaf is READ whole, so each pair was current in its READ.
//! [`smart_scans`](crate::manual::smart_scans) says why a scan is complete.

use super::leaf::RadixLeaf;
use super::slot::{Child, Slot, word};
use super::tree::corrupt;
use super::walk::{ANOTHER_PREFIX, Children, Level, MORE_NODES, NOT_ASCENDING, Path, Walk, single};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::{compare, copy};
use crate::operation::{OpError, Operation, Outcome};
use crate::registry::KEY_BYTES_MAX;
use core::cmp::Ordering;

/// Bytes that all keys below a node have, at the places that the mask shows.
pub(crate) struct Turns {
    bytes: [u8; KEY_BYTES_MAX],
    mask: [u8; KEY_BYTES_MAX],
}

impl Turns {
    /// Whether a key has them.
    #[inline]
    fn are_in(&self, key: &[u8]) -> bool {
        // Keys of eight bytes are the common case: one comparison.
        if let Ok(key) = <[u8; 8]>::try_from(key) {
            let first = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            return (u64::from_le_bytes(key) ^ first(&self.bytes)) & first(&self.mask) == 0;
        }
        key.iter().zip(&self.bytes).zip(&self.mask).all(|((key, byte), mask)| (key ^ byte) & mask == 0)
    }
}

/// Scans in any radix tree.
pub(crate) trait Scan<'s>: Walk<'s> {
    /// Steps: READ root slot; down along the lower bound, a READ a node; from there on in ascending order, leaves of a
    /// node in one submit.
    async fn scan(&self, lane: &Lane<'_>, operation: &Operation) -> Result<Outcome, Interrupt> {
        let limit = (operation.limit as usize).min(self.plan().page_records());
        let mut records = 0;
        if limit == 0 {
            // Nothing was READ, so there may be more.
            return Ok(Outcome::Page { records: 0, more: true });
        }
        let root = self.tree().read_root(lane, &self.tree().way()).await?;
        let mut path = Path::empty();
        match root.word.child() {
            Ok(Child::Empty) => return Ok(Outcome::Page { records: 0, more: false }),
            Ok(Child::Leaf(place)) if self.tree().is_inside(place, self.place_bytes()) => {
                let children = single(root.word);
                let valid = self.read_leaves(lane, &children, true).await?;
                self.take(lane, operation, (&children, valid), 0, limit, &mut records)?;
                return Ok(Outcome::Page { records: records as u32, more: false });
            }
            Ok(Child::Node(kind, place)) if self.tree().is_inside(place, kind.bytes()) => {
                self.enter(lane, &mut path, root.word, 0, true).await?;
            }
            _ => return Err(corrupt(self.tree().root, "a slot that leads nowhere").into()),
        }
        let mut nodes = 0;
        while path.levels > 0 {
            lane.check_deadline()?;
            self.fetch_in_order(lane, &mut path).await?;
            let level = path.levels - 1;
            // A leaf that was READ under its lock may leave the wake of the lane that got the lock: it goes with these READs.
            let room = lane.port().room().max(1);
            let wanted = self.tree().scratch.leaves_at_once.min(limit - records).min(room);
            let (children, here) =
                self.at_node(lane, level, |node, here| Ok((self.children(node, here.next, wanted)?, here)))?;
            self.set_level(lane, level, Level { next: children.next, ..here });
            if children.count > 0 {
                let valid = self.read_leaves(lane, &children, true).await?;
                if self.take(lane, operation, (&children, valid), path.levels, limit, &mut records)? {
                    return Ok(Outcome::Page { records: records as u32, more: false });
                }
                if records == limit {
                    return Ok(Outcome::Page { records: records as u32, more: true });
                }
            } else if let Some((slot, _, place)) = children.node {
                // Each node of the tree is entered once. Slots of several nodes that lead to one are damage: without
                // this limit, a scan would go through all combinations of them.
                nodes += 1;
                if nodes > self.nodes_max() {
                    return Err(corrupt(place, MORE_NODES).into());
                }
                let at = usize::from(children.depth) - 1;
                let tight = here.tight && self.low_byte(lane, at) == Some(slot.partial());
                self.enter(lane, &mut path, slot.thawed(), children.depth, tight).await?;
            } else {
                path.levels -= 1;
            }
        }
        Ok(Outcome::Page { records: records as u32, more: false })
    }

    /// What the keys below a path of `levels` nodes have: the bytes of the slots that lead from node to node. The nodes' headers
    /// have the bytes in between. `None`: no key has them.
    fn turns(&self, scratch: &[u8], levels: usize) -> Option<Turns> {
        let level = |i: usize| {
            let at = self.tree().scratch.level(i).at;
            Level::from_words([word(scratch, at), word(scratch, at + 8)])
        };
        let mut turns = Turns { bytes: [0; KEY_BYTES_MAX], mask: [0; KEY_BYTES_MAX] };
        for below in 1..levels {
            let at = usize::from(level(below).begin).checked_sub(1).filter(|at| *at < self.plan().key_bytes)?;
            *turns.bytes.get_mut(at)? = u8::try_from(level(below - 1).next.checked_sub(1)?).ok()?;
            *turns.mask.get_mut(at)? = u8::MAX;
        }
        Some(turns)
    }

    /// Copies the records of the valid leaf images that the scan wants onto the page. A path of `levels` nodes led to these
    /// leaves. Returns whether the upper bound was passed.
    ///
    /// A leaf's key never changes, so a leaf that is not of its path, or not above the one before, is damage. Without
    /// an error the next page would begin again where this one began.
    fn take(
        &self,
        lane: &Lane<'_>,
        operation: &Operation,
        (children, valid): (&Children, u64),
        levels: usize,
        limit: usize,
        records: &mut usize,
    ) -> Result<bool, OpError> {
        lane.port().with(|scratch| {
            let Some((front, page)) = scratch.split_at_mut_checked(self.plan().page.start) else { return Ok(true) };
            let low = front.get(self.plan().key.clone()).unwrap_or_default();
            let high = front.get(self.plan().key_high.clone()).unwrap_or_default();
            let turns = self.turns(front, levels);
            // A leaf has the byte of its own slot, too.
            let last = usize::from(children.depth).checked_sub(1);
            let is_on_path = |key: &[u8], leaf: Slot| {
                levels == 0
                    || turns.as_ref().is_some_and(|turns| turns.are_in(key))
                        && last.is_some_and(|at| key.get(at) == Some(&leaf.partial()))
            };
            let (key_bytes, record_bytes) = (self.plan().key_bytes, self.plan().key_bytes + self.plan().value_bytes);
            let Some((done, free)) = page.split_at_mut_checked(*records * record_bytes) else { return Ok(true) };
            let mut before = done.len().checked_sub(record_bytes).and_then(|at| done.get(at..at + key_bytes));
            let mut places = free.chunks_exact_mut(record_bytes.max(1)).take(limit.saturating_sub(*records));
            let images = self.tree().scratch.leaves(front, children.count);
            for (i, (leaf, image)) in children.leaves.iter().zip(images).enumerate() {
                let key = self.leaf_key(image);
                if !is_on_path(key, *leaf) {
                    return Err(self.corrupt_leaf(*leaf, ANOTHER_PREFIX));
                }
                if operation.bounded && compare(key, high).is_ge() {
                    return Ok(true);
                }
                // Keys ascend: behind a record there is none below the lower bound.
                let is_wanted = before.is_some()
                    || match compare(key, low) {
                        Ordering::Less => false,
                        Ordering::Equal => !operation.after,
                        Ordering::Greater => true,
                    };
                if valid >> i & 1 == 0 || !is_wanted {
                    continue;
                }
                let Some((to_key, to_value)) = places.next().and_then(|place| place.split_at_mut_checked(key_bytes))
                else {
                    continue;
                };
                if before.is_some_and(|before| compare(before, key).is_ge()) {
                    return Err(self.corrupt_leaf(*leaf, NOT_ASCENDING));
                }
                before = Some(key);
                copy(to_key, key);
                copy(to_value, self.leaf_value(image));
                *records += 1;
            }
            Ok(false)
        })
    }

    /// The error of a leaf that this crate never writes.
    fn corrupt_leaf(&self, leaf: Slot, what: &'static str) -> OpError {
        match leaf.child() {
            Ok(Child::Leaf(place)) => corrupt(place, what),
            _ => corrupt(self.tree().root, what),
        }
    }
}

impl<'s, L: RadixLeaf<'s>> Scan<'s> for L {}
