//! What a radix tree needs to know of SMART's leaves.

use super::Smart;
use super::layout::LeafState;
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::operation::ScratchPlan;
use crate::operation::span::Span;
use crate::radix::leaf::{Judged, RadixLeaf};
use crate::radix::slot::Place;
use crate::radix::tree::Tree;
use crate::verbs::{Label, Request};
use core::future::Future;

impl<'s> RadixLeaf<'s> for Smart<'s> {
    #[inline]
    fn tree(&self) -> &Tree<'s> {
        &self.tree
    }

    #[inline]
    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }

    #[inline]
    fn place_bytes(&self) -> usize {
        self.leaf.place_bytes
    }

    #[inline]
    fn state(&self, image: &[u8]) -> Result<LeafState, DecodeError> {
        self.leaf.state(image)
    }

    #[inline]
    fn leaf_key<'a>(&self, image: &'a [u8]) -> &'a [u8] {
        self.leaf.key(image)
    }

    #[inline]
    fn leaf_value<'a>(&self, image: &'a [u8]) -> &'a [u8] {
        self.leaf.value(image)
    }

    fn leaf_request(&self, leaf: Place, i: usize) -> Request {
        let image = self.tree.scratch.leaf(i).with_bytes(self.leaf.read_bytes());
        Request::read(Label::Leaf, leaf.node(), leaf.offset(), image.bytes, image.at).untimed()
    }

    /// Of the seal alone.
    fn state_request(&self, leaf: Place, word: Span) -> Request {
        Request::read(Label::Leaf, leaf.node(), leaf.offset(), word.bytes, word.at).untimed()
    }

    fn is_tombstone(word: u64) -> bool {
        matches!(LeafState::of_seal(word), Some(LeafState::Deleted | LeafState::Finalized))
    }

    fn push_leaf(&self, lane: &Lane<'_>, leaf: Place) {
        self.push_new_leaf(lane, leaf);
    }

    fn read_leaf(&self, lane: &Lane<'_>, leaf: Place) -> impl Future<Output = Result<Judged, Interrupt>> {
        self.read_leaf_whole(lane, leaf)
    }

    fn read_leaf_locked(&self, lane: &Lane<'_>, leaf: Place, i: usize) -> impl Future<Output = Result<(), Interrupt>> {
        self.read_leaf_aside(lane, leaf, i)
    }

    fn finalize(&self, lane: &Lane<'_>, leaf: Place, waits: bool) -> impl Future<Output = Result<bool, Interrupt>> {
        self.finalize_leaf(lane, leaf, waits)
    }
}
