//! When a request takes effect: random times, under exactly the order that the specification and the configuration
//! impose.
//!
//! A transfer is cut into units (lines, or words where lines are not atomic) and its units are dealt to *bursts*. A
//! burst is one instant. Everything is decided when the request is posted: what order demands of it is that its first
//! burst comes after the last burst of certain earlier requests of its queue pair, and those times are known.
//!
//! | first \ second | WRITE | READ | atomic |
//! |---|---|---|---|
//! | WRITE  | WRITE_THEN_WRITE | always | WRITE_THEN_ATOMIC |
//! | READ   | fence | READ_THEN_READ | fence |
//! | atomic | fence | ATOMIC_THEN_READ | ATOMIC_THEN_ATOMIC |
//!
//! A host-memory WRITE before anything in device memory is ordered by HOST_BEFORE_DEVICE instead. A timing model replaces `plan` and nothing else.

use crate::compute_node::ComputeNode;
use crate::config::{Config, Delays};
use crate::rng::Rng;
use dm_core::verbs::{Assumptions, Flags, Request, Space, Verb};

/// Into how many instants a transfer can fall apart. More than a few add events and no new kind of picture.
pub const BURSTS_MAX: usize = 8;

/// When the last effect of each kind of request posted so far on a queue pair happens.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "units last")]
pub(crate) struct Order {
    host_writes_ns: u64,
    device_writes_ns: u64,
    reads_ns: u64,
    atomics_ns: u64,
    /// The last completion: completions of a queue pair come in post order.
    pub(crate) completed_ns: u64,
}

/// When one request does what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plan {
    /// Ascending; the first `bursts` count.
    pub(crate) burst_ns: [u64; BURSTS_MAX],
    pub(crate) bursts: usize,
    /// An atomic that is not one step: when its second half, the write, is over.
    pub(crate) write_back_ns: Option<u64>,
    pub(crate) completes_ns: u64,
    /// What the completion says it took.
    pub(crate) elapsed_ns: u64,
    /// A packet was lost: units from this one on are in the last burst, those before it in the others.
    pub(crate) lost_from: Option<usize>,
}

/// The kinds that order distinguishes. An RPC is a SEND: ordered like a WRITE.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Atomic,
}

const fn kind(verb: Verb) -> Kind {
    match verb {
        Verb::Read => Kind::Read,
        Verb::Cas | Verb::MaskedCas | Verb::FetchAdd => Kind::Atomic,
        _ => Kind::Write,
    }
}

/// Where on its way a request sleeps long.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sleep {
    Nowhere,
    Request(u64),
    Spread(u64),
    Response(u64),
    /// A packet was lost, and what follows it is sent again after so long.
    Loss(u64),
}

impl Sleep {
    fn draw(config: &Config, rng: &mut Rng, (by, verb): (ComputeNode, Verb)) -> Self {
        let Delays { long_per_1024, loss_per_1024, .. } = config.delays;
        if long_per_1024 + loss_per_1024 == 0 {
            return Self::Nowhere;
        }
        let drawn = rng.below(1024);
        if drawn >= long_per_1024 + loss_per_1024 || config.delays.sleeper.is_some_and(|sleeper| sleeper != (by, verb))
        {
            return Self::Nowhere;
        }
        if drawn >= long_per_1024 {
            return Self::Loss(rng.within(config.delays.resend_ns));
        }
        let ns = rng.within(config.delays.long_ns);
        match rng.below(4) {
            0 => Self::Request(ns),
            // Between two effects is where it hurts most.
            1 | 2 => Self::Spread(ns),
            _ => Self::Response(ns),
        }
    }
}

/// Plans a request of `units` units, posted by `by` at `now_ns`, and notes it in `order`.
pub(crate) fn plan(
    config: &Config,
    rng: &mut Rng,
    order: &mut Order,
    now_ns: u64,
    (by, request): (ComputeNode, &Request),
    units: usize,
) -> Plan {
    let delays = &config.delays;
    let mut sleep = Sleep::draw(config, rng, (by, request.verb));
    let mut plan = Plan::default();
    let kind = kind(request.verb);
    if let Sleep::Loss(ns) = sleep {
        plan.lost_from = lost_from(config, rng, request, units);
        if plan.lost_from.is_none() {
            // All of it comes late; or the atomic was executed, and it is the answer with its result that does.
            let answer = kind == Kind::Atomic && rng.percent(50);
            sleep = if answer { Sleep::Response(ns) } else { Sleep::Request(ns) };
        }
    }

    let mut request_ns = rng.within(delays.request_ns);
    if let Sleep::Request(ns) = sleep {
        request_ns += ns;
    }
    let mut start_ns = now_ns + request_ns;
    let floor_ns = floor(config, rng, order, request, kind);
    if start_ns <= floor_ns {
        // Some time between what must come first and this, so that others can look in between.
        start_ns = floor_ns + 1 + rng.within((0, delays.spread_ns_max));
    }

    // A WRITE that is acknowledged before it lands: the completion comes when it likes.
    let early = request.verb == Verb::Write
        && !config.granted.contains(Assumptions::COMPLETION_IS_VISIBLE)
        && rng.percent(config.freedom_percent);
    if early {
        plan.completes_ns = order.completed_ns.max(start_ns);
        start_ns = plan.completes_ns + rng.within((1, 4 * delays.request_ns.1));
    }

    let end_ns = spread(config, rng, &mut plan, start_ns, units, sleep);
    let end_ns = if kind == Kind::Atomic { write_back(config, rng, &mut plan, end_ns) } else { end_ns };

    if !early {
        let mut response_ns = rng.within(delays.response_ns);
        if let Sleep::Response(ns) = sleep {
            response_ns += ns;
        }
        plan.completes_ns = order.completed_ns.max(end_ns + response_ns);
    }
    plan.elapsed_ns = plan.completes_ns - now_ns;
    if kind == Kind::Read && !config.granted.contains(Assumptions::TIMED_READS) && rng.percent(config.freedom_percent) {
        plan.elapsed_ns = plan.elapsed_ns.min(u64::from(delays.request_ns.0) + u64::from(delays.response_ns.0));
    }

    order.completed_ns = plan.completes_ns;
    let last_ns = match (kind, request.space) {
        (Kind::Read, _) => &mut order.reads_ns,
        (Kind::Atomic, _) => &mut order.atomics_ns,
        (Kind::Write, Space::Host) => &mut order.host_writes_ns,
        (Kind::Write, Space::Device) => &mut order.device_writes_ns,
    };
    *last_ns = end_ns.max(*last_ns);
    plan
}

/// The instant after which the first effect must come.
fn floor(config: &Config, rng: &mut Rng, order: &Order, request: &Request, kind: Kind) -> u64 {
    let granted = |assumption| config.granted.contains(assumption);
    let fenced = request.flags.contains(Flags::FENCE);
    let in_device = request.space == Space::Device;
    // An order that is not promised may still hold by chance.
    let mut ordered = |promised: bool| promised || !rng.percent(config.freedom_percent);

    let (after_writes, after_reads, after_atomics) = match kind {
        Kind::Read => {
            (true, fenced || granted(Assumptions::READ_THEN_READ), fenced || granted(Assumptions::ATOMIC_THEN_READ))
        }
        Kind::Write => (granted(Assumptions::WRITE_THEN_WRITE), fenced, fenced),
        Kind::Atomic => {
            (granted(Assumptions::WRITE_THEN_ATOMIC), fenced, fenced || granted(Assumptions::ATOMIC_THEN_ATOMIC))
        }
    };
    let after_host_writes = if in_device { granted(Assumptions::HOST_BEFORE_DEVICE) } else { after_writes };

    let mut floor_ns = 0;
    if ordered(after_host_writes) {
        floor_ns = floor_ns.max(order.host_writes_ns);
    }
    if ordered(after_writes) {
        floor_ns = floor_ns.max(order.device_writes_ns);
    }
    if ordered(after_reads) {
        floor_ns = floor_ns.max(order.reads_ns);
    }
    if ordered(after_atomics) {
        floor_ns = floor_ns.max(order.atomics_ns);
    }
    floor_ns
}

/// The first unit of a lost packet, if the transfer has more than one and this is not the first.
fn lost_from(config: &Config, rng: &mut Rng, request: &Request, units: usize) -> Option<usize> {
    let packet = u64::from(config.packet_bytes.max(1));
    let packets = u64::from(request.bytes).div_ceil(packet) as u32;
    if !matches!(request.verb, Verb::Read | Verb::Write) || packets < 2 {
        return None;
    }
    let unit = u64::from(config.unit_bytes());
    let from = u64::from(1 + rng.below(packets - 1)) * packet;
    // A unit that two packets share goes with the first: it is one instant.
    let first = (request.offset % unit + from).div_ceil(unit) as usize;
    (first < units).then_some(first)
}

/// Chooses the instants of the effects and returns the last.
fn spread(config: &Config, rng: &mut Rng, plan: &mut Plan, start_ns: u64, units: usize, sleep: Sleep) -> u64 {
    // Of a transfer that lost a packet, only what came before is dealt to more than one instant.
    let units = plan.lost_from.unwrap_or(units);
    let most = units.min(config.bursts_max as usize).clamp(1, BURSTS_MAX) as u32;
    let asleep = matches!(sleep, Sleep::Spread(_));
    let torn = most > 1 && (asleep || rng.percent(config.freedom_percent));
    plan.bursts = if torn { 2 + rng.below(most - 1) as usize } else { 1 };
    let spread_ns = config.delays.spread_ns_max;
    for burst in &mut plan.burst_ns[..plan.bursts] {
        *burst = start_ns + rng.within((0, spread_ns));
    }
    plan.burst_ns[..plan.bursts].sort_unstable();
    if let Sleep::Loss(ns) = sleep {
        // The others share what is left of the bursts; there may be one too few for them to be apart.
        if plan.bursts == BURSTS_MAX {
            plan.bursts -= 1;
        }
        plan.burst_ns[plan.bursts] = plan.burst_ns[plan.bursts - 1] + ns;
        plan.bursts += 1;
    }
    if let Sleep::Spread(ns) = sleep {
        let before = rng.below(plan.bursts as u32) as usize;
        for burst in &mut plan.burst_ns[before..plan.bursts] {
            *burst += ns;
        }
    }
    plan.burst_ns[plan.bursts - 1]
}

/// Lets an atomic take its time between reading and writing, where that is not excluded; returns its end.
fn write_back(config: &Config, rng: &mut Rng, plan: &mut Plan, read_ns: u64) -> u64 {
    let excluded = Assumptions::ATOMIC_EXCLUDES_WRITE | Assumptions::FAILED_CAS_IS_SILENT;
    if config.granted.contains(excluded) || !rng.percent(config.freedom_percent) {
        return read_ns;
    }
    let end_ns = read_ns + 1 + rng.within(config.delays.request_ns);
    plan.write_back_ns = Some(end_ns);
    end_ns
}

/// Plans a request that has no effect: only its completion, not before `at_ns`.
pub(crate) fn plan_refusal(order: &mut Order, now_ns: u64, at_ns: u64) -> Plan {
    order.completed_ns = order.completed_ns.max(at_ns);
    Plan { completes_ns: order.completed_ns, elapsed_ns: order.completed_ns - now_ns, ..Plan::default() }
}

/// Assigns `units` units to the bursts of `plan`: any to any, or ascending.
pub(crate) fn assign_units(rng: &mut Rng, units: usize, plan: &Plan, ascending: bool, burst_of: &mut Vec<u8>) {
    burst_of.clear();
    match plan.lost_from {
        Some(first) => {
            assign_to_bursts(rng, first, plan.bursts - 1, ascending, burst_of);
            burst_of.resize(first, 0);
            burst_of.resize(units, plan.bursts as u8 - 1);
        }
        None => assign_to_bursts(rng, units, plan.bursts, ascending, burst_of),
    }
}

fn assign_to_bursts(rng: &mut Rng, units: usize, bursts: usize, ascending: bool, burst_of: &mut Vec<u8>) {
    if bursts < 2 {
        return;
    }
    if ascending {
        let mut cuts = [0; BURSTS_MAX];
        for cut in &mut cuts[..bursts - 1] {
            *cut = 1 + rng.below(units as u32 - 1) as usize;
        }
        burst_of.extend((0..units).map(|unit| cuts[..bursts - 1].iter().filter(|&&cut| cut <= unit).count() as u8));
        return;
    }
    while burst_of.len() < units {
        let bits = rng.bits().to_le_bytes();
        let now = bits.len().min(units - burst_of.len());
        burst_of.extend(bits[..now].iter().map(|&byte| ((usize::from(byte) * bursts) >> 8) as u8));
    }
}
