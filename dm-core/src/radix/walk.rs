//! The steps of walks in key order: scans ([`super::scan`]), the walk that checks every invariant ([`super::check`]),
//! and the walk that marks what is reachable ([`super::mark`]).
//!
//! A walk keeps its path in the scratch, 16 bytes a level: the slot that leads to the node, the first byte still to be
//! visited there, and where the node begins. Four node images are kept. A node whose image was overwritten by a deeper
//! one is READ again when the walk returns to it. The slots of an image are put in order once: a walk returns to a large node
//! up to 256 times.

use super::leaf::{LeafState, RadixLeaf};
use super::slot::{BYTES_MAX, Child, Header, Node, NodeType, Place, SLOTS_AT, Slot, set_word, word};
use super::tree::{LEAVES_AT_ONCE_MAX, NODE_IMAGES, corrupt};
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::Bits;
use crate::marks::Mark;
use crate::operation::OpError;
use crate::verbs::{Label, Request};

/// Error messages that several walks have in common.
pub(super) const MORE_NODES: &str = "more nodes than the pool has room for";
pub(super) const ANOTHER_PREFIX: &str = "a leaf of another prefix";
pub(super) const NOT_ASCENDING: &str = "a key that does not ascend";

/// READs of a torn leaf before its lock is taken, and READs after that before it counts as corrupt.
const TORN_MAX: u32 = 8;
const TORN_LATE_MAX: u32 = 16;

/// Pause between two late READs without the lock, in ns.
const TORN_PAUSE_NS: u64 = 5_000;

/// The path of a walk: the part that is not in the scratch.
pub(crate) struct Path {
    /// Nodes entered and not left.
    pub levels: usize,
    /// The level, plus one, whose node each node image has; 0: none.
    pub images: [u8; NODE_IMAGES],
    /// Whether the children of each image are in order ([`Walk::fetch_in_order`]).
    pub ordered: [bool; NODE_IMAGES],
}

impl Path {
    pub(crate) const fn empty() -> Self {
        Self { levels: 0, images: [0; NODE_IMAGES], ordered: [false; NODE_IMAGES] }
    }
}

/// A level of a path.
#[derive(Clone, Copy)]
pub(crate) struct Level {
    /// The slot that leads to the node.
    pub to: Slot,
    /// The first byte still to be visited, up to 256.
    pub next: u16,
    /// Where the node begins.
    pub begin: u8,
    /// In front of the node's position, all keys below have the bytes of the lower bound.
    pub tight: bool,
}

impl Level {
    pub(crate) const fn words(&self) -> [u64; 2] {
        [self.to.0, self.next as u64 | (self.begin as u64) << 16 | (self.tight as u64) << 24]
    }

    pub(crate) const fn from_words(words: [u64; 2]) -> Self {
        let [to, rest] = words;
        Self { to: Slot(to), next: rest as u16, begin: (rest >> 16) as u8, tight: rest >> 24 != 0 }
    }
}

/// The next children of a node in ascending order: leaves READ together, or one node.
#[derive(Clone, Copy)]
pub(crate) struct Children {
    /// The leaves.
    pub leaves: [Slot; LEAVES_AT_ONCE_MAX],
    /// How many.
    pub count: usize,
    /// The position of the key at which the children begin.
    pub depth: u8,
    /// The node.
    pub node: Option<(Slot, NodeType, Place)>,
    /// The first byte behind them; 256: none.
    pub next: u16,
}

// One word has a bit for each leaf.
const _: () = assert!(LEAVES_AT_ONCE_MAX <= 64);

/// Nodes of up to so many slots are put in order slot by slot.
const FEW_SLOTS: usize = 32;

/// Puts the children of a node's image in ascending order. The first slot of a byte counts, and others are dropped.
fn put_in_order(image: &mut [u8], kind: NodeType) {
    let Some((words, _)) = image.get_mut(SLOTS_AT..kind.bytes()).map(|words| words.as_chunks_mut::<8>()) else {
        return;
    };
    let (mut least, mut in_order) = (0, true);
    for bytes in &*words {
        let slot = Slot(u64::from_le_bytes(*bytes));
        let byte = u16::from(slot.partial());
        // Behind an empty slot are empty ones only.
        (least, in_order) = if slot.is_empty() { (u16::MAX, in_order) } else { (byte + 1, in_order && byte >= least) };
    }
    if in_order {
        return;
    }
    if words.len() <= FEW_SLOTS { put_few_in_order(words) } else { put_many_in_order(words) }
}

/// See [`put_in_order`].
fn put_few_in_order(words: &mut [[u8; 8]]) {
    let mut count = 0;
    for at in 0..words.len() {
        let slot = Slot(words.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes)));
        if slot.is_empty() {
            continue;
        }
        // What is in order ends in front of this slot, or here.
        let Some(ordered) = words.get_mut(..=count) else { return };
        let before = |bytes: &[u8; 8]| Slot(u64::from_le_bytes(*bytes)).partial();
        let behind = ordered.iter().take(count).rposition(|bytes| before(bytes) <= slot.partial());
        if behind.and_then(|at| ordered.get(at)).is_some_and(|bytes| before(bytes) == slot.partial()) {
            continue;
        }
        let Some(moved) = ordered.get_mut(behind.map_or(0, |at| at + 1)..) else { return };
        moved.rotate_right(1);
        if let Some(first) = moved.first_mut() {
            *first = slot.0.to_le_bytes();
        }
        count += 1;
    }
    words.iter_mut().skip(count).for_each(|bytes| *bytes = Slot::EMPTY.0.to_le_bytes());
}

/// See [`put_in_order`].
fn put_many_in_order(words: &mut [[u8; 8]]) {
    let (mut there, mut slots) = ([0_u64; 4], [0_u64; 256]);
    for bytes in &*words {
        let slot = Slot(u64::from_le_bytes(*bytes));
        let byte = slot.partial();
        let (Some(bits), Some(place)) = (there.get_mut(usize::from(byte / 64)), slots.get_mut(usize::from(byte)))
        else {
            continue;
        };
        let bit = 1 << (byte % 64);
        if !slot.is_empty() && *bits & bit == 0 {
            *bits |= bit;
            *place = slot.0;
        }
    }
    let bytes = (0..4_u8).zip(there).flat_map(|(number, bits)| Bits(bits).map(move |bit| number * 64 + bit));
    let ordered = bytes.map(|byte| slots.get(usize::from(byte)).copied().unwrap_or_default());
    for (to, slot) in words.iter_mut().zip(ordered.chain(core::iter::repeat(Slot::EMPTY.0))) {
        *to = slot.to_le_bytes();
    }
}

/// Steps of walks in any radix tree.
pub(crate) trait Walk<'s>: RadixLeaf<'s> {
    fn level(&self, lane: &Lane<'_>, i: usize) -> Level {
        let at = self.tree().scratch.level(i).at;
        Level::from_words(lane.port().with(|scratch| [word(scratch, at), word(scratch, at + 8)]))
    }

    fn set_level(&self, lane: &Lane<'_>, i: usize, level: Level) {
        let at = self.tree().scratch.level(i).at;
        let [to, rest] = level.words();
        lane.port().with(|scratch| {
            set_word(scratch, at, to);
            set_word(scratch, at + 8, rest);
        });
    }

    /// READs the path's last node, unless its image is still there.
    async fn fetch(&self, lane: &Lane<'_>, path: &mut Path) -> Result<(), OpError> {
        let Some(level) = path.levels.checked_sub(1) else { return Ok(()) };
        let Some(owner) = path.images.get_mut(level % NODE_IMAGES) else { return Ok(()) };
        if usize::from(*owner) == path.levels {
            return Ok(());
        }
        *owner = path.levels as u8;
        if let Some(ordered) = path.ordered.get_mut(level % NODE_IMAGES) {
            *ordered = false;
        }
        let to = self.level(lane, level).to;
        let Ok(Child::Node(kind, place)) = to.child() else { return Ok(()) };
        let at = self.tree().scratch.node(level).at;
        let read = Request::read(Label::Inner, place.node(), place.offset(), kind.bytes(), at).untimed();
        lane.port().call(read).await?;
        Ok(())
    }

    /// As [`Walk::fetch`], and puts the slots of the image in the order that [`Walk::children`] needs.
    async fn fetch_in_order(&self, lane: &Lane<'_>, path: &mut Path) -> Result<(), OpError> {
        self.fetch(lane, path).await?;
        let Some(level) = path.levels.checked_sub(1) else { return Ok(()) };
        let Some(ordered) = path.ordered.get_mut(level % NODE_IMAGES).filter(|ordered| !**ordered) else {
            return Ok(());
        };
        *ordered = true;
        if let Ok(Child::Node(kind, _)) = self.level(lane, level).to.child() {
            lane.port().with(|scratch| put_in_order(self.tree().scratch.node(level).of_mut(scratch), kind));
        }
        Ok(())
    }

    /// Checks the image of node `level` of the path, and passes it to `look`.
    fn at_node<R>(
        &self,
        lane: &Lane<'_>,
        level: usize,
        look: impl FnOnce(&Node<'_>, Level) -> Result<R, &'static str>,
    ) -> Result<R, OpError> {
        let here = self.level(lane, level);
        let Ok(Child::Node(kind, place)) = here.to.child() else {
            return Err(corrupt(self.tree().root, "a path without a node"));
        };
        lane.port().with(|scratch| {
            let image = self.tree().scratch.node(level).of(scratch);
            let node = match Node::new(image, kind, self.tree().index) {
                Ok(node) => node,
                Err(DecodeError::Corrupt(what)) => return Err(corrupt(place, what)),
                Err(_) => return Err(corrupt(place, "no node")),
            };
            let position = usize::from(node.header.position);
            let begin = usize::from(here.begin);
            if position < begin || position >= self.plan().key_bytes || position - begin > usize::from(node.header.size)
            {
                return Err(corrupt(place, "a node that cannot be here"));
            }
            look(&node, here).map_err(|what| corrupt(place, what))
        })
    }

    /// The children of a node from byte `from` on. Its slots are in order.
    fn children(&self, node: &Node<'_>, from: u16, leaves_max: usize) -> Result<Children, &'static str> {
        let depth = node.header.position + 1;
        let mut children =
            Children { leaves: [Slot::EMPTY; LEAVES_AT_ONCE_MAX], count: 0, depth, node: None, next: 256 };
        for slot in node.slots_from(from) {
            let byte = slot.partial();
            if let Some(place) = slot.leaf_place()
                && self.tree().is_inside(place, self.place_bytes())
            {
                let Some(to) = children.leaves.get_mut(children.count).filter(|_| children.count < leaves_max) else {
                    children.next = u16::from(byte);
                    return Ok(children);
                };
                *to = slot;
                children.count += 1;
                continue;
            }
            match slot.child() {
                Ok(Child::Node(kind, place)) if self.tree().is_inside(place, kind.bytes()) => {
                    if children.count > 0 {
                        children.next = u16::from(byte);
                    } else {
                        children.node = Some((slot, kind, place));
                        children.next = u16::from(byte) + 1;
                    }
                    return Ok(children);
                }
                _ => return Err("a slot that leads nowhere"),
            }
        }
        Ok(children)
    }

    /// Pushes READs of leaves into the leaf images. Leaf images are as far apart as places of leaves. So one READ
    /// brings all leaves whose places follow each other, as they do where leaves were inserted one after the other.
    fn push_leaves(&self, lane: &Lane<'_>, children: &Children) {
        let mut run: Option<(Place, Request)> = None;
        for (i, leaf) in children.leaves.iter().enumerate().take(children.count) {
            let Some(place) = leaf.leaf_place() else { continue };
            let next = place.plus(self.place_bytes());
            match &mut run {
                Some((end, read)) if *end == place => {
                    *end = next;
                    read.bytes += self.place_bytes() as u32;
                }
                _ => {
                    if let Some((_, read)) = run.replace((next, self.leaf_request(place, i))) {
                        lane.port().push(read);
                    }
                }
            }
        }
        if let Some((_, read)) = run {
            lane.port().push(read);
        }
    }

    /// READs leaves into the leaf images. Torn ones are READ again, one by one, and under their locks in the end if
    /// `locks` is set. (A walk that checks an index does not wait for locks: the index is quiet, or its memory may have
    /// any content.)
    ///
    /// Returns which leaves are valid, a bit each. Others are deleted.
    async fn read_leaves(&self, lane: &Lane<'_>, children: &Children, locks: bool) -> Result<u64, Interrupt> {
        self.push_leaves(lane, children);
        lane.port().submit().await?;
        // All of them in one look at the scratch. What is not whole is looked at again, one by one.
        let (mut valid, mut others) = (0_u64, 0_u64);
        lane.port().with(|scratch| {
            for (i, image) in self.tree().scratch.leaves(scratch, children.count).enumerate() {
                match self.state(image) {
                    Ok(state) => valid |= u64::from(state == LeafState::Valid) << i,
                    Err(_) => others |= 1 << i,
                }
            }
        });
        for i in Bits(others).map(usize::from) {
            let Some(place) = children.leaves.get(i).and_then(|leaf| leaf.leaf_place()) else { continue };
            let mut tries = 0;
            loop {
                match lane.port().with(|scratch| self.state(self.tree().scratch.leaf(i).of(scratch))) {
                    Ok(state) => {
                        valid |= u64::from(state == LeafState::Valid) << i;
                        break;
                    }
                    Err(DecodeError::Corrupt(what)) => return Err(corrupt(place, what).into()),
                    Err(_) => {}
                }
                lane.mark(Mark::TORN_READ);
                lane.check_deadline()?;
                tries += 1;
                if tries <= TORN_MAX {
                    lane.port().call(self.leaf_request(place, i)).await?;
                } else if tries > TORN_MAX + TORN_LATE_MAX {
                    return Err(corrupt(place, "a leaf that stays torn: a writer died in a WRITE").into());
                } else if !locks {
                    lane.port().call(Request::pause(TORN_PAUSE_NS)).await?;
                    lane.port().call(self.leaf_request(place, i)).await?;
                } else {
                    lane.mark(Mark::LOCKED_READ);
                    self.read_leaf_locked(lane, place, i).await?;
                }
            }
        }
        Ok(valid)
    }

    /// How many nodes the pool has room for. A walk that enters more nodes goes in circles, so the pool is damaged.
    fn nodes_max(&self) -> u64 {
        let pool_bytes: u64 = self.tree().geometry.iter().map(|node| node.region_bytes).sum();
        pool_bytes / NodeType::SMALLEST.bytes() as u64
    }

    fn low_byte(&self, lane: &Lane<'_>, at: usize) -> Option<u8> {
        lane.port().with(|scratch| scratch.get(self.plan().key.clone())?.get(at).copied())
    }

    /// READs a node and makes it the path's last, unless all keys below it are less than the lower bound.
    async fn enter(&self, lane: &Lane<'_>, path: &mut Path, to: Slot, begin: u8, tight: bool) -> Result<(), OpError> {
        let level = path.levels;
        if level >= self.plan().key_bytes {
            return Err(corrupt(self.tree().root, "a path that is too long"));
        }
        self.set_level(lane, level, Level { to, next: 0, begin, tight });
        path.levels += 1;
        if let Some(owner) = path.images.get_mut(level % NODE_IMAGES) {
            *owner = 0;
        }
        self.fetch(lane, path).await?;
        if !tight {
            return self.at_node(lane, level, |_, _| Ok(()));
        }
        let header: Header = self.at_node(lane, level, |node, _| Ok(node.header))?;
        let order = lane.port().with(|scratch| {
            let mut room = [0; 64];
            let key = self.key(scratch, &mut room);
            let position = usize::from(header.position);
            let begin = usize::from(begin);
            let bytes = (begin..position).map(|at| header.byte_at(at));
            let wanted = (begin..position).map(|at| key.get(at).copied());
            (bytes.cmp(wanted), key.get(position).copied().unwrap_or_default())
        });
        match order {
            (core::cmp::Ordering::Less, _) => path.levels -= 1,
            (core::cmp::Ordering::Equal, low) => {
                self.set_level(lane, level, Level { to, next: u16::from(low), begin, tight: true });
            }
            (core::cmp::Ordering::Greater, _) => {
                self.set_level(lane, level, Level { to, next: 0, begin, tight: false });
            }
        }
        Ok(())
    }

    /// If node `level` was entered, writes its prefix into the lower bound, from byte `begin` on. The next operation of
    /// the walk begins below that node.
    fn raise_to_node(&self, lane: &Lane<'_>, path: &Path, level: usize, begin: usize) -> Result<(), OpError> {
        if path.levels <= level {
            return Ok(());
        }
        let header = self.at_node(lane, level, |node, _| Ok(node.header))?;
        let mut bytes = [0; BYTES_MAX];
        let below = usize::from(header.position).saturating_sub(begin);
        for (at, byte) in bytes.iter_mut().enumerate().take(below) {
            *byte = header.byte_at(begin + at).unwrap_or_default();
        }
        self.raise_bound(lane, begin, bytes.get(..below).unwrap_or_default(), false);
        Ok(())
    }

    /// Sets bytes of the lower bound from `at` on. If this is the `end` of it, sets all bytes behind them to 0.
    fn raise_bound(&self, lane: &Lane<'_>, at: usize, bytes: &[u8], end: bool) {
        lane.port().with(|scratch| {
            let key = scratch.get_mut(self.plan().key.clone()).unwrap_or_default();
            let Some((to, rest)) = key.get_mut(at..).and_then(|key| key.split_at_mut_checked(bytes.len())) else {
                return;
            };
            to.copy_from_slice(bytes);
            if end {
                rest.fill(0);
            }
        });
    }
}

impl<'s, L: RadixLeaf<'s>> Walk<'s> for L {}

/// The one leaf that the root slot leads to.
pub(crate) const fn single(slot: Slot) -> Children {
    let mut leaves = [Slot::EMPTY; LEAVES_AT_ONCE_MAX];
    leaves[0] = slot;
    Children { leaves, count: 1, depth: 0, node: None, next: 256 }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::radix::slot::{NODE_BYTES_MAX, build};
    use crate::verbs::NodeId;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        /// From each byte on: the children that a search of the slots as they were READ finds, in ascending order.
        #[test]
        fn children_in_order_are_those_that_a_search_finds(
            kind in 1_u8..8,
            slots in proptest::collection::vec((any::<u8>(), 0_u64..4), 0..300),
            from in 0_u16..=256,
        ) {
            let kind = NodeType::new(kind).unwrap();
            let header = Header::new(kind, 0, 3, b"abc");
            // A fourth of the slots is empty, and of a byte there may be several.
            let slot = |(i, (byte, place)): (usize, (u8, u64))| match place {
                0 => Slot::EMPTY,
                _ => Slot::leaf(byte, Place::new(NodeId(0), 1024 * (4 * i as u64 + place))),
            };
            let mut image = [0; NODE_BYTES_MAX];
            build(&mut image, &header, 7, slots.into_iter().take(kind.slots()).enumerate().map(slot));
            let read = image;
            put_in_order(&mut image, kind);
            let ordered = Node::new(&image, kind, 7).unwrap().slots_from(from).collect::<Vec<_>>();
            let searched = (from..256).filter_map(|byte| Node::new(&read, kind, 7).unwrap().search(byte as u8).found);
            prop_assert_eq!(ordered, searched.map(|(_, slot)| slot).collect::<Vec<_>>());
        }
    }
}
