//! Steps by several lanes: whatever they have seen, and wherever they stop, every byte gets its heir.
//!
//! The worlds here are one node, and those that have replaced it. Lanes READ the node, CAS one slot at a time, freeze
//! it slot by slot, and replace it. All interleavings are explored. In each world the node is checked, and one lane that
//! begins there, while all others stand still for ever, finishes every change.

use super::*;
use std::collections::HashSet;
use std::format;
use std::string::String;

/// The tile of the leaf that is retired first.
const TILE: (u8, u8) = (20, 90);
/// Where its right heir begins, or the byte of its node.
const BYTE: u8 = 50;
/// Where the right heir is cut.
const NEXT: u8 = 70;
/// The leaf that fills a void.
const FILLED: usize = 40;

type Words = List<Slot>;
type Next = fn(&slot::Node<'_>, Slot, &[Share]) -> Result<Step, DecodeError>;

fn leaf(low: u8, number: usize) -> Slot {
    Slot::tile_leaf(low, address(number)).unwrap()
}

fn void(low: u8, last: u8) -> Slot {
    Slot::void(Tile::new(low, last).unwrap())
}

fn with_node<T>(words: &[Slot], look: impl FnOnce(&slot::Node<'_>) -> T) -> T {
    let kind = (1..=7).filter_map(NodeType::new).find(|kind| kind.slots() == words.len()).unwrap();
    let mut image = vec![0; kind.bytes()];
    build(&mut image, &Header::new(kind, 0, 1, b"k"), INDEX, words.iter().copied());
    look(&slot::Node::new(&image, kind, INDEX).unwrap())
}

/// The words of a node with these slots and room for `room` more.
fn node_of(slots: &[Slot], room: usize) -> Words {
    let mut words = slots.to_vec();
    words.resize(type_for(slots.len() + room).slots(), Slot::EMPTY);
    words
}

/// A leaf that is retired: its word, and its heirs.
struct Change {
    old: Slot,
    shares: Shares,
}

impl Change {
    fn new(number: usize, tile: Tile, heirs: Heirs) -> Self {
        let shares = shares(tile, heirs.words(tile).unwrap()).unwrap();
        Self { old: leaf(tile.low(), number), shares }
    }

    fn heir(&self, byte: u8) -> Slot {
        self.shares.iter().find(|(tile, _)| tile.has(byte)).unwrap().1
    }
}

/// What a lane does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    /// Finishes the change of this leaf.
    Finishes(usize),
    /// Replaces the node, for whatever reason.
    Replaces,
    /// Inserts into the void that has this byte, when there is one.
    Fills(u8),
    /// Cuts the right heir when it has a slot.
    Cuts,
}

/// Where a lane stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    Begin,
    /// Half of the node was READ.
    Half(usize, Words),
    /// It has an image of this node.
    Looks(usize, Words),
    /// It has frozen so many slots of this node, and wants room for so many.
    Freezes(usize, Words, usize, usize),
    End,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// A node, the one that has replaced it, and so on. The last one is part of the tree.
    nodes: List<Words>,
    lanes: List<(Role, At)>,
    retired: [bool; 2],
    swings: [u8; 2],
    filled: Option<(u8, u8)>,
}

/// Where lanes begin, and what they are to do.
struct Model {
    first: Words,
    /// The retired leaf, and its right heir, if it has one.
    changes: [Change; 2],
    next: Next,
    /// READs are in two halves.
    halves: bool,
}

impl World {
    fn tree(&self) -> &Words {
        self.nodes.last().unwrap()
    }

    /// CAS of a slot; returns what it finds.
    fn swap(&mut self, node: usize, index: usize, from: Slot, to: Slot) -> Slot {
        let word = &mut self.nodes[node][index];
        let found = *word;
        if found == from {
            *word = to;
        }
        found
    }
}

impl Model {
    /// The world after the next step of a lane. `None`: it has nothing to do, or not yet.
    fn step(&self, world: &World, lane: usize) -> Option<World> {
        let mut after = world.clone();
        let now = world.nodes.len() - 1;
        let (role, at) = &world.lanes[lane];
        let at = match (role, at) {
            (_, At::End) => return None,
            (Role::Finishes(change), At::Begin) if !world.retired[*change] => return None,
            (Role::Finishes(_), At::Begin) if self.halves => At::Half(now, world.tree().clone()),
            (Role::Finishes(_), At::Begin) => At::Looks(now, world.tree().clone()),
            (Role::Replaces, At::Begin) => At::Freezes(now, world.tree().clone(), 0, 0),
            (Role::Fills(byte), At::Begin) => {
                let slot = with_node(world.tree(), |node| node.floor(*byte).unwrap().slot);
                if slot.is_frozen() || !matches!(child(slot), Child::Void(_)) {
                    return None;
                }
                At::Looks(now, world.tree().clone())
            }
            (Role::Cuts, At::Begin) => {
                if !world.tree().contains(&self.changes[1].old) {
                    return None;
                }
                after.retired[1] = true;
                after.lanes[lane].0 = Role::Finishes(1);
                At::Begin
            }
            (_, At::Half(node, words)) => {
                let (mut words, middle) = (words.clone(), words.len() / 2);
                words[middle..].copy_from_slice(&world.nodes[*node][middle..]);
                At::Looks(*node, words)
            }
            (Role::Finishes(change), At::Looks(node, words)) => self.change(&mut after, *change, *node, words),
            (Role::Fills(byte), At::Looks(node, words)) => {
                let found = with_node(words, |node| node.floor(*byte).unwrap());
                let to = leaf(found.slot.partial(), FILLED);
                if after.swap(*node, found.index, found.slot, to) == found.slot {
                    let Child::Void(tile) = child(found.slot) else { panic!() };
                    after.filled = Some((tile.low(), tile.last()));
                }
                At::End
            }
            (_, At::Looks(..)) => panic!("{role:?}"),
            (role, At::Freezes(node, words, done, room)) if *done == words.len() => {
                if *node == now {
                    let mut slots = [Slot::EMPTY; 256];
                    let count = with_node(words, |node| replaced(node, &mut slots));
                    after.nodes.push(node_of(&slots[..count], *room));
                }
                if *role == Role::Replaces { At::End } else { At::Begin }
            }
            (_, At::Freezes(node, words, done, room)) => {
                let mut words = words.clone();
                // Empty slots behind the first empty one are of no interest: they are frozen with it.
                let end = if world.nodes[*node][*done].is_empty() { words.len() } else { done + 1 };
                let slots = &mut after.nodes[*node][*done..end];
                for word in slots.iter_mut() {
                    *word = word.frozen();
                }
                words[*done..end].copy_from_slice(slots);
                At::Freezes(*node, words, end, *room)
            }
        };
        after.lanes[lane].1 = at;
        Some(after)
    }

    /// The next change by a lane with this image.
    fn change(&self, after: &mut World, number: usize, node: usize, words: &Words) -> At {
        let change = &self.changes[number];
        let (index, from, to) = match with_node(words, |node| (self.next)(node, change.old, &change.shares)).unwrap() {
            Step::Done => return At::End,
            Step::Replace { room } => return At::Freezes(node, words.clone(), 0, room),
            Step::Append { index, word } => (index, Slot::EMPTY, word),
            Step::Swing { index, word } => (index, change.old, word),
        };
        let found = after.swap(node, index, from, to);
        if found == from && from == change.old {
            after.swings[number] += 1;
            return At::End;
        }
        if found.is_frozen() {
            return At::Begin;
        }
        let mut words = words.clone();
        words[index] = if found == from { to } else { found };
        At::Looks(node, words)
    }

    /// Every byte leads where it may lead. `finished`: and no slot to a retired leaf.
    fn check(&self, world: &World, finished: bool) -> Result<(), String> {
        let floors = |words: &Words, byte: u8| with_node(words, |node| node.floor(byte).map(|floor| floor.slot));
        with_node(world.tree(), |node| node.check_tiles().map_err(|error| format!("{error}")))?;
        let bounds = [TILE.0, BYTE, NEXT, TILE.1, 5, 0, u8::MAX];
        for byte in bounds.into_iter().flat_map(|byte| [byte.saturating_sub(1), byte, byte.saturating_add(1)]) {
            let found = floors(world.tree(), byte).map_err(|error| format!("byte {byte}: {error}"))?;
            let mut wanted = floors(&self.first, byte).unwrap();
            for (number, change) in self.changes.iter().enumerate() {
                // A part that was split off has its slot before the leaf's own is swung.
                let is_given = finished || world.swings[number] > 0 || found.target() != change.old.target();
                if wanted.target() == change.old.target() && world.retired[number] && is_given {
                    wanted = change.heir(byte);
                }
            }
            if let Some((low, last)) = world.filled
                && Tile::new(low, last).unwrap().has(byte)
            {
                wanted = leaf(low, FILLED);
            }
            // Voids are joined.
            let are_void = matches!((child(found), child(wanted)), (Child::Void(_), Child::Void(_)));
            if found.target() != wanted.target() && !are_void {
                return Err(format!("byte {byte} leads to {:?}, not to {:?}", child(found), child(wanted)));
            }
        }
        for number in 0..2 {
            let least = u8::from(finished && world.retired[number]);
            if !(least..=1).contains(&world.swings[number]) {
                return Err(format!("{} lanes have swung the slot of leaf {number}", world.swings[number]));
            }
        }
        Ok(())
    }

    /// All lanes stop, and one more, which stands `at`, finishes a change.
    fn finish_alone(&self, world: &World, change: usize, at: At) -> Result<World, String> {
        let mut world = World { lanes: vec![(Role::Finishes(change), at)], ..world.clone() };
        for _ in 0..100 {
            match self.step(&world, 0) {
                Some(after) => world = after,
                None => return Ok(world),
            }
        }
        Err(format!("a lane alone does not finish: {world:?}"))
    }

    /// One lane finishes every change.
    fn finish_all(&self, world: &World) -> Result<(), String> {
        let world = self.finish_alone(world, 0, At::Begin)?;
        self.check(&self.finish_alone(&world, 1, At::Begin)?, true)
    }

    /// The leaf was retired right now, and there are no lanes.
    fn world(&self) -> World {
        World { nodes: vec![self.first.clone()], lanes: vec![], retired: [true, false], swings: [0; 2], filled: None }
    }

    /// Explores all interleavings of these lanes; returns how many worlds there are.
    fn explore(&self, roles: &[Role]) -> Result<usize, String> {
        let first = World { lanes: roles.iter().map(|role| (*role, At::Begin)).collect(), ..self.world() };
        let (mut seen, mut next) = (HashSet::from([first.clone()]), vec![first]);
        while let Some(world) = next.pop() {
            let checked = self.check(&world, false).and_then(|()| self.finish_all(&world));
            checked.map_err(|what| format!("{what}: {world:?}"))?;
            for after in (0..roles.len()).filter_map(|lane| self.step(&world, lane)) {
                if seen.insert(after.clone()) {
                    next.push(after);
                }
            }
        }
        Ok(seen.len())
    }
}

const LEAVES: Heirs = Heirs::Leaves(address(2), BYTE, address(3));
const NODE: Heirs = Heirs::Node(BYTE, NodeType::SMALLEST, place(4));

/// A leaf in a node of four slots, with a void on each side, of which three or all are in use.
fn model(heirs: Heirs, is_full: bool) -> Model {
    let (tile, right) = (Tile::new(TILE.0, TILE.1).unwrap(), Tile::new(BYTE, TILE.1).unwrap());
    let behind = void(TILE.1 + 1, u8::MAX);
    let first = if is_full {
        vec![leaf(0, 30), behind, leaf(TILE.0, 1), void(5, TILE.0 - 1)]
    } else {
        vec![void(0, TILE.0 - 1), behind, leaf(TILE.0, 1), Slot::EMPTY]
    };
    let cut = Heirs::Leaves(address(11), NEXT, address(12));
    let changes = [Change::new(1, tile, heirs), Change::new(3, right, cut)];
    Model { first, changes, next: next_step, halves: false }
}

#[test]
fn any_lanes_end_at_the_same_slots() {
    use Role::{Cuts, Fills, Finishes, Replaces};
    let mut worlds = 0;
    for is_full in [false, true] {
        for heirs in [Heirs::Void, Heirs::Leaf(address(2)), LEAVES, NODE] {
            let model = model(heirs, is_full);
            worlds += model.explore(&[Finishes(0), Finishes(0), Replaces]).unwrap();
            // A void beside the leaf, which becomes one with the heir's, and one of the heirs'.
            for byte in [TILE.0 - 1, BYTE + 1, TILE.1 + 1] {
                worlds += model.explore(&[Finishes(0), Finishes(0), Fills(byte)]).unwrap();
                worlds += model.explore(&[Finishes(0), Replaces, Fills(byte)]).unwrap();
            }
        }
        let model = model(LEAVES, is_full);
        worlds += model.explore(&[Finishes(0), Finishes(0), Cuts]).unwrap();
        worlds += model.explore(&[Finishes(0), Cuts, Replaces]).unwrap();
        worlds += model.explore(&[Finishes(0), Finishes(1), Cuts]).unwrap();
        worlds += Model { halves: true, ..model }.explore(&[Finishes(0), Finishes(0), Cuts]).unwrap();
    }
    println!("{worlds} worlds");
    assert!(worlds > 1000, "{worlds} worlds");
}

/// The model sees what the order of the steps is for, and the look at bytes.
#[test]
fn other_steps_are_found_wrong() {
    use Role::{Cuts, Finishes};
    let upwards: Next = |node, leaf, shares| {
        let mut other: Shares = shares.iter().copied().collect();
        other[1..].reverse();
        next_step(node, leaf, &other)
    };
    let found = Model { next: upwards, ..model(NODE, false) }.explore(&[Finishes(0)]);
    assert!(found.is_err_and(|what| what.contains("a node under a tile of more than one byte")));
    let own_first: Next = |node, leaf, shares| next_step(node, leaf, &shares[..1]);
    let found = Model { next: own_first, ..model(LEAVES, false) }.explore(&[Finishes(0)]);
    assert!(found.is_err_and(|what| what.contains("leads to Leaf(2), not to Leaf(3)")));
    // A byte whose slot leads elsewhere by now is appended again.
    let by_word: Next = |node, leaf, shares| {
        let missing = shares.iter().skip(1).find(|(_, word)| node.slots().all(|slot| slot.thawed() != *word));
        match (next_step(node, leaf, shares)?, missing, node.free()) {
            (Step::Swing { .. }, Some((_, word)), Some(index)) => Ok(Step::Append { index, word: *word }),
            (step, ..) => Ok(step),
        }
    };
    let found = Model { next: by_word, ..model(LEAVES, true) }.explore(&[Finishes(0), Cuts]);
    assert!(found.is_err_and(|what| what.contains("two slots of one")));
}

proptest! {
    /// A lane makes some of the steps. Another one has seen any of the slots' states until then, and goes on: the slots
    /// are the same at the end.
    #[test]
    fn any_lane_goes_on_from_any_prefix(
        others in proptest::collection::btree_set(1_u8..=255, 0..12),
        ends in (any::<u8>(), any::<u8>(), any::<u8>()),
        kind in 0..4,
        room in 0_usize..3,
        place_of_leaf in any::<usize>(),
    ) {
        let mut bytes = [ends.0, ends.1, ends.2];
        bytes.sort_unstable();
        let [low, byte, last] = bytes;
        let tile = Tile::new(low, last).unwrap();
        let heirs = match kind {
            0 => Heirs::Void,
            1 if byte > low => Heirs::Leaves(address(2), byte, address(3)),
            2 => Heirs::Node(byte, NodeType::SMALLEST, place(4)),
            _ => Heirs::Leaf(address(2)),
        };
        // The slots beside the leaf's tile: leaves and voids in turn.
        let mut lows: BTreeSet<u8> = others.into_iter().filter(|other| !tile.has(*other)).collect();
        lows.extend(last.checked_add(1));
        lows.extend((low > 0).then_some(0));
        let lows: List<u8> = lows.into_iter().collect();
        let end_of = |at: usize| {
            let next = lows.iter().copied().chain([low]).filter(|next| *next > lows[at]).min();
            next.map_or(255, |next| next - 1)
        };
        let mut slots: Words = (0..lows.len())
            .map(|at| if at % 2 == 0 { leaf(lows[at], 10 + at) } else { void(lows[at], end_of(at)) })
            .collect();
        let at = if low == 0 { 0 } else { 1 + place_of_leaf % slots.len() };
        slots.insert(at, leaf(low, 1));
        let kind = (1..=7).filter_map(NodeType::new).find(|kind| kind.slots() >= slots.len() + room).unwrap();
        slots.resize(kind.slots(), Slot::EMPTY);
        let change = Change::new(1, tile, heirs);
        let none = Change::new(3, Tile::one(0), Heirs::Void);
        let model = Model { first: slots, changes: [change, none], next: next_step, halves: false };
        let mut worlds = vec![World { lanes: vec![(Role::Finishes(0), At::Begin)], ..model.world() }];
        while let Some(after) = model.step(worlds.last().unwrap(), 0) {
            worlds.push(after);
        }
        let slots_of = |world: &World| {
            let mut slots: Words = world.tree().iter().copied().filter(|slot| !slot.is_empty()).collect();
            slots.sort_unstable_by_key(|slot| slot.partial());
            slots
        };
        let end = worlds.last().unwrap();
        with_node(end.tree(), |node| {
            node.check_tiles().unwrap();
            for (tile, word) in &model.changes[0].shares {
                let found = node.floor(tile.low()).unwrap();
                prop_assert!(found.slot == *word || matches!(child(*word), Child::Void(_)), "{:?}", found);
                prop_assert_eq!(child(found.slot) == child(*word), found.slot == *word);
            }
            Ok(())
        })?;
        for (prefix, world) in worlds.iter().enumerate() {
            for earlier in &worlds[..=prefix] {
                let image = At::Looks(earlier.nodes.len() - 1, earlier.tree().clone());
                let after = model.finish_alone(world, 0, image).unwrap();
                prop_assert_eq!(slots_of(&after), slots_of(end));
            }
        }
    }
}
