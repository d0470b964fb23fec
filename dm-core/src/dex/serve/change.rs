//! Insert, update, upsert, `update_if`, delete and `delete_if`: one procedure.
//!
//! Steps under the frame's latch, without a request: the tenure is checked again; decide; note the frame as dirty from the
//! log's next line on; stage the record; change the words; stamp the LSN. Then the answer waits for what its level says.
//!
//! It linearizes under the latch. It is seen by lanes of this compute node only until then, and those answer as late as it
//! does.
//!
//! **A leaf that is not admitted** is this lane's alone by its fill. A record `none` gives the change an LSN, so that a
//! replay leaves it alone; the leaf is WRITTEN, with its image in front; then the fill ends. A completion says that the
//! change is in its page, which is what level `pool` asks for.

use super::find::{Look, Place, Search, Visited};
use super::offload::Ended;
use super::split::Why;
use super::{Dex, Level};
use crate::btree::leaves::Leaves;
use crate::btree::link::raise_node_version;
use crate::btree::node::{self, FenceCheck, Wanted};
use crate::dex::leaf;
use crate::dex::leaf::Leaf;
use crate::dex::log::record::Change;
use crate::dex::log::state::Full;
use crate::dex::offload::Mode;
use crate::dex::offload::choice::Class;
use crate::dex::ownership::partition::Tenure;
use crate::dex::step::{self, Step};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::stripes::{Bytes, Cursor};
use crate::operation::{Arguments, OpError, OperationKind, Outcome, unknown};
use crate::pages::lsn::Lsn;
use crate::pages::{Admit, FrameName, Page, Refused};
use crate::remote::address::Address;

/// What a look at the leaf has decided and done.
pub(super) enum Decided {
    /// `lsn`: of the change; or, if nothing is `changed`, for which the answer waits.
    /// `emptied`: the change has taken the last record of the leaf, which may be joined to another one.
    Done { outcome: Outcome, lsn: Lsn, changed: bool, emptied: bool },
    /// The leaf has to split first.
    NoRoom,
    /// The log has no room: nothing was changed.
    Full(Full),
    /// The leaf was not READ: a memory node makes the change.
    Unread,
}

impl Dex<'_> {
    pub(super) async fn change(&self, lane: &Lane<'_>, kind: OperationKind) -> Result<Outcome, Interrupt> {
        let inserts = matches!(kind, OperationKind::Insert | OperationKind::Upsert);
        let tenure = self.tenure(lane).await?;
        self.count(lane, tenure);
        let (mut attempts, mut may_call) = (0, self.tree.capabilities.calls_change);
        loop {
            let look = |place, wanted: &_| self.decide(lane, kind, tenure, place, wanted);
            let waited_ns = lane.port().elapsed_ns();
            let way = if may_call && self.choice.mode() != Mode::Never {
                Some(self.way(lane, Class::Change, 0))
            } else {
                None
            };
            let unread = way.is_some_and(|way| way.calls);
            let search = Search { admit: Admit::ByChance, unread };
            let visited = self.visit_owned(lane, &self.plan.key, search, look).await?;
            let Some(Visited { mut seen, leaf, fill, help }) = visited else {
                if !inserts {
                    return Ok(Outcome::Absent);
                }
                self.create_for(lane).await?;
                lane.attempt(&mut attempts, "making the first leaves")?;
                continue;
            };
            let is_cached = fill.is_none();
            if let (Decided::Unread, Some(fill)) = (&seen, &fill) {
                seen = match self.change_by_call(lane, (kind, tenure), (leaf, fill)).await? {
                    Ended::So(outcome, lsn) => {
                        let (lsn, changed) = (lsn.unwrap_or(Lsn::NONE), lsn.is_some());
                        Decided::Done { outcome, lsn, changed, emptied: false }
                    }
                    Ended::NoRoom => Decided::NoRoom,
                    Ended::Full(full) => Decided::Full(full),
                    Ended::InVain => Decided::Unread,
                };
            } else if let (Decided::Done { lsn, changed: true, .. }, Some(fill)) = (&seen, &fill) {
                // If that fails, settling WRITEs the leaf again, and then ends the fill.
                self.store.writes(lane, fill);
                self.write_back(lane, leaf, *lsn).await?;
                self.store.written(lane);
            }
            if let Some(fill) = &fill {
                let ended = self.end_fill(lane, fill).await;
                let is_changed = matches!(seen, Decided::Done { changed: true, .. });
                ended.map_err(|error| if is_changed { unknown(error.cause) } else { error })?;
            }
            if let Some(way) = way.filter(|_| !is_cached) {
                let took_ns = lane.port().elapsed_ns().saturating_sub(waited_ns);
                self.choice.note(Class::Change, 0, way.calls, took_ns);
            }
            match seen {
                Decided::Done { outcome, lsn, changed, emptied } => {
                    match (changed, is_cached) {
                        (false, _) => self.answer_read(lane, tenure, lsn).await?,
                        // The change was made, and others see it, whatever this fails at.
                        (true, true) => {
                            let answered = self.answer_change(lane, leaf, lsn).await;
                            answered.map_err(|error| unknown(error.cause))?;
                        }
                        // The WRITE has completed: that was before anybody has fenced this compute node.
                        (true, false) => self.post_ahead(lane, lsn).await,
                    }
                    if help.is_some() {
                        self.help(lane, help).await;
                    }
                    if emptied {
                        self.join_emptied(lane, leaf, tenure).await;
                    }
                    return Ok(outcome);
                }
                Decided::Unread => {
                    may_call = false;
                    continue;
                }
                Decided::NoRoom => self.split(lane, leaf, Why::Operation(tenure)).await?,
                Decided::Full(full) => {
                    // Others may have to flush, or to settle, first: the deadline bounds it.
                    self.make_room(lane, full).await?;
                    lane.check_deadline()?;
                    continue;
                }
            }
            lane.attempt(&mut attempts, "making room for a record")?;
        }
    }

    /// Decides what the operation does to the leaf, and does it.
    fn decide(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        tenure: Tenure,
        place: Place,
        wanted: &Wanted,
    ) -> Look<Decided> {
        let look = lane.port().with(|scratch| {
            let Ok((mut arguments, image)) = self.plan.arguments_and(self.tree.leaf_image(0), scratch) else {
                return Look::Corrupt("scratch shorter than planned");
            };
            match place {
                Place::Frame(name) => self.decide_in_frame(lane, (kind, tenure), &mut arguments, name, wanted),
                Place::Scratch => self.decide_in_scratch((kind, tenure), &mut arguments, image, wanted),
                Place::Unread => Look::Seen(Decided::Unread),
            }
        });
        if let Look::Seen(Decided::Done { changed: true, .. }) = look {
            lane.change_is_made();
        }
        look
    }

    fn decide_in_frame(
        &self,
        lane: &Lane<'_>,
        (kind, tenure): (OperationKind, Tenure),
        arguments: &mut Arguments<'_>,
        name: FrameName,
        wanted: &Wanted,
    ) -> Look<Decided> {
        let decide = |page: &mut Page<'_, '_>| -> Result<Look<Decided>, Refused> {
            let image = page.image();
            match leaf::judge_cached(image, wanted, arguments.key()) {
                Ok(FenceCheck::Here) => {}
                judged => return Ok(Look::of(judged.map(Err))),
            }
            let before = Leaf::over(&self.leaf, image);
            let (outcome, step) = plan(&before, kind, arguments);
            let Some(record) = record_of(step, arguments) else {
                return Ok(Look::Seen(unchanged(outcome, step, leaf::lsn(&self.leaf, image))));
            };
            let emptied = self.empties(&before, image, outcome, arguments.key());
            let stage = || self.stage(tenure, record);
            let mut writing = match page.record(self.log.floor(), stage)? {
                Ok(writing) => writing,
                Err(full) => return Ok(Look::Seen(Decided::Full(full))),
            };
            let lsn = writing.lsn();
            step::make(&self.leaf, &mut writing, step, (arguments.key(), arguments.value()), lsn);
            Ok(Look::Seen(Decided::Done { outcome, lsn, changed: true, emptied }))
        };
        self.store.change(lane, name, || self.partition().holds(tenure), decide).unwrap_or_else(Look::Refused)
    }

    /// Whether a change with that outcome takes the last record of the leaf `before` with that image, and the leaf may be joined
    /// to its left neighbour: the leftmost one of an entry is joined to none.
    fn empties<B: Bytes>(&self, before: &Leaf<'_, B>, image: impl Bytes, outcome: Outcome, key: &[u8]) -> bool {
        outcome == Outcome::Deleted
            && before.records() == 1
            && !Cursor::at(node::LOW_AT).compare(image, &self.partition().low_of(key)).is_eq()
    }

    /// As [`Dex::decide_in_frame`], of a leaf that is not admitted. Its image in the scratch is WRITTEN next.
    fn decide_in_scratch(
        &self,
        (kind, tenure): (OperationKind, Tenure),
        arguments: &mut Arguments<'_>,
        image: &mut [u8],
        wanted: &Wanted,
    ) -> Look<Decided> {
        match leaf::judge_cached(&*image, wanted, arguments.key()) {
            Ok(FenceCheck::Here) => {}
            judged => return Look::of(judged.map(Err)),
        }
        let before = Leaf::new(&self.leaf, &*image);
        let (outcome, step) = plan(&before, kind, arguments);
        let emptied = self.empties(&before, &*image, outcome, arguments.key());
        if record_of(step, arguments).is_none() {
            // All that it has is in its page.
            return Look::Seen(unchanged(outcome, step, Lsn::NONE));
        }
        if !self.partition().holds(tenure) {
            return Look::Refused(Refused::NoTenure);
        }
        match self.stage(tenure, Change::None) {
            Ok(lsn) => {
                step::make(&self.leaf, image, step, (arguments.key(), arguments.value()), lsn);
                raise_node_version(image);
                Look::Seen(Decided::Done { outcome, lsn, changed: true, emptied })
            }
            Err(full) => Look::Seen(Decided::Full(full)),
        }
    }

    /// Waits for what an answer to a change of a cached leaf means at the lane's level.
    async fn answer_change(&self, lane: &Lane<'_>, leaf: Address, lsn: Lsn) -> Result<(), OpError> {
        match self.level(lane) {
            Level::Log => self.wait_durable(lane, lsn).await,
            Level::Pool => self.wait_flushed(lane, leaf).await,
            Level::Cache => {
                self.post_ahead(lane, lsn).await;
                self.check_lease(lane)
            }
        }
    }
}

/// Plans the operation's step. The value that it finds goes to the output, if it is a part of the answer.
fn plan<B: Bytes>(leaf: &Leaf<'_, B>, kind: OperationKind, arguments: &mut Arguments<'_>) -> (Outcome, Step) {
    let planned = step::plan(leaf, kind, arguments.key(), arguments.expected());
    if let Some(slot) = planned.shows {
        leaf.read_value(slot, arguments.output());
    }
    (planned.outcome, planned.step)
}

/// `lsn`: for which the answer waits.
fn unchanged(outcome: Outcome, step: Step, lsn: Lsn) -> Decided {
    if step == Step::NoRoom { Decided::NoRoom } else { Decided::Done { outcome, lsn, changed: false, emptied: false } }
}

/// The log record of a step. `None`: it changes nothing.
fn record_of<'a>(step: Step, arguments: &'a Arguments<'_>) -> Option<Change<'a>> {
    match step {
        Step::Put(_) | Step::SetValue(_) => Some(Change::Put { key: arguments.key(), value: arguments.value() }),
        Step::Clear(_) => Some(Change::Delete { key: arguments.key() }),
        Step::Nothing | Step::NoRoom => None,
    }
}
