//! Descents: from a key to its leaf, or to where its leaf would be.
//!
//! A descent's cursor stands at a slot. It has the slot's place, a word that the slot had, and the position of the key
//! at which the slot's child begins. The word is *fresh* if there was an instant since the operation began at which the
//! slot had this word and its node was part of the tree. Words of copies are not fresh. Only a fresh word may prove
//! that a key is absent: see [`smart_records`](crate::manual::smart_records).

use super::cursor::{DescentCursor, Reached, Why};
use super::leaf::{Judged, LeafState, RadixLeaf};
use super::look::Look;
use super::replace::Replace;
use super::slot::Child;
use super::tree::{Way, corrupt};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};

/// Descents in any radix tree.
pub(crate) trait Descent<'s>: Replace<'s> {
    /// Descends to the operation's key. With `copied` it begins where the copies end. With `helps` it replaces a node
    /// on its way that another lane has begun to freeze, so that the slot where the descent ends can be changed.
    ///
    /// The loop ends. Every iteration goes one level down, or makes the word fresh, or begins again at the root, whose
    /// word is fresh. Below a fresh word all words are fresh. So only a few iterations do not go down, and the number
    /// of replacements is limited.
    async fn find(&self, lane: &Lane<'_>, way: &Way, copied: bool, helps: bool) -> Result<Reached, Interrupt> {
        let route = if copied && way.copies { self.tree().route(lane, &self.plan().key).await } else { None };
        let mut cursor = match route {
            Some(route) => DescentCursor::copied(&route),
            None => self.tree().read_root(lane, way).await?,
        };
        let mut attempts = 0;
        loop {
            let what = match cursor.word.child() {
                Ok(Child::Empty) if cursor.fresh => return Ok(Reached::Gap(cursor, Why::Empty)),
                Ok(Child::Empty | Child::Void(_)) => "an empty slot",
                Ok(Child::Leaf(place)) if self.tree().is_inside(place, self.place_bytes()) => {
                    let leaf = self.read_leaf(lane, place).await?;
                    match leaf {
                        Judged { ours: true, state: LeafState::Valid } => return Ok(Reached::Leaf(place, true)),
                        Judged { ours: true, state: LeafState::Deleted } => return Ok(Reached::Leaf(place, false)),
                        Judged { ours, .. }
                            if cursor.fresh
                                || !ours && planted(Mutant::CACHED_NEGATIVE)
                                || ours && planted(Mutant::FINALIZED_IS_ABSENT) =>
                        {
                            return Ok(Reached::Gap(cursor, Why::Leaf(place, leaf)));
                        }
                        Judged { ours: true, .. } => {
                            lane.mark(Mark::FINALIZED_MET);
                            "a finalized leaf"
                        }
                        Judged { .. } => "a leaf of another key",
                    }
                }
                Ok(Child::Node(kind, place)) if self.tree().is_inside(place, kind.bytes()) => {
                    match self.tree().look(lane, way, &self.plan().key, &cursor, (kind, place)).await? {
                        Look::Unfit(what) => what,
                        Look::Differs(at) if cursor.fresh || planted(Mutant::CACHED_NEGATIVE) => {
                            return Ok(Reached::Gap(cursor, Why::Header(at)));
                        }
                        Look::Differs(_) => "a node of another prefix",
                        Look::Found { word, .. } if word.is_frozen() && helps && !planted(Mutant::FROZEN_FOLLOWED) => {
                            lane.mark(Mark::HELPED_REPLACEMENT);
                            self.replace_node(lane, way, &cursor, place, false).await?;
                            lane.attempt(&mut attempts, "replacing full nodes on the way")?;
                            cursor = self.tree().read_root(lane, way).await?;
                            continue;
                        }
                        Look::Found { index, word, position, current } => {
                            if word.is_frozen() {
                                lane.mark(Mark::FROZEN_SLOT);
                            }
                            cursor = DescentCursor {
                                word: if helps && planted(Mutant::FROZEN_FOLLOWED) { word } else { word.thawed() },
                                depth: position + 1,
                                index: index as u8,
                                fresh: cursor.fresh || current,
                                owner: cursor.word,
                            };
                            continue;
                        }
                        Look::Missing { frozen: true, .. } if helps => {
                            lane.mark(Mark::HELPED_REPLACEMENT);
                            self.replace_node(lane, way, &cursor, place, false).await?;
                            lane.attempt(&mut attempts, "replacing nodes that are left on the way")?;
                            cursor = self.tree().read_root(lane, way).await?;
                            continue;
                        }
                        Look::Missing { empty, current, .. } if cursor.fresh || current => {
                            return Ok(Reached::Gap(cursor, Why::Slot(place, empty.map(|at| at as u16))));
                        }
                        Look::Missing { .. } => "a node that has been replaced",
                    }
                }
                Ok(Child::Leaf(_) | Child::Node(..)) => "a pointer beyond the pool",
                Err(_) => "a slot with unknown bits",
            };
            if cursor.fresh {
                return Err(corrupt(cursor.place(way), what).into());
            }
            cursor = self.tree().confirm(lane, way, cursor).await?;
        }
    }
}

impl<'s, L: RadixLeaf<'s>> Descent<'s> for L {}
