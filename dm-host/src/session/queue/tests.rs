//! Queues without a worker, step by step.

use super::*;
use crate::session::Statistics;
use crate::session::packs::Owners;
use crate::worker::{CallEnded, Cost, Next, Work as _};
use dm_core::error::VerbError;
use dm_core::index::forward::Forwarder;
use dm_core::index::forward::pack::Called;
use dm_core::operation::OperationKind;
use dm_core::registry::KindParameters;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::{Label, NodeId, Status, Verb};
use std::sync::Arc;
use std::task::Wake;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A caller in line: its place, and how often it was woken.
struct TestCaller {
    count: Arc<Count>,
    ticket: Option<u64>,
}

impl TestCaller {
    fn new() -> Self {
        Self { count: Arc::default(), ticket: None }
    }

    fn claim(&mut self, queue: &Queue) -> Option<u32> {
        let waker = Waker::from(Arc::clone(&self.count));
        match queue.claim(Some(&|| Waiter::Task(waker.clone())), &mut self.ticket) {
            Claim::Slot(slot) => Some(slot),
            Claim::Full => None,
            Claim::Ended(end) => panic!("{end:?}"),
        }
    }

    fn woken(&self) -> usize {
        self.count.0.swap(0, Ordering::SeqCst)
    }
}

/// A queue of one slot, which is taken.
fn taken() -> (Queue, u32) {
    let queue = Queue::new(1, 8, 8, false);
    let slot = TestCaller::new().claim(&queue).unwrap();
    (queue, slot)
}

#[test]
fn free_slots_wake_those_in_line_in_order() {
    let (queue, slot) = taken();
    let (mut first, mut second) = (TestCaller::new(), TestCaller::new());
    assert_eq!((first.claim(&queue), second.claim(&queue)), (None, None));
    // Asking again changes neither the order nor the number of callers.
    assert_eq!(first.claim(&queue), None);
    queue.release(slot);
    assert_eq!((first.woken(), second.woken()), (1, 0));
    // Another caller is faster: the first is at the head of the line again.
    let other = TestCaller::new().claim(&queue).unwrap();
    assert_eq!(first.claim(&queue), None);
    queue.release(other);
    assert_eq!((first.woken(), second.woken()), (1, 0));
    let mine = first.claim(&queue).unwrap();
    assert_eq!(first.ticket, None);
    queue.release(mine);
    assert_eq!((first.woken(), second.woken()), (0, 1));
}

#[test]
fn who_leaves_the_line_passes_the_wake_up_on() {
    let (queue, slot) = taken();
    let (mut first, mut second, mut third) = (TestCaller::new(), TestCaller::new(), TestCaller::new());
    assert!(first.claim(&queue).or(second.claim(&queue)).or(third.claim(&queue)).is_none());
    queue.leave_line(second.ticket.unwrap());
    assert_eq!((first.woken(), second.woken(), third.woken()), (0, 0, 0), "nothing is free");
    queue.release(slot);
    assert_eq!((first.woken(), third.woken()), (1, 0));
    queue.leave_line(first.ticket.unwrap());
    assert_eq!((first.woken(), second.woken(), third.woken()), (0, 0, 1));
}

#[test]
fn who_would_not_wait_does_not_go_first() {
    let (queue, slot) = taken();
    let mut first = TestCaller::new();
    assert_eq!(first.claim(&queue), None);
    let second = queue.claim(None, &mut None);
    assert!(matches!(second, Claim::Full));
    queue.release(slot);
    assert!(first.claim(&queue).is_some());
}

fn submit(queue: &Queue, slot: u32) {
    queue
        .submit(slot, (0, false), Waiter::Nobody, |body| body.operation = Operation::point(OperationKind::Get))
        .unwrap();
}

#[test]
fn what_is_withdrawn_is_not_run_and_comes_back() {
    let (queue, slot) = taken();
    submit(&queue, slot);
    assert!(queue.withdraw(slot));
    let plan = dm_core::sherman::parameters::Parameters::with_sizes(8, 8).plan(1, 1).0;
    let Popped::Slot(popped, 0) = queue.pop() else { panic!("it is in the ready list") };
    assert_eq!(queue.begin(popped, &mut vec![0; plan.total_bytes], &plan), None);
    assert_eq!(queue.load(), 0);
    let slot = TestCaller::new().claim(&queue).unwrap();
    submit(&queue, slot);
    assert!(queue.begin(slot, &mut vec![0; plan.total_bytes], &plan).is_some());
    assert!(!queue.withdraw(slot), "it is running");
}

#[test]
fn a_worker_that_panics_fails_everything_and_wakes_everybody() {
    let queue = Queue::new(3, 8, 8, false);
    let mut calls = [TestCaller::new(), TestCaller::new(), TestCaller::new(), TestCaller::new()];
    let slots = [0; 3].map(|_| TestCaller::new().claim(&queue).unwrap());
    for (slot, call) in slots.iter().zip(&calls) {
        submit(&queue, *slot);
        let waker = Waiter::Task(Waker::from(Arc::clone(&call.count)));
        assert!(queue.take(*slot, Some(waker), |_, _| ()).is_none());
    }
    assert_eq!(calls[3].claim(&queue), None);
    // The second was withdrawn; the third is detached; the first runs.
    assert!(queue.withdraw(slots[1]));
    queue.detach(slots[2]);
    let plan = dm_core::sherman::parameters::Parameters::with_sizes(8, 8).plan(1, 1).0;
    let mut work = QueueWork::new(&queue, 1, std::time::Duration::ZERO, &FirstByte(None));
    assert!(matches!(next(&mut work, 0, &plan), Next::Run(_)));
    drop(work);
    assert_eq!(calls.each_ref().map(TestCaller::woken), [1, 0, 0, 1]);
    let error = queue.take(slots[0], None, |_, _| ()).unwrap().unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(queue.load(), 0);
    assert!(matches!(queue.claim(None, &mut None), Claim::Ended(End::Panicked)));
    assert!(!queue.is_open());
}

/// Owners by the first byte of the key. 0: this compute node.
struct FirstByte(Option<Forwarder>);

impl Owners for FirstByte {
    fn forwarder(&self) -> Option<&Forwarder> {
        self.0.as_ref()
    }

    fn owner_elsewhere(&self, key: &[u8]) -> Option<RowId> {
        Some(RowId(key[0].into())).filter(|row| row.0 != 0)
    }
}

/// What a lane does next.
fn next(work: &mut QueueWork<'_>, lane: usize, plan: &ScratchPlan) -> Next {
    work.next(lane, &mut vec![0; plan.total_bytes], plan)
}

fn packed(next: Next) -> u16 {
    if let Next::Call(pack) = next { pack.count() } else { 0 }
}

#[test]
fn operations_of_one_call_go_to_their_owner_together() {
    let mut plan = dm_core::sherman::parameters::Parameters::with_sizes(8, 8).plan(1, 1).0;
    let owners = FirstByte(Some(Forwarder::new(IndexNumber::NONE, &mut plan)));
    let queue = Queue::new(16, 8, 8, false);
    let submit = |row: u8, group| {
        let Claim::Slot(slot) = queue.claim(None, &mut None) else { panic!("a slot is free") };
        let fill = |body: &mut Body| {
            body.operation = Operation::point(OperationKind::Upsert);
            body.key.set(&[row; 8]);
        };
        queue.submit(slot, (group, group != 0), Waiter::Nobody, fill).unwrap();
        slot
    };
    let slots = [(1, 7), (0, 7), (1, 7), (2, 7), (1, 8), (1, 7), (2, 7)].map(|(row, group)| submit(row, group));
    let mut work = QueueWork::new(&queue, 3, std::time::Duration::ZERO, &owners);
    assert_eq!(next(&mut work, 0, &plan), Next::Wait, "nobody has said that these are all");
    queue.announce();
    let [first, second, third] = [0, 1, 2].map(|lane| next(&mut work, lane, &plan));
    assert_eq!((packed(first), packed(third)), (3, 2), "of the owners 1 and 2");
    assert!(matches!(second, Next::Run(_)), "a key of its own");
    let called = |work: &mut QueueWork<'_>, lane: usize, next: Next, called| {
        let (Next::Call(pack), scratch) = (next, &mut vec![0; plan.total_bytes][..]) else { panic!("{next:?}") };
        work.called(lane, CallEnded { pack, called, latency_ns: 0, cost: Cost::default(), scratch, plan: &plan });
    };
    let error =
        VerbError { status: Status::Unanswered, verb: Verb::Call, label: Label::Forward, node: NodeId(0), offset: 0 };
    called(&mut work, 0, first, Called::Lost(error));
    called(&mut work, 2, third, Called::NotServed);
    for slot in [slots[0], slots[2], slots[5]] {
        assert_eq!(queue.take(slot, None, |_, _| ()).unwrap().unwrap_err().effect(), Effect::Unknown);
    }
    // What was not begun goes alone, in front of the other call's.
    assert!([0, 2].into_iter().all(|lane| matches!(next(&mut work, lane, &plan), Next::Run(_))));
    assert_eq!([slots[3], slots[6], slots[4]].map(|slot| queue.withdraw(slot)), [false, false, true]);
    let mut statistics = Statistics::default();
    queue.sums.add_to(&mut statistics);
    assert_eq!((statistics.packs, statistics.packed_operations, statistics.packed_not_begun), (2, 5, 2));
    // The worker panics with a call under way.
    let pack = [submit(1, 9), submit(1, 9)];
    queue.announce();
    assert_eq!(packed(next(&mut work, 0, &plan)), 2, "behind the one that was withdrawn");
    drop(work);
    assert!(pack.map(|slot| queue.take(slot, None, |_, _| ()).unwrap().is_err()).iter().all(|failed| *failed));
}

#[test]
fn the_key_after_a_key() {
    let mut key = [1, 2, 255];
    assert!(increment(&mut key));
    assert_eq!(key, [1, 3, 0]);
    let mut key = [255; 8];
    assert!(!increment(&mut key), "there is none");
    let mut key = Bytes::new(0, true);
    key.set(b"a");
    assert!(key.increment());
    assert_eq!(&*key, b"a\0", "the least that is greater");
}
