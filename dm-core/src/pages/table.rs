//! The table: where a page is, in a frame or on its way.
//!
//! Chains of *nodes*, which are frames and fills. A page has at most one node. Only the holder of a chain's latch
//! changes it. A lane that looks for a frame takes no latch: what it finds is checked against the frame's own words, and
//! what it overlooks it finds again under the latch.

use super::frame::Frame;
use super::latch::{Latched, content};
use super::slot::Slot;
use super::{FrameName, PageStore, Refused};
use crate::remote::address::Address;
use core::sync::atomic::AtomicU32;

/// Most nodes that a lane visits without a latch. Chains have one node on average.
const CHAIN_NODES: usize = 16;

/// What a chain leads to.
pub(super) enum Node<'s> {
    Frame(u32, Frame<'s>),
    Fill(u32, Slot<'s>),
}

impl Node<'_> {
    fn id(&self) -> Address {
        match self {
            Self::Frame(_, frame) => frame.id(),
            Self::Fill(_, fill) => fill.id(),
        }
    }

    fn link(&self) -> u32 {
        match self {
            Self::Frame(_, frame) => frame.link(),
            Self::Fill(_, fill) => fill.link(),
        }
    }

    fn set_link(&self, link: u32) {
        match self {
            Self::Frame(_, frame) => frame.set_link(link),
            Self::Fill(_, fill) => fill.set_link(link),
        }
    }
}

/// A chain whose latch the caller has.
pub(super) struct Chain<'t, 's> {
    store: &'t PageStore<'s>,
    head: Latched<'s>,
}

impl<'s> PageStore<'s> {
    /// The head of the chain of a page.
    #[inline]
    fn head(&self, id: Address) -> Option<&'s AtomicU32> {
        // Pages lie at regular distances, and differ in few bits. Multiply, and take the top bits, which depend on all.
        let mixed = (id.to_bits() >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        self.heads.get(((mixed * self.heads.len() as u64) >> 32) as usize)
    }

    /// Node `number`; 0 is none.
    #[inline]
    fn node(&self, number: u32) -> Option<Node<'s>> {
        let index = number.checked_sub(1)?;
        match index.checked_sub(self.frame_count) {
            None => Some(Node::Frame(index, self.frame(index)?)),
            Some(fill) => Some(Node::Fill(fill, self.fill_slot(fill)?)),
        }
    }

    /// The node number of a fill.
    pub(super) fn fill_node(&self, fill: u32) -> u32 {
        self.frame_count + fill + 1
    }

    /// The frame of page `id`, if it is found at once.
    #[inline]
    pub(super) fn lookup(&self, id: Address) -> Option<FrameName> {
        let mut next = content(self.head(id)?);
        for _ in 0..CHAIN_NODES {
            let node = self.node(next)?;
            if let Node::Frame(index, frame) = node
                && let Some(generation) = frame.holds(id)
            {
                return Some(FrameName { index, generation });
            }
            next = node.link();
        }
        None
    }

    /// Whether page `id` has a frame, if it is found at once.
    #[inline]
    pub fn is_cached(&self, id: Address) -> bool {
        self.lookup(id).is_some()
    }

    /// Takes the latch of the chain of page `id`.
    pub(super) fn chain(&self, id: Address) -> Result<Chain<'_, 's>, Refused> {
        let head = Latched::take(self.head(id).ok_or(Refused::Busy)?)?;
        Ok(Chain { store: self, head })
    }
}

impl<'s> Chain<'_, 's> {
    /// The nodes, each with the one before it.
    fn nodes(&self) -> impl Iterator<Item = (Option<Node<'s>>, u32, Node<'s>)> {
        let (mut before, mut number) = (0, self.head.get());
        // Each node is in one chain, once.
        let nodes_max = self.store.frame_count as usize + self.store.fills.len();
        (0..nodes_max).map_while(move |_| {
            let (node, link) = (self.store.node(number)?, self.store.node(number)?.link());
            let item = (self.store.node(before), number, node);
            (before, number) = (number, link);
            Some(item)
        })
    }

    /// The node of page `id`.
    pub(super) fn find(&self, id: Address) -> Option<Node<'s>> {
        self.nodes().map(|(_, _, node)| node).find(|node| node.id() == id)
    }

    /// Puts a node in front.
    pub(super) fn insert(&self, number: u32) {
        if let Some(node) = self.store.node(number) {
            node.set_link(self.head.get());
            self.head.set(number);
        }
    }

    /// Takes a node out, and puts another in its place, if there is one.
    pub(super) fn replace(&self, number: u32, by: Option<u32>) {
        let Some((before, _, node)) = self.nodes().find(|(_, found, _)| *found == number) else { return };
        let next = match by.and_then(|by| Some((by, self.store.node(by)?))) {
            Some((number, by)) => {
                by.set_link(node.link());
                number
            }
            None => node.link(),
        };
        match before {
            Some(before) => before.set_link(next),
            None => self.head.set(next),
        }
    }

    /// The node number of a frame.
    pub(super) fn frame_node(index: u32) -> u32 {
        index + 1
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SHAPE, page, storage};
    use super::*;
    extern crate std;
    use std::vec::Vec;

    #[test]
    fn chains_find_what_is_in_them_whatever_comes_and_goes() {
        let words = storage(SHAPE.words_for(8));
        let store = PageStore::new(&words, SHAPE).unwrap();
        // One chain for all, so that nodes come and go at the front, in the middle and at the end.
        let head = store.head(page(0)).unwrap();
        let chain = || Chain { store: &store, head: Latched::take(head).unwrap() };
        let name = |index: u32| store.frame(index).unwrap().name(page(u64::from(index)));
        let members = || -> Vec<u32> { chain().nodes().map(|(_, number, _)| number).collect() };
        for index in 0..4 {
            name(index);
            chain().insert(index + 1);
        }
        assert_eq!(members(), [4, 3, 2, 1]);
        for index in [0, 1, 2, 3] {
            assert!(matches!(chain().find(page(index)), Some(Node::Frame(found, _)) if u64::from(found) == index));
        }
        assert!(chain().find(page(7)).is_none());
        chain().replace(4, None);
        chain().replace(2, None);
        assert_eq!(members(), [3, 1]);
        chain().replace(1, Some(5));
        chain().replace(3, Some(6));
        chain().replace(99, None);
        assert_eq!(members(), [6, 5]);
        chain().replace(5, None);
        chain().replace(6, None);
        assert!(members().is_empty());
    }

    #[test]
    fn a_circle_of_links_ends_a_search() {
        // Nobody makes one. What is read without a latch may seem to be one.
        let words = storage(SHAPE.words_for(8));
        let store = PageStore::new(&words, SHAPE).unwrap();
        store.head(page(0)).unwrap().store(1, core::sync::atomic::Ordering::Relaxed);
        store.frame(0).unwrap().set_link(1);
        assert_eq!(store.lookup(page(0)), None);
        assert!(store.chain(page(0)).unwrap().find(page(0)).is_none());
    }
}
