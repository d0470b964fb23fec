//! Descents: from a key to the node that covers it.
//!
//! The route through the cache costs no round trip. From where it ends, inner nodes are READ, one round trip per level,
//! and copied into the cache. A wrong copy costs round trips, never correctness: each node passes its own fence check.

use super::inner::Inner;
use super::node::{self, FenceCheck, Header, NodeFlags, Wanted};
use super::read::Target;
use super::{LEVELS_MAX, MOVES_MAX, Tree};
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::stripes;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::OpError;
use crate::operation::span::Span;
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::verbs::{Label, Request};
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering, fence};
use spin::Mutex;

/// The root's address and level, as last seen by this compute node. Read without a lock.
#[derive(Debug, Default)]
pub struct RootCopy {
    sequence: AtomicU32,
    low: AtomicU32,
    high: AtomicU32,
    level: AtomicU32,
    writer: Mutex<()>,
}

impl RootCopy {
    /// `None`: not known.
    #[inline]
    pub fn get(&self) -> Option<(Address, u8)> {
        // Seqlock: Acquire orders the words after the first load of the sequence, the fence orders the second load
        // after them.
        let sequence = self.sequence.load(Ordering::Acquire);
        let low = self.low.load(Ordering::Relaxed);
        let high = self.high.load(Ordering::Relaxed);
        let level = self.level.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let quiet = sequence & 1 == 0 && self.sequence.load(Ordering::Relaxed) == sequence;
        let address = Address::from_bits(u64::from(high) << 32 | u64::from(low));
        (quiet && !address.is_null()).then_some((address, level as u8))
    }

    /// Replaces the copy; [`Address::NULL`] forgets it.
    pub fn set(&self, address: Address, level: u8) {
        let _writer = self.writer.lock();
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.low.store(address.to_bits() as u32, Ordering::Relaxed);
        self.high.store((address.to_bits() >> 32) as u32, Ordering::Relaxed);
        self.level.store(u32::from(level), Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
    }

    /// Forgets the copy.
    pub fn forget(&self) {
        self.set(Address::NULL, 0);
    }
}

/// How many forwarding retries between a leaf and its retired right neighbour an operation makes before it looks after
/// them. A merge that is alive is over after fewer round trips.
pub const FORWARDING_RETRIES_MAX: u32 = 3;

/// Bytes of a low fence that are in a node's first line, at most.
const LOW_BYTES_IN_LINE: usize = stripes::LINE_PAYLOAD_BYTES - node::LOW_AT;

/// The descent cursor: a pointer to a node of the wanted level, which was not READ yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescentCursor {
    /// The node.
    pub address: Address,
    /// The node whose pointer was followed; null if it is the root.
    pub parent: Address,
    /// What the parent names as the node's right neighbour, if its nodes keep that ([`super::inner`]); null at the
    /// right edge, and for the root.
    pub next: Address,
    /// The parent (or the root word) was READ in this descent, so the pointer is not from an old copy.
    pub fresh: bool,
    /// A half-split that the descent met, at this level, whose right node is here; its separator is in the `help`
    /// range.
    pub help: Option<(u8, Address)>,
    /// The node whose sibling link led here; null if it was not a link.
    pub from: Address,
    /// How often a retired leaf has sent the descent back to the leaf that had led to it, or made it begin again.
    pub forwarding_retries: u32,
}

impl DescentCursor {
    /// The descent has begun again so often. These count as forwarding retries, as many as are not too many: only a
    /// retired leaf that was reached by a link is looked after.
    #[inline]
    pub(crate) fn begins_again(&mut self, restarts: u32) {
        self.forwarding_retries = restarts.min(FORWARDING_RETRIES_MAX);
    }

    /// Whether there were more than [`FORWARDING_RETRIES_MAX`] forwarding retries. If so, the count begins anew.
    pub(crate) fn is_sent_back_too_often(&mut self) -> bool {
        let more = self.forwarding_retries > FORWARDING_RETRIES_MAX;
        if more {
            self.forwarding_retries = 0;
        }
        more
    }
}

impl Tree<'_> {
    /// Root and level, from the copy or by READs. `None`: the tree has no root.
    pub async fn root(&self, lane: &Lane<'_>) -> Result<Option<(Address, u8)>, OpError> {
        if let Some(known) = self.root.get() {
            return Ok(Some(known));
        }
        self.read_root(lane).await
    }

    /// Root and level, by two READs: the root word, and the first line of the node, which is of one instant.
    pub(crate) async fn read_root(&self, lane: &Lane<'_>) -> Result<Option<(Address, u8)>, OpError> {
        let line = self.scratch.line();
        let port = lane.port();
        let mut attempts = 0;
        let mut before = Address::NULL;
        loop {
            let (node, offset) = self.root_word;
            port.call(Request::read(Label::Root, node, offset, 8, line.at)).await?;
            let address = Address::from_bits(port.with(|scratch| line.word(scratch)));
            if address.is_null() {
                return Ok(None);
            }
            port.call(line.read_from(Label::Header, address)).await?;
            let (header, begins) = port.with(|scratch| {
                let line = line.of(scratch);
                let low = [0; LOW_BYTES_IN_LINE].get(..self.inner.key_bytes).unwrap_or(&[0; LOW_BYTES_IN_LINE]);
                (Header::read(line), stripes::compare(line, node::LOW_AT, low).is_eq())
            });
            let is_of_index = header.index == self.index && header.generation == address.generation();
            // A root covers all keys; it may have been split, so the right edge is not a part of the check.
            if is_of_index && begins && header.level < LEVELS_MAX {
                self.root.set(address, header.level);
                return Ok(Some((address, header.level)));
            }
            // A root is never merged, and one that was moved says its level. So this is a root that grew between the two
            // READs, after which the word names another node, or none of this index.
            if address == before {
                return Err(Self::corrupt(address, "the root word leads to no root of this index"));
            }
            before = address;
            lane.attempt(&mut attempts, "reading the root")?;
        }
    }

    /// Finds the node of `level` that covers the key at scratch range `key`. With `cached`, copies of inner nodes are
    /// used. Uses node image 0. `None`: the tree has no root, or is not as high as `level`.
    pub(crate) async fn descend(
        &self,
        lane: &Lane<'_>,
        key: &Range<usize>,
        level: u8,
        cached: bool,
    ) -> Result<Option<DescentCursor>, Interrupt> {
        let port = lane.port();
        let mut cached = cached;
        let mut attempts = 0;
        let mut help = None;
        'restart: loop {
            let root = if cached { self.root(lane).await? } else { self.read_root(lane).await? };
            let Some((root, root_level)) = root else { return Ok(None) };
            if root_level < level {
                if !cached {
                    return Ok(None);
                }
                cached = false;
                continue;
            }
            let mut cursor = DescentCursor {
                address: root,
                parent: Address::NULL,
                next: Address::NULL,
                fresh: !cached,
                help,
                from: Address::NULL,
                forwarding_retries: 0,
            };
            let mut at_level = root_level;
            if cached {
                let epoch = self.epoch(lane);
                let route = port.with(|scratch| {
                    self.cache.route(root, root_level, level, scratch.get(key.clone()).unwrap_or_default(), epoch)
                });
                if route.stale {
                    lane.mark(Mark::STALE_CACHE);
                }
                cursor.address = route.address;
                cursor.parent = route.parent.unwrap_or(Address::NULL);
                cursor.next = route.next;
                at_level = route.level;
            }
            let mut moves = 0;
            while at_level > level {
                let target = Target { address: cursor.address, image: self.inner_image(0), label: Label::Inner };
                let wanted = Wanted { address: cursor.address, index: self.index, level: at_level };
                let step = self
                    .read(lane, target, |scratch| {
                        let image = target.image.of(scratch);
                        let key = scratch.get(key.clone()).unwrap_or_default();
                        let fence_check = node::judge(image, &wanted, key)?;
                        let inner = Inner::new(&self.inner, image)
                            .ok_or(DecodeError::Corrupt("an inner node with more separators than its span"))?;
                        let position = inner.position(key);
                        Ok((fence_check, (inner.child(position), inner.next(position))))
                    })
                    .await?;
                match step {
                    Some((FenceCheck::Here, (child, next))) => {
                        self.cache_image(lane, cursor.address, target.image);
                        if child.is_null() {
                            return Err(Self::corrupt(cursor.address, "an inner node with a null child").into());
                        }
                        cursor.parent = cursor.address;
                        cursor.address = child;
                        cursor.next = next;
                        cursor.fresh = true;
                        at_level -= 1;
                    }
                    Some((FenceCheck::Right(sibling), _)) => {
                        lane.mark(Mark::MOVE_RIGHT);
                        moves += 1;
                        if moves > MOVES_MAX {
                            cached = false;
                            lane.attempt(&mut attempts, "finding a path to the key")?;
                            continue 'restart;
                        }
                        if cursor.parent.is_null() {
                            // The root covers everything, so this is no longer the root.
                            self.root.forget();
                        }
                        // Only a descent to a leaf notes it: there is one range for a separator, and descents to
                        // parents happen while a noted separator is still to be linked.
                        if cursor.fresh && (level == 0 || planted(Mutant::HELP_OVERWRITTEN)) {
                            help = Some((at_level, sibling));
                            cursor.help = help;
                            port.with(|scratch| self.note_help(scratch, target.image));
                        } else if !cursor.fresh {
                            self.cache.invalidate(cursor.parent);
                        }
                        cursor.address = sibling;
                    }
                    // Inner nodes are not merged: it was moved.
                    Some((FenceCheck::Forward(copy), _)) if moves < MOVES_MAX => {
                        lane.mark(Mark::FORWARDED);
                        moves += 1;
                        self.cache.invalidate(cursor.parent);
                        if cursor.parent.is_null() {
                            self.root.forget();
                        }
                        cursor.address = copy;
                        cursor.fresh = false;
                    }
                    Some((FenceCheck::Forward(_), _)) | None => {
                        lane.mark(Mark::RESTART);
                        self.cache.invalidate(cursor.parent);
                        self.root.forget();
                        lane.attempt(&mut attempts, "finding a path to the key")?;
                        cached = false;
                        continue 'restart;
                    }
                }
            }
            return Ok(Some(cursor));
        }
    }

    /// Keeps the high fence of a node's image as separator of a half-split.
    pub(crate) fn note_help(&self, scratch: &mut [u8], image: Span) {
        let help = self.scratch.help.clone();
        let mut fence = [0; KEY_BYTES_MAX];
        let Some(fence) = fence.get_mut(..help.len()) else { return };
        stripes::read(image.of(scratch), node::high_at(help.len()), fence);
        if let Some(place) = scratch.get_mut(help) {
            place.copy_from_slice(fence);
        }
    }
}

/// Whether a header line is of a live node with the generation of `address`, whose low fence is `low`.
pub(crate) fn is_live(line: &[u8], address: Address, index: u8, level: u8, low: &[u8]) -> bool {
    let header = Header::read(line);
    header.index == index
        && header.level == level
        && header.generation == address.generation()
        && !header.flags.contains(NodeFlags::RETIRED)
        && stripes::compare(line, node::LOW_AT, low).is_eq()
}
