//! What a driver in C calls: see `c/dm.h`. With the feature `c-driver`, `c/driver.c` drives the lanes of an image.

use crate::{LANES, board};
use core::future::Future;
use core::ptr;
use dm_core::error::Misuse;
use dm_core::machine::{Machine, Step};
use dm_core::port::Port;
use dm_core::verbs::{Completion, Request, Status};

/// What [`dm_poll`] returns.
const REQUESTS: u32 = 0;
const WAITING: u32 = 1;
const ENDED: u32 = 2;

/// The number of a misuse in C.
fn number_of(misuse: Option<Misuse>) -> u32 {
    match misuse {
        None => 0,
        Some(Misuse::NotInFlight) => 1,
        Some(Misuse::NotPosted { .. }) => 2,
        Some(Misuse::CompletedTwice { .. }) => 3,
        Some(Misuse::Dropped { .. }) => 4,
        Some(_) => 6,
    }
}

/// There is no such lane.
const NO_LANE: u32 = 5;

/// What C says came back. As [`Completion`], but for a status that C may have made up.
#[repr(C)]
pub struct CCompletion {
    value: u64,
    elapsed_ns: u32,
    status: u8,
}

/// What the driver did.
#[repr(C)]
#[derive(Default)]
pub struct Counts {
    /// Submits with requests for the memory node.
    pub round_trips: u32,
    /// Requests for the memory node.
    pub requests: u32,
    /// Pauses and parks.
    pub waits: u32,
    /// Calls that ended with another misuse than they should.
    pub misuses: u32,
}

// SAFETY: `c/driver.c` defines it, with the arguments that `c/dm.h` declares.
unsafe extern "C" {
    // To C the lanes are a type without content.
    #[allow(improper_ctypes)]
    fn dm_drive(lanes: *mut Lanes<'_, '_>, count: u32, region: *mut u8, region_bytes: u32, counts: *mut Counts);
}

/// A lane, whatever its future is.
trait Polled<'m> {
    fn poll(&mut self) -> u32;
    fn port(&self) -> &Port<'m>;
}

struct Lane<'l, 'p, 'm, F: Future> {
    machine: &'l mut Machine<'p, 'm, F>,
    result: Option<F::Output>,
}

impl<'m, F: Future> Polled<'m> for Lane<'_, '_, 'm, F> {
    fn poll(&mut self) -> u32 {
        if self.result.is_some() {
            return ENDED;
        }
        match self.machine.poll() {
            Step::Requests => REQUESTS,
            Step::Waiting => WAITING,
            Step::Done(result) => {
                self.result = Some(result);
                ENDED
            }
        }
    }

    fn port(&self) -> &Port<'m> {
        self.machine.port()
    }
}

/// A lane, and its scratch while C has it.
type Slot<'l, 'm> = (&'l mut (dyn Polled<'m> + 'l), Option<&'m mut [u8]>);

/// What C gets a pointer to.
pub struct Lanes<'l, 'm>([Option<Slot<'l, 'm>>; LANES]);

impl<'l, 'm> Lanes<'l, 'm> {
    fn slot(&mut self, lane: u32) -> Option<&mut Slot<'l, 'm>> {
        self.0.get_mut(lane as usize)?.as_mut()
    }
}

/// Has C drive all lanes to their ends on `region`.
pub fn drive<F: Future>(
    machines: &mut [Machine<'_, '_, F>],
    region: &mut [u8],
    ended: &mut dyn FnMut(F::Output),
) -> Counts {
    let count = machines.len() as u32;
    let mut machines = machines.iter_mut();
    let mut lanes: [_; LANES] = core::array::from_fn(|_| machines.next().map(|machine| Lane { machine, result: None }));
    let mut counts = Counts::default();
    {
        let mut lanes = Lanes(lanes.each_mut().map(|lane| Some((lane.as_mut()? as &mut dyn Polled<'_>, None))));
        // SAFETY: C uses `lanes` only for calls of this module, and all three pointers only until it returns. It stays
        // within the region.
        unsafe { dm_drive(&raw mut lanes, count, region.as_mut_ptr(), region.len() as u32, &raw mut counts) };
    }
    for lane in lanes.into_iter().flatten() {
        if let Some(result) = lane.result {
            ended(result);
        }
    }
    counts
}

/// See `c/dm.h`.
///
/// # Safety
/// `lanes` is what [`drive`] passed to C, here and below.
// SAFETY: nothing else in an image has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn dm_poll(lanes: *mut Lanes<'_, '_>, lane: u32) -> u32 {
    // SAFETY: see above; C has no other reference to it.
    unsafe { &mut *lanes }.slot(lane).map_or(ENDED, |(lane, _)| lane.poll())
}

/// See `c/dm.h`.
///
/// # Safety
/// See [`dm_poll`]; `count` can be written.
// SAFETY: nothing else in an image has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn dm_requests(lanes: *mut Lanes<'_, '_>, lane: u32, count: *mut u32) -> *const Request {
    // SAFETY: see above; C has no other reference to it.
    let slot = unsafe { &mut *lanes }.slot(lane);
    let (requests, length) = slot.map_or((ptr::null(), 0), |(lane, _)| {
        let requests = lane.port().requests();
        (requests.as_ptr(), requests.len() as u32)
    });
    // SAFETY: the caller says that it can be written.
    unsafe { count.write(length) };
    requests
}

/// See `c/dm.h`.
///
/// # Safety
/// See [`dm_poll`]; `bytes` can be written.
// SAFETY: nothing else in an image has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn dm_begin(lanes: *mut Lanes<'_, '_>, lane: u32, bytes: *mut u32) -> *mut u8 {
    // SAFETY: see above; C has no other reference to it.
    let slot = unsafe { &mut *lanes }.slot(lane);
    let Some((lane, taken)) = slot else { return ptr::null_mut() };
    let Some(scratch) = lane.port().begin() else { return ptr::null_mut() };
    // SAFETY: the caller says that it can be written.
    unsafe { bytes.write(scratch.len() as u32) };
    taken.insert(scratch).as_mut_ptr()
}

/// See `c/dm.h`.
///
/// # Safety
/// See [`dm_poll`]; `completion` can be read.
// SAFETY: nothing else in an image has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn dm_complete(
    lanes: *mut Lanes<'_, '_>,
    lane: u32,
    position: u32,
    completion: *const CCompletion,
) -> u32 {
    // SAFETY: see above; C has no other reference to it.
    let slot = unsafe { &mut *lanes }.slot(lane);
    // SAFETY: see above; any bytes are a `CCompletion`.
    let CCompletion { value, elapsed_ns, status } = unsafe { completion.read() };
    let status = match status {
        0 => Status::Ok,
        1 => Status::Refused,
        2 => Status::Flushed,
        3 => Status::NodeDown,
        4 => Status::Fenced,
        6 => Status::Unanswered,
        7 => Status::NotServed,
        _ => Status::Unsupported,
    };
    slot.map_or(NO_LANE, |(lane, _)| {
        number_of(lane.port().complete(position as usize, Completion { value, elapsed_ns, status }))
    })
}

/// See `c/dm.h`.
///
/// # Safety
/// See [`dm_poll`]. C does not use the scratch any more.
// SAFETY: nothing else in an image has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn dm_finish(lanes: *mut Lanes<'_, '_>, lane: u32, elapsed_ns: u64) -> u32 {
    // SAFETY: see above; C has no other reference to it.
    let slot = unsafe { &mut *lanes }.slot(lane);
    slot.map_or(NO_LANE, |(lane, taken)| match taken.take() {
        Some(scratch) => number_of(lane.port().finish(scratch, elapsed_ns)),
        None => number_of(Some(Misuse::NotInFlight)),
    })
}

/// See `c/dm.h`.
// SAFETY: nothing else in an image has this name.
#[unsafe(no_mangle)]
extern "C" fn dm_clock_ns() -> u64 {
    board::clock_ns()
}
