//! The trait of those that execute requests: one value belongs to one worker.

use crate::lane::Lane;
use crate::verbs::{Capabilities, Guarantees};

/// Whether a post already brought its completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// The completions are in the port; the lane can be polled.
    Completed,
    /// [`Fabric::poll`] will bring them.
    InFlight,
}

/// Executes the requests of lanes. One fabric value belongs to one worker; `lanes` is always the same slice.
///
/// The driver handles local verbs ([`Verb::is_local`](crate::verbs::Verb::is_local)) itself; a fabric skips them. A posted request ends by its
/// completion only: there is no cancelling.
///
/// **A queue pair that failed.** Its requests complete as [`Status::Flushed`](crate::verbs::Status::Flushed), and may still take effect. The fabric posts
/// nothing more to that memory node for the worker before the memory node has confirmed that the queue pair is closed:
/// until then requests complete as [`Status::Flushed`](crate::verbs::Status::Flushed), without effect. So a request that completes in another way and
/// was posted after the failure proves that nothing of the old queue pair can take effect any more. RPCs, which may
/// travel another way, prove nothing and are not meant.
pub trait Fabric<'m> {
    /// What it offers.
    fn capabilities(&self) -> Capabilities;

    /// What can be relied upon, and why.
    fn guarantees(&self) -> Guarantees;

    /// Takes what `lanes[lane]` submitted: requests to the same memory node are one chain, posted with one doorbell.
    ///
    /// The lane's scratch belongs to the fabric until the completions are delivered
    /// ([`crate::port::Port::begin`], [`crate::port::Port::finish`]).
    fn post(&mut self, lanes: &[Lane<'m>], lane: usize) -> Posted;

    /// Delivers completions that have arrived and calls `ready` with the position of each lane that can go on.
    fn poll(&mut self, lanes: &[Lane<'m>], ready: &mut dyn FnMut(usize));
}
