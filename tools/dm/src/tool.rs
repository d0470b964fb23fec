//! What commands that work by hand share: a pool named on the command line, one lane, text for keys and values.

use crate::failure::Failure;
use crate::members::{members, with_read_access};
use crate::notation::{Format, parse, parse_item, show, show_item};
use crate::pool::{FabricName, Memory, RdmaArguments};
use dm_core::index::Index;
use dm_core::index::forward::{self, Forwarder};
use dm_core::lane::Lane;
use dm_core::membership::lease::LeaseConfig;
use dm_core::operation::{Cause, Census, OpError, Operation, Outcome, Part};
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::{LaneId, NodeId};
use dm_host::assembly::Spending;
use dm_host::compute_node::{ComputeNode, Membership};
use dm_host::fabric::any::AnyFabric;
use dm_host::keeper::terms_here;
use dm_host::kinds::{AnyIndex, IndexParameters};
use dm_host::pool::{Pool, PoolError};
use dm_host::solo::{block_on, block_on_index};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A pool, by the control sockets or addresses of its memory nodes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PoolArguments {
    /// All memory nodes of the pool: control sockets, or addresses with --fabric verbs
    #[arg(long, value_delimiter = ',', required = true, value_name = "SOCKET,...")]
    pub pool: Vec<PathBuf>,

    /// How memory nodes are reached
    #[arg(long, value_enum, default_value = "shm")]
    pub fabric: FabricName,

    #[command(flatten)]
    pub rdma: RdmaArguments,

    #[command(flatten)]
    lease: LeaseArguments,
}

impl PoolArguments {
    /// Connects.
    pub(crate) fn connect(&self) -> Result<Memory, Failure> {
        // Errors of the command line are reported first.
        self.lease.terms()?;
        Memory::connect(self.fabric, &self.pool, &self.rdma)
    }

    /// Connects, and to one memory node that is to be added.
    pub(crate) fn connect_to_add(&self, new: &Path) -> Result<Memory, Failure> {
        self.lease.terms()?;
        let names = [&self.pool[..], &[new.to_owned()]].concat();
        Memory::connect_to_add(self.fabric, &names, &self.rdma)
    }

    /// Joins as a compute node with one lane.
    pub(crate) fn join(&self, memory: &Memory) -> Result<ComputeNode, Failure> {
        self.join_with(memory, 1)
    }

    /// Joins as a compute node with so many lanes.
    pub(crate) fn join_with(&self, memory: &Memory, lanes: u16) -> Result<ComputeNode, Failure> {
        memory
            .pool
            .join(lanes, Membership { terms: self.lease.terms()?, ..Membership::default() })
            .map_err(Failure::run)
    }

    /// The lease of compute nodes.
    pub(crate) fn terms(&self) -> Result<LeaseConfig, Failure> {
        self.lease.terms()
    }
}

/// How long a compute node may be without a heartbeat before others take it for dead.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct LeaseArguments {
    /// How long a compute node may be without a heartbeat before others take it for dead, in ms: the same for all of a
    /// pool
    /// [default: 10000 in a virtual machine, else 2000]
    #[arg(long, value_name = "MS")]
    lease_ms: Option<u64>,
}

/// A shorter lease mistakes every pause of a thread for a death, in ms.
const LEASE_MS_MIN: u64 = 100;

impl LeaseArguments {
    /// In the engine's words.
    pub fn terms(self) -> Result<LeaseConfig, Failure> {
        if self.lease_ms.is_some() { self.terms_or(0) } else { Ok(terms_here()) }
    }

    /// The same, with another default.
    pub fn terms_or(self, default_ms: u64) -> Result<LeaseConfig, Failure> {
        let ms = self.lease_ms.unwrap_or(default_ms);
        if ms < LEASE_MS_MIN {
            return Err(Failure::Usage(format!("--lease-ms {ms}: at least {LEASE_MS_MIN}")));
        }
        let ns = ms.checked_mul(1_000_000).ok_or_else(|| Failure::Usage(format!("--lease-ms {ms}: too large")))?;
        LeaseConfig::of(ns).map_err(|error| Failure::Usage(format!("--lease-ms {ms}: {error}")))
    }
}

/// A time in seconds, as people write it.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let parsed = text.parse().ok().filter(|seconds| (0.01..=1e6).contains(seconds));
    parsed.map(Duration::from_secs_f64).ok_or_else(|| "seconds, from 0.01 to 1000000".to_owned())
}

/// A time in milliseconds, as people write it.
pub(crate) fn milliseconds(text: &str) -> Result<Duration, String> {
    let parsed = text.parse().ok().filter(|milliseconds| (0.001..=1e6).contains(milliseconds));
    let parsed = parsed.map(|milliseconds: f64| Duration::from_nanos((milliseconds * 1e6).round() as u64));
    parsed.ok_or_else(|| "milliseconds, from 0.001 to 1000000".to_owned())
}

/// Lines of the log of a command that opens an index whose keys have owners: a small one, for a short life.
const LOG_LINES: usize = 32 << 10;

/// Records of a page.
pub(crate) const PAGE_RECORDS: usize = 1000;

/// Why a walk through an index did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WalkError {
    /// The index is damaged, or was changed meanwhile: what and where.
    #[error("{0}")]
    Damaged(String),
    /// It says nothing of the index.
    #[error("{0}")]
    Failed(String),
}

impl WalkError {
    pub(crate) fn of(error: OpError) -> Self {
        let is_damage = match error.cause {
            // Another status is of a pointer to where no memory is.
            Cause::Verb(error) => !error.effect_unknown(),
            Cause::Corrupt { .. } | Cause::Checksum { .. } | Cause::Retries { .. } => true,
            _ => false,
        };
        // Not the whole error: that nothing was changed goes without saying.
        let what = error.cause.to_string();
        if is_damage { Self::Damaged(what) } else { Self::Failed(what) }
    }
}

/// Records that follow one another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'k> {
    /// The first key, which need not be in the index.
    pub low: &'k [u8],
    /// Without the first key.
    pub after: bool,
    /// They end before this key.
    pub high: Option<&'k [u8]>,
    /// So many at most.
    pub most: u64,
}

/// What was visited of a [`Span`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visited {
    /// How many.
    pub records: u64,
    /// There may be more before its end.
    pub more: bool,
}

/// An index on one of its lanes.
pub(crate) struct Tool<'a, 'i, 's, 'm> {
    /// The index.
    pub index: AnyIndex<'a, 'i, 's>,
    /// The lane.
    pub lane: &'a mut Lane<'m>,
    /// Its fabric.
    pub fabric: &'a mut AnyFabric,
    /// Sizes.
    pub parameters: IndexParameters,
    pool: &'a Pool,
    name: &'a str,
    /// Where messages lie in the scratch, where keys have owners.
    forwarder: Option<Forwarder>,
    forwards: bool,
}

impl Tool<'_, '_, '_, '_> {
    /// The index's name.
    pub(crate) fn name(&self) -> &str {
        self.name
    }

    /// Runs an operation whose arguments are in the scratch.
    pub(crate) fn execute(&mut self, operation: Operation) -> Result<Outcome, OpError> {
        // What settling fails at would say less than the operation's result.
        match self.forwarder.as_ref().filter(|_| self.forwards) {
            None => block_on_index(self.fabric, self.lane, &self.index, self.index.execute(self.lane, operation)).0,
            Some(forwarder) => {
                let operation = forward::execute(&self.index, self.lane, operation, forwarder);
                block_on_index(self.fabric, self.lane, &self.index, operation).0
            }
        }
    }

    /// From now on operations on keys of another compute node are executed by that one, if it is a program's session.
    pub(crate) fn forward(&mut self) {
        self.forwards = true;
        self.forward_steps();
    }

    /// The same for the steps of operations: see [`Index::forwards_steps`].
    fn forward_steps(&self) {
        self.lane.set_message_room(self.forwarder.as_ref().map(|forwarder| forwarder.room));
    }

    /// Gives up parts of the keys that others have asked for: for a command that keeps an index open.
    pub(crate) fn keep_parts(&mut self) -> Result<(), OpError> {
        block_on_index(self.fabric, self.lane, &self.index, self.index.keep_parts(self.lane)).0
    }

    /// See [`Index::move_part`].
    pub(crate) fn move_part(&mut self, part: u32, to: RowId, wait: Duration) -> Result<(), OpError> {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        block_on_index(self.fabric, self.lane, &self.index, self.index.move_part(self.lane, part, to, wait_ns)).0
    }

    /// The number of the part that has `key`, and the row of its owner, 0 for nobody, as the index said when this lane opened it.
    pub(crate) fn part_of(&mut self, key: &[u8]) -> Result<(u32, RowId), OpError> {
        self.parts()?;
        let part = self.index.part_of(key);
        Ok((part, self.owner_of_part(part)))
    }

    /// See [`Index::take_part`].
    pub(crate) fn take_part(&mut self, part: u32) -> Result<(), OpError> {
        block_on_index(self.fabric, self.lane, &self.index, self.index.take_part(self.lane, part)).0
    }

    /// See [`Index::cut_part`].
    pub(crate) fn cut_part(&mut self, key: &[u8], wait: Duration) -> Result<(), OpError> {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        block_on_index(self.fabric, self.lane, &self.index, self.index.cut_part(self.lane, key, wait_ns)).0
    }

    /// How many parts the keys are cut into: see [`Index::parts`].
    pub(crate) fn parts(&mut self) -> Result<u32, OpError> {
        block_on_index(self.fabric, self.lane, &self.index, self.index.parts(self.lane)).0
    }

    /// The row of a part's owner, 0 for nobody, as this lane saw it last.
    pub(crate) fn owner_of_part(&self, part: u32) -> RowId {
        self.index.part(part).map_or(RowId(0), |(word, _)| word.row())
    }

    /// See [`Index::vacate_part`].
    pub(crate) fn vacate_part(&mut self, part: u32, from: NodeId, wait: Duration) -> Result<u64, OpError> {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        block_on_index(self.fabric, self.lane, &self.index, self.index.vacate_part(self.lane, part, from, wait_ns)).0
    }

    /// Walks the index, which checks it, and returns what is in it. An index without a root must not have lost one.
    pub(crate) fn walk(&mut self) -> Result<Census, WalkError> {
        // Entries are counted by scans, which the owners of their keys execute.
        self.forward_steps();
        let census = block_on(self.fabric, self.lane, self.index.validate(self.lane)).map_err(WalkError::of)?;
        if census.levels == 0 {
            let failed = |error: PoolError| WalkError::Failed(error.to_string());
            let (entry, parameters) = self.pool.find_index(self.name).map_err(failed)?;
            if let Some(lost) = self.pool.lost_root(&entry, &parameters).map_err(failed)? {
                return Err(WalkError::Damaged(lost.to_string()));
            }
        }
        Ok(census)
    }

    /// [`Tool::walk`] for commands that do not tell damage from other failures.
    pub(crate) fn census(&mut self) -> Result<Census, Failure> {
        self.walk().map_err(Failure::run)
    }

    /// Takes all keys of an index whose keys have owners. Fails if a compute node that lives has some: it would refuse
    /// their keys to this one, and has changes that are not in the pool.
    pub(crate) fn take_all_keys(&mut self) -> Result<(), Failure> {
        match block_on_index(self.fabric, self.lane, &self.index, self.index.take_all_parts(self.lane)).0 {
            Ok(_) => Ok(()),
            Err(OpError { cause: Cause::NotOwner { row, .. }, .. }) => Err(Failure::Run(format!(
                "index \"{}\": {} owns some of its keys, and no other compute node can read or write those: close the program \
                 there first (dm inspect says who owns how much)",
                self.name,
                owner(self.pool, row)
            ))),
            Err(error) => Err(Failure::run(error)),
        }
    }

    /// Puts a key and, for writes, a value into the scratch. `Err` names what has a length that is not allowed.
    pub(crate) fn arguments(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        self.argument(Part::Key, key)?;
        value.map_or(Ok(()), |value| self.argument(Part::Value, value))
    }

    /// Puts one argument into the scratch. `Err` names what has a length that is not allowed.
    pub(crate) fn argument(&self, part: Part, bytes: &[u8]) -> Result<(), String> {
        let plan = self.index.plan();
        if self.lane.port().with(|scratch| plan.put(scratch, part, bytes)) {
            return Ok(());
        }
        let is_key = matches!(part, Part::Key | Part::KeyHigh);
        let (what, most) = if is_key { ("key", plan.key_bytes) } else { ("value", plan.value_bytes) };
        let up_to = if plan.has_lengths() { "up to " } else { "" };
        Err(format!("{what} of {} bytes: this index has {what}s of {up_to}{most}", bytes.len()))
    }

    /// The least key there is.
    pub(crate) fn least_key(&self) -> Vec<u8> {
        if self.index.plan().has_lengths() { Vec::new() } else { vec![0; self.index.plan().key_bytes] }
    }

    /// A key or a value, as people write it: see [`crate::notation`].
    pub(crate) fn parse(&self, text: &str, part: Part) -> Result<Vec<u8>, String> {
        let plan = self.index.plan();
        let what = if matches!(part, Part::Key | Part::KeyHigh) { "key" } else { "value" };
        if plan.has_lengths() { parse_item(text, what) } else { parse(text, plan.range(part).len(), what) }
    }

    /// The reverse of [`Tool::parse`].
    pub(crate) fn show(&self, bytes: &[u8]) -> String {
        self.show_as(bytes, Format::Auto)
    }

    /// The same in a format, if the bytes are something in it.
    pub(crate) fn show_as(&self, bytes: &[u8], format: Format) -> String {
        if self.index.plan().has_lengths() { show_item(bytes, format) } else { show(bytes, format) }
    }

    /// Moves the cursor behind the last of the first `records` records of the page.
    pub(crate) fn go_on(&self, records: usize) {
        let plan = self.index.plan();
        self.lane.port().with(|scratch| {
            if let Some((key, _)) = plan.records(scratch, records).last() {
                let key = key.to_vec();
                // It was a key.
                let _ = plan.put(scratch, Part::Key, &key);
            }
        });
    }

    /// The longest key there is, in bytes.
    pub(crate) fn most_key_bytes(&self) -> usize {
        self.index.plan().key_bytes
    }

    /// Whether keys have lengths of their own.
    pub(crate) fn has_lengths(&self) -> bool {
        self.index.plan().has_lengths()
    }

    /// The first key from `low` on, or behind it, and below `high`.
    pub(crate) fn first(&mut self, low: &[u8], after: bool, high: Option<&[u8]>) -> Result<Option<Vec<u8>>, Failure> {
        let mut first = None;
        self.span(&Span { low, after, high, most: 1 }, |key, _| {
            first = Some(key.to_vec());
            Ok(())
        })?;
        Ok(first)
    }

    /// Calls `visit` with every record from the first on: see [`Tool::span`]. Returns how many there were.
    pub(crate) fn each(&mut self, visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>) -> Result<u64, Failure> {
        let least = self.least_key();
        let span = Span { low: &least, after: false, high: None, most: u64::MAX };
        Ok(self.span(&span, visit)?.records)
    }

    /// Calls `visit` with every record, in pages of one scan each: each record as of some instant of the walk. Keys that do
    /// not ascend are damage, and end it: from them the next page would go back, or skip records.
    pub(crate) fn span(
        &mut self,
        span: &Span<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
    ) -> Result<Visited, Failure> {
        // Its own copy of the reference: the plan is borrowed from the index, not from the tool.
        let index = self.index;
        let plan = index.plan();
        self.arguments(span.low, None).map_err(Failure::Run)?;
        let mut operation = Operation { after: span.after, bounded: span.high.is_some(), ..Operation::scan(0) };
        let mut count = 0;
        let mut last = span.after.then(|| span.low.to_vec());
        loop {
            operation.limit = (span.most - count).min(PAGE_RECORDS as u64) as u32;
            if operation.limit == 0 {
                return Ok(Visited { records: count, more: true });
            }
            if let Some(high) = span.high {
                self.argument(Part::KeyHigh, high).map_err(Failure::Run)?;
            }
            let outcome = self.execute(operation).map_err(Failure::run)?;
            let Outcome::Page { records, more } = outcome else { return Ok(Visited { records: count, more: false }) };
            self.lane.port().with(|scratch| {
                plan.records(scratch, records as usize).try_for_each(|(key, value)| {
                    if let Some(last) = last.as_deref().filter(|last| key <= *last) {
                        let (key, last) = (self.show(key), self.show(last));
                        return Err(Failure::Run(format!("the index is damaged: key {key} comes behind key {last}")));
                    }
                    let held = last.get_or_insert_default();
                    held.clear();
                    held.extend_from_slice(key);
                    visit(key, value)
                })
            })?;
            self.go_on(records as usize);
            count += u64::from(records);
            operation.after = true;
            if !more {
                return Ok(Visited { records: count, more: false });
            }
        }
    }
}

/// A compute node that owns keys, in messages.
fn owner(pool: &Pool, row: RowId) -> String {
    let members = with_read_access(pool, |fabric, lane| Ok(members(pool, fabric, lane)?)).unwrap_or_default();
    let member = members.into_iter().find(|member| member.row == row);
    let host = member.and_then(|member| member.host).map_or_else(String::new, |host| format!(" (host {host})"));
    format!("compute-node row {}{host}", row.0)
}

/// Opens index `name` on one lane of `node`, and gives up afterwards what only this compute node has of it.
pub(crate) fn with_tool<R>(
    node: &ComputeNode,
    name: &str,
    run: impl FnOnce(&mut Tool<'_, '_, '_, '_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    with_tools(node, name, 1, |tools| match tools {
        [tool] => run(tool),
        _ => Err(Failure::Run("no lane".to_owned())),
    })
}

/// The same on several lanes, for as many threads.
pub(crate) fn with_tools<R>(
    node: &ComputeNode,
    name: &str,
    lanes: u16,
    run: impl FnOnce(&mut [Tool<'_, '_, '_, '_>]) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let (entry, parameters) = node.pool().find_index(name).map_err(Failure::run)?;
    node.pool().check_root(&entry, &parameters).map_err(Failure::run)?;
    let fabrics = (0..lanes).map(|_| node.pool().fabric());
    let mut fabrics = fabrics.collect::<Result<Vec<_>, _>>().map_err(Failure::run)?;
    let spending =
        Spending { page_records: PAGE_RECORDS, lanes: lanes.into(), log_lines: LOG_LINES, ..Spending::default() };
    node.with_index(&entry, &parameters, &spending, |index| {
        let mut plan = index.plan().clone();
        let forwarder = index.has_parts().then(|| Forwarder::new(entry.number, &mut plan));
        let scratch_bytes = plan.total_bytes;
        let mut scratch = vec![0; scratch_bytes * usize::from(lanes)];
        let pieces = (0..).zip(scratch.chunks_mut(scratch_bytes));
        let mut own: Vec<_> = pieces.map(|(lane, scratch)| Lane::new(LaneId(lane), scratch)).collect();
        let pool = node.pool();
        let each = own.iter_mut().zip(&mut fabrics);
        let tool = |(lane, fabric)| Tool { index, lane, fabric, parameters, pool, name, forwarder, forwards: false };
        let mut tools: Vec<_> = each.map(tool).collect();
        let result = run(&mut tools);
        let Some(Tool { lane, fabric, .. }) = tools.first_mut() else { return result };
        if let Err(error) = leave(&index, fabric, lane) {
            // Something in the pool may still name this compute node: its row has to be swept.
            node.mark_unsettled();
            // What went wrong before says more.
            return result.and(Err(Failure::Run(format!("index \"{name}\" was not given up: {error}"))));
        }
        result
    })
    .map_err(Failure::run)?
}

/// Ties the lane's lifetime to the fabric's.
fn leave(index: &AnyIndex<'_, '_, '_>, fabric: &mut AnyFabric, lane: &Lane<'_>) -> Result<(), OpError> {
    let (left, settled) = block_on_index(fabric, lane, index, index.leave(lane));
    settled.and(left)
}
