//! Requests on their way: the records, recycled, and the queue of what happens next.

use crate::calls::Serving;
use dm_core::verbs::{Completion, Request, Space};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Index of a record in [`Flights`].
pub(crate) type Slot = u32;

/// No submit: it was delivered already, or no lane waits for it.
pub(crate) const NO_SUBMIT: u32 = u32::MAX;

/// The burst of a unit that will not take effect.
pub(crate) const BURST_LOST: u8 = u8::MAX;

/// Whether a unit of this burst took effect.
#[inline]
pub(crate) const fn has_landed(landed: u8, burst: u8) -> bool {
    burst != BURST_LOST && landed & 1 << burst != 0
}

/// A request from its post to its completion and last effect.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) request: Request,
    pub(crate) queue_pair: u32,
    pub(crate) compute_node: u16,
    /// Position of the lane in its compute node.
    pub(crate) lane: u16,
    /// Key of the lane in the world.
    pub(crate) lane_key: u32,
    pub(crate) submit: u32,
    pub(crate) position: u8,
    /// Post order, over the whole world.
    pub(crate) sequence: u64,
    /// Events of this record that are still queued.
    pub(crate) events: u8,
    pub(crate) bursts: u8,
    /// Bytes of a WRITE's payload, from its start, that land if they have not yet: less than all after its sender died.
    pub(crate) kept_bytes: u32,
    /// Bit per burst that took effect.
    pub(crate) landed: u8,
    /// An atomic's second half is still to come and writes this word.
    pub(crate) write_back: Option<u64>,
    pub(crate) completed: bool,
    /// What it will say, or said.
    pub(crate) completion: Completion,
    /// A call whose answer nobody gets.
    pub(crate) answer_lost: bool,
    /// The request of a call that is executed a second time.
    pub(crate) again: Option<Vec<u8>>,
    /// A call that a processor works on.
    pub(crate) serving: Option<Box<Serving>>,
    /// When it was posted.
    pub(crate) posted_ns: u64,
    /// WRITE: the payload, captured at post. READ: what was seen so far. Call: the request, then the answer.
    pub(crate) data: Vec<u8>,
    /// Which burst each unit is in; empty if there is one burst.
    pub(crate) burst_of: Vec<u8>,
}

impl Flight {
    /// Units of `unit` bytes that the request's bytes touch.
    pub(crate) fn units(request: &Request, unit: u64) -> usize {
        let bytes = u64::from(request.bytes);
        if bytes == 0 {
            return 0;
        }
        ((request.offset + bytes - 1) / unit - request.offset / unit + 1) as usize
    }

    /// Bytes of the payload in unit `number`.
    pub(crate) fn unit_range(request: &Request, unit: u64, number: usize) -> std::ops::Range<usize> {
        let first = request.offset / unit * unit + number as u64 * unit;
        let start = first.saturating_sub(request.offset);
        let end = (first + unit - request.offset).min(u64::from(request.bytes));
        start as usize..end as usize
    }
}

/// All records, and the free ones among them with their buffers.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    records: Vec<Flight>,
    live: Vec<bool>,
    free: Vec<Slot>,
}

impl Flights {
    /// Takes a record; its buffers are empty but keep their capacity.
    pub(crate) fn take(&mut self, request: Request) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.records.push(Flight {
                request,
                queue_pair: 0,
                compute_node: 0,
                lane: 0,
                lane_key: 0,
                submit: NO_SUBMIT,
                position: 0,
                sequence: 0,
                events: 0,
                bursts: 0,
                kept_bytes: 0,
                landed: 0,
                write_back: None,
                completed: false,
                completion: Completion::default(),
                answer_lost: false,
                again: None,
                serving: None,
                posted_ns: 0,
                data: Vec::new(),
                burst_of: Vec::new(),
            });
            self.live.push(false);
            self.records.len() as Slot - 1
        });
        self.live[slot as usize] = true;
        let flight = &mut self.records[slot as usize];
        flight.request = request;
        flight.events = 0;
        flight.landed = 0;
        flight.kept_bytes = request.bytes;
        flight.write_back = None;
        flight.completed = false;
        flight.completion = Completion::default();
        flight.answer_lost = false;
        flight.again = None;
        flight.serving = None;
        flight.data.clear();
        flight.burst_of.clear();
        slot
    }

    /// Gives a record back if nothing more happens to it and it will not be looked at.
    pub(crate) fn release_if_over(&mut self, slot: Slot) {
        let flight = &self.records[slot as usize];
        if flight.events == 0 && flight.submit == NO_SUBMIT && self.live[slot as usize] {
            self.live[slot as usize] = false;
            self.free.push(slot);
        }
    }

    /// Gives all records back.
    pub(crate) fn clear(&mut self) {
        self.live.fill(false);
        self.free.clear();
        self.free.extend((0..self.records.len() as Slot).rev());
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> &Flight {
        &self.records[slot as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Flight {
        &mut self.records[slot as usize]
    }

    /// Slots in use.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = Slot> + '_ {
        self.live.iter().enumerate().filter(|(_, live)| **live).map(|(slot, _)| slot as Slot)
    }
}

/// What happens to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Happens {
    /// Its burst of this number takes effect.
    Burst(u8),
    /// Its atomic's second half takes effect.
    WriteBack,
    /// Its completion arrives.
    Completion,
    /// A processor takes the next step of a call.
    Serve,
}

/// Something that will happen. Equal times happen in the order they were planned: what must come later was planned
/// later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    pub(crate) at_ns: u64,
    pub(crate) number: u64,
    pub(crate) slot: Slot,
    pub(crate) what: Happens,
}

/// The future.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<Event>>,
    planned: u64,
}

impl Agenda {
    #[inline]
    pub(crate) fn push(&mut self, at_ns: u64, slot: Slot, what: Happens) {
        self.planned += 1;
        self.heap.push(Reverse(Event { at_ns, number: self.planned, slot, what }));
    }

    #[inline]
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(event)| event.at_ns)
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|Reverse(event)| event)
    }

    pub(crate) fn clear(&mut self) {
        self.heap.clear();
        self.planned = 0;
    }

    /// Rewrites the future: each event is kept as `rewrite` returns it, or dropped.
    pub(crate) fn rewrite(&mut self, mut rewrite: impl FnMut(Event) -> Option<Event>) {
        let events = std::mem::take(&mut self.heap).into_vec();
        self.heap = events.into_iter().filter_map(|Reverse(event)| rewrite(event).map(Reverse)).collect();
    }
}

/// A word that an atomic will write again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteBack {
    pub(crate) slot: Slot,
    pub(crate) node: u16,
    pub(crate) space: Space,
    pub(crate) offset: u64,
}
