//! What is fixed when an index is created, how the catalog keeps it, and what a lane needs for it.

use super::layout::block;
use super::layout::shape::{LEAF_BYTES, LeafShape, ValueKind};
use crate::layout::LINE_BYTES;
use crate::layout::record::{Le16, Le32, record};
use crate::membership::redo::{HEADER_BYTES, LOOK_BYTES};
use crate::operation::ScratchPlan;
use crate::operation::span::Span;
use crate::port::OUTBOX_REQUESTS;
use crate::radix::slot::{NODE_BYTES_MAX, NodeType};
use crate::radix::tree::{self, BUILD_BYTES, LEAVES_AT_ONCE_MAX, NODE_IMAGES, PATH_BYTES};
use crate::registry::{KindParameters, stored_parameters};
use crate::remote::SCRATCH_BYTES;
use crate::remote::catalog::{IndexKind, PARAMETER_BYTES};
use core::fmt;
use static_assertions::const_assert_eq;

record! {
    /// The parameter block of a Dolphin index as the catalog stores it.
    pub struct ParameterBlock {
        key_bytes: Le16 = "key, 8..=64",
        reserved_2: Le16 = "zero",
        value_bytes: Le32 = "value, 8..=1024: 8 a word, up to 63 with a state byte, longer ones in blocks",
        flags: Le32 = "1: the keys of a leaf differ in the last byte only",
        reserved_12: [u8; 52] = "zero",
    }
}
const_assert_eq!(ParameterBlock::BYTES, PARAMETER_BYTES);

/// The only flag so far: see [`Parameters::paper_leaves`].
const FLAG_PAPER_LEAVES: u32 = 1;

/// What is fixed when an index is created. Leaves have [`LEAF_BYTES`] whatever the sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes of every key, 8..=64.
    pub key_bytes: usize,
    /// Bytes of every value, 8..=1024.
    pub value_bytes: usize,
    /// The keys of a leaf differ in the last byte only, as in the paper (section III.C). Off: leaves by population.
    pub paper_leaves: bool,
}

/// New leaves that an operation has at once: two heirs of a cut, and one more for an insert that begins anew before
/// these are given back.
pub const FRESH_LEAVES: usize = 3;

/// Words of a lane for what its FAAs and CASes find, and for single words that it READs.
pub const WORDS: usize = 8;

/// Leaves READ at once, at least: a retired one and its heir.
const LEAVES_AT_ONCE_MIN: usize = 2;

/// Scratch ranges of a lane, besides the operation's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// Those of any radix tree. There is no redo record, so no gap is before leaf image 0. New leaf 0 is its fresh one.
    pub tree: tree::Scratch,
    /// Where [`Scratch::word`] begins.
    pub words_at: usize,
    /// Where [`Scratch::line`] begins.
    pub line_at: usize,
    /// Where blocks begin: the one being written, then those that are READ at once.
    pub blocks_at: usize,
    /// Distance from one to the next; 0 if values are in leaves.
    pub block_stride: usize,
    /// How many blocks that are READ there is room for: those of a page, as far as a submit has room for them.
    pub blocks_at_once: usize,
}

impl Scratch {
    /// New leaf `i`, below [`FRESH_LEAVES`].
    #[inline]
    pub const fn fresh_leaf(&self, i: usize) -> Span {
        self.tree.fresh_leaf().nth(i)
    }

    /// Image `i` of a leaf that was READ, below `leaves_at_once`.
    #[inline]
    pub const fn leaf(&self, i: usize) -> Span {
        self.tree.leaf(i)
    }

    /// Word `i`, below [`WORDS`].
    #[inline]
    pub const fn word(&self, i: usize) -> Span {
        Span::new(self.words_at, 8).nth(i)
    }

    /// A line: the first of a leaf, or a part of a node.
    #[inline]
    pub const fn line(&self) -> Span {
        Span::new(self.line_at, LINE_BYTES)
    }

    /// The block being written.
    #[inline]
    pub const fn fresh_block(&self) -> Span {
        Span::new(self.blocks_at, self.block_stride)
    }

    /// Image `i` of a block that was READ, below [`Scratch::blocks_at_once`].
    #[inline]
    pub const fn block(&self, i: usize) -> Span {
        self.fresh_block().nth(1 + i)
    }
}

impl Parameters {
    /// Keys and values of these sizes.
    pub const fn with_sizes(key_bytes: usize, value_bytes: usize) -> Self {
        Self { key_bytes, value_bytes, paper_leaves: false }
    }

    /// Shape of leaves. `None`: [`Parameters::check`] refuses the sizes.
    pub const fn leaf(&self) -> Option<LeafShape> {
        LeafShape::new(self.key_bytes, self.value_bytes)
    }

    /// Bytes of the place of a block; 0 if values are in leaves.
    pub const fn block_bytes(&self) -> usize {
        match self.leaf() {
            Some(LeafShape { kind: ValueKind::Block, .. }) => block::place_bytes(self.value_bytes),
            _ => 0,
        }
    }
}

impl KindParameters for Parameters {
    const KIND: IndexKind = IndexKind::Dolphin;
    const LOCKS_IN_LEAVES: bool = true;

    type Scratch = Scratch;

    stored_parameters! { ParameterBlock: key_bytes, value_bytes;
        encode |parameters, block| { block.flags = if parameters.paper_leaves { FLAG_PAPER_LEAVES } else { 0 }.into(); }
        parse |block| { paper_leaves: block.flags.get() & FLAG_PAPER_LEAVES != 0 }
    }

    fn leaf_span(&self) -> usize {
        self.leaf().map_or(0, |leaf| leaf.span)
    }

    fn inner_span(&self) -> usize {
        NodeType::LARGEST.slots()
    }

    fn node_bytes(&self) -> (usize, usize) {
        (LEAF_BYTES, NODE_BYTES_MAX)
    }

    fn redo_bytes(&self) -> usize {
        // Nothing that a dead lane has begun is rolled forward.
        0
    }

    fn write_choices(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.paper_leaves { f.write_str(", keys of a leaf differ in the last byte only") } else { Ok(()) }
    }

    fn plan(&self, page_records: usize, leaves_at_once: usize) -> (ScratchPlan, Scratch) {
        let mut plan = ScratchPlan::new(self.key_bytes, self.value_bytes);
        let last = plan.take(self.key_bytes);
        let small = plan.take(SCRATCH_BYTES).start;
        let leaves_at_once = leaves_at_once.clamp(LEAVES_AT_ONCE_MIN, LEAVES_AT_ONCE_MAX);
        let recovery = plan.take(LOOK_BYTES + HEADER_BYTES);
        let (words_at, line_at) = (plan.take(8 * WORDS).start, plan.take(LINE_BYTES).start);
        let fresh_leaf_at = plan.take(LEAF_BYTES * FRESH_LEAVES).start;
        let leaves_at = plan.take(LEAF_BYTES * leaves_at_once).start;
        let block_stride = self.block_bytes();
        let blocks_at_once = page_records.clamp(1, OUTBOX_REQUESTS);
        let blocks_at = plan.take(block_stride * (1 + blocks_at_once)).start;
        let build_at = plan.take(BUILD_BYTES).start;
        let path_at = plan.take(PATH_BYTES * self.key_bytes).start;
        let nodes_at = plan.take(NODE_BYTES_MAX * NODE_IMAGES).start;
        plan.page = plan.take(page_records * (self.key_bytes + self.value_bytes));
        let tree = tree::Scratch {
            last,
            small,
            recovery,
            fresh_leaf_at,
            leaves_at,
            leaf_stride: LEAF_BYTES,
            leaves_at_once,
            build_at,
            path_at,
            nodes_at,
        };
        (plan, Scratch { tree, words_at, line_at, blocks_at, block_stride, blocks_at_once })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::registry::ParameterError;
    use core::ops::Range;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn what_is_stored_is_read_back() {
        let parameters = Parameters::with_sizes(32, 63);
        for parameters in [parameters, Parameters { paper_leaves: true, ..parameters }] {
            assert_eq!(Parameters::decode(1, &parameters.encode()), Ok(parameters));
        }
        for at in [2, 3, 8, 12, 63] {
            let mut other = parameters.encode();
            other[at] = 2;
            assert_eq!(Parameters::decode(1, &other), Err(ParameterError::Unknown), "byte {at}");
        }
        assert_eq!(
            Parameters::decode(2, &parameters.encode()),
            Err(ParameterError::Version { found: 2, supported: 1 })
        );
        assert_eq!(
            Parameters::decode(1, &[0; PARAMETER_BYTES]),
            Err(ParameterError::Limit { what: "key bytes", found: 0, least: 8, most: 64 })
        );
    }

    #[test]
    fn limits_are_said() {
        let say = |parameters: Parameters| std::string::ToString::to_string(&parameters.check().unwrap_err());
        assert_eq!(say(Parameters::with_sizes(7, 8)), "key bytes 7: the index takes 8 to 64");
        assert_eq!(say(Parameters::with_sizes(8, 1025)), "value bytes 1025: the index takes 8 to 1024");
    }

    #[test]
    fn only_long_values_have_blocks() {
        let block_bytes = |value_bytes| Parameters::with_sizes(8, value_bytes).block_bytes();
        assert_eq!([8, 63, 64, 1024, 1025].map(block_bytes), [0, 0, 80, 1040, 0]);
        let leaf_span = |key_bytes, value_bytes| Parameters::with_sizes(key_bytes, value_bytes).leaf_span();
        assert_eq!((leaf_span(8, 8), leaf_span(65, 8)), (60, 0));
    }

    proptest! {
        /// Sizes are taken or refused as `check` says, whatever they are, and other bytes do not become parameters.
        #[test]
        fn any_block_is_read(
            sizes in (0_usize..80, 0_usize..1100),
            bytes in proptest::collection::vec(any::<u8>(), PARAMETER_BYTES),
        ) {
            let parameters = Parameters::with_sizes(sizes.0, sizes.1);
            prop_assert_eq!(Parameters::decode(1, &parameters.encode()), parameters.check().map(|()| parameters));
            prop_assert!(parameters.leaf().is_some() || parameters.check().is_err());
            let block = <[u8; PARAMETER_BYTES]>::try_from(bytes).unwrap();
            if let Ok(parameters) = Parameters::decode(1, &block) {
                prop_assert_eq!(parameters.encode(), block);
            }
        }

        /// No two areas of a lane's scratch overlap, and what is sent or fetched begins at a line.
        #[test]
        fn areas_do_not_overlap(sizes in (8_usize..=64, 8_usize..=1024), wanted in (0_usize..100, 0_usize..40)) {
            let (plan, scratch) = Parameters::with_sizes(sizes.0, sizes.1).plan(wanted.0, wanted.1);
            let Scratch { tree, words_at, line_at, blocks_at, block_stride, blocks_at_once } = scratch.clone();
            prop_assert!((2..=16).contains(&tree.leaves_at_once));
            let spans = |span: Span| span.at..span.end();
            let mut areas: Vec<Range<usize>> =
                [&plan.key, &plan.key_high, &plan.value, &plan.expected, &plan.output, &plan.page, &tree.last, &tree.recovery]
                    .map(Clone::clone)
                    .into();
            areas.push(tree.small..tree.small + SCRATCH_BYTES);
            areas.extend((0..WORDS).map(|i| spans(scratch.word(i))));
            areas.push(spans(scratch.line()));
            areas.extend((0..FRESH_LEAVES).map(|i| spans(scratch.fresh_leaf(i))));
            areas.extend((0..tree.leaves_at_once).map(|i| spans(scratch.leaf(i))));
            areas.push(spans(scratch.fresh_block()));
            areas.extend((0..blocks_at_once).map(|i| spans(scratch.block(i))));
            areas.push(spans(tree.build()));
            areas.extend((0..sizes.0).map(|i| spans(tree.level(i))));
            areas.extend((0..NODE_IMAGES).map(|i| spans(tree.node(i))));
            prop_assert!([words_at, line_at, blocks_at, tree.leaves_at, tree.fresh_leaf_at, tree.build_at, tree.nodes_at]
                .iter()
                .all(|at| at.is_multiple_of(LINE_BYTES)));
            prop_assert!(block_stride.is_multiple_of(16));
            areas.retain(|area| !area.is_empty());
            areas.sort_unstable_by_key(|area| area.start);
            prop_assert!(areas.windows(2).all(|pair| pair[0].end <= pair[1].start), "{areas:?}");
            prop_assert!(areas.last().is_some_and(|area| area.end <= plan.total_bytes));
        }
    }
}
