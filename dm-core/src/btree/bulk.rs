//! Bulk load: ascending records into an empty index, one node open per level.
//!
//! Leaves are filled to four fifths, left to right. A full one is closed: it gets its right neighbour's address, which
//! is reserved by then, and is written, and its neighbour is appended to the level above. Nothing is visible until the
//! root word is set.

use super::Subtrees;
use super::inner::InnerMut;
use super::leaves::{Leaves, key_of};
use super::node::{self, Header, NodeFlags};
use super::walk::{Peeked, Walk};
use crate::btree::load::{BulkLoad, LEVELS_AT_ONCE, Open};
use crate::lane::{Lane, NO_DEADLINE_NS};
use crate::layout::{stripes, word_at};
use crate::operation::span::Span;
use crate::operation::{Cause, Census, Effect, OpError};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::remote::place::{NodeClass, UnlinkedNode};
use crate::verbs::{Label, NodeId, Request};

const BROKEN: OpError = OpError::harmless(Cause::BadInput("the bulk load failed earlier: nothing of it is kept"));

const fn four_fifths(span: usize, least: usize) -> usize {
    let fill = (span * 4).div_ceil(5);
    if fill < least { least } else { fill }
}

/// Opens the first leaf of a load: without a future of its own in those that do it.
macro_rules! open_first {
    ($index:expr, $lane:expr, $load:expr) => {{
        let (index, port) = ($index, $lane.port());
        let at = index.tree().scratch.small;
        let (node, offset) = index.tree().root_word;
        port.call(Request::read(Label::Root, node, offset, 8, at)).await?;
        if port.with(|scratch| word_at(scratch, at)) != 0 {
            return Err(OpError::harmless(Cause::BadInput("a bulk load needs an empty index")));
        }
        let fresh = index.allocate($lane, NodeClass::Leaf, &$load).await?;
        port.with(|scratch| index.open(scratch, 0, fresh, &[0; KEY_BYTES_MAX][..index.plan().key_bytes]));
        $load.open[0] = Open { fresh, used: 0 };
        $load.first[0] = fresh.address;
        $load.levels = 1;
    }};
}

/// Bulk loads of any index of this family.
pub(crate) trait Bulk<'s>: Leaves<'s> {
    /// Appends the operation's record.
    async fn bulk_next(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        let mut load = *self.bulk().lock();
        if load.broken {
            return Err(BROKEN);
        }
        // It stays so if this future is dropped.
        self.bulk().lock().broken = true;
        let mut result = self.append_to(lane, &mut load).await;
        if load.broken {
            result = self.give_up(lane, &mut load, result).await;
        }
        *self.bulk().lock() = load;
        result
    }

    /// Opens the first leaf, if there is none. With `cuts`, the next one begins at the operation's key, whether the open one
    /// has records or not: for a kind whose leaves have to begin at certain keys. These ascend together with the keys of
    /// the records.
    async fn bulk_open(&self, lane: &Lane<'_>, cuts: bool) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        let mut load = *self.bulk().lock();
        if load.broken {
            return Err(BROKEN);
        }
        // It stays so if this future is dropped, or fails.
        self.bulk().lock().broken = true;
        if load.levels == 0 {
            open_first!(self, lane, load);
        }
        let mut result = Ok(());
        if cuts {
            load.subtrees = load.subtrees.wrapping_add(1);
            result = self.close_leaf(lane, &mut load).await;
            if result.is_err() {
                result = self.give_up(lane, &mut load, result).await;
            }
        }
        *self.bulk().lock() = load;
        result
    }

    /// Returns the nodes of a load that cannot continue. If a request has failed, nobody knows what it has written: then the
    /// nodes wait until this compute node has departed, and another one collects them.
    async fn give_up(&self, lane: &Lane<'_>, load: &mut BulkLoad, why: Result<(), OpError>) -> Result<(), OpError> {
        let lost = core::mem::replace(load, BulkLoad::broken());
        if let Err(OpError { cause: Cause::PoolFull | Cause::NodeFull { .. } | Cause::BadInput(_), .. }) = why {
            self.give_load_back(lane, &lost, false).await?;
        }
        why
    }

    async fn append_to(&self, lane: &Lane<'_>, load: &mut BulkLoad) -> Result<(), OpError> {
        let port = lane.port();
        // The last key lies in the help range, which nothing else uses in a bulk load.
        let last = self.tree().scratch.help.clone();
        if load.levels == 0 {
            open_first!(self, lane, load);
        } else {
            let ascends = port.with(|scratch| scratch.get(self.plan().key.clone()) > scratch.get(last.clone()));
            if !ascends {
                return Err(OpError::harmless(Cause::BadInput("keys of a bulk load must ascend")));
            }
        }
        let put = |used: usize| {
            port.with(|scratch| {
                let image = self.tree().leaf_image(0);
                let Ok((arguments, image)) = self.plan().arguments_and(image, scratch) else { return false };
                let room = self.append(image, used, arguments.key(), arguments.value());
                if room && last.end <= scratch.len() {
                    scratch.copy_within(self.plan().key.clone(), last.start);
                }
                room
            })
        };
        if load.open[0].used >= four_fifths(self.span(), 1) || !put(load.open[0].used) {
            load.broken = true;
            self.close_leaf(lane, load).await?;
            if !put(0) {
                return Err(OpError::harmless(Cause::BadInput("a leaf without room for a record")));
            }
            load.broken = false;
        }
        load.open[0].used += 1;
        Ok(())
    }

    /// Makes the records visible.
    async fn bulk_end(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        let load = core::mem::take(&mut *self.bulk().lock());
        if load.broken {
            return Err(BROKEN);
        }
        let Some(top) = load.levels.checked_sub(1) else { return Ok(()) };
        for level in 0..load.levels {
            self.write_open(lane, &load, level).await?;
        }
        let root = load.open[top].fresh.address;
        let (node, offset) = self.tree().root_word;
        let cas = Request::cas(Label::Root, node, offset, 0, root.to_bits());
        let old = lane.port().call(cas).await.map_err(|error| OpError {
            effect: if error.effect_unknown() { Effect::Unknown } else { Effect::None },
            cause: error.into(),
        })?;
        if old.value != 0 {
            self.give_load_back(lane, &load, true).await?;
            return Err(OpError::harmless(Cause::BadInput("the index got a root while it was bulk loaded")));
        }
        self.tree().root.set(root, top as u8);
        Ok(())
    }

    /// Returns the nodes of a load to which nothing leads: its levels are chains. The open ones, which end them, are written
    /// if `is_written`. What cannot be READ waits until this compute node has departed, and another one collects it.
    async fn give_load_back(&self, lane: &Lane<'_>, load: &BulkLoad, is_written: bool) -> Result<(), OpError> {
        for level in 0..load.levels.min(LEVELS_AT_ONCE) {
            let class = if level == 0 { NodeClass::Leaf } else { NodeClass::Inner };
            let (mut address, open) = (load.first[level], load.open[level].fresh);
            for _ in 0..self.nodes_max() {
                let is_last = address == open.address;
                if is_last && !is_written {
                    self.tree().give_back(class, open);
                    break;
                }
                let Peeked { sibling: right, version, .. } =
                    self.peek(lane, address, level as u8, &mut Census::default()).await?;
                self.tree().give_back(class, UnlinkedNode { address: address.next_generation(), version });
                if is_last {
                    break;
                }
                address = right;
            }
        }
        Ok(())
    }

    async fn allocate(&self, lane: &Lane<'_>, class: NodeClass, load: &BulkLoad) -> Result<UnlinkedNode, OpError> {
        let tree = self.tree();
        let mut near = tree.root_word.0;
        if tree.options.subtrees != Subtrees::Spread {
            near = NodeId((load.subtrees as usize % tree.geometry.len().max(1)) as u16);
            tree.return_others(lane, near);
        }
        self.tree().reserve(lane, class, 1, near).await?;
        lane.take_stock(class, near).ok_or_else(|| tree.no_memory(near).into_error())
    }

    /// The image of the node that is open on `level`.
    fn open_image(&self, level: usize) -> Span {
        self.tree().image_of_level(level as u8, level)
    }

    /// Starts the image of `level`, without a high fence yet.
    fn open(&self, scratch: &mut [u8], level: usize, fresh: UnlinkedNode, low: &[u8]) {
        let image = self.open_image(level).of_mut(scratch);
        let header = Header {
            generation: fresh.address.generation(),
            level: level as u8,
            index: self.tree().index,
            flags: NodeFlags::empty(),
            count: 0,
            sibling: Address::NULL,
        };
        node::start(image, &header, low, None);
        if level == 0 {
            self.tree().owner_tag().write(image);
        }
        stripes::set_node_version(image, fresh.version.wrapping_add(1));
    }

    async fn write_open(&self, lane: &Lane<'_>, load: &BulkLoad, level: usize) -> Result<(), OpError> {
        let address = load.open.get(level).map_or(Address::NULL, |open| open.fresh.address);
        let image = self.open_image(level);
        let port = lane.port();
        if level == 0 {
            port.with(|scratch| self.seal(image.of_mut(scratch)));
        }
        port.push(image.write_to(Label::Bulk, address));
        if level == 0 {
            self.push_companions(lane, address, image);
        }
        port.submit().await?;
        Ok(())
    }

    /// Closes the open leaf at the operation's key, and every level above that is full.
    async fn close_leaf(&self, lane: &Lane<'_>, load: &mut BulkLoad) -> Result<(), OpError> {
        let port = lane.port();
        for level in 0..LEVELS_AT_ONCE {
            let class = if level == 0 { NodeClass::Leaf } else { NodeClass::Inner };
            let closed = load.open[level].fresh.address;
            let parent = load.open.get(1).filter(|_| level == 0 && load.levels > 1);
            if parent.is_some_and(|parent| parent.used >= four_fifths(self.tree().inner.span, 1)) {
                // It gets no more children. The next leaf begins the next parent.
                load.subtrees = load.subtrees.wrapping_add(1);
            }
            let fresh = self.allocate(lane, class, load).await?;
            // The leftmost child of the new node on this level: the node just opened below.
            let below = level.checked_sub(1).map(|below| load.open[below].fresh.address);
            port.with(|scratch| {
                let mut room = [0; KEY_BYTES_MAX];
                let key = key_of(scratch, &self.plan().key, &mut room);
                let image = self.open_image(level).of_mut(scratch);
                node::set_right(image, Some(key), fresh.address);
                if let Some(below) = below {
                    InnerMut::new(&self.tree().inner, image).set_next(below);
                }
            });
            self.write_open(lane, load, level).await?;
            port.with(|scratch| {
                let mut room = [0; KEY_BYTES_MAX];
                let key = key_of(scratch, &self.plan().key, &mut room);
                self.open(scratch, level, fresh, key);
                if let Some(below) = below {
                    let image = self.open_image(level).of_mut(scratch);
                    InnerMut::new(&self.tree().inner, image).set_child(0, below);
                }
            });
            load.open[level] = Open { fresh, used: 0 };
            // Tell the level above, opening it if this was its first node.
            let above = level + 1;
            let Some(&open) = load.open.get(above) else { break };
            let mut open = open;
            if above == load.levels {
                open = Open { fresh: self.allocate(lane, NodeClass::Inner, load).await?, used: 0 };
                port.with(|scratch| {
                    self.open(scratch, above, open.fresh, &[0; KEY_BYTES_MAX][..self.plan().key_bytes]);
                    let image = self.open_image(above).of_mut(scratch);
                    InnerMut::new(&self.tree().inner, image).set_child(0, closed);
                });
                load.first[above] = open.fresh.address;
                load.levels += 1;
            }
            if open.used < four_fifths(self.tree().inner.span, 1) {
                open.used += 1;
                load.open[above] = open;
                port.with(|scratch| {
                    let mut room = [0; KEY_BYTES_MAX];
                    let key = key_of(scratch, &self.plan().key, &mut room);
                    let image = self.open_image(above).of_mut(scratch);
                    InnerMut::new(&self.tree().inner, image).append(key, fresh.address);
                });
                return Ok(());
            }
            load.open[above] = open;
        }
        Err(OpError::harmless(Cause::BadInput("too many records for a bulk load with nodes this small")))
    }
}

impl<'s, L: Leaves<'s>> Bulk<'s> for L {}
