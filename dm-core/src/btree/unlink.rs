//! Unlinking: the parent stops to name a leaf. This is the parent's part in a merge ([`super::merge`]).
//!
//! A router without merges does not implement [`Unlink`]; then its leaf level has no [`super::merge`].

use super::Tree;
use super::descent::DescentCursor;
use super::inner::{Inner, InnerMut};
use super::link::raise_node_version;
use super::node::{self, FenceCheck, Wanted};
use super::read::Target;
use super::router::Router;
use crate::compute::cache::Branch;
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::locks::protocol::{Held, Locks};
use crate::operation::OpError;
use crate::remote::address::Address;
use crate::verbs::Label;
use core::future::Future;
use core::ops::Range;

/// Two neighbours under one parent.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    /// The left one.
    pub left: Address,
    /// The right one.
    pub right: Address,
    /// The separator between them in the parent, 1-based.
    pub separator: usize,
}

/// A router that can unlink a leaf. A merge of two leaves calls these methods in this order.
pub(crate) trait Unlink: Router {
    /// Finds the parent of the leaf that covers the key at scratch range `key`. `None`: the leaf has no parent.
    fn locate_parent(
        &self,
        lane: &Lane<'_>,
        key: &Range<usize>,
    ) -> impl Future<Output = Result<Option<Self::Cursor>, Interrupt>>;

    /// Acquires the lock of the parent at `parent`, waiting for it.
    fn acquire_parent(&self, lane: &Lane<'_>, parent: Address)
    -> impl Future<Output = Result<(Held, bool), Interrupt>>;

    /// READs the held parent into node image 1 and chooses the neighbour with which the leaf at `emptied`, which covers
    /// that key, can be joined. `None`: the node is not the leaf's parent any more, or it has no other child.
    fn choose_neighbour(
        &self,
        lane: &Lane<'_>,
        parent: &Held,
        key: &Range<usize>,
        emptied: Address,
    ) -> impl Future<Output = Result<Option<Pair>, OpError>>;

    /// Reads the separator of two neighbours from the image of their parent, with which `image` begins.
    fn separator(&self, image: &[u8], pair: &Pair, separator: &mut [u8]) -> Option<()>;

    /// Removes the right one of two neighbours from the image of their parent, with which `image` begins.
    fn unlink(&self, image: &mut [u8], pair: &Pair);

    /// Pushes the WRITE of the held parent from node image 1.
    fn push_parent(&self, lane: &Lane<'_>, parent: &Held) -> Result<(), OpError>;

    /// Drops the copy of a parent that `push_parent` has changed.
    fn forget_parent(&self, parent: &Held);

    /// Releases the parent's lock.
    fn release_parent(&self, lane: &Lane<'_>, parent: Held) -> impl Future<Output = Result<(), OpError>>;
}

impl Unlink for Tree<'_> {
    fn locate_parent(
        &self,
        lane: &Lane<'_>,
        key: &Range<usize>,
    ) -> impl Future<Output = Result<Option<DescentCursor>, Interrupt>> {
        self.descend(lane, key, 1, true)
    }

    fn acquire_parent(
        &self,
        lane: &Lane<'_>,
        parent: Address,
    ) -> impl Future<Output = Result<(Held, bool), Interrupt>> {
        self.acquire(lane, parent, None)
    }

    fn choose_neighbour(
        &self,
        lane: &Lane<'_>,
        parent: &Held,
        key: &Range<usize>,
        emptied: Address,
    ) -> impl Future<Output = Result<Option<Pair>, OpError>> {
        let address = parent.protects;
        let target = Target { address, image: self.inner_image(1), label: Label::Parent };
        let look = move |scratch: &mut [u8]| self.choose_pair(scratch, address, key, emptied);
        Self::read_locked(lane, target, false, look)
    }

    fn separator(&self, image: &[u8], pair: &Pair, separator: &mut [u8]) -> Option<()> {
        Inner::new(&self.inner, image.get(..self.inner.bytes)?)?.read_separator(pair.separator, separator);
        Some(())
    }

    fn unlink(&self, image: &mut [u8], pair: &Pair) {
        let Some(image) = image.get_mut(..self.inner.bytes) else { return };
        InnerMut::new(&self.inner, image).remove(pair.separator);
        raise_node_version(image);
    }

    fn push_parent(&self, lane: &Lane<'_>, parent: &Held) -> Result<(), OpError> {
        let image = self.inner_image(1);
        self.push_in_place(lane, parent.lock, Label::Parent, parent.protects, 0..image.bytes, image)
    }

    fn forget_parent(&self, parent: &Held) {
        self.cache.invalidate(parent.protects);
    }

    fn release_parent(&self, lane: &Lane<'_>, parent: Held) -> impl Future<Output = Result<(), OpError>> {
        self.release(lane, parent)
    }
}

impl Tree<'_> {
    /// Chooses the neighbour with which the leaf at `emptied` can be joined, by the image of its locked parent, which
    /// is node image 1. The leaf covers the key at scratch range `key`. [`DecodeError::Stale`]: the node is not the
    /// leaf's parent (any more), or it has no other child.
    fn choose_pair(
        &self,
        scratch: &[u8],
        parent: Address,
        key: &Range<usize>,
        emptied: Address,
    ) -> Result<Pair, DecodeError> {
        let image = self.inner_image(1).of(scratch);
        let key = scratch.get(key.clone()).unwrap_or_default();
        let wanted = Wanted { address: parent, index: self.index, level: 1 };
        if node::judge(image, &wanted, key)? != FenceCheck::Here {
            return Err(DecodeError::Stale);
        }
        let inner = Inner::new(&self.inner, image)
            .ok_or(DecodeError::Corrupt("an inner node with more separators than its span"))?;
        let position = inner.position(key);
        if inner.child(position) != emptied || inner.children() < 2 {
            return Err(DecodeError::Stale);
        }
        let separator = position.max(1);
        Ok(Pair { left: inner.child(separator - 1), right: inner.child(separator), separator })
    }
}
