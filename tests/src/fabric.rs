//! A fabric that fails where a test wants it to, and access to remote bytes by hand.

use dm_core::fabric::{Fabric, Posted};
use dm_core::lane::Lane;
use dm_core::remote::NodeGeometry;
use dm_core::verbs::{Capabilities, Completion, Guarantees, Label, LaneId, NodeId, Request, Space, Status};

/// Which requests shall fail, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Submits to memory nodes that are still executed.
    pub after: u32,
    /// Submits that fail then.
    pub times: u32,
    /// What their requests complete with.
    pub status: Status,
    /// They take effect nevertheless.
    pub lands: bool,
}

/// Any fabric, and what shall fail on it.
pub struct AnyFabric {
    inner: Box<dyn for<'m> Fabric<'m>>,
    /// The next failure.
    pub failure: Option<Failure>,
    /// Submits to memory nodes so far.
    pub submits: u64,
}

impl AnyFabric {
    pub(crate) fn new(inner: impl for<'m> Fabric<'m> + 'static) -> Self {
        Self { inner: Box::new(inner), failure: None, submits: 0 }
    }

    /// What the submit that is about to be posted comes to, if it fails.
    fn fails(&mut self) -> Option<Failure> {
        let failure = self.failure.as_mut()?;
        if failure.after > 0 {
            failure.after -= 1;
            return None;
        }
        if failure.times == 0 {
            self.failure = None;
            return None;
        }
        failure.times -= 1;
        Some(*failure)
    }
}

impl<'m> Fabric<'m> for AnyFabric {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn post(&mut self, lanes: &[Lane<'m>], lane: usize) -> Posted {
        let port = lanes[lane].port();
        if port.requests().iter().all(|request| request.verb.is_local()) {
            return self.inner.post(lanes, lane);
        }
        self.submits += 1;
        let Some(failure) = self.fails() else { return self.inner.post(lanes, lane) };
        let Some(scratch) = port.begin() else { return Posted::Completed };
        if failure.lands {
            // Another lane has the requests executed, so that this one's complete as failures.
            let others = [Lane::new(LaneId(u16::MAX - 1), &mut *scratch)];
            for request in port.requests().iter().filter(|request| !request.verb.is_local()) {
                others[0].port().push(*request);
            }
            others[0].port().flush();
            let posted = self.inner.post(&others, 0);
            assert_eq!(posted, Posted::Completed, "failures are for fabrics that execute at once");
        }
        for (position, request) in port.requests().iter().enumerate() {
            if !request.verb.is_local() {
                port.complete(position, Completion { value: 0, elapsed_ns: 0, status: failure.status });
            }
        }
        port.finish(scratch, 0);
        Posted::Completed
    }

    fn poll(&mut self, lanes: &[Lane<'m>], ready: &mut dyn FnMut(usize)) {
        self.inner.poll(lanes, ready);
    }
}

/// READs remote bytes.
pub fn peek(fabric: &mut AnyFabric, space: Space, node: NodeId, offset: u64, bytes: usize) -> Vec<u8> {
    let mut scratch = vec![0; bytes];
    exchange(fabric, &mut scratch, Request::read(Label::Tool, node, offset, bytes, 0).in_space(space));
    scratch
}

/// WRITEs remote bytes.
pub fn poke(fabric: &mut AnyFabric, space: Space, node: NodeId, offset: u64, bytes: &[u8]) {
    let mut scratch = bytes.to_vec();
    exchange(fabric, &mut scratch, Request::write(Label::Tool, node, offset, bytes.len(), 0).in_space(space));
}

fn exchange(fabric: &mut AnyFabric, scratch: &mut [u8], request: Request) {
    let lanes = [Lane::new(LaneId(u16::MAX - 1), scratch)];
    let failure = fabric.failure.take();
    lanes[0].port().push(request);
    lanes[0].port().flush();
    assert_eq!(fabric.inner.post(&lanes, 0), Posted::Completed);
    assert_eq!(lanes[0].port().completion(0).status, Status::Ok, "{request:?}");
    lanes[0].port().reset();
    fabric.failure = failure;
}

/// The lock words of all memory nodes that are not free: memory node, index, word.
pub fn locks_taken(fabric: &mut AnyFabric, geometry: &[NodeGeometry]) -> Vec<(u16, u32, u64)> {
    let mut taken = Vec::new();
    for (node, at) in geometry.iter().enumerate() {
        let bytes = at.lock_count as usize * 8;
        let table = peek(fabric, at.lock_space, NodeId(node as u16), at.lock_table, bytes);
        for (index, word) in (0..).zip(table.chunks_exact(8)) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            if word != 0 {
                taken.push((node as u16, index, word));
            }
        }
    }
    taken
}
