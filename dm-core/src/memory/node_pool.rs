//! Free lists: nodes that this compute node was granted and has not linked into an index.
//!
//! Memory comes in *chunks*, granted by a CAS on the chunk table of a memory node ([`crate::memory::chunks`]), and is
//! carved here into nodes of one allocation class. A node that an index retired returns here, too, with its next
//! generation and with the version that its last image had. So the next image continues the count, and a READ across
//! both is torn and not accepted.
//!
//! A lane takes nodes into its stock *before* it locks anything: a split never waits for memory under a lock.

use crate::memory::orphans::Adoption;
use crate::memory::{Epochs, GENERATIONS, LimboList};
use crate::mutants::{Mutant, planted};
use crate::remote::address::Address;
use crate::remote::place::{NodeClass, UnlinkedNode};
use crate::verbs::NodeId;
use spin::Mutex;

/// Free list and bump arena of one class on one memory node. Storage for a [`NodePool`].
#[derive(Debug, Default)]
pub struct FreeList<'s> {
    next: u64,
    end: u64,
    returned: &'s mut [UnlinkedNode],
    count: usize,
}

impl<'s> FreeList<'s> {
    /// An empty one that remembers up to `returned.len()` retired nodes.
    pub fn new(returned: &'s mut [UnlinkedNode]) -> Self {
        Self { next: 0, end: 0, returned, count: 0 }
    }
}

/// Free nodes of one index on one compute node, shared by its lanes.
pub struct NodePool<'s> {
    /// The free list of class `c` on memory node `n`: `n * NodeClass::COUNT + c`.
    free_lists: &'s [Mutex<FreeList<'s>>],
    node_bytes: [u32; NodeClass::COUNT],
    adoption: Adoption,
    /// The limbo list, and what its places wait for. `None`: nothing waits.
    limbo: Option<(&'s Mutex<LimboList<'s>>, &'s Epochs)>,
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
    /// `free_lists`: [`NodeClass::COUNT`] per memory node. `node_bytes`: stored size per class, a multiple of 64.
    pub const fn new(free_lists: &'s [Mutex<FreeList<'s>>], node_bytes: [u32; NodeClass::COUNT]) -> Self {
        Self { free_lists, node_bytes, adoption: Adoption::new(), limbo: None, generations: GENERATIONS }
    }

    /// The same, with a limbo list for places whose generations begin again ([`crate::memory::limbo`]). They do
    /// after `generations` nodes of a place: a power of two from 2 to [`GENERATIONS`], which is what all other code
    /// means by it. Fewer are for tests that want to see it happen. Any other number counts as [`GENERATIONS`].
    #[must_use]
    pub const fn with_quarantine(
        mut self,
        limbo: &'s Mutex<LimboList<'s>>,
        epochs: &'s Epochs,
        generations: u8,
    ) -> Self {
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
        self.free_lists.len() / NodeClass::COUNT
    }

    fn free_list(&self, class: NodeClass, node: NodeId) -> Option<&Mutex<FreeList<'s>>> {
        self.free_lists.get(node.0 as usize * NodeClass::COUNT + class as usize)
    }

    /// Takes a node, preferably on `near`.
    pub fn take(&self, class: NodeClass, near: NodeId) -> Option<UnlinkedNode> {
        let nodes = self.memory_nodes();
        (0..nodes).find_map(|step| self.take_on(class, NodeId(((near.0 as usize + step) % nodes) as u16)))
    }

    fn take_on(&self, class: NodeClass, node: NodeId) -> Option<UnlinkedNode> {
        let mut free_list = self.free_list(class, node)?.lock();
        if free_list.count > 0 {
            free_list.count -= 1;
            let at = free_list.count;
            return free_list.returned.get(at).copied();
        }
        let bytes = self.node_bytes[class as usize] as u64;
        if free_list.next + bytes > free_list.end {
            return None;
        }
        let address = Address::new(node, free_list.next, 0);
        free_list.next += bytes;
        Some(UnlinkedNode { address, version: 0 })
    }

    /// Puts back a node that nothing points to any more. `false`: the free list is full, and the node waits until this
    /// compute node has departed.
    #[must_use = "a node that does not fit is not used again for long"]
    pub fn put(&self, class: NodeClass, fresh: UnlinkedNode) -> bool {
        let Some(free_list) = self.free_list(class, fresh.address.node()) else { return false };
        let mut free_list = free_list.lock();
        let at = free_list.count;
        let Some(slot) = free_list.returned.get_mut(at) else { return false };
        *slot = fresh;
        free_list.count += 1;
        true
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
            && !planted(Mutant::NoQuarantine)
            && !planted(Mutant::SameGeneration)
        {
            if !limbo.lock().push(class, fresh, epochs.turns()) {
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
            let Some((class, fresh)) = over else { return released };
            epochs.waits(false);
            // If the free list has no room, the place waits until this compute node has departed, like all that do not
            // fit.
            released += u32::from(self.put(class, fresh));
        }
    }

    /// Whether places wait.
    pub(crate) fn has_waiting(&self) -> bool {
        self.limbo.is_some_and(|(limbo, _)| !limbo.lock().is_empty())
    }

    /// Adds a granted chunk of never used memory: `bytes` from byte `offset` of `node`. First the rest of the present
    /// chunk goes to the free list, node by node, as far as there is room.
    pub fn add_chunk(&self, class: NodeClass, node: NodeId, offset: u64, bytes: u64) {
        let size = self.node_bytes[class as usize] as u64;
        let Some(free_list) = self.free_list(class, node) else { return };
        let mut free_list = free_list.lock();
        while free_list.next + size <= free_list.end {
            let fresh = UnlinkedNode { address: Address::new(node, free_list.next, 0), version: 0 };
            let at = free_list.count;
            let Some(slot) = free_list.returned.get_mut(at) else { break };
            *slot = fresh;
            free_list.count += 1;
            free_list.next += size;
        }
        free_list.next = offset;
        free_list.end = offset + bytes;
    }

    /// Calls `visit` with every node that is free or waits: to account for memory.
    pub fn for_each_ready(&self, visit: &mut dyn FnMut(NodeClass, UnlinkedNode)) {
        if let Some((limbo, _)) = self.limbo {
            limbo.lock().for_each(visit);
        }
        for (number, free_list) in self.free_lists.iter().enumerate() {
            let node = NodeId((number / NodeClass::COUNT) as u16);
            let class = NodeClass::ALL[number % NodeClass::COUNT];
            let bytes = u64::from(self.node_bytes[class as usize]);
            let free_list = free_list.lock();
            free_list.returned.iter().take(free_list.count).for_each(|fresh| visit(class, *fresh));
            let mut next = free_list.next;
            while bytes > 0 && next + bytes <= free_list.end {
                visit(class, UnlinkedNode { address: Address::new(node, next, 0), version: 0 });
                next += bytes;
            }
        }
    }

    /// Progress of this compute node's orphan collections.
    pub(crate) const fn adoption(&self) -> &Adoption {
        &self.adoption
    }

    /// Nodes of `class` on `node` that can be put back.
    pub fn room(&self, class: NodeClass, node: NodeId) -> u64 {
        let Some(free_list) = self.free_list(class, node) else { return 0 };
        let free_list = free_list.lock();
        (free_list.returned.len() - free_list.count) as u64
    }

    /// Free nodes of `class` on `node`.
    pub fn ready(&self, class: NodeClass, node: NodeId) -> u64 {
        let Some(free_list) = self.free_list(class, node) else { return 0 };
        let free_list = free_list.lock();
        free_list.count as u64 + (free_list.end - free_list.next) / u64::from(self.node_bytes[class as usize])
    }
}
