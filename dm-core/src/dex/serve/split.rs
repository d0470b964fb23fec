//! Splitting a full leaf.
//!
//! ```text
//!  freeze left ─► none record, stamp ─► WRITE right ─► flush left ─► right into a frame, left's new image ─► thaw ─► parent
//!   reads go on                          nobody        it is the      both are seen                                  a half-
//!                                        names it      split                                                         split till here
//! ```
//!
//! Each arrow waits for the completion of what is before it. The parent is told last: a parent that names right while
//! left still has its keys would make two leaves for one key. The record that needed the room goes in afterwards, like
//! any other.
//!
//! **A split that is dropped or fails.** Left's frame has all records until left's flush has completed; the frame is dirty,
//! by the record `none`. So settling ends the flush as failed and thaws the frame, and the next flush writes left as it
//! was, whether the split had landed or not. Until then left may lead to right in the pool; memory nodes' processors do not go
//! there ([`walk`](crate::dex::offload::walk)). Then nobody names right. Its place is used again when this compute node has
//! departed.

use super::Dex;
use super::find::Look;
use super::flush::FLUSHED;
use crate::btree::leaves::Leaves;
use crate::btree::router::Router;
use crate::dex;
use crate::dex::leaf::{self, Leaf, split_images};
use crate::dex::log::record::Change;
use crate::dex::log::state::Full;
use crate::dex::ownership::partition::Tenure;
use crate::dex::recover::Replayed;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::stripes;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::span::Span;
use crate::operation::{Cause, OpError};
use crate::pages::lsn::Lsn;
use crate::pages::{Acquired, Admit, Found, FrameName, Frozen, Refused};
use crate::registry::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::remote::address::Address;
use crate::remote::place::{NodeClass, UnlinkedNode};
use crate::verbs::Label;

/// What a split is for.
#[derive(Clone, Copy)]
pub(super) enum Why<'r> {
    /// The operation in the scratch, under this tenure, which puts its record in afterwards.
    Operation(Tenure),
    /// A record that is replayed, and goes in with the split: see [`super::replay`].
    Replay(&'r Replayed),
}

/// What the first steps of a split came to.
enum Begun {
    /// The leaf is frozen, and stamped with this LSN.
    Frozen(Frozen, Lsn),
    /// Another lane was at it: the operation looks at the leaf again.
    Again,
    /// The log has no room for the record.
    Full(Full),
}

impl Dex<'_> {
    /// Splits the leaf, if it is still full. The operation then tries again. Uses node images 2 and 3, and what
    /// [`Router::link`] uses.
    pub(super) async fn split(&self, lane: &Lane<'_>, left: Address, why: Why<'_>) -> Result<(), Interrupt> {
        if !self.tree.reserve_to_split(lane, left.node()).await? {
            return Err(self.tree.no_memory(left.node()));
        }
        let (frozen, lsn) = loop {
            let Some(name) = self.frame_to_split(lane, left, why).await? else { return Ok(()) };
            match self.begin_split(lane, name, why).await? {
                Begun::Frozen(frozen, lsn) => break (frozen, lsn),
                Begun::Again => return Ok(()),
                Begun::Full(full) => {
                    // Others may have to flush, or to settle, first: the deadline bounds it.
                    self.make_room(lane, full).await?;
                    lane.check_deadline()?;
                }
            }
        };
        let Some(fresh) = lane.take_stock(NodeClass::Leaf, left.node()) else {
            self.thaw(lane, frozen).await?;
            return Err(self.tree.no_memory(left.node()));
        };
        lane.mark(Mark::LEAF_SPLIT);
        if fresh.version != 0 {
            lane.mark(Mark::NODE_REUSED);
        }
        self.split_frozen(lane, (left, fresh), frozen, (lsn, why)).await?;
        // The split is done. If the parent cannot be told now, the next operation that meets the half-split does it.
        if !planted(Mutant::PARENT_BEFORE_LEFT) {
            let linked = Router::link(&self.tree, lane, 0, fresh.address).await;
            if lane.must_settle() {
                // A request failed, and a lock may be held, or the lane queues for one. It would queue behind itself.
                return linked.map_err(|interrupt| match interrupt {
                    Interrupt::Failed(error) => OpError::harmless(error.cause).into(),
                    interrupt => interrupt,
                });
            }
            lane.end_change(linked);
        }
        Ok(())
    }

    /// The frame of a leaf that has to split. `None`: look again.
    async fn frame_to_split(
        &self,
        lane: &Lane<'_>,
        left: Address,
        why: Why<'_>,
    ) -> Result<Option<FrameName>, Interrupt> {
        match self.store.acquire(lane, left, Admit::Always).await? {
            Acquired::Frame(name) => {
                self.store.wait_for(lane, name).await?;
                Ok(Some(name))
            }
            Acquired::Mine(fill) => {
                // It was not admitted. The leaf is this compute node's, as the operation has just seen.
                let wanted = self.leaf_wanted(left);
                let key = match why {
                    Why::Operation(_) => self.plan.key.clone(),
                    Why::Replay(record) => record.key.at..record.key.at + record.key.bytes,
                };
                let changes = self.partition().changes();
                if let Look::Seen(()) = self.fill(lane, &fill, &wanted, &key).await? {
                    self.admit(lane, &fill, changes).await?;
                } else {
                    self.end_fill(lane, &fill).await?;
                }
                Ok(None)
            }
            Acquired::NoFrame => {
                self.make_clean(lane).await?;
                Ok(None)
            }
            Acquired::NoFill => {
                Err(OpError::harmless(Cause::BadInput("the lane has fills that it has not ended")).into())
            }
        }
    }

    /// Freezes the leaf and stamps it, so that it is dirty until its flush has completed.
    async fn begin_split(&self, lane: &Lane<'_>, name: FrameName, why: Why<'_>) -> Result<Begun, OpError> {
        let frozen = match self.store.freeze(lane, name) {
            Ok(frozen) => frozen,
            Err(Refused::Frozen | Refused::Moved) => return Ok(Begun::Again),
            Err(refused) => {
                self.again(lane, refused).await?;
                return Ok(Begun::Again);
            }
        };
        let mut full = None;
        let stamped = self.store.change(
            lane,
            name,
            || match why {
                Why::Operation(tenure) => self.partition().holds(tenure),
                Why::Replay(_) => true,
            },
            |page| {
                if Leaf::over(&self.leaf, page.image()).free_slot().is_some() {
                    return Ok(None);
                }
                let tenure = match why {
                    Why::Operation(tenure) => tenure,
                    Why::Replay(record) => {
                        // Dirty, and not stamped: the record is not in it.
                        page.record(self.log.floor(), || Ok::<_, Refused>(record.lsn))??;
                        return Ok(Some(record.lsn));
                    }
                };
                let stage = || self.stage(tenure, Change::None);
                match page.record(self.log.floor(), stage)? {
                    Ok(mut writing) => {
                        let lsn = writing.lsn();
                        leaf::stamp(&self.leaf, &mut writing, lsn);
                        Ok(Some(lsn))
                    }
                    Err(no_room) => {
                        full = Some(no_room);
                        Ok(None)
                    }
                }
            },
        );
        if let Ok(Some(lsn)) = stamped {
            return Ok(Begun::Frozen(frozen, lsn));
        }
        self.thaw(lane, frozen).await?;
        match (stamped, full) {
            (_, Some(full)) => return Ok(Begun::Full(full)),
            // The operation looks after its tenure again.
            (Err(Refused::NoTenure), _) | (Ok(_), None) => {}
            (Err(refused), _) => self.again(lane, refused).await?,
        }
        Ok(Begun::Again)
    }

    pub(super) async fn thaw(&self, lane: &Lane<'_>, frozen: Frozen) -> Result<(), OpError> {
        while let Err(refused) = self.store.thaw(lane, frozen) {
            self.again(lane, refused).await?;
        }
        Ok(())
    }

    /// Writes both halves, publishes them, and thaws left. The separator is in the `separator` range afterwards.
    async fn split_frozen(
        &self,
        lane: &Lane<'_>,
        (left, fresh): (Address, UnlinkedNode),
        frozen: Frozen,
        (lsn, why): (Lsn, Why<'_>),
    ) -> Result<(), Interrupt> {
        let (left_image, right_image) = (self.tree.leaf_image(FLUSHED), self.tree.leaf_image(2));
        let right = fresh.address;
        let staged = self.stage_frozen(lane, frozen, left).await?;
        self.halve(lane, fresh, (lsn, why));
        lane.port().call(right_image.write_to(Label::Sibling, right)).await?;
        if planted(Mutant::PARENT_BEFORE_LEFT) {
            lane.end_change(Router::link(&self.tree, lane, 0, right).await);
        }
        dex::flush::finish(self.flushing(FLUSHED), lane, &staged).await?;
        // The split is in the pool.
        self.publish_right(lane, right).await?;
        loop {
            let renewed = lane.port().with(|scratch| self.store.renew(lane, frozen, left_image.of(scratch)));
            match renewed {
                Ok(()) => break,
                Err(refused) => self.again(lane, refused).await?,
            }
        }
        Ok(self.thaw(lane, frozen).await?)
    }

    /// Makes the images of both halves: left's in the node image from which it is flushed, right's in image 2.
    fn halve(&self, lane: &Lane<'_>, fresh: UnlinkedNode, (lsn, why): (Lsn, Why<'_>)) {
        lane.port().with(|scratch| {
            let (mut key, mut value) = ([0; KEY_BYTES_MAX], [0; VALUE_BYTES_MAX]);
            let replayed = match why {
                Why::Operation(_) => None,
                Why::Replay(record) => Some((
                    copy(record.key, scratch, &mut key),
                    record.value.map(|place| copy(place, scratch, &mut value)),
                )),
            };
            let Some((front, left)) = self.tree.leaf_image(FLUSHED).split(scratch) else { return };
            let right = self.tree.leaf_image(2).of_mut(front);
            let mut separator = [0; KEY_BYTES_MAX];
            let Some(separator) = separator.get_mut(..self.leaf.key_bytes) else { return };
            split_images(&self.leaf, left, right, fresh.address, separator);
            self.tree.owner_tag().write(right);
            if let Some((key, value)) = replayed {
                self.put_replayed((&mut *left, &mut *right), separator, key, value);
                leaf::stamp(&self.leaf, left, lsn);
            }
            leaf::stamp(&self.leaf, right, lsn);
            stripes::set_node_version(right, fresh.version.wrapping_add(1));
            if let Some(place) = front.get_mut(self.tree.scratch.separator.clone()) {
                place.copy_from_slice(separator);
            }
        });
    }

    /// Puts the right half into a frame, if there is one. Nobody knows the leaf yet.
    async fn publish_right(&self, lane: &Lane<'_>, right: Address) -> Result<(), OpError> {
        let Found::Mine(fill) = self.store.claim(lane, right, Admit::ByChance) else { return Ok(()) };
        if !fill.is_admitted() {
            return self.end_fill(lane, &fill).await;
        }
        self.admit_from(lane, &fill, self.tree.leaf_image(2), self.partition().changes()).await?;
        Ok(())
    }
}

/// Copies what lies at `place` to `room`.
fn copy<'r>(place: Span, scratch: &[u8], room: &'r mut [u8]) -> &'r [u8] {
    let bytes = place.of(scratch);
    let room = room.get_mut(..bytes.len()).unwrap_or_default();
    room.copy_from_slice(bytes);
    room
}
