//! Parts whose nodes leave a memory node, so that it becomes empty.
//!
//! ```text
//!  inner nodes above the part, level after level: moved under their locks          (btree::relocate)
//!  its leaves, from the last one to the first one:
//!    the page leaves its frame: flushed ─► fill ─► READ ─► WRITE copy ─► WRITE first line: moved ─► fill ends ─► parent names the copy
//!    a leaf that stays, and whose right neighbour has moved:       ─► record none, WRITE with the new link ─► fill ends
//! ```
//!
//! [`crate::btree::relocate`] has the argument. What guards a leaf is its fill: this compute node owns the part, so no other one writes
//! the leaf, and no lane of this one reads or writes it before the fill ends. A hand-over of the part waits for fills, and the
//! tenure is looked at under the fill.
//!
//! **The log.** A leaf that moves is in the pool with all its changes, and its copy has its LSN: a replay finds the copy by the
//! record's key and does there what it would have done. A leaf that gets a new link gets the LSN of a record that says nothing, as
//! every leaf that is WRITTEN without a frame.
//!
//! **A call** that a memory node executes late finds a leaf that was moved, and does nothing. A change by call has the fill
//! of its leaf as long as it may be executed.
//!
//! The link of the last leaf before the part is that part's: parts are vacated from the last one to the first one.

use super::Dex;
use super::find::Look;
use crate::btree::leaves::Leaves;
use crate::btree::link::raise_node_version;
use crate::btree::node::{self, Header};
use crate::btree::relocate::Found;
use crate::dex::leaf;
use crate::dex::log::record::Change;
use crate::dex::log::state::Full;
use crate::dex::ownership::partition::Tenure;
use crate::index::runner::Run;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::{LINE_BYTES, stripes};
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError};
use crate::pages::{Acquired, Admit, Fill};
use crate::remote::address::Address;
use crate::remote::place::NodeClass;
use crate::verbs::{Label, NodeId};

/// The node image of a copy.
const COPY: usize = 2;

/// What became of a leaf.
enum Rewritten {
    /// It is there now.
    Moved(Address),
    /// It has its new link.
    Linked,
    /// The log has no room: nothing was changed.
    Full(Full),
    /// It was not the leaf any more: it is looked at again.
    Again,
}

impl Dex<'_> {
    /// Moves the nodes of the part of that rank that are on `from` to other memory nodes, and replaces pointers to nodes that have
    /// moved. This compute node owns the part. Returns how many it moved.
    pub(super) async fn vacate(&self, lane: &Lane<'_>, rank: u32, from: NodeId) -> Result<u64, OpError> {
        self.check_not_fenced()?;
        let partition = &self.open(lane).await?.partition;
        let what = "a part that the index does not have";
        let low = partition.boundary_of_rank(rank).ok_or(OpError::harmless(Cause::BadInput(what)))?;
        let end = partition.high_of(&low);
        let mut moved = 0;
        loop {
            match self.vacate_once(lane, from, (&low, end.as_deref()), &mut moved).await {
                Ok(()) => return Ok(moved),
                Err(interrupt) => self.overcome(lane, false, interrupt).await?,
            }
        }
    }

    /// Does the work of [`Dex::vacate`] under one tenure. `end`: where the part ended before.
    pub(super) async fn vacate_once(
        &self,
        lane: &Lane<'_>,
        from: NodeId,
        (low, end): (&[u8], Option<&[u8]>),
        moved: &mut u64,
    ) -> Result<(), Interrupt> {
        let tenure = self.partition().tenure_of(low).map_err(Self::not_owner)?;
        // Behind the tenure, which a cut ends: what was cut off has an owner of its own.
        let high = self.partition().high_of(low);
        let high = if planted(Mutant::CUT_OFF_VACATED) { end } else { high.as_deref() };
        let inner = self.tree.vacate_inner_nodes(lane, from, (low, high)).await?;
        (0..inner).for_each(|_| lane.mark(Mark::NODE_MOVED));
        *moved += inner;
        self.tree.note_last(lane, high);
        loop {
            lane.check_deadline()?;
            let Some(found) = self.vacate_leaf(lane, from, tenure, moved).await? else { return Ok(()) };
            if !self.tree.note_before(lane, &found, low) {
                return Ok(());
            }
        }
    }

    /// Vacates the leaf that covers the key in the `separator` range. `None`: the index has no leaf.
    async fn vacate_leaf(
        &self,
        lane: &Lane<'_>,
        from: NodeId,
        tenure: Tenure,
        moved: &mut u64,
    ) -> Result<Option<Found>, Interrupt> {
        let (tree, key) = (&self.tree, self.tree.scratch.separator.clone());
        let sought = tree.noted_separator(lane);
        loop {
            lane.check_deadline()?;
            tree.note_separator(lane, &sought);
            let look = |place, wanted: &_| self.copy_out(lane, place, wanted, &key);
            let Some(visited) = self.visit_owned(lane, &key, Admit::Never, look).await? else { return Ok(None) };
            if let Some(fill) = &visited.fill {
                self.end_fill(lane, fill).await?;
            }
            let image = tree.leaf_image(0);
            let found = lane.port().with(|scratch| tree.found(image.of(scratch), visited.leaf, 0));
            let right = tree.copy_of(lane, from, found.sibling, 0).await?;
            let is_on = found.address.node() == from;
            if !is_on && right.is_none() {
                tree.rename_in_parent(lane, from, &found, false).await?;
                return Ok(Some(found));
            }
            let to = if is_on {
                tree.link_if_parent_lacks(lane, &found).await?;
                let near = tree.home_of_parent(lane, &found).await?;
                Some(tree.reserve_elsewhere(lane, NodeClass::Leaf, from, near).await?)
            } else {
                None
            };
            match self.rewrite(lane, (&found, tenure), right, to).await? {
                Rewritten::Moved(copy) => {
                    lane.mark(Mark::NODE_MOVED);
                    *moved += 1;
                    tree.rename_in_parent(lane, from, &Found { address: copy, ..found }, true).await?;
                    return Ok(Some(found));
                }
                Rewritten::Linked => return Ok(Some(found)),
                Rewritten::Full(full) => self.make_room(lane, full).await?,
                Rewritten::Again => {}
            }
        }
    }

    /// Takes the leaf out of its frame, and moves it, or gives it its new link.
    async fn rewrite(
        &self,
        lane: &Lane<'_>,
        (found, tenure): (&Found, Tenure),
        right: Option<Address>,
        to: Option<NodeId>,
    ) -> Result<Rewritten, Interrupt> {
        let mut attempts = 0;
        let fill = loop {
            match self.store.acquire(lane, found.address, Admit::Never).await? {
                Acquired::Frame(_) if planted(Mutant::MOVED_UNGUARDED) => break None,
                Acquired::Frame(name) => self.drop_page(lane, name).await?,
                Acquired::Mine(fill) => break Some(fill),
                Acquired::NoFrame | Acquired::NoFill => {
                    return Err(OpError::harmless(Cause::BadInput("the lane has fills that it has not ended")).into());
                }
            }
            // Nothing here need take time, so that the deadline alone would not end it.
            lane.attempt(&mut attempts, "taking a leaf out of its frame")?;
        };
        self.tree.note_separator(lane, &found.low);
        let (key, image) = (self.tree.scratch.separator.clone(), self.tree.leaf_image(0));
        let Some(fill) = fill else {
            // A mutant.
            lane.port().call(image.read_from(Label::Leaf, found.address)).await.map_err(OpError::from)?;
            let Some(to) = to else { return Ok(Rewritten::Again) };
            return self.write_copy(lane, found.address, to, right).await;
        };
        let looked = self.fill(lane, &fill, &self.leaf_wanted(found.address), &key).await?;
        let is_same = matches!(looked, Look::Seen(()))
            && lane.port().with(|scratch| Header::read(image.of(scratch)).sibling) == found.sibling;
        if !is_same {
            self.end_fill(lane, &fill).await?;
            return Ok(Rewritten::Again);
        }
        if !self.partition().holds(tenure) {
            self.end_fill(lane, &fill).await?;
            return Err(self.no_tenure(lane, &key));
        }
        let rewritten = match to {
            Some(to) => self.write_copy(lane, found.address, to, right).await?,
            None => self.write_link(lane, (found.address, &fill), tenure, right).await?,
        };
        self.end_fill(lane, &fill).await?;
        Ok(rewritten)
    }

    /// WRITEs the leaf in node image 0 to a place on `to`, and then that it has moved.
    async fn write_copy(
        &self,
        lane: &Lane<'_>,
        leaf: Address,
        to: NodeId,
        right: Option<Address>,
    ) -> Result<Rewritten, Interrupt> {
        let (tree, port) = (&self.tree, lane.port());
        let (image, copy) = (tree.leaf_image(0), tree.leaf_image(COPY));
        let Some(fresh) = lane.take_stock(NodeClass::Leaf, to) else { return Ok(Rewritten::Again) };
        port.with(|scratch| {
            image.copy_to(scratch, copy.at);
            let bytes = copy.of_mut(scratch);
            let header = Header::read(bytes);
            let sibling = right.unwrap_or(header.sibling);
            Header { generation: fresh.address.generation(), sibling, ..header }.write(bytes);
            tree.owner_tag().write(bytes);
            stripes::set_node_version(bytes, fresh.version.wrapping_add(1));
        });
        self.check_lease(lane)?;
        if !planted(Mutant::MOVED_BEFORE_COPY) {
            port.call(copy.write_to(Label::Sibling, fresh.address)).await.map_err(OpError::from)?;
        }
        let line = image.with_bytes(LINE_BYTES);
        port.with(|scratch| node::move_to(line.of_mut(scratch), fresh.address));
        port.call(line.write_to(Label::Leaf, leaf)).await.map_err(OpError::from)?;
        if planted(Mutant::MOVED_BEFORE_COPY) {
            port.call(copy.write_to(Label::Sibling, fresh.address)).await.map_err(OpError::from)?;
        }
        Ok(Rewritten::Moved(fresh.address))
    }

    /// WRITEs the leaf in node image 0 with its right neighbour's copy for its link.
    async fn write_link(
        &self,
        lane: &Lane<'_>,
        (leaf, fill): (Address, &Fill),
        tenure: Tenure,
        right: Option<Address>,
    ) -> Result<Rewritten, Interrupt> {
        let lsn = match self.stage(tenure, Change::None) {
            Ok(lsn) => lsn,
            Err(full) => return Ok(Rewritten::Full(full)),
        };
        let image = self.tree.leaf_image(0);
        lane.port().with(|scratch| {
            let image = image.of_mut(scratch);
            let header = Header::read(image);
            Header { sibling: right.unwrap_or(header.sibling), ..header }.write(image);
            leaf::stamp(&self.leaf, image, lsn);
            raise_node_version(image);
        });
        // If that fails, settling WRITEs the leaf again, and then ends the fill.
        self.store.writes(lane, fill);
        self.write_back(lane, leaf, lsn).await?;
        self.store.written(lane);
        Ok(Rewritten::Linked)
    }
}
