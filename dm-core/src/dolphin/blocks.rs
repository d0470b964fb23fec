//! Values in blocks: carved, WRITTEN and named, or given back; READ and checked; retired.
//!
//! A block is immutable in a generation of its place. It is WRITTEN beside the addition by which the lane gets into the
//! leaf, and this has completed before the word that names it is changed (COMPLETION_IS_VISIBLE). So whoever sees a name
//! finds the block. Its place waits for the epochs when no leaf names it any more, as every place of the tree does: an
//! operation that has seen a name READs this block, and a CAS that expects a name is not fooled by another block of that
//! name. Checksum and generation say so once more.
//!
//! **The operation's own block** is noted in the lane's scratch: its name, and whether it is still to be WRITTEN. A block
//! that was not named when the operation ends is given back at once, since no other lane knows of it. If a request
//! failed, nobody knows whether it was named, or named and replaced; then it is left to the mark-and-sweep, and so is
//! the block that it was to replace.

use super::Dolphin;
use super::layout::block::{self, BlockPointer};
use super::layout::leaf::{Leaf, Value, place_of};
use super::layout::shape::ValueKind;
use super::parameters::Scratch;
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::mutants::{Mutant, planted};
use crate::operation::span::Span;
use crate::operation::{Cause, OpError, OperationKind, Outcome};
use crate::radix::tree::{Way, corrupt};
use crate::remote::address::Address;
use crate::remote::place::NodeClass;
use crate::verbs::{Label, NodeId, Request};

/// What a leaf, and the block that it names, say of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// It is not there.
    Absent,
    /// It is there, and its value is in the output.
    Here,
    /// Something else is where its block should be: READ the leaf again.
    Doubtful(BlockPointer),
}

impl Scratch {
    /// The name of the operation's own block; 0: it has none, or none that nobody names.
    const fn own_block(&self) -> Span {
        self.word(0)
    }

    /// 1: the own block is still to be WRITTEN.
    const fn own_unwritten(&self) -> Span {
        self.word(1)
    }
}

/// The error of a block that is not what a leaf says, although it cannot have been replaced.
pub(super) const fn no_block(name: BlockPointer) -> OpError {
    corrupt(name.place(), "a block that is not what its leaf says")
}

impl Dolphin<'_> {
    /// Whether values are in blocks.
    pub(super) const fn has_blocks(&self) -> bool {
        matches!(self.shape.kind, ValueKind::Block)
    }

    /// An operation begins: it has no own block.
    pub(super) fn begin_block(&self, lane: &Lane<'_>) {
        if self.has_blocks() {
            lane.port().with(|scratch| self.scratch.own_block().set_word(scratch, 0));
        }
    }

    /// The operation's own block.
    pub(super) fn own_block(&self, scratch: &[u8]) -> Option<BlockPointer> {
        if self.has_blocks() { BlockPointer::from_bits(self.scratch.own_block().word(scratch)) } else { None }
    }

    /// Carves the own block of an operation that writes a value, and builds it, unless that was done before.
    pub(super) async fn make_block(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        kind: OperationKind,
        near: NodeId,
    ) -> Result<(), Interrupt> {
        let writes = !matches!(kind, OperationKind::Delete | OperationKind::DeleteIf);
        if !self.has_blocks() || !writes || lane.port().with(|scratch| self.own_block(scratch)).is_some() {
            return Ok(());
        }
        // The value is final from here on.
        self.seal(lane);
        let bytes = self.scratch.block_stride;
        let place = self.tree.carve(lane, way.patient, NodeClass::Inner, near, bytes).await?;
        // Tells the block from those that were here before, as far as its bits go. It is not 0: so a name has two bytes or more
        // that are not, and damage of one byte does not make it 0, which means *absent*.
        let generation = (lane.next_turn() >> 8) as u16 | 1;
        let built = lane.port().with(|scratch| {
            let name = BlockPointer::new(place, generation)?;
            let (arguments, image) = self.plan.arguments_and(self.scratch.fresh_block(), scratch).ok()?;
            block::write(image, name, self.tree.index, arguments.value())?;
            self.scratch.own_block().set_word(scratch, name.to_bits());
            self.scratch.own_unwritten().set_word(scratch, 1);
            Some(())
        });
        built.ok_or_else(|| {
            self.tree.space.put(NodeClass::Inner, place, bytes);
            corrupt(place, "a block that cannot be built").into()
        })
    }

    /// Pushes the WRITE of the own block, if it is still to be WRITTEN, beside an addition.
    pub(super) fn push_block_beside(&self, lane: &Lane<'_>) {
        if !planted(Mutant::BLOCK_NAMED_EARLY) {
            self.push_block(lane);
        }
    }

    /// Pushes the WRITE of the own block, if it is still to be WRITTEN.
    pub(super) fn push_block(&self, lane: &Lane<'_>) {
        let unwritten = lane.port().with(|scratch| {
            let name = self.own_block(scratch)?;
            let mark = self.scratch.own_unwritten();
            let unwritten = mark.word(scratch) == 1;
            mark.set_word(scratch, 0);
            unwritten.then_some(name)
        });
        if let Some(name) = unwritten {
            let (place, image) = (name.place(), self.scratch.fresh_block());
            lane.port().push(Request::write(Label::Block, place.node(), place.offset(), image.bytes, image.at));
        }
    }

    /// A leaf names the own block.
    pub(super) fn block_is_named(&self, lane: &Lane<'_>) {
        self.begin_block(lane);
    }

    /// An operation ends: gives its own block back if no leaf names it.
    pub(super) fn end_block(&self, lane: &Lane<'_>, result: &Result<Outcome, Interrupt>) {
        if !self.has_blocks() {
            return;
        }
        let failed = matches!(result, Err(Interrupt::Failed(OpError { cause: Cause::Verb(_), .. })));
        if failed || lane.port().unclosed().is_some() {
            // It may be named.
            return;
        }
        if let Some(name) = lane.port().with(|scratch| self.own_block(scratch)) {
            self.tree.space.put(NodeClass::Inner, name.place(), self.scratch.block_stride);
            self.block_is_named(lane);
        }
    }

    /// Takes back a block that no leaf names any more.
    pub(super) fn retire_block(&self, lane: &Lane<'_>, way: &Way, old: Option<BlockPointer>) {
        if let Some(name) = old {
            self.tree.retire(lane, way, NodeClass::Inner, name.place(), self.scratch.block_stride);
        }
    }

    /// The block that cell `cell` of leaf image 0 names.
    pub(super) fn named_by(&self, lane: &Lane<'_>, leaf: Address, cell: usize) -> Option<BlockPointer> {
        if !self.has_blocks() {
            return None;
        }
        lane.port().with(|scratch| {
            let image = self.tree.scratch.leaf(0).of(scratch);
            match Leaf::new(&self.shape, image, leaf, self.tree.index).ok()?.value(cell) {
                Ok(Value::Block(name)) => Some(name),
                _ => None,
            }
        })
    }

    /// Pushes the READ of a block into block image `i`.
    pub(super) fn push_block_read(&self, lane: &Lane<'_>, name: BlockPointer, i: usize) -> Result<(), OpError> {
        let (place, image) = (name.place(), self.scratch.block(i));
        if !self.tree.is_inside(place, image.bytes) {
            return Err(corrupt(place, "a pointer beyond the pool"));
        }
        lane.port().push(Request::read(Label::Block, place.node(), place.offset(), image.bytes, image.at).untimed());
        Ok(())
    }

    /// The value in block image `i`.
    pub(super) fn block_value<'a>(
        &self,
        scratch: &'a [u8],
        name: BlockPointer,
        i: usize,
    ) -> Result<&'a [u8], DecodeError> {
        block::read(self.scratch.block(i).of(scratch), name, self.tree.index, self.shape.value_bytes)
    }

    /// READs the blocks of these records of the page, which have the names where their values will be, as many at once as
    /// there is room for. `Some`: something else is where this block should be, so that the leaf has to be READ again.
    pub(super) async fn fill_page(
        &self,
        lane: &Lane<'_>,
        records: core::ops::Range<usize>,
    ) -> Result<Option<BlockPointer>, OpError> {
        let at_once = self.scratch.blocks_at_once.min(lane.port().room()).max(1);
        let value_at = |i: usize| Span::new(self.plan.record(i).start + self.shape.key_bytes, self.shape.value_bytes);
        let name_of = |scratch: &[u8], i| BlockPointer::from_bits(value_at(i).word(scratch));
        for first in records.clone().step_by(at_once) {
            let round = first..records.end.min(first + at_once);
            for (image, i) in round.clone().enumerate() {
                if let Some(name) = lane.port().with(|scratch| name_of(scratch, i)) {
                    self.push_block_read(lane, name, image).inspect_err(|_| lane.port().withdraw())?;
                }
            }
            lane.port().submit().await?;
            let doubtful = lane.port().with(|scratch| {
                round.enumerate().find_map(|(image, i)| {
                    let name = name_of(scratch, i)?;
                    if self.block_value(scratch, name, image).is_err() {
                        return Some(name);
                    }
                    let value = block::value_range(self.shape.value_bytes);
                    self.scratch.block(image).part(&value).copy_to(scratch, value_at(i).at);
                    None
                })
            });
            if doubtful.is_some() {
                return Ok(doubtful);
            }
        }
        Ok(None)
    }

    /// READs the blocks of the records of the leaf in image 0, checks them, and answers how many these are.
    pub(super) async fn check_blocks(&self, lane: &Lane<'_>, leaf: Address) -> Result<u64, OpError> {
        let mut count = 0;
        for cell in 0..self.shape.span {
            let Some(name) = self.named_by(lane, leaf, cell) else { continue };
            self.push_block_read(lane, name, 0)?;
            lane.port().submit().await?;
            lane.port().with(|scratch| self.block_value(scratch, name, 0).map(|_| ())).map_err(|_| no_block(name))?;
            count += 1;
        }
        Ok(count)
    }

    /// READs a block, and copies its value to the output.
    async fn output_block(&self, lane: &Lane<'_>, name: BlockPointer) -> Result<Shown, OpError> {
        self.push_block_read(lane, name, 0)?;
        lane.port().submit().await?;
        Ok(lane.port().with(|scratch| {
            if self.block_value(scratch, name, 0).is_err() {
                return Shown::Doubtful(name);
            }
            let value = block::value_range(self.shape.value_bytes);
            self.scratch.block(0).part(&value).copy_to(scratch, self.plan.output.start);
            Shown::Here
        }))
    }

    /// Copies the value that leaf image 0 has for the key, or the block that it names, to the output.
    pub(super) async fn output(&self, lane: &Lane<'_>, leaf: Address) -> Result<Shown, OpError> {
        let found = lane.port().with(|scratch| {
            let image = self.tree.scratch.leaf(0);
            let found = {
                let key = scratch.get(self.plan.key.clone()).unwrap_or_default();
                let found = Leaf::new(&self.shape, image.of(scratch), leaf, self.tree.index).and_then(|leaf| {
                    let Some(cell) = leaf.find(key) else { return Ok(None) };
                    Ok(match leaf.value(cell)? {
                        Value::Absent => None,
                        Value::Here(_) => Some((cell, None)),
                        Value::Block(name) => Some((cell, Some(name))),
                    })
                });
                found.map_err(|_| corrupt(place_of(leaf), "a value in no known state"))?
            };
            Ok::<_, OpError>(match found {
                None => Err(Shown::Absent),
                Some((_, Some(name))) => Ok(name),
                Some((cell, None)) => {
                    image.part(&self.shape.content_of(cell)).copy_to(scratch, self.plan.output.start);
                    Err(Shown::Here)
                }
            })
        })?;
        match found {
            Ok(name) => self.output_block(lane, name).await,
            Err(shown) => Ok(shown),
        }
    }
}
