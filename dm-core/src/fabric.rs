//! The trait of fabrics, which execute requests. One value belongs to one worker.

use crate::lane::Lane;
use crate::verbs::{Capabilities, Guarantees};

/// Whether a post has already brought its completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// The completions are in the port; the lane can be polled.
    Completed,
    /// [`Fabric::poll`] will bring them.
    InFlight,
}

/// Executes the requests of lanes. One value belongs to one worker; `lanes` is always the same slice.
///
/// The driver executes local verbs ([`Verb::is_local`](crate::verbs::Verb::is_local)) itself, and a fabric skips
/// them. A posted request ends only by its completion: it cannot be cancelled.
///
/// **A queue pair that failed.** Its requests complete as [`Status::Flushed`](crate::verbs::Status::Flushed), and may
/// still take effect. The fabric posts nothing more to that memory node for this worker before the memory node has
/// confirmed that the queue pair is closed. Until then requests complete as
/// [`Status::Flushed`](crate::verbs::Status::Flushed) without effect. So a request that was posted after the failure
/// and completes in another way proves that nothing of the old queue pair can take effect any more. RPCs may travel
/// another way: they prove nothing, and this rule does not cover them.
pub trait Fabric<'m> {
    /// What the fabric offers.
    fn capabilities(&self) -> Capabilities;

    /// What an index can rely upon, and why.
    fn guarantees(&self) -> Guarantees;

    /// Takes what `lanes[lane]` submitted. Requests to one memory node are one chain, posted with one doorbell.
    ///
    /// The lane's scratch belongs to the fabric until the completions are delivered ([`crate::port::Port::begin`],
    /// [`crate::port::Port::finish`]).
    fn post(&mut self, lanes: &[Lane<'m>], lane: usize) -> Posted;

    /// Delivers completions that have arrived, and calls `ready` with the position of each lane that can continue.
    fn poll(&mut self, lanes: &[Lane<'m>], ready: &mut dyn FnMut(usize));
}
