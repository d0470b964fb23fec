//! One operation, driven by hand: the interface for firmware, C and tests.
//!
//! [`Machine::poll`] runs the operation to its next round trip, and returns what it needs: requests to execute, or the
//! result. Nothing else is needed to run an index: no executor, no allocator, no threads.
//!
//! A driver that misuses the machine or its port gets a [`Misuse`](crate::error::Misuse) and does no harm: a call out of
//! order has no effect, and a request that was dropped counts as flushed.

use crate::port::{Port, State};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

/// What an operation needs next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// Requests are in the port: take the scratch ([`Port::begin`]), execute [`Port::requests`], deliver completions
    /// ([`Port::complete`], [`Port::finish`]) and poll again.
    Requests,
    /// Requests are under way, and nothing can be done before they complete. Or, with a driver that sets
    /// [`Port::fetch`], cache lines of this machine's memory are on their way, and other lanes may run before this
    /// one is polled again.
    Waiting,
    /// The operation has ended. Unsignaled requests may be left to post: see [`Port::flush`].
    Done(T),
}

/// Polls `future` once. It must be that of an operation on `port`.
pub fn poll_once<F: Future + ?Sized>(port: &Port<'_>, future: Pin<&mut F>) -> Step<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Step::Done(result),
        Poll::Pending if port.state() == State::Submitted => Step::Requests,
        Poll::Pending => Step::Waiting,
    }
}

/// A port and the future of the operation on it.
pub struct Machine<'p, 'm, F> {
    port: &'p Port<'m>,
    future: Pin<&'p mut F>,
    is_done: bool,
}

impl<'p, 'm, F: Future> Machine<'p, 'm, F> {
    /// Begins an operation. The future must be that of an operation on the lane of `port`.
    pub fn new(port: &'p Port<'m>, future: Pin<&'p mut F>) -> Self {
        port.start();
        Self { port, future, is_done: false }
    }

    /// The port, which has the requests to execute.
    pub fn port(&self) -> &'p Port<'m> {
        self.port
    }

    /// Runs to the next round trip. After `Done`, whose result it gives once, it is `Waiting` for ever.
    pub fn poll(&mut self) -> Step<F::Output> {
        if self.is_done {
            return Step::Waiting;
        }
        let step = poll_once(self.port, self.future.as_mut());
        self.is_done = matches!(step, Step::Done(_));
        step
    }
}

#[cfg(test)]
mod tests;
