//! Marks: events of memory that are counted.

crate::marks::declare_marks! {
    4;
    /// A chunk was granted.
    CHUNK_GRANTED = "chunk-granted",
    /// The CAS of a chunk entry lost.
    CHUNK_RACE_LOST = "chunk-race-lost",
    /// A chunk of a departed compute node became that of another one.
    CHUNK_COLLECTED = "chunk-collected",
    /// A retired node came back into use.
    NODE_REUSED = "node-reused",
    /// A node that only a departed compute node knew of was collected.
    NODE_RECLAIMED = "node-reclaimed",
    /// A place began to wait for an epoch: its generations begin anew, or it has none.
    LIMBO_ENTERED = "limbo-entered",
    /// A place has waited for long enough.
    LIMBO_LEFT = "limbo-left",
}
