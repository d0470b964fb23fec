//! Memory nodes in this process's memory, and lanes that are driven over it, verb by verb: for tests of rooms.

extern crate std;
use crate::lane::Lane;
use crate::layout::LINE_BYTES;
use crate::machine::{Step, poll_once};
use crate::remote::NodeGeometry;
use crate::remote::superblock::small_for_tests;
use crate::verbs::{CallAnswer, Completion, Flags, Label, Request, Status, Verb};
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

/// Looks at the memory node, and may change it.
pub(crate) type Look = Box<dyn FnMut(&mut [u8])>;

/// Answers calls: the region, the request, and room for the answer. Returns the answer's length.
pub(crate) type Serve = Box<dyn FnMut(&mut [u8], &[u8], &mut [u8]) -> usize>;

/// The length of an answer that does not arrive.
pub(crate) const LOST: usize = usize::MAX;

/// A lane, and what it does.
pub(crate) type Work<'a, 'm, R> = (&'a Lane<'m>, Pin<Box<dyn Future<Output = R> + 'a>>);

/// A memory node, or several of one geometry, and what was asked of it.
pub(crate) struct MemoryNode {
    /// The regions, one behind the other.
    pub(crate) region: RefCell<Vec<u8>>,
    pub(crate) geometry: NodeGeometry,
    /// Requests since they were taken last.
    pub(crate) requests: RefCell<Vec<(Verb, Label)>>,
    /// Called after each request for the memory node.
    pub(crate) after: RefCell<Option<Look>>,
    /// Answers calls; without it nobody does.
    pub(crate) calls: RefCell<Option<Serve>>,
    /// Lines and atomics that still land before the compute node dies.
    pub(crate) lives: Cell<usize>,
}

impl MemoryNode {
    pub(crate) fn new() -> Self {
        Self::several(1)
    }

    /// So many memory nodes.
    pub(crate) fn several(nodes: usize) -> Self {
        let geometry = small_for_tests();
        Self {
            region: RefCell::new(vec![0; nodes * geometry.region_bytes as usize]),
            geometry,
            requests: RefCell::default(),
            after: RefCell::default(),
            calls: RefCell::default(),
            lives: Cell::new(usize::MAX),
        }
    }

    /// How many memory nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.region.borrow().len() / self.geometry.region_bytes as usize
    }

    pub(crate) fn taken(&self) -> Vec<(Verb, Label)> {
        core::mem::take(&mut *self.requests.borrow_mut())
    }

    fn carry_out(&self, request: &Request, scratch: &mut [u8]) -> Completion {
        let mut completion = Completion { status: Status::Ok, ..Completion::NOTHING };
        let (at, local, bytes) = (request.offset as usize, request.local as usize, request.bytes as usize);
        self.requests.borrow_mut().push((request.verb, request.label));
        let mut regions = self.region.borrow_mut();
        let base = usize::from(request.node.0) * self.geometry.region_bytes as usize;
        let region = &mut regions[base..base + self.geometry.region_bytes as usize];
        match request.verb {
            Verb::Read => scratch[local..local + bytes].copy_from_slice(&region[at..at + bytes]),
            Verb::Write => {
                let inline = request.inline_payload();
                let is_inline = request.flags.contains(Flags::INLINE);
                let from = if is_inline { &inline[..bytes] } else { &scratch[local..local + bytes] };
                let mut start = 0;
                while start < bytes && self.lands() {
                    let end = (start + LINE_BYTES - (at + start) % LINE_BYTES).min(bytes);
                    region[at + start..at + end].copy_from_slice(&from[start..end]);
                    start = end;
                }
            }
            Verb::Cas | Verb::FetchAdd if !self.lands() => {}
            Verb::Cas => {
                completion.value = u64::from_le_bytes(region[at..at + 8].try_into().unwrap());
                if completion.value == request.operands[0] {
                    region[at..at + 8].copy_from_slice(&request.operands[1].to_le_bytes());
                }
            }
            Verb::FetchAdd => {
                completion.value = u64::from_le_bytes(region[at..at + 8].try_into().unwrap());
                let sum = completion.value.wrapping_add(request.operands[0]);
                region[at..at + 8].copy_from_slice(&sum.to_le_bytes());
            }
            Verb::Call => match &mut *self.calls.borrow_mut() {
                Some(serve) => {
                    let asked = scratch[local..local + bytes].to_vec();
                    let answer = &mut scratch[local..local + request.operands[0] as usize];
                    match serve(region, &asked, answer) {
                        LOST => completion.status = Status::Unanswered,
                        bytes => completion.value = CallAnswer::new(bytes, 0, 0).0,
                    }
                }
                None => completion.status = Status::Unanswered,
            },
            verb => unreachable!("{verb:?}"),
        }
        if let Some(after) = &mut *self.after.borrow_mut() {
            after(&mut regions);
        }
        completion
    }

    /// One line, or one CAS, is about to take effect. `false`: the compute node is dead.
    fn lands(&self) -> bool {
        let lives = self.lives.get();
        self.lives.set(lives.saturating_sub(1));
        lives > 0
    }

    /// Executes what a lane has submitted. Returns the lanes that it wakes.
    pub(crate) fn execute(&self, lane: &Lane<'_>) -> Vec<u16> {
        let port = lane.port();
        let requests: Vec<Request> = port.requests().to_vec();
        let scratch = port.begin().expect("requests");
        let mut woken = Vec::new();
        for (position, request) in requests.iter().enumerate() {
            match request.verb {
                Verb::Wake => woken.push(request.operands[0] as u16),
                verb if verb.is_local() => {}
                _ => assert_eq!(port.complete(position, self.carry_out(request, scratch)), None),
            }
        }
        // Pauses take the time that they ask for, so that leases end.
        let paused_ns: u64 = requests.iter().filter(|request| request.verb == Verb::Pause).map(|r| r.operands[0]).sum();
        assert_eq!(port.finish(scratch, 1000 + paused_ns), None);
        woken
    }

    /// Runs one lane to its end; nobody else is at work.
    pub(crate) fn run<R>(&self, lane: &Lane<'_>, future: impl Future<Output = R>) -> R {
        self.try_run(lane, future).expect("nobody dies")
    }

    /// The same. `None`: the compute node has died.
    pub(crate) fn try_run<R>(&self, lane: &Lane<'_>, future: impl Future<Output = R>) -> Option<R> {
        let mut future = Box::pin(future);
        lane.port().start();
        for _ in 0..100_000 {
            if self.lives.get() == 0 {
                return None;
            }
            match poll_once(lane.port(), future.as_mut()) {
                Step::Done(result) => {
                    if lane.port().flush() {
                        self.execute(lane);
                        lane.port().reset();
                    }
                    return Some(result);
                }
                Step::Requests => drop(self.execute(lane)),
                Step::Waiting => {}
            }
        }
        {
            let asked = self.taken();
            panic!("no end: {:?}", &asked[asked.len().saturating_sub(12)..])
        };
    }

    /// Runs lanes in turns until all are done, each step of one of them drawn by `draw`. A lane that parks goes on when
    /// it is woken.
    pub(crate) fn run_all<R>(&self, mut work: Vec<Work<'_, '_, R>>, mut draw: impl FnMut(usize) -> usize) -> Vec<R> {
        let mut results: Vec<Option<R>> = work.iter().map(|_| None).collect();
        let mut asleep = vec![false; work.len()];
        let mut posted = vec![false; work.len()];
        for (lane, _) in &work {
            lane.port().start();
        }
        for _ in 0..1_000_000 {
            let able: Vec<usize> = (0..work.len()).filter(|&at| results[at].is_none() && !asleep[at]).collect();
            if able.is_empty() {
                assert!(results.iter().all(Option::is_some), "lanes sleep, and nobody wakes them");
                return results.into_iter().map(Option::unwrap).collect();
            }
            let at = able[draw(able.len())];
            let lane = work[at].0;
            let mut woken = Vec::new();
            if posted[at] {
                posted[at] = false;
                woken = self.execute(lane);
            } else {
                match poll_once(lane.port(), work[at].1.as_mut()) {
                    Step::Done(result) => {
                        results[at] = Some(result);
                        if lane.port().flush() {
                            woken = self.execute(lane);
                            lane.port().reset();
                        }
                    }
                    Step::Requests if lane.port().requests().iter().any(|request| request.verb == Verb::Park) => {
                        // Its wakes go out now, and it goes on when it is woken itself.
                        asleep[at] = true;
                        woken = self.execute(lane);
                    }
                    Step::Requests => posted[at] = true,
                    Step::Waiting => {}
                }
            }
            for id in woken {
                if let Some(at) = work.iter().position(|(lane, _)| lane.id().0 == id) {
                    asleep[at] = false;
                }
            }
        }
        panic!("no end");
    }
}
