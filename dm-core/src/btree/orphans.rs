//! Orphan collection: takes over memory of departed compute nodes, which it finds by owner tags. The proof is in
//! [`orphans`](crate::manual::orphans).

use super::owner_tag;
use crate::btree::descent::FORWARDING_RETRIES_MAX;
use crate::btree::leaves::Leaves;
use crate::btree::node::{self, FenceCheck, Header, NodeFlags, Wanted, header_bytes};
use crate::btree::read::Target;
use crate::btree::{LEVELS_MAX, MOVES_MAX, Tree};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::record::Le64;
use crate::layout::stripes::{self, VERSION_MASK};
use crate::layout::word_at;
use crate::locks::kind::LockKind;
use crate::locks::protocol::Locks;
use crate::marks::Mark;
use crate::membership::redo::LOOK_BYTES;
use crate::memory::chunks::Entries;
use crate::memory::node_pool::Put;
use crate::memory::orphans::{Chunk, CollectedOrphans};
use crate::memory::rows::{self, Tenants};
use crate::memory::{Busy, chunks};
use crate::mutants::{Mutant, planted};
use crate::operation::OpError;
use crate::operation::span::Span;
use crate::registry::KEY_BYTES_MAX;
use crate::remote::NodeGeometry;
use crate::remote::address::Address;
use crate::remote::chunk::{ChunkEntry, Grant};
use crate::remote::owner_tag::OwnerTag;
use crate::remote::place::{NodeClass, UnlinkedNode};
use crate::remote::row::{RowState, RowWord};
use crate::verbs::{Label, NodeId, Request};
use core::sync::atomic::Ordering;

/// Nodes, or rows, READ at once.
const WINDOW: u64 = 8;

/// Descents for one key before a place counts as unsure.
const DESCENTS_MAX: u32 = 16;

/// Between two descents for one key, in ns.
const PAUSE_NS: u64 = 20_000;

/// A place that is looked at.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) class: NodeClass,
    pub(super) node: NodeId,
    pub(super) offset: u64,
    /// Where its head has been READ to.
    pub(super) head: Span,
}

/// What a descent has found out about the node that covers a key.
pub(super) enum Cover {
    Node(Address),
    /// No node does: the tree has no such level.
    Nothing,
    /// Not known: another lane is changing that part of the tree.
    Unsure,
}

impl<'s> Tree<'s> {
    /// Takes memory of departed compute nodes over ([`orphans`](crate::manual::orphans)). The lane must not be in an
    /// operation. Does nothing if no compute node has departed since the last time, or in an index that was opened
    /// without recovery.
    ///
    /// Round trips: one for eight rows. If a compute node has departed: one for sixteen chunk entries; one for each row
    /// that owns chunks or whose tag is found; one for each chunk that is taken over; one for eight nodes of every own
    /// chunk of leaves and of every chunk that was taken over; two for each leaf in use that a departed compute node
    /// wrote, and a descent, mostly in copies of inner nodes; for any other node of a departed compute node a descent,
    /// for a leaf a lock, and for a place that is collected three or four.
    pub(crate) async fn collect_orphans(
        &self,
        index: &impl Leaves<'s>,
        lane: &Lane<'_>,
    ) -> Result<CollectedOrphans, Interrupt> {
        let mut collected_orphans = CollectedOrphans::default();
        if self.recovery.is_none() {
            return Ok(collected_orphans);
        }
        let _pinned = self.pin(lane);
        let orphan_collection = self.nodes.orphan_collection();
        let Some(_busy) = Busy::begin(&orphan_collection.busy) else { return Ok(collected_orphans) };
        let Some(home) = self.geometry.first() else { return Ok(collected_orphans) };
        let ended = rows::lives_ended(lane, home, self.scratch.small).await?.wrapping_add(1);
        if orphan_collection.ended.load(Ordering::Relaxed) == ended {
            return Ok(collected_orphans);
        }
        collected_orphans.looked = true;
        // What is known of rows and entries is not older than the number above. Compute nodes that depart later
        // are for the next time.
        let (mut entries, mut tenants) = (Entries::new(), Tenants::new());
        self.look_into(index, lane, &mut tenants, &mut collected_orphans).await?;
        for (number, geometry) in self.geometry.iter().enumerate() {
            let node = NodeId(number as u16);
            for chunk in 0..geometry.chunk_count {
                let entry = entries.entry(lane, node, geometry, chunk, self.scratch.small).await?;
                let Ok(ChunkEntry::Granted(grant)) = entry.decode() else { continue };
                let place = (node, geometry, chunk);
                if self.may_look_into(lane, place, &grant, &mut tenants, &mut collected_orphans).await? {
                    self.look_into(index, lane, &mut tenants, &mut collected_orphans).await?;
                }
            }
        }
        if collected_orphans.is_complete() {
            orphan_collection.ended.store(ended, Ordering::Relaxed);
        }
        Ok(collected_orphans)
    }

    /// Takes a chunk over if its owner has departed. Returns whether this compute node has to look into the chunk: it
    /// has just taken it over, or the chunk is its own and has leaves. Then the chunk is noted as under way.
    async fn may_look_into(
        &self,
        lane: &Lane<'_>,
        (node, geometry, chunk): (NodeId, &NodeGeometry, u32),
        grant: &Grant,
        tenants: &mut Tenants,
        collected_orphans: &mut CollectedOrphans,
    ) -> Result<bool, OpError> {
        let of_kind = NodeClass::of_chunk(grant.kind);
        let Some(class) = of_kind.filter(|_| grant.index == self.number) else { return Ok(false) };
        let mine = grant.is_of(self.owner);
        let node_bytes = self.nodes.node_bytes(class) as u64;
        let nodes = geometry.chunk_bytes / node_bytes.max(1);
        if !mine {
            let Some(home) = self.geometry.first() else { return Ok(false) };
            let tenant = tenants.tenant(lane, home, grant.row, self.scratch.small).await?;
            let Some(tenant) = tenant else { return Ok(false) };
            if !tenant.is_gone(grant.incarnation) && !planted(Mutant::COLLECTS_FROM_THE_LIVING) {
                return Ok(false);
            }
            if self.nodes.room(class, node) < nodes {
                collected_orphans.no_room += 1;
                return Ok(false);
            }
            self.check_lease(lane)?;
            if !chunks::take_over(lane, (node, geometry, chunk), grant, self.owner, self.requests).await? {
                // Another compute node has taken it over.
                return Ok(false);
            }
            collected_orphans.chunks += 1;
        } else if class == NodeClass::Inner {
            return Ok(false);
        }
        let under_way = Chunk { node, number: chunk, class, inherited: !mine, next: 0 };
        *self.nodes.orphan_collection().under_way.lock() = Some(under_way);
        Ok(true)
    }

    /// Looks into the chunk that is under way, if one is.
    async fn look_into(
        &self,
        index: &impl Leaves<'s>,
        lane: &Lane<'_>,
        tenants: &mut Tenants,
        collected_orphans: &mut CollectedOrphans,
    ) -> Result<(), Interrupt> {
        let under_way = &self.nodes.orphan_collection().under_way;
        let chunk = *under_way.lock();
        let Some(Chunk { node, number, class, inherited, next }) = chunk else { return Ok(()) };
        let Some(geometry) = self.geometry.get(usize::from(node.0)) else { return Ok(()) };
        let node_bytes = self.nodes.node_bytes(class) as u64;
        let nodes = geometry.chunk_bytes / node_bytes.max(1);
        let head = self.head();
        let window = WINDOW.min((self.scratch.recovery.len() / head.bytes) as u64).max(1);
        let mut first = next;
        while first < nodes {
            let count = window.min(nodes - first);
            for step in 0..count {
                let offset = geometry.chunk_offset(number) + (first + step) * node_bytes;
                lane.port().push(head.nth(step as usize).read_from(Label::Header, Address::new(node, offset, 0)));
            }
            lane.port().submit().await?;
            for step in 0..count {
                let offset = geometry.chunk_offset(number) + (first + step) * node_bytes;
                let place = Place { class, node, offset, head: head.nth(step as usize) };
                if self.may_be_nobodys(index, lane, place, inherited, tenants).await? {
                    self.look_at_place(index, lane, place, inherited, collected_orphans).await?;
                }
                collected_orphans.places += 1;
                *under_way.lock() = Some(Chunk { node, number, class, inherited, next: first + step + 1 });
            }
            first += count;
        }
        *under_way.lock() = None;
        Ok(())
    }

    /// What is READ of a node, header and fences: where the first of several goes.
    pub(super) const fn head(&self) -> Span {
        Span::new(self.scratch.recovery.start, stripes::stored_bytes(header_bytes(self.inner.key_bytes)))
    }

    /// Whether the compute node of an owner tag has certainly departed, now.
    async fn is_gone(&self, lane: &Lane<'_>, owner_tag: OwnerTag) -> Result<bool, OpError> {
        let Some(home) = self.geometry.first() else { return Ok(false) };
        let tenant = rows::tenant(lane, home, owner_tag.row(self.row_count()), self.scratch.small).await?;
        Ok(self.is_gone_from(owner_tag, tenant))
    }

    /// Whether the compute node of an owner tag has departed, if this is the word of its row.
    fn is_gone_from(&self, owner_tag: OwnerTag, tenant: Option<RowWord>) -> bool {
        tenant.is_some_and(|tenant| {
            tenant.state() == Some(RowState::Free) || !owner_tag.names(tenant.incarnation(), self.row_count())
        })
    }

    /// Whether a place has to be looked at closely: whether it may belong to no compute node and not be in the tree.
    /// Its head is in the scratch, and still is if this returns `true`. Most leaves are told by their owner tags, or by
    /// an inner node that names them.
    async fn may_be_nobodys(
        &self,
        index: &impl Leaves<'s>,
        lane: &Lane<'_>,
        place: Place,
        inherited: bool,
        tenants: &mut Tenants,
    ) -> Result<bool, Interrupt> {
        let Place { class, head, .. } = place;
        let look = |scratch: &mut [u8]| (Header::read(head.of(scratch)), OwnerTag::read(head.of(scratch)));
        let (header, owner_tag) = lane.port().with(look);
        if class == NodeClass::Inner || header.index != self.index {
            return Ok(inherited);
        }
        let Some(home) = self.geometry.first() else { return Ok(false) };
        let tenant = tenants.tenant(lane, home, owner_tag.row(self.row_count()), self.scratch.small).await?;
        if !self.is_gone_from(owner_tag, tenant) || header.level != 0 {
            return Ok(false);
        }
        Ok(!self.is_in_use(index, lane, place, &header).await?)
    }

    /// Whether the leaf at a place is certainly in the tree, so that only a live compute node may retire it. It does not
    /// acquire a lock: [`orphans`](crate::manual::orphans) says why that is enough. The head of the leaf is in the
    /// scratch, and is READ again.
    pub(super) async fn is_in_use<I: Leaves<'s>>(
        &self,
        index: &I,
        lane: &Lane<'_>,
        Place { node, offset, head, .. }: Place,
        header: &Header,
    ) -> Result<bool, Interrupt> {
        if header.flags.contains(NodeFlags::RETIRED) {
            return Ok(false);
        }
        let here = Address::new(node, offset, header.generation);
        self.note_key(lane, head, false);
        let cursor = self.descend(lane, &self.scratch.separator, 0, true).await?;
        if cursor.is_none_or(|cursor| cursor.address != here) {
            return Ok(false);
        }
        let (locks, small) = (index.leaf_locks(), self.scratch.small);
        let (word_on, word_offset, space) = locks.word_place(locks.lock_of(here)?, here);
        lane.port().call(Request::read(Label::Lock, word_on, word_offset, 8, small).in_space(space)).await?;
        let word = lane.port().with(|scratch| word_at(scratch, small));
        if I::LeafLocks::is_held(word) {
            return Ok(false);
        }
        lane.port().call(head.read_from(Label::Header, here)).await?;
        let header = lane.port().with(|scratch| Header::read(head.of(scratch)));
        Ok(header.index == self.index
            && header.level == 0
            && header.generation == here.generation()
            && !header.flags.contains(NodeFlags::RETIRED))
    }

    /// Puts a place on the free list if it belongs to no compute node and is not in the tree. Its head is in the
    /// scratch, and [`Tree::may_be_nobodys`] is true of it.
    async fn look_at_place(
        &self,
        index: &impl Leaves<'s>,
        lane: &Lane<'_>,
        place: Place,
        inherited: bool,
        collected_orphans: &mut CollectedOrphans,
    ) -> Result<(), Interrupt> {
        let Place { class, node, offset, head } = place;
        let look = |scratch: &mut [u8]| {
            let image = head.of(scratch);
            let version = image.first().map_or(0, |byte| byte & VERSION_MASK);
            (Header::read(image), OwnerTag::read(image), version)
        };
        let (mut header, mut owner_tag, mut version) = lane.port().with(look);
        // A place that does not begin with a node of this index is not in the tree.
        if header.index != self.index {
            if inherited {
                self.take_back(
                    lane,
                    class,
                    UnlinkedNode { address: Address::new(node, offset, 0), version: 0 },
                    collected_orphans,
                );
            }
            return Ok(());
        }
        // No tree has such a level: a place with bytes that this crate never writes stays as it is.
        if header.level >= LEVELS_MAX {
            return Ok(());
        }
        if class == NodeClass::Leaf {
            // READ once more, under the leaf's own lock: from here on no repairer replays a WRITE to it.
            let address = Address::new(node, offset, header.generation);
            let target = Target { address, image: head, label: Label::Header };
            if let Some(seen) = index.read_leaf_locked(lane, target, |scratch| Ok(look(scratch))).await? {
                (header, owner_tag, version) = seen;
            }
            if header.index != self.index || header.level != 0 || !self.is_gone(lane, owner_tag).await? {
                return Ok(());
            }
        }
        // Pointers may lead to it for ever.
        let is_moved =
            || lane.port().with(|scratch| node::is_moved(head.of(scratch))) && !planted(Mutant::MOVED_COLLECTED);
        if is_moved() {
            return Ok(());
        }
        let retired = class == NodeClass::Leaf && header.flags.contains(NodeFlags::RETIRED);
        self.note_key(lane, head, retired);
        let here = Address::new(node, offset, header.generation);
        match self.is_out(index, lane, header.level, here).await? {
            Some(true) => {}
            Some(false) => return Ok(()),
            None => {
                collected_orphans.unsure += 1;
                return Ok(());
            }
        }
        if class == NodeClass::Inner {
            // It is out, or has moved since it was READ, and its copy was found: then its first line says so by now.
            lane.port().call(head.read_from(Label::Header, here)).await?;
            if is_moved() {
                return Ok(());
            }
        }
        if class == NodeClass::Leaf {
            if self.nodes.room(class, node) == 0 {
                collected_orphans.no_room += 1;
                return Ok(());
            }
            let again = Span::new(self.scratch.small, head.bytes);
            lane.port().call(again.read_from(Label::Header, here)).await?;
            // If the head has not changed, this WRITE makes the leaf this compute node's own: with its tag, others find
            // the leaf when this compute node has departed.
            let signed = lane.port().with(|scratch| {
                let (image, again) = (head.of(scratch), again.of(scratch));
                let mut word: [u8; owner_tag::WORD_BYTES] =
                    (image == again).then(|| again.first_chunk().copied())??;
                let retired = Header { flags: header.flags | NodeFlags::RETIRED, ..header };
                retired.write(&mut word);
                self.owner_tag().write(&mut word);
                Some(u64::from_le_bytes(word))
            });
            let Some(word) = signed else {
                collected_orphans.unsure += 1;
                return Ok(());
            };
            if !self.is_gone(lane, owner_tag).await? {
                collected_orphans.unsure += 1;
                return Ok(());
            }
            self.check_lease(lane)?;
            // The leaf's lock is not held any more.
            if !self.nodes.orphan_collection().begin_signing(here) {
                return Ok(());
            }
            if !planted(Mutant::COLLECTS_UNTAGGED) {
                lane.port().call(Request::write_word(Label::Header, node, offset, word)).await?;
            }
            self.nodes.orphan_collection().has_signed(here);
        }
        let fresh = UnlinkedNode { address: here, version }.after_write();
        self.take_back(lane, class, fresh, collected_orphans);
        Ok(())
    }

    /// Finds out which of the nodes that a dropped or failed operation of this lane was about to link were linked. Puts
    /// those to which nothing leads on the free list. The lane has no lock record. A node that cannot be decided now is
    /// decided by the next call.
    ///
    /// As long as they are unlinked they belong to this compute node alone. No request of the operation is under way
    /// any more, and its lock was released only after its WRITEs were done, or replayed.
    pub(crate) async fn resolve_pending(&self, index: &impl Leaves<'s>, lane: &Lane<'_>) -> Result<(), Interrupt> {
        while let Some((class, fresh)) = lane.pending() {
            let UnlinkedNode { address, version } = fresh;
            let head = self.head();
            lane.port().call(head.read_from(Label::Header, address)).await?;
            let look = |scratch: &mut [u8]| (Header::read(head.of(scratch)), OwnerTag::read(head.of(scratch)));
            let (header, owner_tag) = lane.port().with(look);
            let is_mine = |header: &Header, owner_tag: OwnerTag| {
                header.index == self.index && (class == NodeClass::Inner || owner_tag == self.owner_tag())
            };
            let is_written = |header: &Header, owner_tag: OwnerTag| {
                // An inner node that is retired was moved.
                let tells = class == NodeClass::Leaf || !planted(Mutant::MOVED_COLLECTED);
                let retired = tells && header.flags.contains(NodeFlags::RETIRED);
                is_mine(header, owner_tag) && header.generation == address.generation() && !retired
            };
            let here = Address::new(address.node(), address.offset(), header.generation);
            let back = if header.index == 0 && version == 0 {
                Some(fresh)
            } else if is_mine(&header, owner_tag) && self.nodes.next_life(here) == address {
                // The WRITE did not land, or only a part of it: the next image must differ from that part, too.
                Some(UnlinkedNode { version: version.wrapping_add(1) & VERSION_MASK, ..fresh })
            } else if is_written(&header, owner_tag) {
                self.note_key(lane, head, false);
                match self.is_out(index, lane, header.level, here).await? {
                    Some(true) => {
                        // The node may have been linked all the same, and another lane may have retired it while this
                        // lane looked. That lane would have written its own owner tag. If the head has not changed,
                        // nothing led to the node, and nothing will.
                        lane.port().call(head.read_from(Label::Header, address)).await?;
                        let (header, owner_tag) = lane.port().with(look);
                        is_written(&header, owner_tag).then_some(fresh.after_write())
                    }
                    Some(false) => None,
                    None => return Ok(()),
                }
            } else {
                // It was linked, and has been retired since.
                None
            };
            lane.is_through(fresh);
            match back {
                // The first image was written and never linked. Other lanes may have a pointer to it.
                Some(back) if back.address != fresh.address => self.give_back_again(lane, class, back),
                Some(back) => self.give_back(class, back),
                None => {}
            }
        }
        Ok(())
    }

    /// Puts a key into the `separator` range: the low fence of the node with that `head`, or, if it is `retired`, the
    /// key just below its high fence. The live node that covers this key tells whether that node is reachable.
    fn note_key(&self, lane: &Lane<'_>, head: Span, retired: bool) {
        lane.port().with(|scratch| {
            let mut key = [0; KEY_BYTES_MAX];
            let Some(key) = key.get_mut(..self.inner.key_bytes) else { return };
            let image = head.of(scratch);
            if !retired {
                stripes::read(image, node::LOW_AT, key);
            } else if node::read_high(image, key) {
                node::step_down(key);
            } else {
                key.fill(0xff);
            }
            if let Some(place) = scratch.get_mut(self.scratch.separator.clone()) {
                place.copy_from_slice(key);
            }
        });
    }

    pub(super) fn take_back(
        &self,
        lane: &Lane<'_>,
        class: NodeClass,
        fresh: UnlinkedNode,
        collected_orphans: &mut CollectedOrphans,
    ) {
        // There was room, but other lanes may have filled it. Then the place waits until this compute node has
        // departed. A place that was never written has had no node, so it does not go through the limbo list.
        let put = if fresh.version == 0 && fresh.address.generation() == 0 {
            if self.nodes.put(class, fresh) { Put::Ready } else { Put::NoRoom }
        } else {
            self.nodes.put_again(class, fresh)
        };
        if put == Put::Waits {
            lane.mark(Mark::LIMBO_ENTERED);
        }
        if put != Put::NoRoom {
            collected_orphans.nodes += 1;
            collected_orphans.bytes += self.nodes.node_bytes(class) as u64;
            lane.mark(Mark::NODE_RECLAIMED);
        }
    }

    /// Whether nothing leads, or will ever lead, to the node at `here`, which would cover the key in the `separator`
    /// range if it were reachable. `None`: another lane is changing that part of the tree.
    async fn is_out(
        &self,
        index: &impl Leaves<'s>,
        lane: &Lane<'_>,
        level: u8,
        here: Address,
    ) -> Result<Option<bool>, Interrupt> {
        let target = |address| Target { address, image: self.image_of_level(level, 1), label: Label::Walk };
        for _ in 0..DESCENTS_MAX {
            let found = match self.cover(lane, level).await? {
                Cover::Nothing => return Ok(Some(true)),
                Cover::Unsure => return Ok(None),
                Cover::Node(found) if found.place() == here.place() => return Ok(Some(false)),
                Cover::Node(found) => found,
            };
            if planted(Mutant::COLLECTS_UNLOCKED) {
                return Ok(Some(true));
            }
            let judge = |scratch: &mut [u8]| self.judge_at(scratch, target(found), level);
            let judged = if level == 0 {
                // The index knows where a leaf's lock lies.
                index.read_leaf_locked(lane, target(found), judge).await?
            } else {
                self.read_under_lock(lane, target(found), judge).await?
            };
            if judged == Some(FenceCheck::Here) {
                return Ok(Some(true));
            }
        }
        Ok(None)
    }

    fn judge_at(&self, scratch: &[u8], target: Target, level: u8) -> Result<FenceCheck, crate::error::DecodeError> {
        let wanted = Wanted { address: target.address, index: self.index, level };
        let image = target.image.of(scratch);
        node::judge(image, &wanted, scratch.get(self.scratch.separator.clone()).unwrap_or_default())
    }

    /// The live node of `level` that covers the key in the `separator` range. Uses node images 0 and 1.
    pub(super) async fn cover(&self, lane: &Lane<'_>, level: u8) -> Result<Cover, Interrupt> {
        let key = self.scratch.separator.clone();
        let mut forwarding_retries = 0;
        for descent in 0..DESCENTS_MAX {
            if descent > 0 {
                lane.port().call(Request::pause(PAUSE_NS)).await?;
            }
            let Some(cursor) = self.descend(lane, &key, level, descent == 0).await? else { return Ok(Cover::Nothing) };
            let mut address = cursor.address;
            let mut by_link = false;
            for _ in 0..MOVES_MAX {
                let target = Target { address, image: self.image_of_level(level, 1), label: Label::Walk };
                let judged = self.read_unlocked(lane, target, |scratch| self.judge_at(scratch, target, level)).await?;
                match judged {
                    Ok(Some(FenceCheck::Here)) => return Ok(Cover::Node(address)),
                    Ok(Some(FenceCheck::Right(right))) => (address, by_link) = (right, true),
                    Ok(Some(FenceCheck::Forward(left))) => {
                        // As in other descents, a node counts that a sibling link led to. Those of which one has moved to the
                        // next are a chain, however long.
                        forwarding_retries += u32::from(by_link);
                        if forwarding_retries > FORWARDING_RETRIES_MAX {
                            return Ok(Cover::Unsure);
                        }
                        (address, by_link) = (left, false);
                    }
                    Ok(None) => {
                        self.cache.invalidate(cursor.parent);
                        break;
                    }
                    Err(_) => break,
                }
            }
            self.root.forget();
        }
        Ok(Cover::Unsure)
    }
}

/// Bytes of the head of a node at most: header and fences of the longest keys.
const HEAD_BYTES_MAX: usize = stripes::stored_bytes(header_bytes(KEY_BYTES_MAX));

// One READ of heads fits its scratch.
static_assertions::const_assert!(HEAD_BYTES_MAX <= crate::btree::SMALL_BYTES);
static_assertions::const_assert!(HEAD_BYTES_MAX <= LOOK_BYTES);
static_assertions::const_assert!(WINDOW as usize * size_of::<Le64>() <= crate::btree::SMALL_BYTES);
