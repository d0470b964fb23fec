//! Which two leaves a merge joins. How is the index's own: see the rooms' `merge`.

use super::Tree;
use super::inner::Inner;
use super::node::{self, Standing, Wanted};
use crate::compute::cache::Branch;
use crate::error::DecodeError;
use crate::remote::address::Address;

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

impl Tree<'_> {
    /// Which neighbour the leaf at `emptied`, which covers `key`, can be joined with, by a locked parent's image. `None`:
    /// the parent is not its parent (any more), or has no other child.
    pub(crate) fn choose_pair(
        &self,
        image: &[u8],
        wanted: &Wanted,
        key: &[u8],
        emptied: Address,
    ) -> Result<Option<Pair>, DecodeError> {
        if node::judge(image, wanted, key)? != Standing::Here {
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
