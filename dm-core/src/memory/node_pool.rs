//! Free lists: nodes that this compute node was granted and has not linked into an index.
//!
//! Memory comes in *chunks*, granted by a CAS on the chunk table of a memory node ([`crate::memory::chunks`]), and is
//! carved here into nodes of one allocation class. A node that an index retired returns here, too, with its next
//! generation and with the version that its last image had. So the next image continues the count, and a READ across
//! both is torn and not accepted.
//!
//! A lane takes nodes into its stock *before* it locks anything: a split never waits for memory under a lock.

use crate::memory::free_list::FreePlace;
use crate::memory::orphans::OrphanCollection;
use crate::memory::slab::{BumpArena, Slab};
use crate::memory::{Epochs, LimboList, Waiting, nodes_from};
use crate::mutants::{Mutant, planted};
use crate::remote::address::{Address, GENERATION_MASK};
use crate::remote::place::{NodeClass, Place, UnlinkedNode};
use crate::verbs::NodeId;
use spin::Mutex;

/// Nodes of a place that generations tell apart.
pub const GENERATIONS: u8 = GENERATION_MASK + 1;

/// What the next node of a place has to know of the earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStamp {
    generation: u8,
    version: u8,
}

impl NodeStamp {
    const fn of(fresh: UnlinkedNode) -> Self {
        Self { generation: fresh.address.generation(), version: fresh.version }
    }

    const fn node(self, node: NodeId, offset: u64) -> UnlinkedNode {
        UnlinkedNode { address: Address::new(node, offset, self.generation), version: self.version }
    }
}

/// A free node: storage for a [`NodeSlab`].
pub type FreeNode = FreePlace<NodeStamp>;

/// Nodes of one class on one memory node. Storage for a [`NodePool`].
pub type NodeSlab<'s> = Slab<'s, NodeStamp, 1>;

/// A node that waits: storage for a [`NodeLimbo`].
pub type WaitingNode = Waiting<(NodeClass, NodeStamp)>;

/// Places that wait because their generations begin again: those whose next generation is the first of *either* half of
/// all. All others are ready at once. See [`generations`](crate::manual::generations) for why that is needed and
/// enough, and why it is either half.
pub type NodeLimbo<'s> = LimboList<'s, (NodeClass, NodeStamp)>;

/// The only list of a [`NodeSlab`].
const NODES: usize = 0;

/// Free nodes of one index on one compute node, shared by its lanes.
pub struct NodePool<'s> {
    /// Those of class `c` on memory node `n`: `n * NodeClass::COUNT + c`.
    slabs: &'s [Mutex<NodeSlab<'s>>],
    node_bytes: [u32; NodeClass::COUNT],
    orphan_collection: OrphanCollection,
    /// The limbo list, and what its places wait for. `None`: nothing waits.
    limbo: Option<(&'s Mutex<NodeLimbo<'s>>, &'s Epochs)>,
    /// Generations before the first one comes again.
    generations: u8,
}

/// What happened to a place that was put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a place that does not fit is not used again for long"]
pub enum Put {
    /// It is on its free list.
    Ready,
    /// It is in the limbo list.
    Waits,
    /// There is no room: it waits until this compute node has departed.
    NoRoom,
}

impl<'s> NodePool<'s> {
    /// `slabs`: [`NodeClass::COUNT`] per memory node. `node_bytes`: stored size per class, a multiple of 64.
    pub const fn new(slabs: &'s [Mutex<NodeSlab<'s>>], node_bytes: [u32; NodeClass::COUNT]) -> Self {
        Self { slabs, node_bytes, orphan_collection: OrphanCollection::new(), limbo: None, generations: GENERATIONS }
    }

    /// The same, with a limbo list for places whose generations begin again ([`NodeLimbo`]). They do
    /// after `generations` nodes of a place: a power of two from 2 to [`GENERATIONS`], which is what all other code
    /// means by it. Fewer are for tests that want to see it happen. Any other number counts as [`GENERATIONS`].
    #[must_use]
    pub const fn with_limbo(mut self, limbo: &'s Mutex<NodeLimbo<'s>>, epochs: &'s Epochs, generations: u8) -> Self {
        self.limbo = Some((limbo, epochs));
        if generations.is_power_of_two() && generations >= 2 && generations <= GENERATIONS {
            self.generations = generations;
        }
        self
    }

    /// Stored size of a node of `class`, in bytes.
    pub const fn node_bytes(&self, class: NodeClass) -> usize {
        self.node_bytes[class as usize] as usize
    }

    /// Memory nodes.
    pub const fn memory_nodes(&self) -> usize {
        self.slabs.len() / NodeClass::COUNT
    }

    fn slab(&self, class: NodeClass, node: NodeId) -> Option<&Mutex<NodeSlab<'s>>> {
        self.slabs.get(node.0 as usize * NodeClass::COUNT + class as usize)
    }

    /// Takes a node, preferably on `near`.
    pub fn take(&self, class: NodeClass, near: NodeId) -> Option<UnlinkedNode> {
        nodes_from(near, self.memory_nodes()).find_map(|node| self.take_on(class, node))
    }

    /// Takes a node on that memory node.
    pub(crate) fn take_on(&self, class: NodeClass, node: NodeId) -> Option<UnlinkedNode> {
        let bytes = self.node_bytes(class) as u64;
        let (offset, stamp) = self.slab(class, node)?.lock().take(NODES, bytes)?;
        Some(stamp.node(node, offset))
    }

    /// Puts back a node that nothing points to any more. `false`: the free list is full, and the node waits until this
    /// compute node has departed.
    #[must_use = "a node that does not fit is not used again for long"]
    pub fn put(&self, class: NodeClass, fresh: UnlinkedNode) -> bool {
        let Some(slab) = self.slab(class, fresh.address.node()) else { return false };
        let mut slab = slab.lock();
        let fits = slab.free_list.push(NODES, fresh.address.offset(), NodeStamp::of(fresh));
        slab.left = slab.left.saturating_add((!fits).into());
        fits
    }

    /// The address of the place with its next generation.
    pub(crate) const fn next_life(&self, address: Address) -> Address {
        let generation = address.next_generation().generation() & (self.generations - 1);
        Address::new(address.node(), address.offset(), generation)
    }

    /// Puts back a place whose node is out of use: `fresh` is the next one. Nothing in remote memory points to any node
    /// there.
    pub fn put_again(&self, class: NodeClass, fresh: UnlinkedNode) -> Put {
        let generation = fresh.address.generation() & (self.generations - 1);
        let address = Address::new(fresh.address.node(), fresh.address.offset(), generation);
        let fresh = UnlinkedNode { address, ..fresh };
        if let Some((limbo, epochs)) = self.limbo
            && generation.is_multiple_of(self.generations / 2)
            && !planted(Mutant::NO_LIMBO)
            && !planted(Mutant::SAME_GENERATION)
        {
            let place = Place::new(address.node(), address.offset());
            if !limbo.lock().push(place, (class, NodeStamp::of(fresh)), epochs.turns()) {
                if let Some(slab) = self.slab(class, address.node()) {
                    let mut slab = slab.lock();
                    slab.left = slab.left.saturating_add(1);
                }
                return Put::NoRoom;
            }
            epochs.waits(true);
            return Put::Waits;
        }
        if self.put(class, fresh) { Put::Ready } else { Put::NoRoom }
    }

    /// Puts places that have waited long enough on their free lists; returns how many.
    pub(crate) fn release(&self) -> u32 {
        let Some((limbo, epochs)) = self.limbo else { return 0 };
        let mut released = 0;
        loop {
            // A statement of its own: the lock must not be held while the free list's is.
            let over = limbo.lock().pop(|entered| epochs.is_over(entered));
            let Some((place, (class, stamp))) = over else { return released };
            epochs.waits(false);
            // If the free list has no room, the place waits until this compute node has departed, like all that do not
            // fit.
            released += u32::from(self.put(class, stamp.node(place.node(), place.offset())));
        }
    }

    /// Whether places wait.
    pub(crate) fn has_waiting(&self) -> bool {
        self.limbo.is_some_and(|(limbo, _)| limbo.lock().count() > 0)
    }

    /// Adds a granted chunk of never used memory: `bytes` from byte `offset` of `node`. First the rest of the present
    /// chunk goes to the free list, node by node, as far as there is room.
    pub fn add_chunk(&self, class: NodeClass, node: NodeId, offset: u64, bytes: u64) {
        let node_bytes = self.node_bytes(class) as u64;
        let Some(slab) = self.slab(class, node) else { return };
        let Slab { arena, free_list, left } = &mut *slab.lock();
        while free_list.room() > 0
            && let Some(rest) = arena.take(node_bytes)
        {
            // There is room.
            let _ = free_list.push(NODES, rest, NodeStamp::default());
        }
        *left = left.saturating_add((arena.rest().1 / node_bytes.max(1)) as u32);
        *arena = BumpArena::new(offset, bytes);
    }

    /// Places that wait until this compute node has departed, since no list had room for them: to account for memory.
    pub fn left_places(&self) -> u64 {
        self.slabs.iter().map(|slab| u64::from(slab.lock().left)).sum()
    }

    /// Calls `visit` with every node that is free or waits: to account for memory.
    pub fn for_each_ready(&self, visit: &mut dyn FnMut(NodeClass, UnlinkedNode)) {
        if let Some((limbo, _)) = self.limbo {
            limbo.lock().for_each(&mut |place, (class, stamp)| {
                visit(class, stamp.node(place.node(), place.offset()));
            });
        }
        for (number, slab) in self.slabs.iter().enumerate() {
            let node = NodeId((number / NodeClass::COUNT) as u16);
            let class = NodeClass::ALL[number % NodeClass::COUNT];
            let slab = slab.lock();
            slab.free_list.for_each(&mut |_, offset, stamp| visit(class, stamp.node(node, offset)));
            let mut arena = slab.arena;
            while let Some(offset) = arena.take(self.node_bytes(class) as u64) {
                visit(class, NodeStamp::default().node(node, offset));
            }
        }
    }

    /// Progress of this compute node's orphan collections.
    pub(crate) const fn orphan_collection(&self) -> &OrphanCollection {
        &self.orphan_collection
    }

    /// Nodes of `class` on `node` that can be put back.
    pub fn room(&self, class: NodeClass, node: NodeId) -> u64 {
        self.slab(class, node).map_or(0, |slab| slab.lock().free_list.room() as u64)
    }
}
