//! Scans of the entries that this compute node owns: a page at a time, as [`crate::btree::scan`] takes them from leaves.
//!
//! A leaf is copied out of its frame, as of one instant; of the leaves that the cached parent names and that are in no
//! frame, several are READ at once. Each counts only if it continues where the one before ended, and if this compute node
//! has the tenure of that bound. An entry that nobody has is taken, as by a get. A page ends
//! where the entries of others begin: with `more`, if it has records; without any, the scan is refused with the owner of
//! the entry that comes next, as a get would be, and the key is where that entry begins.
//!
//! A page answers like a get: the lease is looked at after the last leaf was read, and every record that was seen in a
//! frame is durable.

use super::find::{Look, Place};
use super::{Dex, Level};
use crate::btree::leaves::{Leaves, judge_leaf, key_of};
use crate::btree::node::{self, FenceCheck, Wanted};
use crate::btree::scan::{LEAVES_MAX, Progress, Scan, Taken};
use crate::dex::leaf;
use crate::dex::offload::choice::Class;
use crate::dex::ownership::partition::Tenure;
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::stripes;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError, Operation, Outcome};
use crate::pages::lsn::Lsn;
use crate::pages::{Admit, Fill, Found};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::remote::lock_word::RowId;
use crate::verbs::Label;
use core::ops::Range;
use heapless::Vec;

/// The newest record of this compute node's ring that a scan has seen.
#[derive(Clone, Copy)]
struct Newest(Lsn);

impl Newest {
    /// A leaf of a tenure was read in a frame.
    fn saw(&mut self, tenure: Tenure, lsn: Lsn) {
        // Lines of one ring compare, whatever the epochs of their entries.
        if lsn.epoch() == tenure.epoch && (self.0.is_none() || lsn.line() > self.0.line()) {
            self.0 = lsn;
        }
    }
}

impl Dex<'_> {
    /// A page of records, from the operation's key on.
    pub(super) async fn scan_owned(&self, lane: &Lane<'_>, operation: &Operation) -> Result<Outcome, Interrupt> {
        // The bound lies in the separator range, which nothing else uses in a scan.
        let bound = self.tree.scratch.separator.clone();
        lane.port().with(|scratch| {
            if bound.end <= scratch.len() {
                scratch.copy_within(self.plan.key.clone(), bound.start);
            }
        });
        let mut progress = Progress::begin(operation, self.plan.page_records());
        if progress.wanted() == 0 {
            return Ok(Outcome::Page { records: 0, more: true });
        }
        let restarts = self.log.restarts();
        let mut newest = Newest(Lsn::NONE);
        let waited_ns = lane.port().elapsed_ns();
        let way = self.offload_from(lane, &bound).map(|start| (start.level, self.way(lane, Class::Scan, start.level)));
        let calls = way.is_some_and(|(_, way)| way.calls);
        let page = loop {
            let Some(tenure) = self.tenure_to_scan(lane, &bound, progress.records() > 0).await? else {
                break Outcome::Page { records: progress.records() as u32, more: true };
            };
            self.count(lane, tenure);
            if calls && let Some(start) = self.offload_from(lane, &bound) {
                let at = (&bound, tenure, &start);
                if let Some(taken) = self.scan_by_call(lane, operation, at, &mut progress).await? {
                    if let Some(page) = Self::page(&progress, taken) {
                        break page;
                    }
                    lane.check_deadline()?;
                    continue;
                }
            }
            let Some(taken) = self.take_first(lane, operation, (&bound, tenure), &mut progress, &mut newest).await?
            else {
                break Outcome::Page { records: 0, more: false };
            };
            if let Some(page) = Self::page(&progress, taken) {
                break page;
            }
            if let Some(page) = self.take_ahead(lane, operation, (&bound, taken), &mut progress, &mut newest).await? {
                break page;
            }
            lane.check_deadline()?;
        };
        if let Some((level, way)) = way {
            let took_ns = lane.port().elapsed_ns().saturating_sub(waited_ns);
            self.choice.note(Class::Scan, level, way.calls, took_ns);
        }
        self.check_lease(lane)?;
        if restarts != self.log.restarts() {
            // `newest` may be a line of the old count, and hide a later one of the new count.
            return Err(Interrupt::TenureEnded);
        }
        if self.level(lane) != Level::Cache && !newest.0.is_none() && !planted(Mutant::UNDURABLE_READ_ANSWERED) {
            self.wait_durable(lane, newest.0).await.map_err(|error| OpError::harmless(error.cause))?;
        }
        Ok(page)
    }

    /// The tenure of the entry of the bound, which this compute node takes if nobody has it. `None`: it is another one's,
    /// and the page ends, since it has records.
    async fn tenure_to_scan(
        &self,
        lane: &Lane<'_>,
        bound: &Range<usize>,
        has_records: bool,
    ) -> Result<Option<Tenure>, Interrupt> {
        match self.tenure_at(lane, bound) {
            Ok(tenure) => return Ok(Some(tenure)),
            Err(owner) if has_records && owner.row != RowId(0) => return Ok(None),
            Err(_) => {}
        }
        match self.tenure_of(lane, bound).await {
            Ok(tenure) => Ok(Some(tenure)),
            Err(Interrupt::Failed(OpError { cause: Cause::NotOwner { .. }, .. })) if has_records => Ok(None),
            Err(interrupt) => {
                // Where the owner's entry begins, for a caller that asks it. A scan that is tried again begins with its first
                // record again.
                let is_over = matches!(interrupt, Interrupt::Failed(_));
                lane.port().with(|scratch| {
                    if bound.end <= scratch.len() && (is_over || planted(Mutant::SCAN_AGAIN_FROM_BOUND)) {
                        scratch.copy_within(bound.clone(), self.plan.key.start);
                    }
                });
                Err(interrupt)
            }
        }
    }

    /// Finds the leaf that covers the bound and takes from it. `None`: the index has no leaf.
    async fn take_first(
        &self,
        lane: &Lane<'_>,
        operation: &Operation,
        (bound, tenure): (&Range<usize>, Tenure),
        progress: &mut Progress,
        newest: &mut Newest,
    ) -> Result<Option<Taken>, Interrupt> {
        let look = |place, wanted: &_| self.copy_out(lane, place, wanted, bound);
        let Some(visited) = self.visit_owned(lane, bound, Admit::ByChance, look).await? else { return Ok(None) };
        if let Some(fill) = &visited.fill {
            self.end_fill(lane, fill).await?;
        }
        self.check_tenure(lane, tenure, bound)?;
        newest.saw(tenure, visited.seen);
        Ok(lane.port().with(|scratch| self.take(scratch, 0, (operation, bound), progress, |_, _| true)))
    }

    /// Copies the leaf to node image 0, if it covers the bound. Returns the LSN for which an answer waits.
    pub(super) fn copy_out(&self, lane: &Lane<'_>, place: Place, wanted: &Wanted, bound: &Range<usize>) -> Look<Lsn> {
        let image = self.tree.leaf_image(0);
        lane.port().with(|scratch| {
            if let Place::Frame(name) = place
                && let Err(refused) = self.store.copy(name, 0, image.of_mut(scratch))
            {
                return Look::Refused(refused);
            }
            let mut room = [0; KEY_BYTES_MAX];
            let key = key_of(scratch, bound, &mut room);
            let image = image.of(scratch);
            Look::of(leaf::judge_cached(image, wanted, key).map(|judged| match (judged, place) {
                (FenceCheck::Here, Place::Frame(_)) => Ok(leaf::lsn(&self.leaf, image)),
                // All that it has is in its page.
                (FenceCheck::Here, Place::Scratch) => Ok(Lsn::NONE),
                (elsewhere, _) => Err(elsewhere),
            }))
        })
    }

    /// Takes from the leaves that the cached parent names behind the one that was taken. `None`: the leaf of the bound has
    /// to be looked for.
    async fn take_ahead(
        &self,
        lane: &Lane<'_>,
        operation: &Operation,
        (bound, taken): (&Range<usize>, Taken),
        progress: &mut Progress,
        newest: &mut Newest,
    ) -> Result<Option<Outcome>, OpError> {
        let mut next = taken.sibling;
        while self.tenure_at(lane, bound).is_ok() {
            let ahead = self.leaves_ahead(lane, bound, next, progress);
            let changes = self.partition().changes();
            let brought = self.bring(lane, &ahead, changes).await?;
            let mut last = None;
            for (i, (&address, &lsn)) in ahead.iter().zip(&brought).enumerate() {
                let Ok(tenure) = self.tenure_at(lane, bound) else { break };
                if self.partition().changes() != changes && !planted(Mutant::TENURE_UNCHECKED_BEHIND_READ) {
                    // The leaf may have been another compute node's in between.
                    break;
                }
                let wanted = self.leaf_wanted(address);
                // A leaf that was READ may be a mixture, and has no LSN here. The copy of a frame is of one instant.
                let is_whole = |look: stripes::Look<'_>| if lsn.is_none() { self.whole(look) } else { Ok(()) };
                let is_sound = |look: stripes::Look<'_>, key: &[u8]| {
                    matches!(judge_leaf(look.image, &wanted, key, |_| is_whole(look)), Ok(Ok(())))
                };
                let taken =
                    lane.port().with(|scratch| self.take(scratch, 1 + i, (operation, bound), progress, is_sound));
                let Some(taken) = taken else { break };
                newest.saw(tenure, lsn);
                if let Some(page) = Self::page(progress, taken) {
                    return Ok(Some(page));
                }
                last = Some(taken);
            }
            let Some(taken) = last else {
                lane.mark(Mark::SCAN_RESTART);
                return Ok(None);
            };
            next = taken.sibling;
            lane.check_deadline()?;
        }
        Ok(None)
    }

    /// Copies the leaves `ahead` to node images 1 and following, from their frames or, with one submit, from the pool.
    /// Returns for how many of them, and for each the LSN for which an answer waits. `changes` were counted before.
    async fn bring(&self, lane: &Lane<'_>, ahead: &[Address], changes: u32) -> Result<Vec<Lsn, LEAVES_MAX>, OpError> {
        let (mut brought, mut fills) = (Vec::new(), Vec::<(usize, Fill), LEAVES_MAX>::new());
        for (i, &address) in ahead.iter().enumerate() {
            let image = self.tree.leaf_image(1 + i);
            let lsn = match self.store.claim(lane, address, Admit::ByChance) {
                Found::Frame(name) => {
                    let copied = lane.port().with(|scratch| {
                        let copied = self.store.copy(name, 0, image.of_mut(scratch));
                        copied.map(|()| leaf::lsn(&self.leaf, image.of(scratch)))
                    });
                    let Ok(lsn) = copied else { break };
                    lsn
                }
                Found::Mine(fill) => {
                    lane.port().push(image.read_from(Label::Leaf, address).untimed());
                    // As many as leaves that are READ at once.
                    let _ = fills.push((i, fill));
                    Lsn::NONE
                }
                Found::Joined | Found::NoFrame | Found::NoFill | Found::Busy => break,
            };
            let _ = brought.push(lsn);
        }
        if !fills.is_empty() {
            self.begin_fills(lane);
            lane.port().submit().await?;
            self.end_fills(lane);
        }
        for (i, fill) in &fills {
            self.end_brought(lane, (*i, fill), changes).await?;
        }
        Ok(brought)
    }

    /// Ends the fill of a leaf that was READ into node image `1 + i`: in a frame, if it is this compute node's.
    async fn end_brought(&self, lane: &Lane<'_>, (i, fill): (usize, &Fill), changes: u32) -> Result<(), OpError> {
        let image = self.tree.leaf_image(1 + i);
        let wanted = self.leaf_wanted(fill.id());
        let is_mine = lane.port().with(|scratch| {
            let (image, mut low) = (image.of(scratch), [0; KEY_BYTES_MAX]);
            let low = low.get_mut(..self.leaf.key_bytes).unwrap_or_default();
            stripes::read(image, node::LOW_AT, low);
            let judged: Result<FenceCheck, DecodeError> = node::judge(image, &wanted, low);
            judged == Ok(FenceCheck::Here) && self.partition().tenure_of(low).is_ok()
        });
        if !fill.is_admitted() || !is_mine {
            return self.end_fill(lane, fill).await;
        }
        self.admit_from(lane, fill, image, changes).await?;
        Ok(())
    }
}
