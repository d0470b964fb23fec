//! The vocabulary: what a compute node may ask of memory nodes, and what it may rely on.
//!
//! A [`Request`] is plain `repr(C)` data of 56 bytes. Requests of one submit that name the same memory node form a
//! *chain*: they are posted with one doorbell on one queue pair and execute in post order, as far as the
//! specification orders them (InfiniBand Architecture Specification Vol. 1, work request operation ordering):
//!
//! | first \ second | WRITE | READ | atomic |
//! |---|---|---|---|
//! | WRITE  | ordered | ordered | ordered |
//! | READ   | **fence** | ordered | **fence** |
//! | atomic | **fence** | ordered | ordered |
//!
//! *fence* means: ordered only if the second carries [`Flags::FENCE`]. Nothing orders requests to different memory
//! nodes except waiting for a completion before posting the next.
//!
//! A [`Fabric`](crate::fabric::Fabric) executes requests. The trait lives here so that a simulator needs no host crate.

use bitflags::bitflags;
use static_assertions::const_assert_eq;

/// Logical memory-node number, 0-based: what addresses carry. Which machine answers to it is the pool's business.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct NodeId(pub u16);

/// Number of a lane, unique within one compute node (all its workers together).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct LaneId(pub u16);

/// What is asked. The driver of the lane executes those that are local ([`Verb::is_local`]); the others travel to a memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verb {
    /// Copy `bytes` from remote `offset` to scratch `local`.
    Read = 1,
    /// Copy `bytes` to remote `offset`, from scratch `local` or, with [`Flags::INLINE`], from the operands.
    Write = 2,
    /// Compare-and-swap of the 8-byte word at `offset`: operands `[compare, swap]`.
    Cas = 3,
    /// Masked compare-and-swap: operands `[compare, swap, compare_mask, swap_mask]`. The word is compared under
    /// `compare_mask`; on success the bits of `swap_mask` are replaced.
    MaskedCas = 4,
    /// Fetch-and-add on the 8-byte word at `offset`: operands `[addend]`.
    FetchAdd = 5,
    /// A small remote procedure call to the memory node's daemon: operands `[procedure, a, b, c]`.
    Rpc = 6,
    /// Ask the driver to resume this lane after `operands[0]` nanoseconds.
    Pause = 7,
    /// Ask the driver to resume this lane when another lane asks for [`Verb::Wake`], or after `operands[0]`
    /// nanoseconds. A wake that came first counts.
    Park = 8,
    /// Ask the driver to resume lane `operands[0]`, now or when it parks next.
    Wake = 9,
    /// Have the memory node's processor, or the compute node that the [`Callee`] in `operands[1]` names, execute a request of
    /// `bytes` bytes at scratch `local`; its answer, of at most `operands[0]` bytes, replaces the request. See [`CallAnswer`]
    /// for the completion's value. A compute node may take `operands[2]` ns.
    Call = 10,
}

impl Verb {
    /// Whether the request is for the lane's driver and never reaches a memory node.
    #[inline]
    pub const fn is_local(self) -> bool {
        matches!(self, Self::Pause | Self::Park | Self::Wake)
    }

    /// Lower-case name for traces and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Cas => "cas",
            Self::MaskedCas => "masked-cas",
            Self::FetchAdd => "fetch-add",
            Self::Rpc => "rpc",
            Self::Pause => "pause",
            Self::Park => "park",
            Self::Wake => "wake",
            Self::Call => "call",
        }
    }
}

/// Which memory of the memory node an offset is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Space {
    /// Host DRAM: the registered region, offset 0 is the superblock.
    #[default]
    Host = 0,
    /// On-chip memory of the NIC, offset 0 is the first lock word.
    Device = 1,
}

macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The name of a step of an algorithm, one byte: traces read like the steps of the papers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Label { $($(#[$doc])* $name,)* }

        impl Label {
            /// Every label, in numeric order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Text for traces and reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

labels! {
    /// The root pointer of an index in the catalog.
    Root = "root",
    /// An inner node on the way down.
    Inner = "inner",
    /// A whole leaf.
    Leaf = "leaf",
    /// One entry of a leaf.
    Entry = "entry",
    /// A new right sibling.
    Sibling = "sibling",
    /// A whole node written back.
    Node = "node",
    /// Acquire a lock.
    Lock = "lock",
    /// Release a lock.
    Unlock = "unlock",
    /// An inner node whose child changed.
    Parent = "parent",
    /// The header of a node, to see whether it is still in use.
    Header = "header",
    /// An entry of the chunk table.
    Chunk = "chunk",
    /// A compute-node row.
    Row = "row",
    /// The superblock or the catalog.
    Super = "super",
    /// A redo record.
    Redo = "redo",
    /// A dead compute node's lock, taken over or freed.
    Takeover = "takeover",
    /// A WRITE done again from its redo record.
    Replay = "replay",
    /// The retired leaf of a half-merge, revived.
    Revive = "revive",
    /// Bulk-loaded node.
    Bulk = "bulk",
    /// Structural walk.
    Walk = "walk",
    /// Waiting: back-off or a local queue.
    Wait = "wait",
    /// Anything a tool asks by hand.
    Tool = "tool",
    /// Some entries of a leaf: the neighborhood of a key, or as far as an insert may have to hop.
    Neighborhood = "neighborhood",
    /// What the lock word of a new leaf says while it is free.
    Vacancy = "vacancy",
    /// A slot of a radix tree's node.
    Slot = "slot",
    /// A slot that shall not change any more.
    Freeze = "freeze",
    /// A key and its value.
    Block = "block",
    /// Whether a queue pair that failed is closed.
    Closed = "closed",
    /// Lines of a log ring, its head, or its description.
    Log = "log",
    /// What a flush is about to write, in front of it.
    Image = "image",
    /// A word of an ownership table, or the table.
    Owner = "owner",
    /// A search, or a page of a scan, that a memory node's processor does.
    Search = "search",
    /// A change of a leaf that a memory node's processor makes.
    Change = "change",
    /// An operation that the owner of its key executes.
    Forward = "forward",
}

bitflags! {
    /// How a request is posted.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(transparent)]
    pub struct Flags: u8 {
        /// The lane waits for this request's completion. The others of its chain are known to be done when a later
        /// signaled one of the same chain is.
        const SIGNALED = 1 << 0;
        /// The payload is in the operands (at most [`INLINE_BYTES_MAX`]); scratch is not read.
        const INLINE = 1 << 1;
        /// Wait for all earlier READs and atomics of this queue pair before executing.
        const FENCE = 1 << 2;
        /// Nobody will look at how long this request took: it may complete with an elapsed time of 0.
        const UNTIMED = 1 << 3;
    }
}

/// Payload bytes a request can carry in its operands.
pub const INLINE_BYTES_MAX: usize = 32;

/// Bytes of a call's request, and of its answer, at most: a page.
pub const CALL_BYTES_MAX: usize = 4096;

/// The value of the completion of a [`Verb::Call`]: answer bytes 16 bits, calls that waited 16, service time in ns 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct CallAnswer(pub u64);

impl CallAnswer {
    /// An answer of `bytes` bytes, in front of which `queued` calls waited, and for which a processor worked `service_ns`.
    pub const fn new(bytes: usize, queued: u16, service_ns: u32) -> Self {
        let bytes = if bytes > CALL_BYTES_MAX { CALL_BYTES_MAX } else { bytes };
        Self(bytes as u64 | (queued as u64) << 16 | (service_ns as u64) << 32)
    }

    /// Bytes of the answer, at most [`CALL_BYTES_MAX`].
    pub const fn bytes(self) -> usize {
        let bytes = (self.0 & 0xffff) as usize;
        if bytes > CALL_BYTES_MAX { CALL_BYTES_MAX } else { bytes }
    }

    /// Calls that waited in front of this one when it came, saturating.
    pub const fn queued(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// How long the memory node's processor worked for it, in ns.
    pub const fn service_ns(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Who executes a [`Verb::Call`]: 0 is the memory node's processor. A compute node's row is in bits 0..16, the catalog number of an
/// index in bits 16..32, and bit 32 is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Callee(pub u64);

impl Callee {
    /// The memory node's processor.
    pub const MEMORY_NODE: Self = Self(0);

    /// The compute node of `row`, for its operations on `index`.
    pub const fn compute_node(row: u16, index: u16) -> Self {
        Self(1 << 32 | (index as u64) << 16 | row as u64)
    }

    /// The row of a compute node. `None`: it is the memory node, or nothing.
    pub const fn row(self) -> Option<u16> {
        if self.0 >> 32 == 1 { Some(self.0 as u16) } else { None }
    }
}

/// One verb request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Request {
    /// What to do.
    pub verb: Verb,
    /// The step it is part of.
    pub label: Label,
    /// How to post it.
    pub flags: Flags,
    /// Which memory `offset` is in.
    pub space: Space,
    /// The memory node.
    pub node: NodeId,
    /// Zero.
    pub reserved: u16,
    /// Byte offset in the remote memory.
    pub offset: u64,
    /// Byte offset in the lane's scratch.
    pub local: u32,
    /// Payload length in bytes.
    pub bytes: u32,
    /// Arguments of atomics and RPCs, or an inline payload as little-endian bytes.
    pub operands: [u64; 4],
}
const_assert_eq!(core::mem::size_of::<Request>(), 56);

impl Request {
    const fn new(verb: Verb, label: Label, node: NodeId, offset: u64) -> Self {
        let flags = Flags::SIGNALED;
        Self { verb, label, flags, space: Space::Host, node, reserved: 0, offset, local: 0, bytes: 0, operands: [0; 4] }
    }

    /// READ `bytes` at `offset` into scratch at `local`.
    #[inline]
    pub const fn read(label: Label, node: NodeId, offset: u64, bytes: usize, local: usize) -> Self {
        let mut request = Self::new(Verb::Read, label, node, offset);
        request.bytes = bytes as u32;
        request.local = local as u32;
        request
    }

    /// WRITE `bytes` from scratch at `local` to `offset`.
    #[inline]
    pub const fn write(label: Label, node: NodeId, offset: u64, bytes: usize, local: usize) -> Self {
        let mut request = Self::new(Verb::Write, label, node, offset);
        request.bytes = bytes as u32;
        request.local = local as u32;
        request
    }

    /// WRITE one 8-byte word, carried inline.
    #[inline]
    pub const fn write_word(label: Label, node: NodeId, offset: u64, word: u64) -> Self {
        let mut request = Self::new(Verb::Write, label, node, offset);
        request.bytes = 8;
        request.flags = Flags::SIGNALED.union(Flags::INLINE);
        request.operands[0] = word;
        request
    }

    /// CAS of the word at `offset`.
    #[inline]
    pub const fn cas(label: Label, node: NodeId, offset: u64, compare: u64, swap: u64) -> Self {
        let mut request = Self::new(Verb::Cas, label, node, offset);
        request.bytes = 8;
        request.operands = [compare, swap, 0, 0];
        request
    }

    /// Masked CAS of the word at `offset`; see [`Verb::MaskedCas`].
    #[inline]
    pub const fn masked_cas(label: Label, node: NodeId, offset: u64, operands: [u64; 4]) -> Self {
        let mut request = Self::new(Verb::MaskedCas, label, node, offset);
        request.bytes = 8;
        request.operands = operands;
        request
    }

    /// Fetch-and-add on the word at `offset`.
    #[inline]
    pub const fn fetch_add(label: Label, node: NodeId, offset: u64, addend: u64) -> Self {
        let mut request = Self::new(Verb::FetchAdd, label, node, offset);
        request.bytes = 8;
        request.operands[0] = addend;
        request
    }

    /// Remote procedure call.
    #[inline]
    pub const fn rpc(label: Label, node: NodeId, operands: [u64; 4]) -> Self {
        let mut request = Self::new(Verb::Rpc, label, node, 0);
        request.operands = operands;
        request
    }

    /// Call of the `bytes` bytes of scratch at `local`; an answer of at most `answer_bytes` replaces them. See [`Verb::Call`].
    #[inline]
    pub const fn call(label: Label, node: NodeId, local: usize, bytes: usize, answer_bytes: usize) -> Self {
        let mut request = Self::new(Verb::Call, label, node, 0);
        request.bytes = bytes as u32;
        request.local = local as u32;
        request.operands[0] = answer_bytes as u64;
        request
    }

    /// The same call, of `callee`, which may take `wait_ns`.
    #[must_use]
    pub const fn to(mut self, callee: Callee, wait_ns: u64) -> Self {
        (self.operands[1], self.operands[2]) = (callee.0, wait_ns);
        self
    }

    /// Resume this lane after `ns` nanoseconds.
    #[inline]
    pub const fn pause(ns: u64) -> Self {
        let mut request = Self::new(Verb::Pause, Label::Wait, NodeId(0), 0);
        request.operands[0] = ns;
        request
    }

    /// Sleep until another lane wakes this one, at most for `ns`.
    #[inline]
    pub const fn park(ns: u64) -> Self {
        let mut request = Self::new(Verb::Park, Label::Wait, NodeId(0), 0);
        request.operands[0] = ns;
        request
    }

    /// Wake `lane`. Nobody waits for it.
    #[inline]
    pub const fn wake(lane: LaneId) -> Self {
        let mut request = Self::new(Verb::Wake, Label::Wait, NodeId(0), 0);
        request.flags = Flags::empty();
        request.operands[0] = lane.0 as u64;
        request
    }

    /// The same request, not waited for.
    #[inline]
    #[must_use]
    pub const fn unsignaled(mut self) -> Self {
        self.flags = self.flags.difference(Flags::SIGNALED);
        self
    }

    /// The same request, ordered after all earlier READs and atomics of its queue pair.
    #[inline]
    #[must_use]
    pub const fn fenced(mut self) -> Self {
        self.flags = self.flags.union(Flags::FENCE);
        self
    }

    /// The same request, whose elapsed time nobody will look at.
    #[inline]
    #[must_use]
    pub(crate) const fn untimed(mut self) -> Self {
        self.flags = self.flags.union(Flags::UNTIMED);
        self
    }

    /// The same request on `space`.
    #[inline]
    #[must_use]
    pub const fn in_space(mut self, space: Space) -> Self {
        self.space = space;
        self
    }

    /// The inline payload, all [`INLINE_BYTES_MAX`] bytes of it; the first `bytes` count.
    #[inline]
    pub fn inline_payload(&self) -> [u8; INLINE_BYTES_MAX] {
        let mut payload = [0; INLINE_BYTES_MAX];
        for (to, word) in payload.chunks_exact_mut(8).zip(self.operands) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        payload
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Status {
    /// Done. For an atomic this says nothing about the comparison: look at the value.
    #[default]
    Ok = 0,
    /// The memory node refused it: outside its memory, misaligned, or not permitted. It had no effect.
    Refused = 1,
    /// An earlier request of the same connection failed, and with it all behind it; this one may or may not have taken effect,
    /// or may still.
    Flushed = 2,
    /// The memory node does not answer any more. Effect unknown.
    NodeDown = 3,
    /// This incarnation of the compute node has been fenced off. No effect.
    Fenced = 4,
    /// The fabric has no such verb or memory. No effect.
    Unsupported = 5,
    /// The memory node did not answer a [`Verb::Call`] in time, or has too many of them. It may still execute the call, at any
    /// later time.
    Unanswered = 6,
    /// Nobody executes a [`Verb::Call`] of a compute node: nobody has begun, and nobody will. No effect.
    NotServed = 7,
}

impl Status {
    /// Text for errors and traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused by the memory node",
            Self::Flushed => "flushed behind a failed request",
            Self::NodeDown => "memory node down",
            Self::Fenced => "fenced",
            Self::Unsupported => "not supported by the fabric",
            Self::Unanswered => "not answered in time",
            Self::NotServed => "not served by the compute node",
        }
    }
}

/// What came back for one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Completion {
    /// The old value of an atomic, the result of an RPC, the [`CallAnswer`] of a call, else 0.
    pub value: u64,
    /// Requester-side time from post to completion, in ns, saturating at 4.29 s. A fabric that executes a request at
    /// once may say 0 for one that touches a single line, or is [`Flags::UNTIMED`].
    pub elapsed_ns: u32,
    /// How it ended.
    pub status: Status,
}
const_assert_eq!(core::mem::size_of::<Completion>(), 16);

impl Completion {
    /// Of a request that nobody completed.
    pub(crate) const NOTHING: Self = Self { value: 0, elapsed_ns: 0, status: Status::Ok };
}

/// What a fabric offers. Every index has a path for each one missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// [`Verb::MaskedCas`] works.
    pub masked_atomics: bool,
    /// Bytes of device memory on every memory node; 0 = none.
    pub device_bytes: u32,
    /// Largest inline payload in bytes.
    pub inline_bytes_max: u32,
    /// READs and atomics in flight per queue pair before the send queue stalls.
    pub outstanding_reads_max: u16,
    /// Requests in one chain.
    pub chain_requests_max: u16,
    /// A dead compute node can be kept from writing ever again, and that is confirmed.
    pub fencing: bool,
    /// How much of one WRITE lands all or nothing when its sender dies, in bytes.
    pub crash_atomic_bytes: u32,
    /// No two WRITEs to one place can follow each other faster than this, in ns: what bounds how often a 4-bit version
    /// can turn during one READ. 0 = unknown: READs are trusted however long they take.
    pub write_turn_ns_min: u32,
    /// Bytes of a call's request, and of its answer, at most [`CALL_BYTES_MAX`]. 0 = memory nodes answer no calls.
    pub call_bytes_max: u32,
    /// Memory nodes' processors may change what compute nodes READ: each line that they write is whole for a READ.
    pub calls_change: bool,
}

impl Capabilities {
    /// A READ that took no longer, in ns, saw fewer WRITEs of one place than a 4-bit version takes to come round.
    #[inline]
    pub const fn exposure_ns_max(&self) -> u32 {
        if self.write_turn_ns_min == 0 { u32::MAX } else { self.write_turn_ns_min.saturating_mul(15) }
    }
}

bitflags! {
    /// What an index needs of a fabric to be *correct*.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Assumptions: u32 {
        /// A READ sees each aligned 64-byte line as it was at one instant, against WRITEs.
        const LINE_ATOMIC = 1 << 0;
        /// An aligned 8-byte word is never torn.
        const WORD_ATOMIC = 1 << 1;
        /// WRITEs of one chain take effect in post order.
        const WRITE_THEN_WRITE = 1 << 2;
        /// In one chain, an atomic takes effect after the WRITEs posted before it.
        const WRITE_THEN_ATOMIC = 1 << 3;
        /// In one chain, a READ sees what atomics posted before it did and returns nothing older.
        const ATOMIC_THEN_READ = 1 << 4;
        /// A READ posted (by any compute node) after a WRITE completed sees that WRITE.
        const COMPLETION_IS_VISIBLE = 1 << 5;
        /// A compute node that sees the effect of a device-memory request also sees the host-memory WRITEs that were
        /// posted before it in its chain.
        const HOST_BEFORE_DEVICE = 1 << 6;
        /// A WRITE to a word under atomics is not lost to a concurrent atomic.
        const ATOMIC_EXCLUDES_WRITE = 1 << 7;
        /// A CAS whose comparison fails writes nothing, not even the old value.
        const FAILED_CAS_IS_SILENT = 1 << 8;
        /// A WRITE lands its lines in ascending address order.
        const WRITE_ASCENDING = 1 << 9;
        /// Elapsed times bound how long a READ was exposed to WRITEs ([`Capabilities::write_turn_ns_min`] holds).
        const TIMED_READS = 1 << 10;
        /// In one chain, a READ returns nothing older than a READ posted before it.
        const READ_THEN_READ = 1 << 11;
        /// Atomics of one chain take effect in post order.
        const ATOMIC_THEN_ATOMIC = 1 << 12;
    }
}

impl Assumptions {
    /// Names of the set flags, in bit order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.iter_names().map(|(name, _)| name)
    }
}

/// On what grounds a fabric grants what it grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarantees {
    /// Follows from how the fabric is built.
    pub by_construction: Assumptions,
    /// Not promised by anyone, but observed on platforms of this profile, and probed where that is possible.
    pub asserted: Assumptions,
    /// Name of the platform profile that asserts; empty if nothing is asserted.
    pub profile: &'static str,
}

impl Guarantees {
    /// What an index needs and this fabric does not grant.
    pub const fn missing(&self, needed: Assumptions) -> Assumptions {
        needed.difference(self.by_construction.union(self.asserted))
    }
}
