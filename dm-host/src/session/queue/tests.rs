//! Queues without a worker, step by step.

use super::*;
use dm_core::operation::OperationKind;
use dm_core::registry::KindParameters;
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
    queue.submit(slot, Waiter::Nobody, |body| body.operation = Operation::point(OperationKind::Get)).unwrap();
}

#[test]
fn what_is_withdrawn_is_not_run_and_comes_back() {
    let (queue, slot) = taken();
    submit(&queue, slot);
    assert!(queue.withdraw(slot));
    let plan = dm_core::sherman::parameters::Parameters::with_sizes(8, 8).plan(1, 1).0;
    let Popped::Slot(popped) = queue.pop() else { panic!("it is in the ready list") };
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
    let mut work = QueueWork::new(&queue, 1, std::time::Duration::ZERO);
    let run = crate::worker::Work::next(&mut work, 0, &mut vec![0; plan.total_bytes], &plan);
    assert!(matches!(run, crate::worker::Next::Run(_)));
    drop(work);
    assert_eq!(calls.each_ref().map(TestCaller::woken), [1, 0, 0, 1]);
    let error = queue.take(slots[0], None, |_, _| ()).unwrap().unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(queue.load(), 0);
    assert!(matches!(queue.claim(None, &mut None), Claim::Ended(End::Panicked)));
    assert!(!queue.is_open());
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
