//! Mixtures: images that one READ may return, each line of which is from another instant.
//!
//! In random schedules a READ is seldom open in the very moment in which a few WRITEs change the same few entries. Here
//! that moment is arranged. One compute node inserts and deletes in a leaf that stays nearly full, alone. The leaf is
//! kept after every operation. A mixture takes each line from one of the last few of these instants, drawn line by
//! line: LINE_ATOMIC guarantees a READ no more. Then every key that existed *at all of these instants* is looked up in
//! the mixture:
//!
//! - It may be found, with a value that it had at one of the instants.
//! - It must not be absent.
//! - The reader may fail: it noticed the mixture and took the lock, and then READ the same mixture again.
//!
//! The reader is the index's own get. A seed ends when the leaf has split: only WRITEs of one leaf are mixed.

use super::coding::{self, Coding};
use super::memory_walk::TreeNodes;
use super::walk::{self, PoolLayout};
use crate::config::Config;
use crate::direct::DirectFabric;
use crate::memory::Memories;
use crate::rng::Rng;
use crate::run::block_on;
use dm_core::btree::Options;
use dm_core::btree::node::Header;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::layout::LINE_BYTES;
use dm_core::marks::Mark;
use dm_core::operation::{Operation, OperationKind, Outcome};
use dm_core::remote::address::Address;
use dm_core::remote::catalog::root_offset;
use dm_core::verbs::{LaneId, NodeId};
use dm_host::assembly::Spending;
use dm_host::kinds::{AnyIndex, IndexParameters, with_index};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// The index and the keys of a mixture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixedCase {
    /// Sizes of the index.
    pub parameters: IndexParameters,
    /// Keys: hardly more than a leaf holds.
    pub keys: u64,
}

/// Operations of a seed's writer, if the leaf does not split before.
const OPERATIONS: u32 = 300;

/// Instants from which lines are taken, at most: so few that no version counter wraps around.
const INSTANTS_MAX: usize = 6;

/// Mixtures after every operation.
const MIXTURES: u32 = 4;

const REGION_BYTES: usize = 128 << 10;
const CHUNK_BYTES: u64 = 16 << 10;
const CODING: Coding = Coding::shifted(8);

/// Results of many mixtures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mixed {
    /// Look-ups of keys in mixtures.
    pub asked: u64,
    /// Of these, how many found the key.
    pub found: u64,
    /// Inserts that hopped.
    pub hops: u64,
    /// Neighborhoods that continue at the first entry.
    pub wraps: u64,
    /// The first failure.
    pub finding: Option<String>,
}

impl fmt::Display for Mixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, found, hops, wraps, finding } = self;
        write!(f, "{asked} keys asked for in mixtures of lines, {found} found; {hops} hops, {wraps} wraps")?;
        finding.as_ref().map_or(Ok(()), |finding| write!(f, "\n{finding}"))
    }
}

/// A leaf at one instant, and the records in it.
struct Instant {
    bytes: Vec<u8>,
    records: BTreeMap<u64, u64>,
}

/// Mixes lines of the leaf of `case` after each operation of `seed`, until a check fails.
pub fn mix(case: &MixedCase, seed: u64) -> Mixed {
    let config = Config::with_nodes(1, REGION_BYTES);
    let pool = PoolLayout::of(&case.parameters, 16, CHUNK_BYTES);
    let mut memories = Memories::new(&config.host_bytes, 0);
    pool.format(&config, &mut memories);
    let geometry = pool.geometry(&config);
    let place = walk::place(&geometry, &config, walk::everything(), 0);
    // Without batches, every get READs for itself.
    let options = Options { rdwc: false, ..Options::default() };
    let spending = Spending {
        lanes: 1,
        cache_bytes: 4096,
        page_records: 4,
        leaf_locks: 4,
        returned_nodes: 32,
        options,
        ..Spending::default()
    };
    let mut mixed = Mixed::default();
    let opened = with_index(&place, &case.parameters, &spending, |index| {
        let mut scratch = vec![0; index.plan().total_bytes];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let fabric = DirectFabric::over(&config, &mut memories);
        let root_word = root_offset(&geometry[0], place.number) as usize;
        let Some(TreeNodes { leaf_bytes, .. }) = pool.tree() else {
            mixed.finding = Some("lines are mixed in leaves of B+-trees only".to_owned());
            return;
        };
        let mut stage = Stage { index, lane: &lane, fabric, root_word, leaf_bytes, case, mixed: &mut mixed };
        stage.play(&mut Rng::new(seed ^ 0x5eed_0009));
        mixed.hops = lane.marked(Mark::HOP).into();
        mixed.wraps = lane.marked(Mark::WRAP).into();
    });
    if let Err(error) = opened {
        mixed.finding = Some(error.to_string());
    }
    mixed
}

struct Stage<'a, 'i, 's, 'm> {
    index: AnyIndex<'a, 'i, 's>,
    lane: &'a Lane<'m>,
    fabric: DirectFabric<&'a mut Memories>,
    root_word: usize,
    leaf_bytes: usize,
    case: &'a MixedCase,
    mixed: &'a mut Mixed,
}

impl Stage<'_, '_, '_, '_> {
    fn play(&mut self, rng: &mut Rng) {
        let mut records = BTreeMap::new();
        let mut instants: VecDeque<Instant> = VecDeque::new();
        let mut leaf = None;
        for number in 1..=u64::from(OPERATIONS) {
            let key = rng.bits() % self.case.keys;
            // The leaf stays nearly full: most missing keys are inserted again.
            let kind = match rng.below(10) {
                0..6 => OperationKind::Insert,
                6 => OperationKind::Upsert,
                _ => OperationKind::Delete,
            };
            match self.run(kind, key, number) {
                Ok(Outcome::Inserted | Outcome::Replaced) => drop(records.insert(key, number)),
                Ok(Outcome::Deleted) => drop(records.remove(&key)),
                Ok(_) => {}
                Err(what) => return self.mixed.finding = Some(what),
            }
            let now = self.root_leaf();
            if now.is_none() && leaf.is_some() {
                // The leaf has split.
                return;
            }
            leaf = now;
            let Some(at) = leaf else { continue };
            let end = at + self.leaf_bytes;
            let bytes = self.host()[at..end].to_vec();
            instants.push_back(Instant { bytes, records: records.clone() });
            if instants.len() > INSTANTS_MAX {
                instants.pop_front();
            }
            let kept = self.fabric.memories().keep();
            for _ in 0..MIXTURES {
                self.ask_all(rng, &instants, at, &kept);
                if self.mixed.finding.is_some() {
                    return;
                }
            }
        }
    }

    /// Looks up every key that existed at all of some recent instants, in a mixture of these.
    fn ask_all(&mut self, rng: &mut Rng, instants: &VecDeque<Instant>, at: usize, kept: &Memories) {
        let count = 2 + rng.below(INSTANTS_MAX as u32 - 1) as usize;
        let window: Vec<&Instant> = instants.iter().rev().take(count).collect();
        if window.len() < 2 {
            return;
        }
        let mut lines = window[0].bytes.clone();
        for line in lines.chunks_mut(LINE_BYTES).enumerate().map(|(number, line)| (number * LINE_BYTES, line)) {
            let from = window[rng.below(window.len() as u32) as usize];
            line.1.copy_from_slice(&from.bytes[line.0..line.0 + line.1.len()]);
        }
        let everywhere = |key: &&u64| window.iter().all(|instant| instant.records.contains_key(key));
        let keys: Vec<u64> = window[0].records.keys().filter(everywhere).copied().collect();
        for key in keys {
            let node = self.fabric.memories().get_mut(NodeId(0)).expect("there is one");
            node.host.range_mut(at..at + lines.len()).copy_from_slice(&lines);
            let outcome = self.run(OperationKind::Get, key, 0);
            self.fabric.memories().restore(kept);
            self.mixed.asked += 1;
            let had = window.iter().map(|instant| instant.records[&key]).collect::<Vec<_>>();
            match outcome {
                Ok(Outcome::Found) => {
                    let value = coding::read_value(&self.output());
                    self.mixed.found += 1;
                    if !had.contains(&value) {
                        let what = format!("key {key} was found with {value}; it had {had:?}, from the last on");
                        self.mixed.finding = Some(what);
                        return;
                    }
                }
                Ok(outcome) => {
                    let what = format!(
                        "key {key}, there at each of {} instants, is {outcome:?} where lines of all of them are mixed",
                        window.len()
                    );
                    self.mixed.finding = Some(what);
                    return;
                }
                // The reader noticed the mixture.
                Err(_) => {}
            }
        }
    }

    fn run(&mut self, kind: OperationKind, key: u64, value: u64) -> Result<Outcome, String> {
        let (index, lane) = (self.index, self.lane);
        let plan = index.plan();
        lane.port().with(|scratch| {
            CODING.write_key(key, &mut scratch[plan.key.clone()]);
            coding::write_value(value, &mut scratch[plan.value.clone()]);
        });
        let run = block_on(lane, &mut self.fabric, index.execute(lane, Operation::point(kind)));
        let outcome = run.map_err(|error| error.to_string())?.result;
        if lane.in_doubt() {
            let settled = block_on(lane, &mut self.fabric, index.settle(lane)).map_err(|error| error.to_string())?;
            settled.result.map_err(|error| format!("settling: {error}"))?;
        }
        outcome.map_err(|error| error.to_string())
    }

    fn output(&self) -> Vec<u8> {
        let range = self.index.plan().output.clone();
        self.lane.port().with(|scratch| scratch[range].to_vec())
    }

    fn host(&mut self) -> &[u8] {
        self.fabric.memories().get(NodeId(0)).expect("there is one").host.bytes()
    }

    /// The offset of the root, if the root is a leaf.
    fn root_leaf(&mut self) -> Option<usize> {
        let word = self.root_word;
        let host = self.host();
        let root = Address::from_bits(u64::from_le_bytes(*host.get(word..)?.first_chunk()?));
        let at = root.offset() as usize;
        let header = Header::read(host.get(at..at + LINE_BYTES)?);
        (!root.is_null() && header.level == 0 && header.sibling.is_null()).then_some(at)
    }
}
