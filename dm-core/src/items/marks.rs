//! Marks: events of items that are counted.

crate::marks::declare_marks! {
    73;
    /// A block was READ.
    BLOCK_READ = "block-read",
    /// A block was not what its entry said: it had been replaced since.
    BLOCK_REPLACED = "block-replaced",
    /// The place of a block was lost: the free list was full, or it is not known whether an entry names it.
    BLOCK_LOST = "block-lost",
    /// The place of a block came back in a chunk that is being collected, and was left there.
    BLOCK_LEFT = "block-left",
    /// A layer was made, because a second key continued behind a slice.
    LAYER_MADE = "layer-made",
    /// A new layer was not needed after all, and its entry was deleted.
    LAYER_TAKEN_BACK = "layer-taken-back",
    /// The entry of a layer that nothing leads to was left where it is.
    LAYER_LOST = "layer-lost",
    /// An entry of an item had changed since it was read.
    ENTRY_CHANGED = "entry-changed",
    /// Settling READ an entry to find out whether it names a block.
    ENTRY_REVISITED = "entry-revisited",
    /// A compute node gave up its calls, since one that changes an entry was not answered.
    CALL_GIVEN_UP = "call-given-up",
}
