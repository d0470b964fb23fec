//! Descents: from a key to its leaf, or to where its leaf would be.
//!
//! A descent's cursor stands at a slot. It has the slot's place, a word that the slot had, and the position of the key
//! at which the slot's child begins. The word is *fresh* if there was an instant since the operation began at which the
//! slot had this word and its node was part of the tree. Words of copies are not fresh. Only a fresh word may prove
//! that a key is absent: see [`smart_records`](crate::manual::smart_records).

use super::cache::Route;
use super::cursor::{DescentCursor, Reached, Why};
use super::leaf::{Judged, LeafState, RadixLeaf};
use super::replace::Replace;
use super::slot::{Child, Compared, Node, NodeType, Place, Slot, word};
use super::tree::{Way, corrupt};
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::OpError;
use crate::verbs::{Label, Request};
use core::future::poll_fn;
use core::task::Poll;

/// What a descent finds in a node. `current`: some slot was not frozen, so the node was part of the tree when that slot
/// was READ.
pub(crate) enum Look {
    /// No node of this index, or one that cannot be here.
    Unfit(&'static str),
    /// The node's header differs from the key at this position.
    Differs(usize),
    /// A slot has the key's byte.
    Found {
        /// The slot's number.
        index: usize,
        word: Slot,
        /// The node's position.
        position: u8,
        current: bool,
    },
    /// No slot of the node has the key's byte.
    Missing {
        /// The first empty slot.
        empty: Option<usize>,
        current: bool,
        /// The first empty slot is frozen.
        frozen: bool,
    },
}

/// Descents in any radix tree.
pub(crate) trait Descent<'s>: Replace<'s> {
    /// Descends to the operation's key. With `copied` it begins where the copies end. With `helps` it replaces a node
    /// on its way that another lane has begun to freeze, so that the slot where the descent ends can be changed.
    ///
    /// The loop ends. Every iteration goes one level down, or makes the word fresh, or begins again at the root, whose
    /// word is fresh. Below a fresh word all words are fresh. So only a few iterations do not go down, and the number
    /// of replacements is limited.
    async fn find(&self, lane: &Lane<'_>, way: &Way, copied: bool, helps: bool) -> Result<Reached, Interrupt> {
        let route = if copied && way.copies { self.route(lane).await } else { None };
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
                    match self.look(lane, way, &cursor, kind, place).await? {
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
            cursor = self.confirm(lane, way, cursor).await?;
        }
    }

    /// Follows the copies to where they end. While a line of a copy is fetched into the CPU's cache, other lanes may
    /// run, if the driver supports it.
    async fn route(&self, lane: &Lane<'_>) -> Option<Route> {
        let epoch = self.tree().epoch(lane);
        let mut walk = self.tree().cache.enter_at_root(epoch)?;
        let fetch = lane.port().fetch();
        poll_fn(move |_| {
            let ends = lane.port().with(|scratch| {
                let key = scratch.get(self.plan().key.clone()).unwrap_or_default();
                self.tree().cache.follow(&mut walk, key, epoch, fetch)
            });
            if ends { Poll::Ready(Some(walk.route)) } else { Poll::Pending }
        })
        .await
    }

    /// READs a slot whose word is only known from a copy. If the slot is frozen or empty, its node may have left the
    /// tree, and the descent begins again at the root. Otherwise the cursor has the word that was READ, which is fresh.
    async fn confirm(&self, lane: &Lane<'_>, way: &Way, cursor: DescentCursor) -> Result<DescentCursor, OpError> {
        let (place, at) = (cursor.place(way), self.tree().scratch.small);
        if cursor.owner.is_empty() {
            return self.tree().read_root(lane, way).await;
        }
        lane.port().call(Request::read(Label::Slot, place.node(), place.offset(), 8, at)).await?;
        let found = Slot(lane.port().with(|scratch| word(scratch, at)));
        if found.is_frozen() || found.is_empty() {
            lane.mark(Mark::RESTART);
            return self.tree().read_root(lane, way).await;
        }
        if found == cursor.word {
            lane.mark(Mark::CONFIRMED);
        } else {
            lane.mark(Mark::STALE_CACHE);
            self.tree().cache.patch(cursor.owner, usize::from(cursor.index), found, self.tree().epoch(lane));
        }
        Ok(DescentCursor { word: found, fresh: true, ..cursor })
    }

    /// READs the node that `cursor` leads to into node image 0 and looks for the key there.
    async fn look(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: &DescentCursor,
        kind: NodeType,
        place: Place,
    ) -> Result<Look, OpError> {
        let image = self.tree().scratch.node(0).with_bytes(kind.bytes());
        let read = Request::read(Label::Inner, place.node(), place.offset(), image.bytes, image.at).untimed();
        lane.port().call(read).await?;
        Ok(lane.port().with(|scratch| {
            let mut room = [0; 64];
            let key = self.key(scratch, &mut room);
            let node = match Node::new(image.of(scratch), kind, self.tree().index) {
                Ok(node) => node,
                Err(DecodeError::Corrupt(what)) => return Look::Unfit(what),
                Err(_) => return Look::Unfit("no node"),
            };
            match node.header.compare(usize::from(cursor.depth), key) {
                Compared::Unfit => return Look::Unfit("a node that cannot be here"),
                Compared::Differs(at) => return Look::Differs(at),
                Compared::Fits => {}
            }
            let position = node.header.position;
            let searched = node.search(key.get(usize::from(position)).copied().unwrap_or_default());
            // An image in which every slot is frozen may be of a node that has been replaced.
            if way.copies && searched.current {
                self.tree().cache.insert(cursor.word, &node, self.tree().epoch(lane));
            }
            if let Some((index, word)) = searched.found {
                return Look::Found { index, word, position, current: searched.current };
            }
            let frozen = searched.empty.is_some_and(|empty| node.slot(empty).is_frozen());
            Look::Missing { empty: searched.empty, current: searched.current, frozen }
        }))
    }
}

impl<'s, L: RadixLeaf<'s>> Descent<'s> for L {}
