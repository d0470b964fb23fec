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

    /// Where keys below a path of `levels` nodes have the bytes of the slots that lead from node to node, and these bytes. The nodes'
    /// headers have the bytes in between. `None`: no key has them.
    fn turns(&self, scratch: &[u8], levels: usize) -> Option<heapless::Vec<(usize, u8), KEY_BYTES_MAX>> {
        let level = |i: usize| {
            let at = self.tree().scratch.level(i).at;
            Level::from_words([word(scratch, at), word(scratch, at + 8)])
        };
        let turned = |below: usize| {
            let at = usize::from(level(below).begin).checked_sub(1)?;
            Some((at, u8::try_from(level(below - 1).next.checked_sub(1)?).ok()?))
        };
        (1..levels).map(turned).collect()
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
                    || turns.as_ref().is_some_and(|turns| turns.iter().all(|(at, byte)| key.get(*at) == Some(byte)))
                        && last.is_some_and(|at| key.get(at) == Some(&leaf.partial()))
            };
            for i in 0..children.count {
                let image = self.tree().scratch.leaf(i).of(front);
                let key = self.leaf_key(image);
                let leaf = children.leaves.get(i).copied().unwrap_or_default();
                if !is_on_path(key, leaf) {
                    return Err(self.corrupt_leaf(leaf, ANOTHER_PREFIX));
                }
                if operation.bounded && compare(key, high).is_ge() {
                    return Ok(true);
                }
                let is_wanted = match compare(key, low) {
                    Ordering::Less => false,
                    Ordering::Equal => !operation.after,
                    Ordering::Greater => true,
                };
                if valid >> i & 1 == 0 || !is_wanted || *records >= limit {
                    continue;
                }
                let before = records.checked_sub(1).map(|last| self.plan().record(last).start - self.plan().page.start);
                if let Some(at) = before
                    && page.get(at..at + key.len()).is_none_or(|before| compare(before, key).is_ge())
                {
                    return Err(self.corrupt_leaf(leaf, NOT_ASCENDING));
                }
                let range = self.plan().record(*records);
                let at = range.start - self.plan().page.start;
                let Some(record) = page.get_mut(at..at + range.len()) else { return Ok(true) };
                let Some((to_key, to_value)) = record.split_at_mut_checked(key.len()) else { return Ok(true) };
                copy(to_key, key);
                if let (Some(to), Some(from)) =
                    (to_value.get_mut(..self.plan().value_bytes), self.leaf_value(image).get(..self.plan().value_bytes))
                {
                    copy(to, from);
                }
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
