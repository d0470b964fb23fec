//! What a tree of bytes asks of its leaves: each of them has one key.
//!
//! Slots lead to leaves. Each index has its own way to store a leaf, to tell a whole image from a torn one, and to lock
//! a leaf: it implements `RadixLeaf`. Descents (`super::descent`), new leaves (`super::attach`), replaced nodes
//! (`super::replace`), tombstones ([`super::tombstones`]) and walks (`super::walk`) build on it.
//!
//! What needs no leaf are methods of `super::tree::Tree`, for trees of tiles, too: the steps of descents
//! (`super::look`), descents by tiles (`super::tile_descent`), chains of nodes ([`super::chain`]), freezing
//! (`super::freeze`), and the replacement of a node of tiles (`super::replace`).

use super::slot::Place;
use super::tree::Tree;
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::operation::ScratchPlan;
use crate::operation::span::Span;
use crate::verbs::Request;
use core::future::Future;

/// State of a leaf: its state byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LeafState {
    /// The record is there.
    Valid = 1,
    /// It was deleted, and may be inserted again.
    Deleted = 2,
    /// It was deleted, and its tombstone is finalized: this leaf stays as it is, in the tree or out of it, until its
    /// place is reused.
    Finalized = 3,
}

/// What an image of a leaf says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    /// It has the operation's key.
    pub ours: bool,
    /// Whether the record is there.
    pub state: LeafState,
}

/// An index of this family: the shared tree, and the index's own leaves. A leaf has one key, which never changes.
pub(crate) trait RadixLeaf<'s>: Sized {
    /// The part that radix trees share.
    fn tree(&self) -> &Tree<'s>;

    /// Where arguments and results are in the scratch.
    fn plan(&self) -> &ScratchPlan;

    /// Bytes of a leaf's place.
    fn place_bytes(&self) -> usize;

    /// The state of an image. [`DecodeError::Torn`]: it is a mixture of two WRITEs.
    fn state(&self, image: &[u8]) -> Result<LeafState, DecodeError>;

    /// The key of an image.
    fn leaf_key<'a>(&self, image: &'a [u8]) -> &'a [u8];

    /// The value of an image.
    fn leaf_value<'a>(&self, image: &'a [u8]) -> &'a [u8];

    /// The READ of a leaf into leaf image `i`.
    fn leaf_request(&self, leaf: Place, i: usize) -> Request;

    /// The READ of the word that has a leaf's state.
    fn state_request(&self, leaf: Place, word: Span) -> Request;

    /// Whether that word is a deleted leaf's, finalized or not.
    fn is_tombstone(word: u64) -> bool;

    /// Builds the operation's leaf, which goes to `leaf`, and pushes its WRITE.
    fn push_leaf(&self, lane: &Lane<'_>, leaf: Place);

    /// READs a leaf into leaf image 0 until it is whole, and judges it.
    ///
    /// This and the next two are no `async fn`s, so that an index returns the future of its own procedure, without
    /// another one around it.
    fn read_leaf(&self, lane: &Lane<'_>, leaf: Place) -> impl Future<Output = Result<Judged, Interrupt>>;

    /// Locks a leaf, READs it into leaf image `i`, and unlocks it. The other images keep their content.
    fn read_leaf_locked(&self, lane: &Lane<'_>, leaf: Place, i: usize) -> impl Future<Output = Result<(), Interrupt>>;

    /// Finalizes a leaf under its lock, if it is deleted. With `waits` it waits for a busy lock. Returns whether the
    /// leaf is finalized and may leave the tree. Uses leaf image 0. The operation's own change comes later, so a
    /// failure here has no effect.
    fn finalize(&self, lane: &Lane<'_>, leaf: Place, waits: bool) -> impl Future<Output = Result<bool, Interrupt>>;

    /// Copies the operation's key to the stack.
    fn key<'k>(&self, scratch: &[u8], room: &'k mut [u8; 64]) -> &'k [u8] {
        match (room.get_mut(..self.plan().key_bytes), scratch.get(self.plan().key.clone())) {
            (Some(to), Some(from)) => {
                to.copy_from_slice(from);
                to
            }
            _ => &[],
        }
    }
}
