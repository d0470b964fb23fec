//! One operation from beginning to end, and what it asked of the fabric: golden verb counts are made of this.
//!
//! ```text
//! let run = block_on(&lane, &mut fabric, index.execute(&lane, operation))?;
//! assert_eq!(run.steps(), "read leaf 512; cas lock 8, read leaf 512; write entry 24, write unlock 8");
//! ```

use dm_core::fabric::{Fabric, Posted};
use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::verbs::{Label, LaneId, Verb};
use std::fmt::Write as _;
use std::future::Future;
use std::pin::pin;
use thiserror::Error;

/// What an operation asked of memory nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Submits it waited for.
    pub round_trips: u32,
    /// Requests to memory nodes, leftover unsignaled ones included.
    pub requests: u32,
    /// Bytes of READs.
    pub bytes_read: u64,
    /// Bytes of WRITEs.
    pub bytes_written: u64,
}

/// One request as goldens show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// Submit it went out with, from 0.
    pub submit: u32,
    /// The step of the algorithm.
    pub label: Label,
    /// What was asked.
    pub verb: Verb,
    /// Payload bytes.
    pub bytes: u32,
}

/// A finished operation.
#[derive(Clone, Debug)]
pub struct Run<T> {
    /// What it returned.
    pub result: T,
    /// What it cost.
    pub counts: Counts,
    /// Every request, local ones included, in post order.
    pub emitted: Vec<Emitted>,
    /// Lanes it woke, in order; itself not among them.
    pub woken: Vec<LaneId>,
}

impl<T> Run<T> {
    /// One line: requests of one submit separated by commas, submits by semicolons.
    pub fn steps(&self) -> String {
        let mut text = String::new();
        let mut submit = 0;
        for emitted in &self.emitted {
            if !text.is_empty() {
                text.push_str(if emitted.submit == submit { ", " } else { "; " });
            }
            submit = emitted.submit;
            let _ = write!(text, "{} {}", emitted.verb.name(), emitted.label.name());
            if !emitted.verb.is_local() {
                let _ = write!(text, " {}", emitted.bytes);
            }
        }
        text
    }

    /// How often a request with this verb and label was emitted.
    pub fn count(&self, verb: Verb, label: Label) -> usize {
        self.emitted.iter().filter(|emitted| emitted.verb == verb && emitted.label == label).count()
    }
}

/// Why an operation driven alone cannot end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Alone {
    /// It parked, and no other lane can wake it.
    #[error("lane {} parked after {submits} submits, and it runs alone", lane.0)]
    Parked {
        /// The lane.
        lane: LaneId,
        /// Submits before it.
        submits: u32,
    },
    /// It awaits something that is not a submit.
    #[error("lane {} waits for something that is not a submit", lane.0)]
    Foreign {
        /// The lane.
        lane: LaneId,
    },
    /// It goes on and on.
    #[error("lane {} made {submits} submits without coming to an end", lane.0)]
    Endless {
        /// The lane.
        lane: LaneId,
        /// Submits so far.
        submits: u32,
    },
}

/// Submits after which [`block_on`] gives up: a bulk load needs thousands, a retry loop without a bound needs more.
pub const SUBMITS_MAX: u32 = 1_000_000;

/// Drives one operation on `lane` to its end, alone. Pauses take no real time; alone in a
/// submit they count as waiting.
pub fn block_on<'m, F: Fabric<'m>, T>(
    lane: &Lane<'m>,
    fabric: &mut F,
    future: impl Future<Output = T>,
) -> Result<Run<T>, Alone> {
    let mut future = pin!(future);
    let port = lane.port();
    let mut counts = Counts::default();
    let mut emitted = Vec::new();
    let mut woken = Vec::new();
    let mut woken_self = false;
    let mut submit = 0;
    port.start();
    let result = loop {
        let step = poll_once(port, future.as_mut());
        let last = match step {
            Step::Waiting => return Err(Alone::Foreign { lane: lane.id() }),
            Step::Requests => None,
            Step::Done(result) => Some(result),
        };
        if last.is_none() || port.flush() {
            let mut parks = false;
            let mut local_only = true;
            let mut pause_ns = 0;
            for request in port.requests().iter() {
                emitted.push(Emitted { submit, label: request.label, verb: request.verb, bytes: request.bytes });
                match request.verb {
                    Verb::Park => parks = true,
                    Verb::Pause => pause_ns = request.operands[0].max(pause_ns),
                    Verb::Wake if request.operands[0] == u64::from(lane.id().0) => woken_self = true,
                    Verb::Wake => woken.push(LaneId(request.operands[0] as u16)),
                    verb => {
                        local_only = false;
                        counts.requests += 1;
                        match verb {
                            Verb::Read => counts.bytes_read += u64::from(request.bytes),
                            Verb::Write => counts.bytes_written += u64::from(request.bytes),
                            _ => {}
                        }
                    }
                }
            }
            if local_only {
                if let Some(scratch) = port.begin() {
                    port.finish(scratch, pause_ns);
                }
            } else if fabric.post(std::slice::from_ref(lane), 0) == Posted::InFlight {
                let mut ready = false;
                while !ready {
                    fabric.poll(std::slice::from_ref(lane), &mut |_| ready = true);
                }
            }
            if parks && !std::mem::take(&mut woken_self) {
                return Err(Alone::Parked { lane: lane.id(), submits: submit });
            }
            submit += 1;
            if submit == SUBMITS_MAX {
                return Err(Alone::Endless { lane: lane.id(), submits: submit });
            }
        }
        if let Some(result) = last {
            break result;
        }
    };
    counts.round_trips = port.round_trips();
    if port.in_doubt() {
        port.reset();
    }
    Ok(Run { result, counts, emitted, woken })
}
