//! Sherman as a subject: tiny nodes, few lock words, every technique on or off.

mod recovered;
mod walk;

pub use recovered::ShermanRecovered;
pub(super) use walk::{for_each_leaf, holdings};

use super::accounting::{Holdings, Node};
use super::draw::{Draw, Profile, WIDE_KEYS_MIN};
use super::subject::{HeldLock, Inside, Opened, Picture, Subject, With};
use crate::config::Config;
use crate::memory::Memories;
use crate::rng::Rng;
use dm_core::btree::Options;
use dm_core::btree::inner::Inner;
use dm_core::compute::nodes::NodeClass;
use dm_core::lane::Mark;
use dm_core::remote::NodeGeometry;
use dm_core::remote::address::Address;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::rows::Member;
use dm_core::remote::superblock::{PoolPlan, Superblock};
use dm_core::sherman::Sherman;
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::{Assumptions, Guarantees, NodeId};
use dm_host::assembly::{Place, Spending, with_sherman};
use zerocopy::IntoBytes;

/// Makes Sherman trees.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShermanSubject;

/// More retired nodes than a history makes.
const SHELF_HOLDS_ALL: usize = 512;

/// What a seed decides about one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Sizes.
    pub parameters: Parameters,
    /// What compute nodes spend, and techniques. `lanes` is each compute node's own.
    pub spending: Spending,
    /// Lock words per memory node.
    pub lock_count: u32,
    /// Size of chunks.
    pub chunk_bytes: u64,
    /// Lanes of each compute node.
    pub lanes: Vec<u16>,
}

impl Case {
    fn superblocks(&self, config: &Config) -> Vec<Superblock> {
        let nodes = config.host_bytes.len() as u16;
        let plan = |node: u16| PoolPlan {
            pool_id: *b"a pool to verify",
            pool_incarnation: 1,
            node: NodeId(node),
            nodes,
            region_bytes: config.host_bytes[usize::from(node)] as u64,
            chunk_bytes: self.chunk_bytes,
            lock_count: self.lock_count,
            device_bytes: u64::from(config.device_bytes),
            redo_row_bytes: 0,
        };
        (0..nodes).map(|node| plan(node).format().expect("settings give memory nodes room for metadata")).collect()
    }

    pub(super) fn geometry(&self, config: &Config) -> Vec<NodeGeometry> {
        let decode = |block: &Superblock| Superblock::decode(block.as_bytes()).expect("just formatted").geometry;
        self.superblocks(config).iter().map(decode).collect()
    }
}

impl Subject for ShermanSubject {
    type Case = Case;

    fn name(&self) -> &'static str {
        "sherman"
    }

    fn marks(&self) -> Vec<(&'static str, &'static [Mark])> {
        vec![
            ("btree", dm_core::btree::MARKS),
            ("batches", dm_core::compute::batches::MARKS),
            ("chunks", dm_core::remote::chunks::MARKS),
            ("sherman", dm_core::sherman::MARKS),
        ]
    }

    /// A descent starts over only if twice in a row a leaf is merged away and its place reused between the READ of its
    /// parent and its own: once in tens of thousands of histories.
    fn rare_marks(&self) -> &'static [Mark] {
        &[Mark::Restart]
    }

    fn draw(&self, draw: &Draw, rng: &mut Rng) -> Case {
        let mut parameters = Parameters {
            key_bytes: [8, 8, 8, 16][rng.below(4) as usize],
            // One line, most of a line, several lines.
            value_bytes: [8, 8, 16, 48, 120][rng.below(5) as usize],
            leaf_span: 2 + rng.below(5) as usize,
            inner_span: [2, 2, 3, 4, 8][rng.below(5) as usize],
        };
        match draw.profile {
            Profile::Mixed => {}
            // Several lines, so that an entry can be of two WRITEs.
            Profile::Wraparound => {
                parameters.value_bytes = [64, 120, 200][rng.below(3) as usize];
                parameters.leaf_span = 2;
            }
            Profile::SlowReaders if draw.keys > WIDE_KEYS_MIN => {
                // Several lines, and entries that lie in one.
                (parameters.key_bytes, parameters.value_bytes) = (8, 8);
                parameters.leaf_span = 8 + rng.below(5) as usize;
            }
            Profile::SlowReaders => {
                parameters.value_bytes = [64, 120, 200][rng.below(3) as usize];
                parameters.leaf_span = 2 + rng.below(2) as usize;
            }
            Profile::Churn => parameters.leaf_span = 2 + rng.below(2) as usize,
            Profile::Reuse => parameters.leaf_span = 2,
            Profile::Growth => (parameters.leaf_span, parameters.inner_span) = (2, 2),
        }
        let hierarchical = rng.percent(70);
        // Without local queues several lanes of a compute node send requests for one word, and a narrow word cannot
        // tell whose CAS won: a lane in doubt cannot be settled.
        let can_narrow = draw.dial.masked_atomics && (hierarchical || !draw.plan.doubts());
        let options = Options {
            combine: rng.percent(70),
            hierarchical,
            entry_writes: rng.percent(70),
            narrow_locks: can_narrow && rng.percent(40),
            chain_lock_read: rng.percent(40),
            rdwc: rng.percent(30),
            ..Options::default()
        };
        // Without copies every descent begins at the root and meets what is half done.
        let cold = draw.profile == Profile::Growth && rng.percent(75);
        let spending = Spending {
            lanes: 0,
            cache_bytes: if cold { 0 } else { [0, 1 << 10, 16 << 10][rng.below(3) as usize] },
            scratch_bytes_max: 1 << 30,
            page_records: 1 + rng.below(12) as usize,
            leaves_at_once: 1 + rng.below(4) as usize,
            hand_overs_max: rng.below(5) as u8,
            leaf_locks: 1,
            returned_nodes: [0, 1, 32, SHELF_HOLDS_ALL][rng.below(4) as usize],
            options,
            ..Spending::default()
        };
        let mut spending = spending;
        let mut lock_count = [1, 3, 16, 61][rng.below(4) as usize];
        if draw.profile == Profile::Reuse {
            // Copies, shelves, and seldom one lock word for two nodes.
            (spending.cache_bytes, spending.returned_nodes, lock_count) = (16 << 10, SHELF_HOLDS_ALL, 61);
        }
        Case { parameters, spending, lock_count, chunk_bytes: 4096, lanes: draw.lanes.clone() }
    }

    fn assumptions(&self, draw: &Draw, case: &Case) -> Assumptions {
        // As the index declares them; asking it would take opening it on a fabric that grants everything.
        let mut needed = Assumptions::empty();
        let config = draw.config(&super::Settings::default(), Assumptions::all());
        let geometry = case.geometry(&config);
        let place = place(&geometry, &config, everything(), 0);
        let spending = Spending { lanes: 1, ..case.spending.clone() };
        let asked = with_sherman(&place, &case.parameters, &spending, |index| {
            needed = dm_core::index::Index::assumptions(index);
        });
        debug_assert!(asked.is_ok(), "{:?}", asked.err());
        needed
    }

    fn format(&self, case: &Case, config: &Config, memories: &mut Memories) {
        for (number, block) in (0..).zip(case.superblocks(config)) {
            let bytes = block.as_bytes();
            if let Some(node) = memories.get_mut(NodeId(number)) {
                node.host.range_mut(0..bytes.len()).copy_from_slice(bytes);
            }
        }
    }

    fn open(
        &self,
        draw: &Draw,
        case: &Case,
        config: &Config,
        guarantees: Guarantees,
        then: &mut dyn FnMut(&[&dyn Opened]),
    ) -> Result<(), String> {
        let geometry = case.geometry(config);
        let mut places = Vec::new();
        for (number, &lanes) in (0..).zip(&draw.lanes) {
            places.push((
                place(&geometry, config, guarantees, number),
                Spending { lanes: lanes.into(), ..case.spending.clone() },
            ));
        }
        open_rest(&places, case, &[], then)
    }

    fn remote_locks_held(&self, case: &Case, config: &Config, memories: &Memories) -> Vec<HeldLock> {
        let mut held = Vec::new();
        for (number, geometry) in (0..).zip(case.geometry(config)) {
            let Some(node) = memories.get(NodeId(number)) else { continue };
            let memory = node.space(geometry.lock_space);
            for index in 0..geometry.lock_count {
                let word = memory.word(geometry.lock_offset(index));
                // A wide word names its holder in the low 16 bits, a narrow one is nothing else.
                let parts = if case.spending.options.narrow_locks { 4 } else { 1 };
                let rows = (0..parts).map(|part| (word >> (16 * part)) as u16);
                let named = rows.filter(|row| word != 0 && (*row != 0 || parts == 1));
                held.extend(named.map(|row| HeldLock { node: NodeId(number), compute_node: row.wrapping_sub(1) }));
            }
        }
        held
    }

    fn picture(&self, case: &Case, config: &Config, memories: &Memories) -> Picture {
        walk::picture(case, config, memories)
    }

    fn holdings(&self, case: &Case, config: &Config, memories: &Memories) -> Option<Result<Holdings, String>> {
        Some(walk::holdings(case, config, memories))
    }

    fn never_leaks(&self, case: &Case) -> bool {
        case.spending.returned_nodes == SHELF_HOLDS_ALL
    }
}

impl Inside for Sherman<'_> {
    fn locks_held(&self) -> usize {
        self.tree().locks.held()
    }

    fn for_each_ready(&self, visit: &mut dyn FnMut(Node)) {
        let nodes = &self.tree().nodes;
        nodes.for_each_ready(&mut |class: NodeClass, fresh| {
            let (node, offset) = (fresh.address.node(), fresh.address.offset());
            visit(Node { node, offset, bytes: nodes.node_bytes(class) as u64 });
        });
    }

    fn recall(&self, picture: &Picture) {
        let tree = self.tree();
        let (root, level) = picture.root.unwrap_or((Address::NULL, 0));
        tree.root.set(root, level);
        if picture.nodes.is_empty() {
            tree.cache.clear();
        }
        for (address, image) in &picture.nodes {
            if let Some(inner) = Inner::new(&tree.inner, image) {
                tree.cache.insert(*address, &inner);
            }
        }
    }
}

const fn everything() -> Guarantees {
    Guarantees { by_construction: Assumptions::all(), asserted: Assumptions::empty(), profile: "" }
}

fn place<'a>(geometry: &'a [NodeGeometry], config: &Config, guarantees: Guarantees, number: u16) -> Place<'a> {
    Place {
        geometry,
        number: IndexNumber::new(0).expect("a catalog has entries"),
        member: Member { row: RowId(number + 1), incarnation: 1, nonce: 1 },
        capabilities: config.capabilities(),
        guarantees,
        recovery: None,
    }
}

/// Opens one place after the other, each within the call that opened the one before: their storage is on the stack.
fn open_rest(
    places: &[(Place<'_>, Spending)],
    case: &Case,
    opened: &[&dyn Opened],
    then: &mut dyn FnMut(&[&dyn Opened]),
) -> Result<(), String> {
    let Some(((place, spending), rest)) = places.split_first() else {
        then(opened);
        return Ok(());
    };
    let inside = with_sherman(place, &case.parameters, spending, |index| {
        let index = With(index);
        let mut more = opened.to_vec();
        more.push(&index);
        open_rest(rest, case, &more, then)
    });
    inside.map_err(|error| error.to_string())?
}
