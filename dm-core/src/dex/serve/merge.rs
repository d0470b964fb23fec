//! Merging: a leaf that a delete has emptied goes, and its left neighbour covers its keys.
//!
//! ```text
//!  parent's lock ─► freeze both ─► delete record, stamp both ─► flush right ─► its fill ─► record durable
//!                    reads go on                                  it is clean    nobody reads it
//!      ─► WRITE parent without right ─► WRITE right: retired ─► flush left: right's high fence and sibling ─► thaw ─► place free
//!          a half-split till here          a half-merge till here
//! ```
//!
//! Each arrow waits for the completion of what is before it. Left takes no records, so only its right edge changes. Only
//! neighbours under one parent and of one entry are joined. The leftmost leaf of a parent stays, empty or not.
//!
//! **The record** says once more that the key of the delete is absent. Its LSN is above all that either leaf had, so no
//! record of right's keys is applied to left again. It is durable before right is retired.
//!
//! **While it is under way** lanes read left in its frame, and wait for right. No other compute node writes these leaves.
//!
//! **A merge that is dropped or fails** leaves left as it was, since its frame gets the new edge last. Before right is
//! retired, right is what a half-split's right half is: left's link leads there, and the next operation that meets it tells
//! the parent. Afterwards it is a *half-merge*: left leads to right, and right back to left. A lane that is sent back and
//! forth between the two *revives* right: with left frozen, no merge of this compute node is under way, and no other compute node
//! has the entry. It flushes left first: the flush of the merge may have landed, so that in the pool left has right's edge. If
//! a parent named right beside that, and the owner died then, nobody could walk the tree. Retiring changes right's first line
//! only. The other lines are those that were flushed, so right is empty after the revival, with its LSN.

use super::Dex;
use super::flush::{FLUSHED, lost};
use crate::btree::leaves::{Leaves, key_of};
use crate::btree::node::{self, FenceCheck, Header, NodeFlags};
use crate::btree::unlink::{Pair, Unlink};
use crate::dex;
use crate::dex::leaf::{self, Leaf};
use crate::dex::log::record::Change;
use crate::dex::ownership::partition::Tenure;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::{LINE_BYTES, stripes};
use crate::locks::protocol::{Held, Locks};
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::span::Span;
use crate::operation::{Cause, OpError};
use crate::pages::lsn::Lsn;
use crate::pages::{Admit, Fill, Found, FrameName, Frozen, Refused, Staged};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::remote::place::{NodeClass, UnlinkedNode};
use crate::verbs::Label;
use core::ops::Range;

/// Node image of right, beside left's, which is [`FLUSHED`]. The parent's is [`Unlink`]'s.
const RIGHT: usize = 2;

impl Dex<'_> {
    /// Joins the leaf at `emptied`, which covers the operation's key, to its left neighbour, if that can be done now. The
    /// operation's own result stands, whatever comes of it.
    pub(super) async fn join_emptied(&self, lane: &Lane<'_>, emptied: Address, tenure: Tenure) {
        if planted(Mutant::EMPTIED_UNJOINED) {
            return;
        }
        // If helping a split has failed, the lock of this parent may be left: the lane would queue behind itself.
        let joined = if lane.must_settle() { Ok(false) } else { self.try_join(lane, emptied, tenure).await };
        if !matches!(joined, Ok(true)) {
            lane.mark(Mark::EMPTIED_STAYS);
        }
        lane.end_change(joined.map(|_| ()));
    }

    /// `false`: not now.
    async fn try_join(&self, lane: &Lane<'_>, emptied: Address, tenure: Tenure) -> Result<bool, Interrupt> {
        let tree = &self.tree;
        let found = tree.locate_parent(lane, &self.plan.key).await?.map(|cursor| cursor.address);
        let Some(parent) = found else { return Ok(false) };
        let (parent, _) = tree.acquire_parent(lane, parent).await?;
        let joined = self.join_below(lane, &parent, emptied, tenure).await;
        if let Err(failed @ OpError { cause: Cause::Verb(_), .. }) = joined {
            // It may have been the parent's WRITE, and may still land: settling waits for that.
            return Err(failed.into());
        }
        tree.release_parent(lane, parent).await?;
        let Some(fresh) = joined? else { return Ok(false) };
        lane.mark(Mark::MERGE);
        tree.give_back_again(lane, NodeClass::Leaf, fresh);
        Ok(true)
    }

    /// `None`: not now.
    async fn join_below(
        &self,
        lane: &Lane<'_>,
        parent: &Held,
        emptied: Address,
        tenure: Tenure,
    ) -> Result<Option<UnlinkedNode>, OpError> {
        let pair = self.tree.choose_neighbour(lane, parent, &self.plan.key, emptied).await?;
        let Some(pair) = pair.filter(|pair| pair.right == emptied) else { return Ok(None) };
        let key = &self.plan.key;
        let Some(left) = self.freeze_cached(lane, pair.left, key).await? else { return Ok(None) };
        let Some(right) = self.freeze_cached(lane, pair.right, key).await? else {
            self.thaw(lane, left).await?;
            return Ok(None);
        };
        let Some(lsn) = self.stamp_both(lane, &pair, (left, right), tenure) else {
            self.thaw(lane, right).await?;
            self.thaw(lane, left).await?;
            return Ok(None);
        };
        let fill = self.set_aside(lane, right, pair.right).await?;
        let fresh = match &fill {
            Some(fill) => {
                let fresh = self.retire(lane, parent, &pair, (left, lsn)).await?;
                self.end_fill(lane, fill).await?;
                Some(fresh)
            }
            None => None,
        };
        self.thaw(lane, left).await?;
        Ok(fresh)
    }

    /// Freezes a leaf of the entry that has the key at scratch range `key`, which is this compute node's, if it has a frame,
    /// or gets one, and nobody else has frozen it.
    async fn freeze_cached(
        &self,
        lane: &Lane<'_>,
        leaf: Address,
        key: &Range<usize>,
    ) -> Result<Option<Frozen>, OpError> {
        let name = match self.store.claim(lane, leaf, Admit::Always) {
            Found::Frame(name) => name,
            Found::Mine(fill) => match self.fill_neighbour(lane, &fill, key).await? {
                Some(name) => name,
                None => return Ok(None),
            },
            Found::Joined | Found::NoFrame | Found::NoFill | Found::Busy => return Ok(None),
        };
        Ok(self.store.freeze(lane, name).ok())
    }

    /// READs the leaf of a fill into its frame, if it is a leaf of that entry.
    async fn fill_neighbour(
        &self,
        lane: &Lane<'_>,
        fill: &Fill,
        key: &Range<usize>,
    ) -> Result<Option<FrameName>, OpError> {
        let image = self.tree.leaf_image(0);
        let changes = self.partition().changes();
        lane.port().call(image.read_from(Label::Leaf, fill.id())).await?;
        let is_mine = lane.port().with(|scratch| {
            let (image, scratch, mut low) = (image.of(scratch), &*scratch, [0; KEY_BYTES_MAX]);
            let low = low.get_mut(..self.leaf.key_bytes).unwrap_or_default();
            stripes::read(image, node::LOW_AT, low);
            let judged = node::judge(image, &self.leaf_wanted(fill.id()), low);
            let mut room = [0; KEY_BYTES_MAX];
            let entry = self.partition().entry_of(key_of(scratch, key, &mut room));
            judged == Ok(FenceCheck::Here) && self.partition().entry_of(low) == entry
        });
        if !is_mine || !fill.is_admitted() {
            self.end_fill(lane, fill).await?;
            return Ok(None);
        }
        if !self.admit(lane, fill, changes).await? {
            return Ok(None);
        }
        match self.store.claim(lane, fill.id(), Admit::Never) {
            Found::Frame(name) => Ok(Some(name)),
            Found::Mine(fill) => self.end_fill(lane, &fill).await.map(|()| None),
            _ => Ok(None),
        }
    }

    /// Stamps both leaves with the LSN of a record, so that they are dirty until their flushes have completed. `None`: they
    /// are not to be joined, or not now; or the log has no room.
    fn stamp_both(&self, lane: &Lane<'_>, pair: &Pair, (left, right): (Frozen, Frozen), tenure: Tenure) -> Option<Lsn> {
        let images = [(left, self.tree.leaf_image(FLUSHED)), (right, self.tree.leaf_image(RIGHT))];
        let mut room = [0; KEY_BYTES_MAX];
        let key = lane.port().with(|scratch| {
            for (frozen, image) in images {
                self.store.copy(frozen.frame(), 0, image.of_mut(scratch)).ok()?;
            }
            let [left, right] = images.map(|(_, image)| image.of(scratch));
            self.may_join(left, right, pair, tenure).then(|| key_of(scratch, &self.plan.key, &mut room).len())
        })?;
        let change = Change::Delete { key: room.get(..key)? };
        let mut staged = None;
        let has_tenure = || self.partition().holds(tenure);
        let noted = self.store.change(lane, left.frame(), has_tenure, |page| {
            let stage = || self.stage(tenure, change);
            if let Ok(mut writing) = page.record(self.log.floor(), stage)? {
                staged = Some(writing.lsn());
                leaf::stamp(&self.leaf, &mut writing, staged.unwrap_or(Lsn::NONE));
            }
            Ok(())
        });
        let lsn = noted.ok().and(staged)?;
        let stamped = self.store.change(
            lane,
            right.frame(),
            || true,
            |page| {
                let mut writing = page.record(self.log.floor(), || Ok::<_, Refused>(lsn))??;
                leaf::stamp(&self.leaf, &mut writing, lsn);
                Ok(())
            },
        );
        stamped.ok().map(|()| lsn)
    }

    /// Whether `right` is empty, `left` is its neighbour, and both are of one entry.
    fn may_join(&self, left: &[u8], right: &[u8], pair: &Pair, tenure: Tenure) -> bool {
        let is_live = |image| !Header::read(image).flags.contains(NodeFlags::RETIRED);
        let entry = |image: &[u8]| {
            let mut low = [0; KEY_BYTES_MAX];
            let low = low.get_mut(..self.leaf.key_bytes).unwrap_or_default();
            stripes::read(image, node::LOW_AT, low);
            self.partition().entry_of(low)
        };
        is_live(left)
            && is_live(right)
            && Header::read(left).sibling == pair.right
            && Leaf::new(&self.leaf, right).records() == 0
            && [left, right].into_iter().all(|image| entry(image) == tenure.entry)
    }

    /// Flushes right, and takes it out of the page store: nobody reads it until the lane ends the fill. `None`: another lane
    /// has it again.
    async fn set_aside(&self, lane: &Lane<'_>, frozen: Frozen, right: Address) -> Result<Option<Fill>, OpError> {
        let staged = self.stage_frozen(lane, frozen, right).await?;
        dex::flush::finish(self.flushing(FLUSHED), lane, &staged).await?;
        // As it was flushed.
        lane.port().with(|scratch| {
            if let Some((front, flushed)) = self.tree.leaf_image(FLUSHED).split(scratch) {
                self.tree.leaf_image(RIGHT).of_mut(front).copy_from_slice(flushed);
            }
        });
        loop {
            match self.store.discard(lane, frozen) {
                Ok(()) => break,
                Err(refused) => self.again(lane, refused).await?,
            }
        }
        match self.store.claim(lane, right, Admit::Never) {
            Found::Mine(fill) => Ok(Some(fill)),
            _ => Ok(None),
        }
    }

    /// Copies a leaf that this lane has frozen to the image from which leaves are flushed, with the version of its WRITE.
    pub(super) async fn stage_frozen(&self, lane: &Lane<'_>, frozen: Frozen, leaf: Address) -> Result<Staged, OpError> {
        let image = self.tree.leaf_image(FLUSHED);
        loop {
            let staged =
                lane.port().with(|scratch| self.store.stage_frame(lane, frozen.frame(), image.of_mut(scratch)));
            match staged {
                Ok(staged) => {
                    dex::flush::stamp(self.flushing(FLUSHED), lane, &staged);
                    return Ok(staged);
                }
                // A flush that was under way when the leaf was frozen.
                Err(Refused::Flushing | Refused::Busy) => self.store.yield_now(lane).await?,
                Err(_) => return Err(lost(leaf)),
            }
        }
    }

    /// WRITEs the parent without right, right as retired, and left with right's edge. Returns right's place.
    async fn retire(
        &self,
        lane: &Lane<'_>,
        parent: &Held,
        pair: &Pair,
        (left, lsn): (Frozen, Lsn),
    ) -> Result<UnlinkedNode, OpError> {
        let (tree, port) = (&self.tree, lane.port());
        self.wait_durable(lane, lsn).await?;
        tree.check_lease(lane)?;
        port.with(|scratch| tree.unlink(tree.inner_image(1).of_mut(scratch), pair));
        tree.push_parent(lane, parent)?;
        port.submit().await?;
        tree.forget_parent(parent);
        let line = tree.scratch.line();
        let version = port.with(|scratch| {
            let mut first = [0; LINE_BYTES];
            let right = self.tree.leaf_image(RIGHT).of(scratch);
            first.copy_from_slice(right.get(..LINE_BYTES).unwrap_or(&[0; LINE_BYTES]));
            let version = stripes::node_version(right);
            node::retire(&mut first, pair.left, tree.owner_tag());
            line.of_mut(scratch).copy_from_slice(&first);
            version
        });
        let write_right = async || lane.port().call(line.write_to(Label::Sibling, pair.right)).await.map(|_| ());
        if !planted(Mutant::LEFT_BEFORE_RETIRED) {
            write_right().await?;
        }
        let staged = self.stage_frozen(lane, left, pair.left).await?;
        let image = self.tree.leaf_image(FLUSHED);
        port.with(|scratch| {
            let Some((front, left)) = image.split(scratch) else { return };
            let right = self.tree.leaf_image(RIGHT).of(front);
            let mut high = [0; KEY_BYTES_MAX];
            let high = high.get_mut(..self.leaf.key_bytes).unwrap_or_default();
            let bounded = node::read_high(right, high);
            node::set_right(left, bounded.then_some(&*high), Header::read(right).sibling);
        });
        dex::flush::finish(self.flushing(FLUSHED), lane, &staged).await?;
        if planted(Mutant::LEFT_BEFORE_RETIRED) {
            write_right().await?;
        }
        loop {
            match port.with(|scratch| self.store.renew(lane, left, image.of(scratch))) {
                Ok(()) => break,
                Err(refused) => self.again(lane, refused).await?,
            }
        }
        Ok(UnlinkedNode { address: pair.right.next_generation(), version: version.unwrap_or_default() })
    }

    /// Revives `right`, a retired leaf to which `left` still links, if no lane of this compute node is about to end that
    /// merge. The key at scratch range `key` is in one of this compute node's entries. Uses node image 0, and that from which
    /// leaves are flushed.
    pub(super) async fn revive(
        &self,
        lane: &Lane<'_>,
        (left, right): (Address, Address),
        key: &Range<usize>,
    ) -> Result<(), OpError> {
        let Some(frozen) = self.freeze_cached(lane, left, key).await? else { return Ok(()) };
        if !planted(Mutant::REVIVED_BEFORE_FLUSH) {
            dex::flush::flush_frame(self.flushing(FLUSHED), lane, frozen.frame()).await?;
        }
        let revived = self.revive_behind(lane, frozen, right, key).await;
        self.thaw(lane, frozen).await?;
        revived
    }

    async fn revive_behind(
        &self,
        lane: &Lane<'_>,
        left: Frozen,
        right: Address,
        key: &Range<usize>,
    ) -> Result<(), OpError> {
        let (port, image) = (lane.port(), self.tree.leaf_image(0));
        let mut low = [0; KEY_BYTES_MAX];
        let linked = port.with(|scratch| {
            self.store.copy(left.frame(), 0, image.of_mut(scratch)).ok()?;
            let mut room = [0; KEY_BYTES_MAX];
            let entry = self.partition().entry_of(key_of(scratch, key, &mut room));
            let low = low.get_mut(..self.leaf.key_bytes)?;
            let bounded = node::read_high(image.of(scratch), low);
            let links = Header::read(image.of(scratch)).sibling == right;
            (links && bounded && self.partition().entry_of(low) == entry).then_some(())
        });
        if linked.is_none() {
            return Ok(());
        }
        let Found::Mine(fill) = self.store.claim(lane, right, Admit::Never) else { return Ok(()) };
        port.call(image.read_from(Label::Leaf, right)).await?;
        let line: Span = image.with_bytes(LINE_BYTES);
        let is_retired = port.with(|scratch| {
            let (wanted, low) = (self.leaf_wanted(right), low.get(..self.leaf.key_bytes).unwrap_or_default());
            let judged = node::judge(image.of(scratch), &wanted, low);
            // One that was moved is alive elsewhere.
            let is_retired = matches!(judged, Ok(FenceCheck::Forward(_))) && !node::is_moved(image.of(scratch));
            if is_retired {
                node::revive(image.of_mut(scratch), low);
            }
            is_retired
        });
        if is_retired {
            port.call(line.write_to(Label::Revive, right)).await?;
            lane.mark(Mark::MERGE_UNDONE);
        }
        self.end_fill(lane, &fill).await
    }

    /// Goes along the leaves of this compute node's entries, and revives what a merge has left that was cut short.
    pub(super) async fn mend(&self, lane: &Lane<'_>) -> Result<(), Interrupt> {
        let partition = self.partition();
        // Descents note what they meet in the `help` range.
        let key = self.tree.scratch.separator.clone();
        for rank in 0..partition.count() {
            let mut low = [0; KEY_BYTES_MAX];
            let low = low.get_mut(..self.leaf.key_bytes).unwrap_or_default();
            let Some(boundary) = partition.boundary_of_rank(rank) else { break };
            low.copy_from_slice(&boundary);
            let entry = partition.entry_of(low);
            while partition.entry_of(low) == entry && partition.tenure_of(low).is_ok() {
                lane.port().with(|scratch| {
                    if let Some(place) = scratch.get_mut(key.clone()) {
                        place.copy_from_slice(low);
                    }
                });
                let look = |place, wanted: &_| self.copy_out(lane, place, wanted, &key);
                let Some(visited) = self.visit_owned(lane, &key, Admit::ByChance, look).await? else { return Ok(()) };
                if let Some(fill) = &visited.fill {
                    self.end_fill(lane, fill).await?;
                }
                let bounded = lane.port().with(|scratch| node::read_high(self.tree.leaf_image(0).of(scratch), low));
                if !bounded {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
