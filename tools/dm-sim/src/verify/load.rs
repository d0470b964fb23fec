//! What lanes are asked, what is dropped, and the recorder of it all.

use super::coding::Coding;
use super::draw::Draw;
use super::subject::Opened;
use crate::check::{Answer, Call, History, OpId};
use crate::driver::{Driver, LaneAt, Op};
use crate::rng::Rng;
use crate::workload::Workload;
use dm_core::error::{Cause, OpError};
use dm_core::index::{Operation, OperationKind, Outcome};
use dm_core::lane::Lane;

/// How an operation ended, with what it left in the scratch.
#[derive(Clone, Debug)]
pub enum Ended {
    /// A point operation.
    Point(Answer),
    /// A scan.
    Page(Vec<(u64, u64)>, bool),
    /// Either, without success.
    Failed(OpError),
    /// `settle` after a dropped operation.
    Settled(Result<(), OpError>),
}

/// An operation that failed where nothing was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Which; `None`: the `settle` of a lane.
    pub operation: Option<OpId>,
    /// How.
    pub error: OpError,
}

impl Failed {
    /// Whether an index may say this without anything having gone wrong: it found no memory. Giving up is not among
    /// it: histories are short, and the bounds on waiting are long.
    pub fn is_tolerable(&self) -> bool {
        self.operation.is_some() && self.error.cause == Cause::PoolFull
    }
}

/// What a lane is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    Operation(OpId),
    /// Its operation was dropped; what it owes is being paid.
    Settling(OpId),
}

/// The workload and recorder of one history.
pub struct Load<'a, 'm> {
    draw: &'a Draw,
    opened: &'a [&'a dyn Opened],
    lanes: &'a [&'a [Lane<'m>]],
    rng: Rng,
    left: u32,
    next_drop: u64,
    doing: Vec<Vec<Doing>>,
    /// Per key a value it had once, to be expected by `update_if`.
    known: Vec<u64>,
    /// The record.
    pub history: History,
    /// Operations that failed.
    pub failed: Vec<Failed>,
    /// Futures dropped.
    pub dropped: u32,
}

/// Values below this are numbers of the operations that wrote them; the index begins with this plus the key.
pub const VALUE_FIRST: u64 = 100_000;

impl<'a, 'm> Load<'a, 'm> {
    /// The first `operations` of the load of `draw`, recorded into `history`, which knows what the index begins with.
    pub fn new(
        draw: &'a Draw,
        opened: &'a [&'a dyn Opened],
        lanes: &'a [&'a [Lane<'m>]],
        history: History,
        operations: u32,
    ) -> Self {
        Self {
            draw,
            opened,
            lanes,
            rng: Rng::new(draw.seed ^ 0x5eed_0002),
            left: operations,
            next_drop: if draw.drop_steps == 0 { u64::MAX } else { u64::from(draw.drop_steps) },
            doing: lanes.iter().map(|lanes| vec![Doing::Nothing; lanes.len()]).collect(),
            known: (0..u64::from(draw.keys)).map(|key| VALUE_FIRST + key).collect(),
            history,
            failed: Vec::new(),
            dropped: 0,
        }
    }

    fn doing(&mut self, at: LaneAt) -> &mut Doing {
        &mut self.doing[usize::from(at.compute_node.0)][usize::from(at.lane)]
    }

    fn lane(&self, at: LaneAt) -> (&'a dyn Opened, &'a Lane<'m>) {
        let node = usize::from(at.compute_node.0);
        (self.opened[node], &self.lanes[node][usize::from(at.lane)])
    }

    fn choose_call(&mut self, index: &dyn Opened) -> (u64, Call) {
        let total: u32 = self.draw.weights.iter().sum();
        let mut drawn = self.rng.below(total);
        let mut kind = OperationKind::Get;
        for (candidate, weight) in OperationKind::ALL.into_iter().zip(self.draw.weights) {
            if drawn < weight {
                kind = candidate;
                break;
            }
            drawn -= weight;
        }
        let keys = self.draw.keys;
        let hot = self.rng.percent(self.draw.hot_percent);
        let key = self.rng.below(if hot { keys.min(2) } else { keys });
        // The number of the operation: a value says who wrote it.
        let value = self.history.operations().len() as u64;
        let call = match kind {
            OperationKind::Get => Call::Get,
            OperationKind::Insert => Call::Insert { value },
            OperationKind::Update => Call::Update { value },
            OperationKind::Upsert => Call::Upsert { value },
            OperationKind::UpdateIf => Call::UpdateIf { expected: self.known[key as usize], value },
            OperationKind::Delete => Call::Delete,
            OperationKind::Scan => {
                let page = index.plan().page_records().max(1) as u32;
                let high = self.rng.percent(40).then(|| u64::from(key + self.rng.below(keys)));
                Call::Scan { after: self.rng.percent(30), high, limit: 1 + self.rng.below(page) }
            }
        };
        (u64::from(key), call)
    }

    fn drop_some(&mut self, driver: &mut Driver<'a, '_, Ended>) {
        self.next_drop = driver.steps() + 1 + u64::from(self.rng.below(self.draw.drop_steps * 2));
        let lanes: Vec<LaneAt> = driver.lanes().collect();
        let at = lanes[self.rng.below(lanes.len() as u32) as usize];
        let Doing::Operation(operation) = *self.doing(at) else { return };
        driver.drop_future(at);
        self.dropped += 1;
        *self.doing(at) = Doing::Settling(operation);
        let unknown = Answer::Failed(dm_core::error::Effect::Unknown);
        self.history.respond(operation, driver.now_ns(), unknown);
    }

    fn learn(&mut self, operation: OpId, answer: Answer) {
        let record = self.history.operation(operation);
        let key = record.key as usize;
        let value = match answer {
            Answer::Found(value) | Answer::Exists(value) | Answer::Mismatch(value) => value,
            Answer::Inserted | Answer::Updated | Answer::Replaced => record.call.written().unwrap_or(0),
            _ => return,
        };
        self.known[key] = value;
    }
}

impl<'a> Workload<'a, Ended> for Load<'a, '_> {
    fn invoke(&mut self, at: LaneAt, now_ns: u64) -> Option<Op<'a, Ended>> {
        self.left = self.left.checked_sub(1)?;
        let (index, lane) = self.lane(at);
        let (key, call) = self.choose_call(index);
        let operation = self.history.invoke(at, now_ns, key, call);
        *self.doing(at) = Doing::Operation(operation);
        Some(start(index, lane, Coding { key_shift: self.draw.key_shift }, key, call))
    }

    fn respond(&mut self, at: LaneAt, now_ns: u64, result: Ended) {
        let doing = std::mem::replace(self.doing(at), Doing::Nothing);
        match (doing, result) {
            (Doing::Operation(operation), Ended::Point(answer)) => {
                self.history.respond(operation, now_ns, answer);
                self.learn(operation, answer);
            }
            (Doing::Operation(operation), Ended::Page(page, more)) => {
                self.history.respond_page(operation, now_ns, page, more);
            }
            (Doing::Operation(operation), Ended::Failed(error)) => {
                self.history.respond(operation, now_ns, Answer::Failed(error.effect));
                self.failed.push(Failed { operation: Some(operation), error });
            }
            (Doing::Settling(operation), Ended::Settled(result)) => match result {
                Ok(()) => self.history.close(operation, now_ns),
                Err(error) => self.failed.push(Failed { operation: None, error }),
            },
            (doing, result) => unreachable!("{at} was {doing:?} and ended with {result:?}"),
        }
    }

    fn abandoned(&mut self, at: LaneAt, _: u64) -> Option<Op<'a, Ended>> {
        let (index, lane) = self.lane(at);
        Some(Box::pin(async move { Ended::Settled(index.settle(lane).await) }))
    }

    fn before_step(&mut self, driver: &mut Driver<'a, '_, Ended>) {
        if driver.steps() >= self.next_drop {
            self.drop_some(driver);
        }
    }
}

/// Puts the arguments into the lane's scratch and makes the future.
pub fn start<'a>(index: &'a dyn Opened, lane: &'a Lane<'_>, coding: Coding, key: u64, call: Call) -> Op<'a, Ended> {
    let plan = index.plan();
    lane.port().with(|scratch| {
        coding.write_key(key, &mut scratch[plan.key.clone()]);
        if let Some(value) = call.written() {
            coding.write_value(value, &mut scratch[plan.value.clone()]);
        }
        match call {
            Call::UpdateIf { expected, .. } => coding.write_value(expected, &mut scratch[plan.expected.clone()]),
            Call::Scan { high: Some(high), .. } => coding.write_key(high, &mut scratch[plan.key_high.clone()]),
            _ => {}
        }
    });
    let operation = match call {
        Call::Scan { after, high, limit } => Operation { after, bounded: high.is_some(), ..Operation::scan(limit) },
        _ => Operation::point(call.kind()),
    };
    Box::pin(async move {
        let plan = index.plan();
        // The results are read here and not when the response is reported: what the operation left unsubmitted takes
        // the scratch along.
        match index.execute(lane, operation).await {
            Err(error) => Ended::Failed(error),
            Ok(Outcome::Page { records, more }) => lane.port().with(|scratch| {
                let record = |position| {
                    let bytes = &scratch[plan.record(position)];
                    (coding.read_key(&bytes[..plan.key_bytes]), coding.read_value(&bytes[plan.key_bytes..]))
                };
                let held = plan.page_records().min(records as usize);
                Ended::Page((0..held).map(record).collect(), more)
            }),
            Ok(outcome) => Ended::Point(Answer::of(
                outcome,
                lane.port().with(|scratch| coding.read_value(&scratch[plan.output.clone()])),
            )),
        }
    })
}
