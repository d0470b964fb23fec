//! The search: is there an order of one key's operations that explains all answers?
//!
//! Wing and Gong's search with Lowe's memoisation ("Testing for linearizability", Concurrency and Computation 29(4),
//! 2017), in its just-in-time form (section 4.2 there): events are taken in order, and an operation is linearized only
//! when a response cannot be passed otherwise, or when an operation that may or may not have happened comes to the
//! end of its time. A node of the search is (event, which of the pending operations are
//! linearized, state of the register); pending operations are bits, so a node is a few words and a visited node is
//! recognised by its hash.
//!
//! Two rules keep it small. An operation that only looks is linearized as soon as the register suits it: that
//! constrains no other operation, so there is nothing to choose. And a response that only one operation can help to
//! pass is passed without remembering anything.
//!
//! The search is bounded: see [`SearchLimit`].

use crate::check::model::{Item, State};
use std::ops::Range;

/// Pending operations of one key that a search can tell apart.
const SLOTS_MAX: u32 = u128::BITS;

/// Why a key could not be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchLimit {
    /// The search took more steps than this.
    Steps(u64),
    /// More operations were pending at a time than this.
    Pending(u32),
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// An order that explains everything.
    Order,
    /// None. The response of this item is the first that cannot be explained, however those before are ordered.
    None {
        /// Position among the items.
        item: usize,
    },
    /// No answer within the bounds.
    TooHard(SearchLimit),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happens {
    Begins,
    MustHaveHappened,
    /// An optional operation: from here on it happens no more.
    Ends,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    sequence: u32,
    item: u16,
    slot: u8,
    happens: Happens,
    /// For both ends: the pending items that only look, and those that change something, in the pool.
    lookers: (u32, u32),
    changers: (u32, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    linearized: u128,
    state: State,
    event: u32,
}

/// The search of one key and its storage.
#[derive(Debug, Default)]
pub(crate) struct Search {
    steps_max: u64,
    steps: u64,
    events: Vec<Event>,
    /// Slot of each item.
    slots: Vec<u8>,
    /// Pending items at ends.
    pool: Vec<u16>,
    open: Vec<u16>,
    stack: Vec<Node>,
    visited: Visited,
}

impl Search {
    /// A search that takes at most `steps_max` steps.
    pub(crate) fn new(steps_max: u64) -> Self {
        Self { steps_max, ..Self::default() }
    }

    /// Steps of the last one.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Looks for an order of `items`, which ascend by invocation.
    pub(crate) fn decide(&mut self, initial: State, items: &[Item]) -> Found {
        match self.prepare(items) {
            Ok(()) => self.explore(initial, items, None),
            Err(why) => Found::TooHard(why),
        }
    }

    /// All states the register may be in when events with sequence numbers in `range` are next, over all orders that
    /// explain what comes before.
    pub(crate) fn states(&mut self, initial: State, items: &[Item], range: Range<u32>) -> Vec<State> {
        let mut states = Vec::new();
        if self.prepare(items).is_ok() {
            self.explore(initial, items, Some((range, &mut states)));
        }
        states
    }

    fn prepare(&mut self, items: &[Item]) -> Result<(), SearchLimit> {
        self.steps = 0;
        self.events.clear();
        self.slots.clear();
        self.pool.clear();
        self.open.clear();
        if items.len() > usize::from(u16::MAX) {
            return Err(SearchLimit::Pending(u32::from(u16::MAX)));
        }
        for (number, item) in items.iter().enumerate() {
            let event = |sequence, happens| Event {
                sequence,
                item: number as u16,
                slot: 0,
                happens,
                lookers: (0, 0),
                changers: (0, 0),
            };
            self.events.push(event(item.from, Happens::Begins));
            if item.until != u32::MAX {
                let happens = if item.optional { Happens::Ends } else { Happens::MustHaveHappened };
                self.events.push(event(item.until, happens));
            }
        }
        self.events.sort_unstable_by_key(|event| event.sequence);
        self.slots.resize(items.len(), 0);
        let mut free = u128::MAX;
        for event in &mut self.events {
            let number = usize::from(event.item);
            if event.happens == Happens::Begins {
                let slot = free.trailing_zeros();
                if slot == SLOTS_MAX {
                    return Err(SearchLimit::Pending(SLOTS_MAX));
                }
                free &= !(1 << slot);
                self.slots[number] = slot as u8;
                self.open.push(event.item);
            }
            event.slot = self.slots[number];
            if event.happens != Happens::Begins {
                // Optional ones first: the stack turns the order round, and what need not happen is tried last.
                let mut part = |wanted: fn(&Item) -> bool| {
                    let start = self.pool.len() as u32;
                    self.pool.extend(self.open.iter().filter(|item| wanted(&items[usize::from(**item)])));
                    (start, self.pool.len() as u32)
                };
                event.lookers = part(|item| item.step.only_looks());
                let (start, _) = part(|item| !item.step.only_looks() && item.optional);
                let (_, end) = part(|item| !item.step.only_looks() && !item.optional);
                event.changers = (start, end);
            }
            if event.happens != Happens::Begins {
                free |= 1 << event.slot;
                self.open.retain(|open| *open != event.item);
            }
        }
        Ok(())
    }

    fn explore(&mut self, initial: State, items: &[Item], mut collect: Option<(Range<u32>, &mut Vec<State>)>) -> Found {
        let mut furthest = 0;
        self.visited.clear();
        self.stack.clear();
        self.stack.push(Node { linearized: 0, state: initial, event: 0 });
        while let Some(mut node) = self.stack.pop() {
            loop {
                let Some(&event) = self.events.get(node.event as usize) else {
                    if let Some((range, states)) = &mut collect {
                        if range.end == u32::MAX && !states.contains(&node.state) {
                            states.push(node.state);
                        }
                        break;
                    }
                    return Found::Order;
                };
                self.steps += 1;
                if self.steps > self.steps_max {
                    return Found::TooHard(SearchLimit::Steps(self.steps_max));
                }
                if let Some((range, states)) = &mut collect
                    && range.contains(&event.sequence)
                    && !states.contains(&node.state)
                {
                    states.push(node.state);
                }
                let bit = 1_u128 << event.slot;
                if event.happens != Happens::Begins && node.linearized & bit == 0 {
                    for &looker in &self.pool[event.lookers.0 as usize..event.lookers.1 as usize] {
                        if items[usize::from(looker)].step.applies(node.state) {
                            node.linearized |= 1 << self.slots[usize::from(looker)];
                        }
                    }
                    if node.linearized & bit == 0 {
                        if event.happens == Happens::MustHaveHappened {
                            furthest = furthest.max(node.event);
                        }
                        match self.choose(items, node, event) {
                            Some(next) => node = next,
                            None => break,
                        }
                        continue;
                    }
                }
                node.linearized &= !bit;
                node.event += 1;
            }
        }
        let item = self.events.get(furthest as usize).map_or(0, |event| usize::from(event.item));
        Found::None { item }
    }

    /// The ways to go on at `event`. One is returned, several are stacked.
    fn choose(&mut self, items: &[Item], node: Node, event: Event) -> Option<Node> {
        let bottom = self.stack.len();
        let mut own = None;
        for &changer in &self.pool[event.changers.0 as usize..event.changers.1 as usize] {
            let step = items[usize::from(changer)].step;
            let bit = 1 << self.slots[usize::from(changer)];
            if node.linearized & bit != 0 || !step.applies(node.state) {
                continue;
            }
            let next = Node { linearized: node.linearized | bit, state: step.next(node.state), event: node.event };
            if changer == event.item {
                own = Some(next);
            } else {
                self.stack.push(next);
            }
        }
        // The operation that responds is tried first; one that need not have happened is rather left out.
        self.stack.extend(own);
        if event.happens == Happens::Ends {
            self.stack.push(Node { event: node.event + 1, ..node });
        }
        match self.stack.len() - bottom {
            0 => None,
            1 => self.stack.pop(),
            _ if self.visited.insert(node) => self.stack.pop(),
            _ => {
                self.stack.truncate(bottom);
                None
            }
        }
    }
}

/// A set of nodes that is emptied without being touched.
#[derive(Debug, Default)]
struct Visited {
    /// Open addressing; a node of another generation is an empty place.
    table: Vec<(u32, Node)>,
    generation: u32,
    count: usize,
}

impl Visited {
    const EMPTY: (u32, Node) = (0, Node { linearized: 0, state: None, event: 0 });

    fn clear(&mut self) {
        self.count = 0;
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.table.fill(Self::EMPTY);
            self.generation = 1;
        }
    }

    /// Whether it was not there.
    fn insert(&mut self, node: Node) -> bool {
        if self.count * 2 >= self.table.len() {
            self.grow();
        }
        let mask = self.table.len() - 1;
        let mut place = Self::hash(&node) as usize & mask;
        loop {
            let (generation, there) = self.table[place];
            if generation != self.generation {
                self.table[place] = (self.generation, node);
                self.count += 1;
                return true;
            }
            if there == node {
                return false;
            }
            place = (place + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let table = vec![Self::EMPTY; (self.table.len() * 2).max(256)];
        let old = std::mem::replace(&mut self.table, table);
        self.count = 0;
        for (generation, node) in old {
            if generation == self.generation {
                self.insert(node);
            }
        }
    }

    fn hash(node: &Node) -> u64 {
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(ODD).rotate_left(29);
        let (present, value) = node.state.map_or((0, 0), |value| (1, value));
        let words =
            [node.linearized as u64, (node.linearized >> 64) as u64, value, u64::from(node.event) << 1 | present];
        words.into_iter().fold(ODD, mix)
    }
}
