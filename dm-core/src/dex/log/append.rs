//! The requests of the log: making a ring, appending to it, and settling an append that failed.
//!
//! A lane that waits for a record posts what is staged if nothing is under way, and sleeps otherwise. A completed flight
//! wakes the lanes that waited for it, some by its own lane and the others by those that were woken, and one that waits
//! for the next, which then posts. A lane sleeps for [`PARK_NS_MAX`] at most: a lane that was to wake others may be
//! gone.

use super::ring::{LINES_AT, Ring, RingDescription, RingHead, RingOwner};
use super::staging::{Log, WAKES_AT_ONCE};
use super::state::{Begin, Flight, Step};
use crate::error::VerbError;
use crate::lane::{Lane, Unsettled};
use crate::layout::LINE_BYTES;
use crate::membership::Recovery;
use crate::operation::{Cause, Effect, OpError, unknown};
use crate::pages::lsn::{LINES_END, Lsn};
use crate::port::OUTBOX_REQUESTS;
use crate::remote::NodeGeometry;
use crate::verbs::{Label, Request, Status};
use core::ops::Range;
use static_assertions::const_assert;
use zerocopy::IntoBytes;

/// Most lines of a flight.
pub const FLIGHT_LINES_MAX: usize = 128;

/// The smallest chunk has 64 lines, so that many runs are the lines of a flight.
const RUNS_MAX: usize = FLIGHT_LINES_MAX / 64 + 2;

// The head, the runs, and the wakes of one completion and of one lane that was woken.
const_assert!(1 + RUNS_MAX + 2 * WAKES_AT_ONCE < OUTBOX_REQUESTS);

/// How long a lane sleeps at most, in ns.
pub const PARK_NS_MAX: u64 = 1_000_000;

/// Scratch for posting flights of up to `lines` lines: the head, and the lines.
pub const fn room_bytes(lines: usize) -> usize {
    (1 + lines) * LINE_BYTES
}

/// Scratch for making a ring.
pub const MAKE_BYTES: usize = LINES_AT as usize;

/// Where a compute node appends, for one lane.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The log.
    pub log: &'a Log<'a>,
    /// Its ring.
    pub ring: &'a Ring,
    /// [`Log::restarts`], counted before the ring was looked up: a log that is lost begins again in another ring.
    pub restarts: u64,
    /// What says whether this compute node may still write.
    pub recovery: Option<&'a Recovery<'a>>,
    /// The lane's scratch for it: [`room_bytes`], of the longest record's lines at least.
    pub room: &'a Range<usize>,
}

/// WRITEs description and head of a new ring, whose head is line 0. The ring may be announced afterwards. Its lines are
/// not cleared: the ring's seal tells its records from what was there. One round trip.
pub async fn make(
    lane: &Lane<'_>,
    ring: &Ring,
    owner: &RingOwner,
    geometry: &NodeGeometry,
    scratch: usize,
) -> Result<(), VerbError> {
    let description = ring.describe(owner, geometry);
    let head = RingHead::new(owner.incarnation, 0);
    lane.port().with(|bytes| {
        let Some(room) = bytes.get_mut(scratch..scratch + MAKE_BYTES) else { return };
        let (front, behind) = room.split_at_mut(RingDescription::BYTES);
        front.copy_from_slice(description.as_bytes());
        behind.copy_from_slice(head.as_bytes());
    });
    let write = Request::write(Label::Log, ring.node(), ring.description_offset(), MAKE_BYTES, scratch);
    lane.port().call(write).await?;
    Ok(())
}

/// Waits until the record is durable, and posts what is staged if nobody else does. An error says that it is unknown
/// whether the record will be replayed. If the log has begun again meanwhile, the record is in its page.
///
/// Round trips: none if it is durable; otherwise one for a group of lanes, and less than one more of waiting.
pub async fn wait(site: Site<'_>, lane: &Lane<'_>, lsn: Lsn) -> Result<(), OpError> {
    let Site { log, .. } = site;
    while !log.is_durable(lsn) {
        let lines_max = (site.room.len() / LINE_BYTES).saturating_sub(1).min(FLIGHT_LINES_MAX);
        match log.begin(lane.id(), site.restarts, lines_max as u64) {
            None => return Ok(()),
            Some(Begin::Post(flight)) => post(site, lane, &flight).await?,
            Some(Begin::Lost) => {
                return Err(unknown(site.ring.lost()));
            }
            // Another thread's flight has completed since the line was looked up.
            Some(Begin::Nothing) if log.is_durable(lsn) => return Ok(()),
            Some(Begin::Nothing) => return Err(unknown(Cause::BadInput("a record that was never staged"))),
            Some(Begin::Busy) => {
                if let Some(parity) = log.asleep(lane.id(), lsn.line()) {
                    lane.set_unsettled(Unsettled::LOG, true);
                    let slept = sleep(lane).await;
                    lane.set_unsettled(Unsettled::LOG, false);
                    log.awake(lane.id(), parity);
                    // Those that slept for the same flight are woken by those that were, once it is over.
                    if !log.is_under_way(parity, lsn.line()) {
                        wake(log, lane, parity, WAKES_AT_ONCE);
                    }
                    slept?;
                }
                lane.check_deadline().map_err(|late| OpError { effect: Effect::Unknown, ..late })?;
            }
        }
    }
    Ok(())
}

/// Posts what is staged, although nobody waits for it. For house-keeping. `false`: there is nothing, or another lane is
/// at it.
pub async fn post_staged(site: Site<'_>, lane: &Lane<'_>) -> Result<bool, OpError> {
    let lines_max = (site.room.len() / LINE_BYTES).saturating_sub(1).min(FLIGHT_LINES_MAX);
    let Some(Begin::Post(flight)) = site.log.begin(lane.id(), site.restarts, lines_max as u64) else {
        return Ok(false);
    };
    post(site, lane, &flight).await?;
    Ok(true)
}

async fn sleep(lane: &Lane<'_>) -> Result<(), OpError> {
    lane.port().push(Request::park(lane.remaining_ns().min(PARK_NS_MAX)));
    lane.port().submit().await.map_err(unknown)
}

fn wake(log: &Log<'_>, lane: &Lane<'_>, parity: usize, at_most: usize) {
    for sleeper in log.take_sleepers(parity, at_most) {
        lane.port().push(Request::wake(sleeper));
    }
}

/// Posts one flight, and wakes lanes when it has completed.
async fn post(site: Site<'_>, lane: &Lane<'_>, flight: &Flight) -> Result<(), OpError> {
    let Site { log, recovery, .. } = site;
    if recovery.is_some_and(|recovery| !recovery.lease.may_write()) {
        // Nothing was posted.
        let parity = log.closed(lane.id());
        pass_on(log, lane, parity);
        return Err(unknown(Cause::Fenced));
    }
    if let Some(recovery) = recovery {
        recovery.begin_work(lane);
    }
    // Until it has seen the completions: a future that is dropped when they have come leaves nothing else to settle.
    lane.set_unsettled(Unsettled::LOG, true);
    push(site, lane, flight);
    match lane.port().submit().await {
        Ok(()) => {
            end_work(site, lane);
            let (parity, more) = log.completed(flight);
            wake(log, lane, parity, WAKES_AT_ONCE);
            if more {
                wake(log, lane, parity ^ 1, 1);
            }
            Ok(())
        }
        Err(error) if error.status == Status::NodeDown => {
            end_work(site, lane);
            log.lose();
            wake(log, lane, 0, WAKES_AT_ONCE);
            wake(log, lane, 1, WAKES_AT_ONCE);
            Err(unknown(error))
        }
        Err(error) => {
            settle(site, lane).await?;
            // The lines are posted anew, unless that can never succeed.
            if error.status == Status::Flushed { Ok(()) } else { Err(unknown(error)) }
        }
    }
}

/// The lane's flight is over.
fn end_work(site: Site<'_>, lane: &Lane<'_>) {
    lane.set_unsettled(Unsettled::LOG, false);
    if let Some(recovery) = site.recovery {
        recovery.end_work(lane);
    }
}

/// Pushes the WRITEs of a flight, in their order.
fn push(site: Site<'_>, lane: &Lane<'_>, flight: &Flight) {
    let Site { log, ring, room, .. } = site;
    let port = lane.port();
    let lines_at = room.start + RingHead::BYTES;
    for step in flight.steps() {
        match step {
            Step::Head(head) => {
                let line = RingHead::new(log.seal().incarnation, head % LINES_END);
                port.with(|scratch| {
                    if let Some(place) = scratch.get_mut(room.start..lines_at) {
                        place.copy_from_slice(line.as_bytes());
                    }
                });
                port.push(Request::write(Label::Log, ring.node(), ring.head_offset(), RingHead::BYTES, room.start));
            }
            Step::Lines => {
                port.with(|scratch| {
                    log.copy(flight.first, flight.end, scratch.get_mut(lines_at..room.end).unwrap_or_default());
                });
                let (mut line, mut from) = (flight.first, lines_at);
                while line < flight.end {
                    let run = ring.run(line % LINES_END, flight.end - line);
                    let bytes = run.lines as usize * LINE_BYTES;
                    port.push(Request::write(Label::Log, ring.node(), run.offset, bytes, from));
                    (line, from) = (line + run.lines.max(1), from + bytes);
                }
            }
        }
    }
}

/// Wakes one of the lanes that waited for a flight that nobody completes, so that it posts the lines anew.
fn pass_on(log: &Log<'_>, lane: &Lane<'_>, parity: Option<usize>) {
    let Some(parity) = parity else { return };
    wake(log, lane, parity, WAKES_AT_ONCE);
    wake(log, lane, parity ^ 1, 1);
}

/// Settles a flight of this lane that failed, or whose future was dropped: waits until its queue pair is closed. The
/// lines are then posted anew by a lane that waits for them. The port has to be idle.
///
/// A lane whose future was dropped in its sleep may have been woken, so it wakes others. Those that wait for a flight that is
/// not over sleep on.
pub async fn settle(site: Site<'_>, lane: &Lane<'_>) -> Result<(), OpError> {
    let Site { log, room, .. } = site;
    let has_flight = log.flight_of(lane.id()).is_some();
    if lane.has_unsettled(Unsettled::LOG) && !has_flight {
        lane.set_unsettled(Unsettled::LOG, false);
        for parity in 0..2 {
            log.awake(lane.id(), parity);
            wake(log, lane, parity, WAKES_AT_ONCE);
        }
        lane.port().submit().await.map_err(unknown)?;
    }
    if has_flight {
        lane.close(room.start).await.map_err(unknown)?;
        let parity = log.closed(lane.id());
        end_work(site, lane);
        pass_on(log, lane, parity);
    }
    Ok(())
}
