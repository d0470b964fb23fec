//! Bugs that unit tests plant, to see whether they find them. Programs have none: outside of tests [`planted`] is a constant.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// The credit of a call that was given up does not come back with its late reply.
    CreditLeak,
    /// A late reply is taken for that of the call which has its credit now.
    LateReplyTaken,
    /// A call that was given up counts as one that is not executed any more.
    LeftCallForgotten,
    /// A call that waited is begun after its compute node was fenced off.
    HandlerAfterFence,
    /// A fence is confirmed while a call is running.
    FenceWithoutWait,
    /// A call that was passed on counts as one that nobody has begun, when the queue pair of its callee ends.
    LostRelayHarmless,
    /// A call is passed on by a queue pair that is being closed.
    RelayBehindEnd,
}

/// Whether a bug is planted.
#[cfg(not(test))]
#[inline]
pub(crate) const fn planted(_: Planted) -> bool {
    false
}

#[cfg(test)]
pub(crate) use in_tests::{planted, with_planted};

/// For the calling thread and one closure, since tests run side by side.
#[cfg(test)]
mod in_tests {
    use super::Planted;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    pub(crate) fn planted(bug: Planted) -> bool {
        PLANTED.get() == Some(bug)
    }

    pub(crate) fn with_planted<R>(bug: Option<Planted>, each: impl FnOnce() -> R) -> R {
        PLANTED.set(bug);
        let result = each();
        PLANTED.set(None);
        result
    }
}
