//! The driver: polls the machines of all lanes in turn, and executes what they ask for.
//!
//! This is what firmware supplies. Requests to a memory node would go to a NIC here, and the lane would be polled again
//! when their completions are in; the array behind this driver has them at once. The other requests are for the driver
//! itself: a lane pauses, parks, or wakes another.
#![cfg_attr(feature = "c-driver", allow(dead_code, unused_imports))]

use crate::memory::Region;
use crate::{LANES, Wrong, board};
use core::future::Future;
use dm_core::error::Misuse;
use dm_core::machine::{Machine, Step};
use dm_core::port::Port;
use dm_core::verbs::Verb;

/// What a lane waits for before it is polled again.
#[derive(Clone, Copy)]
enum Wait {
    /// Its turn.
    Turn,
    /// Until so many nanoseconds after this time have passed.
    Pause { since_ns: u64, ns: u64 },
    /// The same, or until another lane wakes it.
    Park { since_ns: u64, ns: u64 },
    /// Nothing any more.
    Ended,
}

/// See the module's documentation.
pub struct Driver {
    region: &'static mut Region,
    /// Lanes that were woken. A wake that comes before the park counts.
    woken: [bool; LANES],
    /// Submits with requests for the memory node.
    pub round_trips: u32,
    /// Requests for the memory node.
    pub requests: u32,
    /// Those of them that its processor answers.
    pub calls: u32,
    /// Pauses and parks.
    pub waits: u32,
    /// Calls of a port that were not as they should be: see [`dm_core::error::Misuse`].
    pub misuses: u32,
}

impl Driver {
    /// Executes requests on `region`.
    pub fn new(region: &'static mut Region) -> Self {
        Self { region, woken: [false; LANES], round_trips: 0, requests: 0, calls: 0, waits: 0, misuses: 0 }
    }

    /// The memory node.
    pub fn region(&mut self) -> &mut Region {
        self.region
    }

    /// Drives one lane to its end.
    pub fn run_one<F: Future<Output = Result<T, Wrong>>, T>(
        &mut self,
        machine: Machine<'_, '_, F>,
    ) -> Result<T, Wrong> {
        let mut result = None;
        self.run_each(&mut [machine], &mut |ended| result = Some(ended));
        result.unwrap_or(Err(Wrong::of("the lane did not end")))
    }

    /// Drives all lanes to their ends. The machine at position `n` is that of lane `n`.
    pub fn run<F: Future<Output = Result<(), Wrong>>>(
        &mut self,
        machines: &mut [Machine<'_, '_, F>; LANES],
    ) -> Result<(), Wrong> {
        let mut result = Ok(());
        self.run_each(machines, &mut |ended| result = result.and(ended));
        result
    }

    #[cfg(feature = "c-driver")]
    fn run_each<F: Future>(&mut self, machines: &mut [Machine<'_, '_, F>], ended: &mut dyn FnMut(F::Output)) {
        let counts = crate::c_face::drive(machines, &mut self.region.0, ended);
        self.round_trips += counts.round_trips;
        self.requests += counts.requests;
        self.waits += counts.waits;
        self.misuses += counts.misuses;
    }

    #[cfg(not(feature = "c-driver"))]
    fn run_each<F: Future>(&mut self, machines: &mut [Machine<'_, '_, F>], ended: &mut dyn FnMut(F::Output)) {
        let mut waits = [Wait::Turn; LANES];
        let mut open = true;
        while open {
            open = false;
            for (lane, (machine, wait)) in machines.iter_mut().zip(&mut waits).enumerate() {
                if let Wait::Ended = wait {
                    continue;
                }
                open = true;
                if !self.is_over(lane, *wait, machine.port()) {
                    continue;
                }
                *wait = match machine.poll() {
                    Step::Requests => self.submit(machine.port()),
                    Step::Waiting => Wait::Turn,
                    Step::Done(result) => {
                        ended(result);
                        Wait::Ended
                    }
                };
            }
        }
    }

    /// Whether a lane may be polled. If it paused or parked, this ends its submit.
    fn is_over(&mut self, lane: usize, wait: Wait, port: &Port<'_>) -> bool {
        let (since_ns, ns, woken) = match wait {
            Wait::Turn => return true,
            Wait::Ended => return false,
            Wait::Pause { since_ns, ns } => (since_ns, ns, false),
            Wait::Park { since_ns, ns } => (since_ns, ns, self.woken.get_mut(lane).is_some_and(core::mem::take)),
        };
        let waited_ns = board::clock_ns().saturating_sub(since_ns);
        if !woken && waited_ns < ns {
            return false;
        }
        if let Some(scratch) = port.begin() {
            self.expect(port.finish(scratch, waited_ns));
        }
        true
    }

    /// This driver misuses no port.
    fn expect(&mut self, misuse: Option<Misuse>) {
        self.misuses += u32::from(misuse.is_some());
    }

    /// Does what a lane asked for, and says what it waits for.
    fn submit(&mut self, port: &Port<'_>) -> Wait {
        let since_ns = board::clock_ns();
        let mut wait = Wait::Turn;
        let mut travels = false;
        for request in port.requests().iter() {
            match request.verb {
                Verb::Wake => {
                    let lane = usize::try_from(request.operands[0]).ok();
                    if let Some(woken) = lane.and_then(|lane| self.woken.get_mut(lane)) {
                        *woken = true;
                    }
                }
                Verb::Pause => wait = Wait::Pause { since_ns, ns: request.operands[0] },
                Verb::Park => wait = Wait::Park { since_ns, ns: request.operands[0] },
                _ => {
                    travels = true;
                    self.requests += 1;
                    self.calls += u32::from(request.verb == Verb::Call);
                }
            }
        }
        if let (false, Wait::Pause { .. } | Wait::Park { .. }) = (travels, wait) {
            self.waits += 1;
            return wait;
        }
        self.round_trips += u32::from(travels);
        if let Some(scratch) = port.begin() {
            for (position, request) in port.requests().iter().enumerate() {
                let misuse = port.complete(position, self.region.execute(request, scratch));
                self.expect(misuse);
            }
            self.expect(port.finish(scratch, board::clock_ns().saturating_sub(since_ns)));
        }
        Wait::Turn
    }
}
