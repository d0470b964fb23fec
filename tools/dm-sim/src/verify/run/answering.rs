//! The fabric at the end of a history, when all is quiet: compute nodes execute at once what others call them for.

use crate::config::Config;
use crate::direct::DirectFabric;
use crate::memory::Memories;
use crate::run::block_on;
use crate::verify::subject::Opened;
use dm_core::fabric::{Fabric, Posted};
use dm_core::index::forward::message::Serving;
use dm_core::lane::Lane;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::{CallAnswer, Callee, Capabilities, Completion, Guarantees, Request, Status, Verb};

/// Compute nodes that have the index open, their lanes, and the rows of those that are called, with their numbers.
pub(super) type Called<'f, 'm> = (&'f [&'f dyn Opened], &'f [&'f [Lane<'m>]], Vec<(RowId, usize)>);

/// As [`DirectFabric`], over the memories of a world. What is called for runs on the first lane of a compute node.
pub(super) struct AnsweringFabric<'f, 'm> {
    config: &'f Config,
    direct: DirectFabric<&'f mut Memories>,
    opened: &'f [&'f dyn Opened],
    lanes: &'f [&'f [Lane<'m>]],
    /// Rows, and the numbers of their compute nodes.
    tenants: Vec<(RowId, usize)>,
}

impl<'f, 'm> AnsweringFabric<'f, 'm> {
    /// Over the memories of a history, whose compute nodes may be called.
    pub(super) fn new(
        config: &'f Config,
        memories: &'f mut Memories,
        (opened, lanes, tenants): Called<'f, 'm>,
    ) -> Self {
        Self { config, direct: DirectFabric::over(config, memories), opened, lanes, tenants }
    }

    /// Has the compute node of `row` execute a request. `None`: nobody does.
    fn serve(&mut self, row: RowId, request: &[u8], answer_bytes: usize) -> Option<Vec<u8>> {
        let (_, node) = *self.tenants.iter().find(|(tenant, _)| *tenant == row)?;
        let (index, lane) = (self.opened[node], &self.lanes[node][0]);
        let mut fabric = DirectFabric::over(self.config, self.direct.memories());
        let plan = index.served_plan();
        let which = (IndexNumber::new(0)?, index.forwards_steps());
        let mut serving = Serving::decode(request, which, plan, answer_bytes)?;
        let mut answer = vec![0; answer_bytes];
        while let Some(operation) = lane.port().with(|scratch| serving.next(request, plan, scratch, 0, &mut answer)) {
            let result = block_on(lane, &mut fabric, index.execute(lane, operation)).ok()?.result;
            lane.port().with(|scratch| serving.ended(&result, plan, scratch, &mut answer));
            if lane.is_unsettled() {
                break;
            }
        }
        let bytes = serving.finish(&mut answer);
        answer.truncate(bytes);
        Some(answer)
    }

    /// Executes the call of a lane.
    fn call(&mut self, call: &Request, scratch: &mut [u8]) -> Completion {
        let mut completion = Completion { status: Status::NotServed, ..Completion::default() };
        let (at, room) = (call.local as usize, call.operands[0] as usize);
        let Some(row) = Callee(call.operands[1]).row() else { return completion };
        let Some(request) = scratch.get(at..at + call.bytes as usize).map(<[u8]>::to_vec) else { return completion };
        let Some(answer) = self.serve(RowId(row), &request, room) else { return completion };
        if let Some(place) = scratch.get_mut(at..at + answer.len()) {
            place.copy_from_slice(&answer);
            completion.status = Status::Ok;
            completion.value = CallAnswer::new(answer.len(), 0, 0).0;
        }
        completion
    }
}

impl<'m> Fabric<'m> for AnsweringFabric<'_, 'm> {
    fn capabilities(&self) -> Capabilities {
        Fabric::capabilities(&self.direct)
    }

    fn guarantees(&self) -> Guarantees {
        Fabric::guarantees(&self.direct)
    }

    fn post(&mut self, lanes: &[Lane<'m>], lane: usize) -> Posted {
        let port = lanes[lane].port();
        let is_for_others = |request: &&Request| request.verb == Verb::Call && request.operands[1] != 0;
        // Such a call is a submit of its own.
        let Some(call) = port.requests().iter().find(is_for_others).copied() else {
            return self.direct.post(lanes, lane);
        };
        let Some(scratch) = port.begin() else { return Posted::Completed };
        let misuse = port.complete(0, self.call(&call, scratch));
        debug_assert_eq!(misuse, None);
        let misuse = port.finish(scratch, 0);
        debug_assert_eq!(misuse, None);
        Posted::Completed
    }

    fn poll(&mut self, _: &[Lane<'m>], _: &mut dyn FnMut(usize)) {}
}
