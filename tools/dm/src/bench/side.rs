//! An index of this engine as a side of `dm bench --against`: it does the rounds that it is asked for.

use super::Arguments;
use super::baseline;
use super::plan::Plan;
use super::threads::{Bench, Thread};
use crate::failure::Failure;
use crate::kinds::KindName;
use crate::rounds::{Item, Round, SCANNED, serve};
use crate::workload::keys::check;
use clap::ValueEnum as _;
use dm_core::index::Index;
use dm_core::operation::{Operation, OperationKind, Outcome, ScratchPlan};
use dm_host::worker::{self, Finished, Next, Wakes, Work};
use std::slice;

/// Which side a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Its index.
    pub kind: KindName,
    /// Operations in flight.
    pub lanes: u16,
}

impl Side {
    /// As the hidden option names it.
    pub fn to_option(self) -> String {
        format!("--side={}:{}", self.kind.0.name(), self.lanes)
    }

    /// The same, back.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (kind, lanes) = text.split_once(':').ok_or("KIND:LANES")?;
        Ok(Self { kind: KindName::from_str(kind, false)?, lanes: lanes.parse().map_err(|_| "KIND:LANES")? })
    }

    /// The command line of a bench of this side alone.
    pub fn arguments(self, of_all: &Arguments) -> Arguments {
        Arguments {
            index: self.kind,
            threads: Some(1),
            lanes: self.lanes,
            side: Some(self),
            json: None,
            ..of_all.clone()
        }
    }
}

/// Is a side until nobody asks for rounds any more.
pub fn run(side: Side, arguments: &Arguments) -> Result<(), Failure> {
    super::execute(&Plan::new(&side.arguments(arguments))?)?.verdict()
}

/// Answers rounds with an index that is loaded.
pub(super) fn answer<I: Index>(bench: &Bench<'_, '_, I>, thread: &mut Thread<'_>) -> Result<(), Failure> {
    serve(|round| {
        let played = if round.bare { bare(bench, thread, round) } else { engine(bench, thread, round) };
        played.map_err(|failure| failure.to_string())
    })
    .map_err(Failure::run)
}

fn bare<I: Index>(bench: &Bench<'_, '_, I>, thread: &Thread<'_>, round: &Round) -> Result<(), Failure> {
    let records = round.items.iter().map(|item| item.record);
    // It can do nothing for the few keys whose leaves the index cache does not have.
    baseline::bare(bench, thread, records, round.kind == OperationKind::Update).map(drop)
}

fn engine<I: Index>(bench: &Bench<'_, '_, I>, thread: &mut Thread<'_>, round: &Round) -> Result<(), Failure> {
    let lanes = &thread.lanes;
    let mut work = Rounds { kind: round.kind, left: round.items.iter(), records: vec![0; lanes.len()], wrong: 0 };
    let wakes = Wakes::new(1, lanes.len());
    worker::run(&bench.indexes[0], lanes, &mut thread.fabric, &mut work, &wakes).map_err(|error| {
        bench.nodes[0].mark_unsettled();
        Failure::run(error)
    })?;
    if work.wrong == 0 { Ok(()) } else { Err(Failure::Run(format!("{} wrong answers", work.wrong))) }
}

struct Rounds<'a> {
    kind: OperationKind,
    left: slice::Iter<'a, Item>,
    /// Of the operation of each lane.
    records: Vec<u64>,
    wrong: u64,
}

impl Work for Rounds<'_> {
    const TIMED: bool = false;

    #[inline]
    fn next(&mut self, at: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next {
        let Some(item) = self.left.next() else { return Next::Finished };
        scratch[plan.key.clone()].copy_from_slice(&item.key.to_be_bytes());
        scratch[plan.value.clone()].copy_from_slice(&item.value.to_le_bytes());
        self.records[at] = item.record;
        Next::Run(match self.kind {
            OperationKind::Scan => Operation::scan(SCANNED as u32),
            kind => Operation::point(kind),
        })
    }

    #[inline]
    fn done(&mut self, at: usize, finished: Finished<'_>) {
        let right = match (self.kind, finished.result) {
            (OperationKind::Get, Ok(Outcome::Found)) => {
                check(self.records[at], &finished.scratch[finished.plan.output.clone()]).is_some()
            }
            (OperationKind::Scan, Ok(Outcome::Page { records, .. })) => records > 0,
            (OperationKind::Update, Ok(Outcome::Updated)) | (OperationKind::Insert, Ok(Outcome::Inserted)) => true,
            _ => false,
        };
        self.wrong += u64::from(!right);
    }
}
