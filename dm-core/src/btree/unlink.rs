//! The inner nodes forget a leaf: the parent's part in a merge ([`super::merge`]).
//!
//! A router without merges does not implement [`Unlink`]; then its leaf level has no [`super::merge`].

use super::Tree;
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

/// A router that can forget a leaf: what a merge of two leaves asks of it, in this order.
pub(crate) trait Unlink: Router {
    /// Acquires the lock of the parent of the leaf that covers the key at scratch range `key`. `None`: it has none.
    async fn acquire_parent(&self, lane: &Lane<'_>, key: &Range<usize>) -> Result<Option<Held>, Interrupt>;

    /// READs the held parent into node image 1 and chooses the neighbour with which the leaf at `emptied`, which
    /// covers that key, can be joined. `None`: it is not its parent any more, or has no other child.
    async fn choose_neighbour(
        &self,
        lane: &Lane<'_>,
        parent: &Held,
        key: &Range<usize>,
        emptied: Address,
    ) -> Result<Option<Pair>, OpError>;

    /// Reads the separator of two neighbours from the image of their parent, with which `image` begins.
    fn separator(&self, image: &[u8], pair: &Pair, separator: &mut [u8]) -> Option<()>;

    /// Removes the right one of two neighbours from the image of their parent, with which `image` begins.
    fn unlink(&self, image: &mut [u8], pair: &Pair);

    /// Pushes the WRITE of the held parent from node image 1.
    fn push_parent(&self, lane: &Lane<'_>, parent: &Held) -> Result<(), OpError>;

    /// Drops the copy of a parent that was written so.
    fn forget_parent(&self, parent: &Held);

    /// Releases the parent's lock.
    fn release_parent(&self, lane: &Lane<'_>, parent: Held) -> impl Future<Output = Result<(), OpError>>;
}

impl Unlink for Tree<'_> {
    async fn acquire_parent(&self, lane: &Lane<'_>, key: &Range<usize>) -> Result<Option<Held>, Interrupt> {
        let Some(cursor) = self.descend(lane, key, 1, true).await? else { return Ok(None) };
        let (held, _) = self.acquire(lane, cursor.address, None).await?;
        Ok(Some(held))
    }

    async fn choose_neighbour(
        &self,
        lane: &Lane<'_>,
        parent: &Held,
        key: &Range<usize>,
        emptied: Address,
    ) -> Result<Option<Pair>, OpError> {
        let parent = parent.protects;
        let (bytes, at) = (self.inner.bytes, self.scratch.node(1));
        let target = Target { address: parent, bytes, at, label: Label::Parent };
        let wanted = Wanted { address: parent, index: self.index, level: 1 };
        let look = |scratch: &mut [u8]| {
            let key = scratch.get(key.clone()).unwrap_or_default();
            self.choose_pair(scratch.get(at..at + bytes).unwrap_or_default(), &wanted, key, emptied)
        };
        Ok(self.read_locked(lane, target, false, look).await?.flatten())
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
        let (bytes, at) = (self.inner.bytes, self.scratch.node(1));
        self.push_in_place(lane, parent.lock, Label::Parent, parent.protects, 0..bytes, at)
    }

    fn forget_parent(&self, parent: &Held) {
        self.cache.invalidate(parent.protects);
    }

    fn release_parent(&self, lane: &Lane<'_>, parent: Held) -> impl Future<Output = Result<(), OpError>> {
        self.release(lane, parent)
    }
}

impl Tree<'_> {
    /// Which neighbour the leaf at `emptied`, which covers `key`, can be joined with, by a locked parent's image.
    /// `None`: the parent is not its parent (any more), or has no other child.
    fn choose_pair(
        &self,
        image: &[u8],
        wanted: &Wanted,
        key: &[u8],
        emptied: Address,
    ) -> Result<Option<Pair>, DecodeError> {
        if node::judge(image, wanted, key)? != FenceCheck::Here {
            return Ok(None);
        }
        let inner = Inner::new(&self.inner, image)
            .ok_or(DecodeError::Corrupt("an inner node with more separators than its span"))?;
        let position = inner.position(key);
        if inner.child(position) != emptied || inner.children() < 2 {
            return Ok(None);
        }
        let separator = position.max(1);
        Ok(Some(Pair { left: inner.child(separator - 1), right: inner.child(separator), separator }))
    }
}
