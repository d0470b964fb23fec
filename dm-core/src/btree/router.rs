//! Routers: the part of a B+ index that finds the leaf of a key.
//!
//! A B+ index is a level of leaves, linked to the right, below a *router*. The leaf level ([`super::leaves`],
//! [`super::scan`], [`super::merge`] and the indexes' own steps) decides by a leaf's fences. So a router may lead to
//! the leaf of a key or to a leaf at its left, and it may be out of date: each leaf that it names is checked.
//!
//! | method | when | verbs |
//! |---|---|---|
//! | [`Router::route`] | first: from copies | none |
//! | [`Router::locate`] | the copies do not reach a leaf, or led to a wrong one | READs |
//! | [`Router::learn`] | the leaf does not cover the key | none |
//! | [`Router::forget`], [`Router::forget_root`] | the pointer does not lead to such a leaf | none |
//! | [`Router::plant`] | the index gets its first leaf | CAS |
//! | [`Router::link`] | a leaf has split, or a half-split was met | as the router needs |
//! | [`Router::leaves_ahead`] | a scan begins, or goes on | none |
//! | [`Unlink`](super::unlink::Unlink) | two leaves are joined | parent: lock, READ, WRITE |
//!
//! **Why the methods are cut like this.** [`Unlink`](super::unlink::Unlink) is a trait of its own, because a router
//! without merges does not have it. It has several steps, because the WRITE that unlinks a leaf has to be in the chain
//! of the leaves' WRITEs. There are two methods to forget a copy, because an attempt that runs out of moves has no
//! cursor that says which copy was wrong. There is no method to prefetch copies: an empty step
//! would still be a state of every descent's future. Copies of inner nodes are asked for before the operation's future begins
//! ([`Index::ask_ahead`](crate::index::Index::ask_ahead)). A router that waits for several copies, one after the other, yields
//! inside its `locate`, as [`crate::radix::descent`] does.
//!
//! Bulk load, walks and orphan collection ([`super::bulk`], [`super::walk`], [`super::orphans`]) handle inner nodes
//! together with leaves. They are not behind this trait: they are for the inner nodes of a B+-tree only.
//!
//! [`Tree`], with its inner nodes and the cache of their copies, is a router.

use super::Tree;
use super::descent::DescentCursor;
use super::node::FenceCheck;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::OpError;
use crate::operation::span::Span;
use crate::remote::address::Address;
use crate::verbs::{Label, NodeId, Request};
use core::future::Future;
use core::ops::Range;

/// Where a descent stands: at a pointer to a leaf that was not READ yet (or to an inner node, if the descent wants
/// one).
pub(crate) trait Cursor: Copy {
    /// What it points to.
    fn leaf(&self) -> Address;

    /// The leaf whose sibling link led here; null if it was not a link.
    fn from(&self) -> Address;

    /// A half-split that was met on the way, for [`Router::link`]: its level, and its right node. Its separator is in
    /// the `help` range.
    fn help(&self) -> Option<(u8, Address)>;

    /// Takes note how often the operation's descent has begun again. A retired leaf whose left neighbour's place is
    /// reused makes it begin again, and not count a forwarding retry more.
    fn begins_again(&mut self, restarts: u32);

    /// Whether retired leaves have sent the descent back to their left neighbours too often. If so, the count begins
    /// anew.
    fn is_sent_back_too_often(&mut self) -> bool;
}

/// Finds the leaf of a key. Methods that wait are no `async fn`s, so that a router returns the future of its own
/// procedure, without another one around it.
pub(crate) trait Router {
    /// Where a descent stands.
    type Cursor: Cursor;

    /// The memory node on which the root word is.
    fn home(&self) -> NodeId;

    /// The leaf that covers the key at scratch range `key`, by the copies alone. `None`: the copies do not reach a
    /// leaf. No round trip.
    fn route(&self, lane: &Lane<'_>, key: &Range<usize>) -> Option<Self::Cursor>;

    /// Finds the leaf that covers the key at scratch range `key`. With `cached`, copies are used. Uses node image 0.
    /// `None`: the index has no leaf.
    fn locate(
        &self,
        lane: &Lane<'_>,
        key: &Range<usize>,
        cached: bool,
    ) -> impl Future<Output = Result<Option<Self::Cursor>, Interrupt>>;

    /// Takes note that the leaf at `cursor`, which was READ into `image`, does not cover the key, and moves the cursor
    /// to the leaf to try next. `false`: that leaf does not tell which, and the descent begins again.
    fn learn(&self, lane: &Lane<'_>, cursor: &mut Self::Cursor, found: FenceCheck, image: Span) -> bool;

    /// Drops the copy that led to `cursor`.
    fn forget(&self, lane: &Lane<'_>, cursor: &Self::Cursor);

    /// Drops the copy of the root, with which every route begins.
    fn forget_root(&self, lane: &Lane<'_>);

    /// Makes `leaf`, which was written already, the first leaf of an empty index. `false`: another lane was faster.
    fn plant(&self, lane: &Lane<'_>, leaf: Address) -> impl Future<Output = Result<bool, OpError>>;

    /// Makes the parent of its left neighbour lead to `right`, a node of `level` whose low fence is in the scratch
    /// range `separator`. Does nothing if the parent leads to it already, or if `right` has been retired.
    fn link(&self, lane: &Lane<'_>, level: u8, right: Address) -> impl Future<Output = Result<(), Interrupt>>;

    /// Puts the leaves from the one that covers the key at scratch range `bound` on, or with `down` from it to the left,
    /// into `leaves`, as far as a copy names them. Returns how many there are.
    fn leaves_ahead(&self, lane: &Lane<'_>, bound: &Range<usize>, down: bool, leaves: &mut [Address]) -> usize;
}

/// The leaf of a key: by copies ([`Router::route`]) if `cached` and they reach one, otherwise as [`Router::locate`] finds it. `None`:
/// the index has no leaf. Not a method: its future would lie around the common case, which waits for nothing.
macro_rules! seek {
    ($router:expr, $lane:expr, $key:expr, $cached:expr) => {{
        let (router, lane, key, cached) = ($router, $lane, $key, $cached);
        match if cached { router.route(lane, key) } else { None } {
            Some(cursor) => Some(cursor),
            None => router.locate(lane, key, cached).await?,
        }
    }};
}
pub(crate) use seek;

impl Cursor for DescentCursor {
    #[inline]
    fn leaf(&self) -> Address {
        self.address
    }

    #[inline]
    fn from(&self) -> Address {
        self.from
    }

    #[inline]
    fn help(&self) -> Option<(u8, Address)> {
        self.help
    }

    #[inline]
    fn begins_again(&mut self, restarts: u32) {
        Self::begins_again(self, restarts);
    }

    #[inline]
    fn is_sent_back_too_often(&mut self) -> bool {
        Self::is_sent_back_too_often(self)
    }
}

impl Tree<'_> {
    /// Asks for the copy at which the route of an operation will end, whose key or bound is at scratch range `key`.
    ///
    /// With 10 M records and 8 lanes on shared memory a get of Sherman takes 11 % less time so, an update 6 % less; of DEX 7 and 5 %,
    /// and a scan of 100 records 2 %; a get of CHIME 4 %. Other scans, and updates of CHIME, take as long.
    pub(crate) fn ask_ahead(&self, lane: &Lane<'_>, key: &Range<usize>) -> bool {
        let (Some(fetch), Some((root, root_level))) = (lane.port().fetch(), self.root.get()) else { return false };
        let asked = lane.port().with(|scratch| {
            let key = scratch.get(key.clone()).unwrap_or_default();
            self.cache.ask_ahead(root, root_level, key, fetch)
        });
        lane.set_asked_copy(asked);
        asked.is_some()
    }
}

impl Router for Tree<'_> {
    type Cursor = DescentCursor;

    fn home(&self) -> NodeId {
        self.root_word.0
    }

    #[inline]
    fn route(&self, lane: &Lane<'_>, key: &Range<usize>) -> Option<DescentCursor> {
        let (root, root_level) = self.root.get()?;
        let epoch = self.epoch(lane);
        let route = lane.port().with(|scratch| {
            let key = scratch.get(key.clone()).unwrap_or_default();
            let asked = lane.take_asked_copy().and_then(|at| self.cache.route_at(at, key, epoch));
            asked.unwrap_or_else(|| self.cache.route(root, root_level, 0, key, epoch))
        });
        (route.level == 0 && !route.stale).then(|| DescentCursor {
            address: route.address,
            parent: route.parent.unwrap_or(Address::NULL),
            next: route.next,
            fresh: false,
            help: None,
            from: Address::NULL,
            forwarding_retries: 0,
        })
    }

    fn locate(
        &self,
        lane: &Lane<'_>,
        key: &Range<usize>,
        cached: bool,
    ) -> impl Future<Output = Result<Option<DescentCursor>, Interrupt>> {
        self.descend(lane, key, 0, cached)
    }

    /// A leaf that does not cover the key always leads on, by a link.
    fn learn(&self, lane: &Lane<'_>, cursor: &mut DescentCursor, found: FenceCheck, image: Span) -> bool {
        match found {
            FenceCheck::Right(sibling) => {
                lane.mark(Mark::MOVE_RIGHT);
                if cursor.parent.is_null() {
                    self.root.forget();
                }
                if cursor.fresh {
                    cursor.help = Some((0, sibling));
                    lane.port().with(|scratch| self.note_help(scratch, image));
                } else {
                    self.cache.invalidate(cursor.parent);
                }
                cursor.from = cursor.address;
                cursor.address = sibling;
            }
            FenceCheck::Forward(left) => {
                lane.mark(Mark::FORWARDED);
                if !cursor.from.is_null() {
                    cursor.forwarding_retries += 1;
                }
                // The next leaf was not reached by a link. If it is retired, too, no left neighbour is known that links
                // to it.
                cursor.from = Address::NULL;
                self.cache.invalidate(cursor.parent);
                cursor.address = left;
            }
            FenceCheck::Here => {}
        }
        // A move to the right shows a half-split only if a parent that was READ in this descent led to the leaf. No
        // parent led to the next leaf.
        cursor.fresh = false;
        true
    }

    #[inline]
    fn forget(&self, _: &Lane<'_>, cursor: &DescentCursor) {
        self.cache.invalidate(cursor.parent);
    }

    #[inline]
    fn forget_root(&self, _: &Lane<'_>) {
        self.root.forget();
    }

    async fn plant(&self, lane: &Lane<'_>, leaf: Address) -> Result<bool, OpError> {
        let (node, offset) = self.root_word;
        let mut cas = Request::cas(Label::Root, node, offset, 0, leaf.to_bits());
        if planted(Mutant::ROOT_OVERWRITTEN) {
            cas = Request::write_word(Label::Root, node, offset, leaf.to_bits());
        }
        let is_first = lane.port().call(cas).await?.value == 0;
        if is_first {
            self.root.set(leaf, 0);
        } else {
            lane.mark(Mark::ROOT_RACE_LOST);
        }
        Ok(is_first)
    }

    fn link(&self, lane: &Lane<'_>, level: u8, right: Address) -> impl Future<Output = Result<(), Interrupt>> {
        self.link_above(lane, level, right)
    }

    fn leaves_ahead(&self, lane: &Lane<'_>, bound: &Range<usize>, down: bool, leaves: &mut [Address]) -> usize {
        let Some(root) = self.root.get() else { return 0 };
        lane.port().with(|scratch| {
            let key = scratch.get(bound.clone()).unwrap_or_default();
            self.cache.leaves(root, key, self.epoch(lane), down, leaves)
        })
    }
}
