//! Many calls at once.

use super::call::{Call, Stage, Started};
use super::deadline::Deadline;
use super::error::SessionError;
use super::queue::Queue;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

/// Many operations at once, spread over the lanes of all workers, and their results to come, in the order of the
/// arguments.
///
/// Each operation succeeds or fails by itself, and a wrong size is an error of that operation only. Each is
/// linearizable by itself; operations on one key take effect in any order. Where keys have owners, one message takes those of a
/// worker to another compute node that owns their keys, as many as it has room for ([`Statistics::packs`](super::Statistics)). Otherwise this is a list of [`Call`]s. One
/// list takes at most half the slots of all queues at a time.
#[derive(Debug)]
#[must_use = "calls do nothing until they are waited for or awaited"]
pub struct Calls<'a, T> {
    list: Vec<Call<'a, T>>,
    results: Vec<Option<Result<T, SessionError>>>,
    /// All calls before this one have ended.
    first: usize,
    /// No call from this one on has been queued, except for the first.
    next: usize,
}

// A result is only moved out; nothing points into it.
impl<T> Unpin for Calls<'_, T> {}

impl<'a, T> Calls<'a, T> {
    pub(super) fn new(calls: impl Iterator<Item = Call<'a, T>>) -> Self {
        let mut list: Vec<_> = calls.collect();
        if let [first, _, ..] = &list[..] {
            let group = first.session.shared().groups.fetch_add(1, Ordering::Relaxed) + 1;
            for call in &mut list {
                call.group = group;
            }
        }
        let results = list.iter().map(|_| None).collect();
        Self { list, results, first: 0, next: 0 }
    }

    /// As [`Call::owned`], of each of them.
    pub fn owned(self) -> Calls<'static, T> {
        let Self { list, results, first, next } = self;
        Calls { list: list.into_iter().map(Call::owned).collect(), results, first, next }
    }

    /// As [`Call::within`], for each of them.
    pub fn within(mut self, time: Duration) -> Self {
        let deadline = Deadline::after(time);
        for call in &mut self.list {
            call.deadline = deadline;
        }
        self
    }

    /// Runs the operations and blocks until all have ended.
    pub fn wait(mut self) -> Vec<Result<T, SessionError>> {
        let on_worker = self.list.first().is_some_and(|call| call.session.on_worker());
        while self.first < self.list.len() {
            if on_worker {
                self.end(Err(SessionError::OnWorker));
                continue;
            }
            self.queue_more();
            if self.results[self.first].is_none() {
                let result = self.list[self.first].block();
                self.end(result);
            } else {
                self.first += 1;
            }
        }
        self.results()
    }

    /// Queues what there is room for, without getting in line. These calls have no waiters: each registers one when it
    /// has become the first that has not ended.
    fn queue_more(&mut self) {
        let Some(call) = self.list.get(self.first) else { return };
        let window = call.session.shared().window;
        // The first call gets in line, unless it has been queued already.
        self.next = self.next.max(self.first);
        // Many at a time, so that those of one owner go there together.
        if self.next - self.first > window / 2 {
            return;
        }
        let before = self.next;
        self.queue_until((self.first + window).min(self.list.len()));
        if self.next > before {
            // Now the workers see all of them.
            self.list[self.first].session.shared().queues.iter().for_each(Queue::announce);
        }
    }

    fn queue_until(&mut self, end: usize) {
        while self.next < end {
            let call = &mut self.list[self.next];
            match call.stage {
                Stage::Waiting { .. } => return,
                Stage::New => match call.start(None) {
                    Ok(Started::Queued { .. }) => {}
                    Ok(_) => return,
                    Err(error) => self.results[self.next] = Some(Err(error)),
                },
                // It got in line as the first call, and was queued.
                Stage::Queued { .. } | Stage::Ended => {}
            }
            self.next += 1;
        }
    }

    /// Stores the result of the first call.
    fn end(&mut self, result: Result<T, SessionError>) {
        self.results[self.first] = Some(result);
        self.first += 1;
    }

    fn results(&mut self) -> Vec<Result<T, SessionError>> {
        self.list.clear();
        std::mem::take(&mut self.results).into_iter().flatten().collect()
    }
}

impl<T> Future for Calls<'_, T> {
    type Output = Vec<Result<T, SessionError>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let calls = self.get_mut();
        while calls.first < calls.list.len() {
            calls.queue_more();
            if calls.results[calls.first].is_some() {
                calls.first += 1;
                continue;
            }
            match calls.list[calls.first].look(context) {
                Poll::Ready(result) => calls.end(result),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(calls.results())
    }
}
