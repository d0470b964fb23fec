//! Steps of descents that need no leaf: follow the copies, READ a node and look for a key there, READ a slot again.

use super::cache::Route;
use super::cursor::DescentCursor;
use super::slot::{Compared, Node, NodeType, Place, Slot, word};
use super::tree::{Tree, Way};
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::marks::Mark;
use crate::operation::OpError;
use crate::verbs::{Label, Request};
use core::future::poll_fn;
use core::ops::Range;
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

impl Tree<'_> {
    /// Follows the copies to where they end. While a line of a copy is fetched into the CPU's cache, other lanes may
    /// run, if the driver supports it.
    pub(crate) async fn route(&self, lane: &Lane<'_>, key: &Range<usize>) -> Option<Route> {
        let epoch = self.epoch(lane);
        let mut walk = self.cache.enter_at_root(epoch)?;
        let fetch = lane.port().fetch();
        poll_fn(move |_| {
            let ends = lane.port().with(|scratch| {
                let key = scratch.get(key.clone()).unwrap_or_default();
                self.cache.follow(&mut walk, key, epoch, fetch)
            });
            if ends { Poll::Ready(Some(walk.route)) } else { Poll::Pending }
        })
        .await
    }

    /// READs a slot whose word is only known from a copy. If the slot is frozen or empty, its node may have left the
    /// tree, and the descent begins again at the root. Otherwise the cursor has the word that was READ, which is fresh.
    pub(crate) async fn confirm(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: DescentCursor,
    ) -> Result<DescentCursor, OpError> {
        let (place, at) = (cursor.place(way), self.scratch.small);
        if cursor.owner.is_empty() {
            return self.read_root(lane, way).await;
        }
        lane.port().call(Request::read(Label::Slot, place.node(), place.offset(), 8, at)).await?;
        let found = Slot(lane.port().with(|scratch| word(scratch, at)));
        if found.is_frozen() || found.is_empty() {
            lane.mark(Mark::RESTART);
            return self.read_root(lane, way).await;
        }
        if found == cursor.word {
            lane.mark(Mark::CONFIRMED);
        } else {
            lane.mark(Mark::STALE_CACHE);
            self.cache.patch(cursor.owner, usize::from(cursor.index), found, self.epoch(lane));
        }
        Ok(DescentCursor { word: found, fresh: true, ..cursor })
    }

    /// The READ of the node of `kind` at `place` into node image 0.
    pub(crate) const fn node_request(&self, kind: NodeType, place: Place) -> Request {
        let image = self.scratch.node(0).with_bytes(kind.bytes());
        Request::read(Label::Inner, place.node(), place.offset(), image.bytes, image.at).untimed()
    }

    /// READs the node that `cursor` leads to into node image 0 and looks for the key at scratch range `key` there.
    pub(crate) async fn look(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        key: &Range<usize>,
        cursor: &DescentCursor,
        (kind, place): (NodeType, Place),
    ) -> Result<Look, OpError> {
        lane.port().call(self.node_request(kind, place)).await?;
        Ok(lane.port().with(|scratch| {
            let key = scratch.get(key.clone()).unwrap_or_default();
            let node = match Node::new(self.scratch.node(0).of(scratch), kind, self.index) {
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
                self.cache.insert(cursor.word, &node, self.epoch(lane));
            }
            if let Some((index, word)) = searched.found {
                return Look::Found { index, word, position, current: searched.current };
            }
            let frozen = searched.empty.is_some_and(|empty| node.slot(empty).is_frozen());
            Look::Missing { empty: searched.empty, current: searched.current, frozen }
        }))
    }
}
