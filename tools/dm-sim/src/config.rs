//! The semantics: what the simulated fabric guarantees, and how it uses the freedom that is left.

use crate::compute_node::ComputeNode;
use crate::memory::MemoryNode;
use dm_core::verbs::{Assumptions, CALL_BYTES_MAX, Capabilities, Guarantees, INLINE_BYTES_MAX, Status, Verb};

/// Answers a [`dm_core::verbs::Verb::Rpc`] on a memory node: its operands in, the completion's value out.
pub type RpcHandler = fn(&mut MemoryNode, [u64; 4]) -> Result<u64, Status>;

/// How long things take, in virtual ns. Ranges are inclusive and drawn from uniformly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// From post to the first effect.
    pub request_ns: (u32, u32),
    /// From the first effect of a request to its last, where it has several; also from one request to the next that
    /// waited for it.
    pub spread_ns_max: u32,
    /// From the last effect to the completion.
    pub response_ns: (u32, u32),
    /// From a lane becoming ready to its next poll: computing, and the worker being busy with other lanes.
    pub cpu_ns: (u32, u32),
    /// How often, in 1/1024, a request sleeps somewhere on its way: before its first effect, between two effects or
    /// before its completion. 0 = all delays are bounded by the ranges above.
    pub long_per_1024: u32,
    /// How long such a sleep is.
    pub long_ns: (u32, u32),
    /// Only requests of this compute node with this verb sleep; `None`: all.
    pub sleeper: Option<(ComputeNode, Verb)>,
    /// How often, in 1/1024, a packet of a request or of its answer is lost, and all from it on is sent again after
    /// [`Delays::resend_ns`]: a READ is executed again from there, so that later lines may be newer; of a WRITE the rest
    /// lands late; an atomic is answered from the saved result. Nothing is applied twice.
    pub loss_per_1024: u32,
    /// How long it takes until a loss is noticed.
    pub resend_ns: (u32, u32),
    /// From the loss of a memory node or queue pair to the completions that say so.
    pub failure_ns: (u32, u32),
}

impl Default for Delays {
    /// A round trip of 2 us on average; one request in 64 sleeps for up to 100 of them.
    fn default() -> Self {
        Self {
            request_ns: (500, 1500),
            spread_ns_max: 800,
            response_ns: (500, 1500),
            cpu_ns: (50, 400),
            long_per_1024: 16,
            long_ns: (5_000, 200_000),
            sleeper: None,
            loss_per_1024: 4,
            resend_ns: (20_000, 100_000),
            failure_ns: (10_000, 100_000),
        }
    }
}

impl Delays {
    /// The same without long sleeps and losses.
    #[must_use]
    pub const fn bounded(mut self) -> Self {
        self.long_per_1024 = 0;
        self.loss_per_1024 = 0;
        self
    }
}

/// Everything about a world but its seed.
#[derive(Clone, Debug)]
pub struct Config {
    /// Host memory of each memory node, in bytes; its length is the number of memory nodes, at least 1.
    pub host_bytes: Vec<usize>,
    /// Device memory of every memory node, in bytes; 0 = none.
    pub device_bytes: u32,
    /// What the fabric guarantees. Everything else is violated: see [`Config::freedom_percent`].
    pub granted: Assumptions,
    /// How often the fabric uses a freedom that the specification or this configuration leaves it, in percent: reorders
    /// two requests, splits a transfer into several effects, completes before the effect, writes back an old value.
    pub freedom_percent: u32,
    /// Whether [`dm_core::verbs::Verb::MaskedCas`] works.
    pub masked_atomics: bool,
    /// Unit in which transfers tear when LINE_ATOMIC is not granted: 32, 16 or 8 bytes. (Without WORD_ATOMIC: 1.)
    pub tear_bytes: u32,
    /// Into how many separate effects a transfer may fall, 1 to 8.
    pub bursts_max: u32,
    /// Whether two chains of one queue pair are as unordered as two queue pairs: what an index must expect that wants
    /// to run over several queue pairs per worker.
    pub order_within_chains_only: bool,
    /// How much of one WRITE lands all or nothing when its sender dies, in bytes.
    pub crash_atomic_bytes: u32,
    /// Payload of one packet, in bytes: the path MTU.
    pub packet_bytes: u32,
    /// What [`Capabilities::write_turn_ns_min`] says. `None`: the shortest response plus the shortest request, which
    /// is true of any writers of which each waits for the completion of the WRITE before: an effect is followed by a
    /// response, a post and a request before the next effect. Without COMPLETION_IS_VISIBLE it is not true. 0 = unknown.
    pub write_turn_ns_min: Option<u32>,
    /// Whether WRITEs to one place that come faster than that are noted as misuse ([`crate::world::World::misuses`]).
    /// Costs time: off by default.
    pub check_write_turns: bool,
    /// Memory nodes fence compute nodes off when asked to: see [`crate::World::tenant`].
    pub fences: bool,
    /// Rows of the pool that nobody can have: compute node 0 has the one behind them.
    pub rows_used_up: u16,
    /// Answers other RPCs; without it they are unsupported.
    pub rpc: Option<RpcHandler>,
    /// Whether processors of memory nodes answer calls.
    pub calls: bool,
    /// Whether compute nodes may call each other. The test takes the calls, and answers them.
    pub forwards: bool,
    /// How long a caller waits for an answer.
    pub call_timeout_ns: u64,
    /// Of 100 RPCs so many are lost on the way there or back: they complete as [`Status::Flushed`], their effect unknown. Of 100
    /// calls likewise, which complete as [`Status::Unanswered`].
    pub rpc_lost_percent: u32,
    /// Of 100 RPCs so many are executed once more, some time later. Of 100 calls so many are executed after their callers have
    /// given up.
    pub rpc_repeated_percent: u32,
    /// How long things take.
    pub delays: Delays,
}

impl Default for Config {
    /// One memory node of 1 MiB with 4 KiB of device memory that grants what RDMA hosts of today show: see
    /// [`Config::RDMA_HOST`].
    fn default() -> Self {
        Self {
            host_bytes: vec![1 << 20],
            device_bytes: 4096,
            granted: Self::RDMA_HOST,
            freedom_percent: 50,
            masked_atomics: true,
            tear_bytes: 8,
            bursts_max: 4,
            order_within_chains_only: false,
            crash_atomic_bytes: 4096,
            packet_bytes: 1024,
            write_turn_ns_min: None,
            check_write_turns: false,
            fences: false,
            rows_used_up: 0,
            rpc: None,
            calls: true,
            forwards: false,
            call_timeout_ns: 50_000,
            rpc_lost_percent: 0,
            rpc_repeated_percent: 0,
            delays: Delays::default(),
        }
    }
}

impl Config {
    /// What x86 hosts with RC queue pairs and without relaxed ordering show: everything but the order of lines inside
    /// one WRITE.
    pub const RDMA_HOST: Assumptions = Assumptions::all().difference(Assumptions::WRITE_ASCENDING);

    /// The default, with `nodes` memory nodes of `host_bytes` each.
    pub fn with_nodes(nodes: usize, host_bytes: usize) -> Self {
        Self { host_bytes: vec![host_bytes; nodes], ..Self::default() }
    }

    /// The same without the guarantees in `withdrawn`.
    #[must_use]
    pub fn without(mut self, withdrawn: Assumptions) -> Self {
        self.granted = self.granted.difference(withdrawn);
        self
    }

    /// What the fabric offers.
    pub fn capabilities(&self) -> Capabilities {
        let turn_ns = self.delays.response_ns.0.saturating_add(self.delays.request_ns.0);
        Capabilities {
            masked_atomics: self.masked_atomics,
            device_bytes: self.device_bytes,
            inline_bytes_max: INLINE_BYTES_MAX as u32,
            outstanding_reads_max: 16,
            chain_requests_max: 16,
            fencing: true,
            crash_atomic_bytes: self.crash_atomic_bytes,
            write_turn_ns_min: self.write_turn_ns_min.unwrap_or(turn_ns),
            calls_change: self.calls,
            call_bytes_max: if self.calls { CALL_BYTES_MAX as u32 } else { 0 },
        }
    }

    /// What can be relied upon.
    pub fn guarantees(&self) -> Guarantees {
        Guarantees { by_construction: self.granted, asserted: Assumptions::empty(), profile: "" }
    }

    /// Unit in which transfers tear, in bytes.
    pub fn unit_bytes(&self) -> u32 {
        if self.granted.contains(Assumptions::LINE_ATOMIC) {
            64
        } else if self.granted.contains(Assumptions::WORD_ATOMIC) {
            self.tear_bytes.clamp(8, 64)
        } else {
            1
        }
    }
}
