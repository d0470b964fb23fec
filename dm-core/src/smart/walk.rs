//! Walks in key order: scans, and the walk that checks every invariant.
//!
//! A walk keeps its path in the scratch, 16 bytes a level: the slot that leads to the node, the first byte still to be
//! visited there, and where the node begins. Four node images are kept. A node whose image was overwritten by a deeper
//! one is READ again when the walk returns to it.
//!
//! A scan begins at the root slot, READ now, and trusts no copy. It takes each byte of a node once, in ascending order,
//! so keys ascend and none comes twice. Each leaf is READ whole, so each pair was current in its READ.
//! [`smart_scans`](crate::manual::smart_scans) says why a scan is complete.

use super::Smart;
use super::layout::LeafState;
use super::parameters::{LEAVES_AT_ONCE_MAX, NODE_IMAGES, PATH_BYTES};
use super::search::DescentCursor;
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::locks::protocol::Locks;
use crate::marks::Mark;
use crate::memory::Collection;
use crate::operation::{Census, OpError, Operation, Outcome};
use crate::radix::slot::{BYTES_MAX, Child, Header, Node, NodeType, Place, Slot, set_word, word};
use crate::smart::corrupt;
use crate::verbs::{Label, Request};

/// The path of a walk: the part that is not in the scratch.
struct Path {
    /// Nodes entered and not left.
    levels: usize,
    /// Whose image each node image is, by level plus one.
    images: [u8; NODE_IMAGES],
}

/// A level of a path.
#[derive(Clone, Copy)]
struct Level {
    /// The slot that leads to the node.
    to: Slot,
    /// The first byte still to be visited, up to 256.
    next: u16,
    /// Where the node begins.
    begin: u8,
    /// All keys below begin as the lower bound does up to the node's position.
    tight: bool,
}

impl Level {
    const fn words(&self) -> [u64; 2] {
        [self.to.0, self.next as u64 | (self.begin as u64) << 16 | (self.tight as u64) << 24]
    }

    const fn from_words(words: [u64; 2]) -> Self {
        let [to, rest] = words;
        Self { to: Slot(to), next: rest as u16, begin: (rest >> 16) as u8, tight: rest >> 24 != 0 }
    }
}

/// The next children of a node in ascending order: leaves READ together, or one node.
#[derive(Clone, Copy)]
struct Children {
    leaves: [Slot; LEAVES_AT_ONCE_MAX],
    count: usize,
    /// Where children begin.
    depth: u8,
    node: Option<(Slot, NodeType, Place)>,
    /// The first byte behind them.
    next: u16,
}

/// Positions of ones, in ascending order.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let bit = self.0.trailing_zeros() as u8;
        self.0 &= self.0.wrapping_sub(1);
        (bit < 64).then_some(bit)
    }
}

impl Smart<'_> {
    fn level(&self, lane: &Lane<'_>, i: usize) -> Level {
        let at = self.scratch.path + i * PATH_BYTES;
        Level::from_words(lane.port().with(|scratch| [word(scratch, at), word(scratch, at + 8)]))
    }

    fn set_level(&self, lane: &Lane<'_>, i: usize, level: Level) {
        let at = self.scratch.path + i * PATH_BYTES;
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
        let to = self.level(lane, level).to;
        let Ok(Child::Node(kind, place)) = to.child() else { return Ok(()) };
        let at = self.scratch.node(level);
        let read = Request::read(Label::Inner, place.node(), place.offset(), kind.bytes(), at).untimed();
        lane.port().call(read).await?;
        Ok(())
    }

    /// Looks at the image of node `level` of the path.
    fn at_node<R>(
        &self,
        lane: &Lane<'_>,
        level: usize,
        look: impl FnOnce(&Node<'_>, Level) -> Result<R, &'static str>,
    ) -> Result<R, OpError> {
        let here = self.level(lane, level);
        let Ok(Child::Node(kind, place)) = here.to.child() else {
            return Err(corrupt(self.root, "a path without a node"));
        };
        lane.port().with(|scratch| {
            let image = scratch.get(self.scratch.node(level)..).unwrap_or_default();
            let node = match Node::new(image, kind, self.index) {
                Ok(node) => node,
                Err(DecodeError::Corrupt(what)) => return Err(corrupt(place, what)),
                Err(_) => return Err(corrupt(place, "no node")),
            };
            let position = usize::from(node.header.position);
            let begin = usize::from(here.begin);
            if position < begin || position >= self.plan.key_bytes || position - begin > usize::from(node.header.size) {
                return Err(corrupt(place, "a node that cannot be here"));
            }
            look(&node, here).map_err(|what| corrupt(place, what))
        })
    }

    /// The children of a node from byte `from` on.
    fn children(&self, node: &Node<'_>, from: u16, leaves_max: usize) -> Result<Children, &'static str> {
        // Which bytes there are, and the number of each one's slot; the first slot of a byte counts.
        let (mut there, mut order) = ([0_u64; 4], [0_u8; 256]);
        for (i, slot) in node.slots().enumerate() {
            let byte = slot.partial();
            let (Some(bits), Some(place)) = (there.get_mut(usize::from(byte / 64)), order.get_mut(usize::from(byte)))
            else {
                continue;
            };
            let bit = 1 << (byte % 64);
            if !slot.is_empty() && u16::from(byte) >= from && *bits & bit == 0 {
                *bits |= bit;
                *place = i as u8;
            }
        }
        let bytes = (0..4_u8).zip(there).flat_map(|(number, bits)| Bits(bits).map(move |bit| number * 64 + bit));
        let depth = node.header.position + 1;
        let mut children =
            Children { leaves: [Slot::EMPTY; LEAVES_AT_ONCE_MAX], count: 0, depth, node: None, next: 256 };
        for byte in bytes {
            let slot = node.slot(order.get(usize::from(byte)).map_or(0, |i| usize::from(*i)));
            match slot.child() {
                Ok(Child::Leaf(place)) if self.is_inside(place, self.leaf.place_bytes) => {
                    let Some(to) = children.leaves.get_mut(children.count).filter(|_| children.count < leaves_max)
                    else {
                        children.next = u16::from(byte);
                        return Ok(children);
                    };
                    *to = slot;
                    children.count += 1;
                }
                Ok(Child::Node(kind, place)) if self.is_inside(place, kind.bytes()) => {
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

    /// Pushes READs of leaves into the leaf images. Images are as far apart as places. Leaves that lie one behind the
    /// other, as leaves do that were inserted one after the other, take one READ.
    fn push_leaves(&self, lane: &Lane<'_>, children: &Children) {
        let mut run: Option<(Place, Request)> = None;
        for (i, leaf) in children.leaves.iter().enumerate().take(children.count) {
            let Ok(Child::Leaf(place)) = leaf.child() else { continue };
            let next = place.plus(self.leaf.place_bytes);
            match &mut run {
                Some((end, read)) if *end == place => {
                    *end = next;
                    read.bytes += self.leaf.place_bytes as u32;
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
    async fn read_leaves(&self, lane: &Lane<'_>, children: &Children, locks: bool) -> Result<(), Interrupt> {
        self.push_leaves(lane, children);
        lane.port().submit().await?;
        for (i, leaf) in children.leaves.iter().enumerate().take(children.count) {
            let Ok(Child::Leaf(place)) = leaf.child() else { continue };
            let mut tries = 0;
            while self.is_torn(lane, i) {
                lane.mark(Mark::TornRead);
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
                    lane.mark(Mark::LockedRead);
                    self.read_leaf_locked(lane, place, i).await?;
                }
            }
        }
        Ok(())
    }

    fn is_torn(&self, lane: &Lane<'_>, i: usize) -> bool {
        lane.port().with(|scratch| {
            let image = scratch.get(self.scratch.leaf(i)..).unwrap_or_default();
            self.leaf.state(image) == Err(DecodeError::Torn)
        })
    }

    /// Locks a leaf, READs it into leaf image `i`, and unlocks it. Leaf image 0 keeps its content.
    async fn read_leaf_locked(&self, lane: &Lane<'_>, place: Place, i: usize) -> Result<(), Interrupt> {
        let bytes = self.leaf.read_bytes();
        let (first, spare) = (self.scratch.leaf(0), self.scratch.fresh_leaf);
        let keep = |from: usize, to: usize| {
            lane.port().with(|scratch| {
                if from + bytes <= scratch.len() && to + bytes <= scratch.len() {
                    scratch.copy_within(from..from + bytes, to);
                }
            });
        };
        keep(first, spare);
        let (held, _) = self.lock_leaf(lane, place).await?;
        let read = lane.port().call(self.leaf_request(place, i)).await;
        self.release(lane, held).await?;
        read?;
        if i > 0 {
            keep(spare, first);
        }
        Ok(())
    }

    /// Steps: READ root slot; down along the lower bound, a READ a node; from there on in ascending order, leaves of a
    /// node in one submit.
    pub(super) async fn scan(&self, lane: &Lane<'_>, operation: &Operation) -> Result<Outcome, Interrupt> {
        let limit = (operation.limit as usize).min(self.plan.page_records());
        let mut records = 0;
        if limit == 0 {
            return Ok(Outcome::Page { records: 0, more: false });
        }
        let root = self.read_root(lane, &self.way()).await?;
        let mut path = Path { levels: 0, images: [0; NODE_IMAGES] };
        match root.word.child() {
            Ok(Child::Empty) => return Ok(Outcome::Page { records: 0, more: false }),
            Ok(Child::Leaf(place)) if self.is_inside(place, self.leaf.place_bytes) => {
                let children = single(root.word);
                self.read_leaves(lane, &children, true).await?;
                self.take(lane, operation, &children, 0, limit, &mut records)?;
                return Ok(Outcome::Page { records: records as u32, more: false });
            }
            Ok(Child::Node(kind, place)) if self.is_inside(place, kind.bytes()) => {
                self.enter(lane, &mut path, root.word, 0, true).await?;
            }
            _ => return Err(corrupt(self.root, "a slot that leads nowhere").into()),
        }
        let mut nodes = 0;
        while path.levels > 0 {
            lane.check_deadline()?;
            self.fetch(lane, &mut path).await?;
            let level = path.levels - 1;
            let wanted = self.scratch.leaves_at_once.min(limit - records);
            let (children, here) =
                self.at_node(lane, level, |node, here| Ok((self.children(node, here.next, wanted)?, here)))?;
            self.set_level(lane, level, Level { next: children.next, ..here });
            if children.count > 0 {
                self.read_leaves(lane, &children, true).await?;
                if self.take(lane, operation, &children, path.levels, limit, &mut records)? {
                    return Ok(Outcome::Page { records: records as u32, more: false });
                }
                if records == limit {
                    return Ok(Outcome::Page { records: records as u32, more: true });
                }
            } else if let Some((slot, _, place)) = children.node {
                // Each node of the tree is entered once. Slots of several nodes that lead to one are damage: without
                // this limit, a scan would go through all combinations of them.
                nodes += 1;
                if nodes > self.nodes_max() {
                    return Err(corrupt(place, MORE_NODES).into());
                }
                let at = usize::from(children.depth) - 1;
                let tight = here.tight && self.low_byte(lane, at) == Some(slot.partial());
                self.enter(lane, &mut path, slot.thawed(), children.depth, tight).await?;
            } else {
                path.levels -= 1;
            }
        }
        Ok(Outcome::Page { records: records as u32, more: false })
    }

    /// Nodes the pool has room for: a walk that enters more goes round in damage.
    fn nodes_max(&self) -> u64 {
        let pool_bytes: u64 = self.geometry.iter().map(|node| node.region_bytes).sum();
        pool_bytes / NodeType::SMALLEST.bytes() as u64
    }

    fn low_byte(&self, lane: &Lane<'_>, at: usize) -> Option<u8> {
        lane.port().with(|scratch| scratch.get(self.plan.key.clone())?.get(at).copied())
    }

    /// READs a node and makes it the path's last, unless all that is below it is under the lower bound.
    async fn enter(&self, lane: &Lane<'_>, path: &mut Path, to: Slot, begin: u8, tight: bool) -> Result<(), OpError> {
        let level = path.levels;
        if level >= self.plan.key_bytes {
            return Err(corrupt(self.root, "a path that is too long"));
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

    /// Whether a leaf's key has the bytes by which a path of `levels` nodes led to it, the last of them that of its
    /// slot. The nodes' headers have the bytes in between.
    fn is_on_path(&self, scratch: &[u8], levels: usize, children: &Children, leaf: Slot, key: &[u8]) -> bool {
        let level = |i: usize| {
            let at = self.scratch.path + i * PATH_BYTES;
            Level::from_words([word(scratch, at), word(scratch, at + 8)])
        };
        let turned = |below: usize| {
            let at = usize::from(level(below).begin).checked_sub(1)?;
            Some((at, level(below - 1).next.checked_sub(1)?))
        };
        let last = usize::from(children.depth).checked_sub(1).map(|at| (at, u16::from(leaf.partial())));
        levels == 0
            || (1..levels)
                .map(turned)
                .chain([last])
                .all(|turn| turn.is_some_and(|(at, byte)| key.get(at).is_some_and(|found| u16::from(*found) == byte)))
    }

    /// Puts what is wanted of the leaf images, to which a path of `levels` nodes led, onto the page. Returns whether
    /// the upper bound was passed.
    ///
    /// A leaf's key never changes, so a leaf that is not of its path, or not above the one before, is damage. Left
    /// alone, it would send the next page back to where this one began.
    fn take(
        &self,
        lane: &Lane<'_>,
        operation: &Operation,
        children: &Children,
        levels: usize,
        limit: usize,
        records: &mut usize,
    ) -> Result<bool, OpError> {
        lane.port().with(|scratch| {
            let Some((front, page)) = scratch.split_at_mut_checked(self.plan.page.start) else { return Ok(true) };
            let low = front.get(self.plan.key.clone()).unwrap_or_default();
            let high = front.get(self.plan.key_high.clone()).unwrap_or_default();
            for i in 0..children.count {
                let image = front.get(self.scratch.leaf(i)..).unwrap_or_default();
                let key = self.leaf.key(image);
                let valid = match self.leaf.state(image) {
                    Ok(state) => state == LeafState::Valid,
                    Err(DecodeError::Corrupt(what)) => return Err(corrupt(self.root, what)),
                    Err(_) => return Err(corrupt(self.root, "a torn leaf")),
                };
                let leaf = children.leaves.get(i).copied().unwrap_or_default();
                if !self.is_on_path(front, levels, children, leaf, key) {
                    return Err(self.corrupt_leaf(leaf, ANOTHER_PREFIX));
                }
                if operation.bounded && key >= high {
                    return Ok(true);
                }
                if !valid || key < low || operation.after && key == low || *records >= limit {
                    continue;
                }
                let before = records.checked_sub(1).map(|last| self.plan.record(last).start - self.plan.page.start);
                if let Some(at) = before
                    && page.get(at..at + key.len()).is_none_or(|before| before >= key)
                {
                    return Err(self.corrupt_leaf(leaf, NOT_ASCENDING));
                }
                let range = self.plan.record(*records);
                let at = range.start - self.plan.page.start;
                let Some(record) = page.get_mut(at..at + range.len()) else { return Ok(true) };
                let Some((to_key, to_value)) = record.split_at_mut_checked(key.len()) else { return Ok(true) };
                to_key.copy_from_slice(key);
                if let (Some(to), Some(from)) =
                    (to_value.get_mut(..self.plan.value_bytes), self.leaf.value(image).get(..self.plan.value_bytes))
                {
                    to.copy_from_slice(from);
                }
                *records += 1;
            }
            Ok(false)
        })
    }

    /// The error of a leaf that this crate never writes.
    fn corrupt_leaf(&self, leaf: Slot, what: &'static str) -> OpError {
        match leaf.child() {
            Ok(Child::Leaf(place)) => corrupt(place, what),
            _ => corrupt(self.root, what),
        }
    }

    /// Marks what is reachable from the lower bound on ([`Collection::reach`]), until it has entered as many nodes as
    /// one operation should, so that epochs do not wait for longer. Returns whether it stopped for that; the lower
    /// bound is then where the next one begins.
    pub(super) async fn mark_some(
        &self,
        lane: &Lane<'_>,
        collection: &Collection<'_>,
        nodes: &mut u64,
    ) -> Result<bool, OpError> {
        let reach = |place: Place, bytes: usize| collection.reach(place.node(), place.offset(), bytes as u64);
        let root: DescentCursor = self.read_root(lane, &self.way()).await?;
        let mut path = Path { levels: 0, images: [0; NODE_IMAGES] };
        match root.word.child() {
            Ok(Child::Empty) => return Ok(false),
            Ok(Child::Leaf(place)) if self.is_inside(place, self.leaf.place_bytes) => {
                reach(place, self.leaf.place_bytes);
                return Ok(false);
            }
            Ok(Child::Node(kind, place)) if self.is_inside(place, kind.bytes()) => {
                reach(place, kind.bytes());
                self.enter(lane, &mut path, root.word, 0, true).await?;
                self.raise_to_node(lane, &path, 0, 0)?;
            }
            _ => return Err(corrupt(self.root, "a slot that leads nowhere")),
        }
        let mut entered = 0;
        while path.levels > 0 {
            self.fetch(lane, &mut path).await?;
            let level = path.levels - 1;
            let (children, here, header) = self.at_node(lane, level, |node, here| {
                Ok((self.children(node, here.next, LEAVES_AT_ONCE_MAX)?, here, node.header))
            })?;
            let position = usize::from(header.position);
            if entered >= MARKED_AT_ONCE
                && let Ok(next) = u8::try_from(here.next)
            {
                self.raise_bound(lane, position, &[next], true);
                return Ok(true);
            }
            self.set_level(lane, level, Level { next: children.next, ..here });
            for leaf in children.leaves.iter().take(children.count) {
                if let Ok(Child::Leaf(place)) = leaf.child() {
                    reach(place, self.leaf.place_bytes);
                }
            }
            if let Some((slot, kind, place)) = children.node {
                reach(place, kind.bytes());
                let tight = here.tight && self.low_byte(lane, position) == Some(slot.partial());
                if !tight {
                    self.raise_bound(lane, position, &[slot.partial()], false);
                    entered += 1;
                }
                *nodes += 1;
                // Slots of several nodes that lead to one, as in `count_node`; here each may be met again by a later
                // operation.
                if *nodes > 4 * self.nodes_max() {
                    return Err(corrupt(place, MORE_NODES));
                }
                self.enter(lane, &mut path, slot.thawed(), children.depth, tight).await?;
                self.raise_to_node(lane, &path, level + 1, usize::from(children.depth))?;
            } else if children.count == 0 {
                path.levels -= 1;
            }
        }
        Ok(false)
    }

    /// Moves the lower bound to where the next operation begins: below node `level`, if that was entered.
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

    /// Sets bytes of the lower bound from `at` on; and all behind them to 0, if this is the `end`.
    fn raise_bound(&self, lane: &Lane<'_>, at: usize, bytes: &[u8], end: bool) {
        lane.port().with(|scratch| {
            let key = scratch.get_mut(self.plan.key.clone()).unwrap_or_default();
            let Some((to, rest)) = key.get_mut(at..).and_then(|key| key.split_at_mut_checked(bytes.len())) else {
                return;
            };
            to.copy_from_slice(bytes);
            if end {
                rest.fill(0);
            }
        });
    }

    /// Visits every node and leaf: headers match, every byte has one slot, keys lie where they are found and ascend.
    pub(super) async fn check(&self, lane: &Lane<'_>) -> Result<Census, OpError> {
        let mut census = Census::default();
        let root: DescentCursor = self.read_root(lane, &self.way()).await?;
        let mut path = Path { levels: 0, images: [0; NODE_IMAGES] };
        match root.word.child() {
            Ok(Child::Empty) => return Ok(census),
            Ok(Child::Leaf(place)) if self.is_inside(place, self.leaf.place_bytes) => {
                let children = single(root.word);
                self.read_leaves(lane, &children, false).await.map_err(Interrupt::into_error)?;
                self.count_leaves(lane, &children, &path, &mut census)?;
                census.levels = 1;
                return Ok(census);
            }
            Ok(Child::Node(kind, place)) if self.is_inside(place, kind.bytes()) => {
                self.enter(lane, &mut path, root.word, 0, false).await?;
                self.count_node(lane, 0, &mut census)?;
                self.raise_to_node(lane, &path, 0, 0)?;
            }
            _ => return Err(corrupt(self.root, "a slot that leads nowhere")),
        }
        while path.levels > 0 {
            self.fetch(lane, &mut path).await?;
            let level = path.levels - 1;
            let (children, here) = self.at_node(lane, level, |node, here| {
                Ok((self.children(node, here.next, self.scratch.leaves_at_once)?, here))
            })?;
            self.set_level(lane, level, Level { next: children.next, ..here });
            if children.count > 0 {
                self.read_leaves(lane, &children, false).await.map_err(Interrupt::into_error)?;
                self.count_leaves(lane, &children, &path, &mut census)?;
                census.levels = census.levels.max(path.levels as u32 + 1);
            } else if let Some((slot, ..)) = children.node {
                let begin = usize::from(children.depth);
                self.raise_bound(lane, begin - 1, &[slot.partial()], false);
                self.enter(lane, &mut path, slot.thawed(), children.depth, false).await?;
                self.count_node(lane, path.levels - 1, &mut census)?;
                self.raise_to_node(lane, &path, level + 1, begin)?;
            } else {
                path.levels -= 1;
            }
        }
        Ok(census)
    }

    /// Checks the node that was just entered. Those above it have been checked.
    fn count_node(&self, lane: &Lane<'_>, level: usize, census: &mut Census) -> Result<(), OpError> {
        let pool_bytes = self.geometry.iter().map(|node| node.region_bytes).sum::<u64>();
        self.at_node(lane, level, |node, _| {
            let mut seen = [false; 256];
            let mut gap = false;
            for slot in node.slots() {
                if slot.is_empty() {
                    gap = true;
                    continue;
                }
                if gap {
                    return Err("a slot that was filled before the one in front of it");
                }
                match seen.get_mut(usize::from(slot.partial())) {
                    Some(seen) if !*seen => *seen = true,
                    _ => return Err("a byte with two slots"),
                }
            }
            let frozen = node.slots().filter(|slot| slot.is_frozen()).count();
            census.half_splits += u64::from(frozen > 0);
            census.inner_nodes += 1;
            census.live_bytes += node.header.kind.bytes() as u64;
            // Slots of several nodes that lead to one: leaves below would be found under two paths. Without leaves, the
            // walk would go through all combinations.
            if census.live_bytes > pool_bytes {
                return Err(MORE_NODES);
            }
            Ok(())
        })
    }

    /// Checks leaves that were READ: each key has the bytes of its path, which is in the operation's key, and keys
    /// ascend.
    fn count_leaves(
        &self,
        lane: &Lane<'_>,
        children: &Children,
        path: &Path,
        census: &mut Census,
    ) -> Result<(), OpError> {
        for i in 0..children.count {
            let leaf = children.leaves.get(i).copied().unwrap_or_default();
            let Ok(Child::Leaf(place)) = leaf.child() else { continue };
            let fits = path.levels == 0
                || lane.port().with(|scratch| {
                    let key = self.leaf.key(scratch.get(self.scratch.leaf(i)..).unwrap_or_default());
                    let prefix = scratch.get(self.plan.key.clone()).unwrap_or_default();
                    let position = usize::from(children.depth).saturating_sub(1);
                    key.get(..position) == prefix.get(..position) && key.get(position) == Some(&leaf.partial())
                });
            if !fits {
                return Err(corrupt(place, ANOTHER_PREFIX));
            }
            let first = census.leaves == 0;
            lane.port().with(|scratch| {
                let image = scratch.get(self.scratch.leaf(i)..).unwrap_or_default();
                let valid = match self.leaf.state(image) {
                    Ok(state) => state == LeafState::Valid,
                    Err(DecodeError::Corrupt(what)) => return Err(corrupt(place, what)),
                    Err(_) => return Err(corrupt(place, "a torn leaf")),
                };
                let mut room = [0; 64];
                let Some(key) = room.get_mut(..self.plan.key_bytes) else { return Ok(()) };
                key.copy_from_slice(self.leaf.key(image).get(..self.plan.key_bytes).unwrap_or(&[0; 64][..key.len()]));
                let last = scratch.get_mut(self.scratch.last.clone()).unwrap_or_default();
                if !first && *last >= *key {
                    return Err(corrupt(place, NOT_ASCENDING));
                }
                last.copy_from_slice(key);
                census.leaves += 1;
                census.slots += 1;
                census.records += u64::from(valid);
                census.empty_leaves += u64::from(!valid);
                census.live_bytes += self.leaf.place_bytes as u64;
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// An error message of more than one of these walks.
const MORE_NODES: &str = "more nodes than the pool has room for";
const ANOTHER_PREFIX: &str = "a leaf of another prefix";
const NOT_ASCENDING: &str = "a key that does not ascend";

/// Nodes that an operation of a collection enters besides those on its way down.
const MARKED_AT_ONCE: u32 = 32;

/// READs of a torn leaf before its lock is taken, and READs after that before it counts as corrupt.
const TORN_MAX: u32 = 8;
const TORN_LATE_MAX: u32 = 16;

/// Pause between two late READs without the lock, in ns.
const TORN_PAUSE_NS: u64 = 5_000;

/// The one leaf that the root slot leads to.
const fn single(slot: Slot) -> Children {
    let mut leaves = [Slot::EMPTY; LEAVES_AT_ONCE_MAX];
    leaves[0] = slot;
    Children { leaves, count: 1, depth: 0, node: None, next: 256 }
}
