//! The timing simulator: what takes how long, what limits what, and that nothing is used more than there is.

use dm_core::error::VerbError;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::operation::{Cause, Census, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use dm_core::recovery::Swept;
use dm_core::remote::catalog::IndexSet;
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::{Assumptions, Label, LaneId, NodeId, Request, Space, Status};
use dm_host::worker::{Finished, Next, Work};
use dm_sim::Memories;
use dm_sim::timing::workers::Until;
use dm_sim::timing::{Cluster, Profile, RawReads, Shape, Usage, Workers};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;

const MN: NodeId = NodeId(0);

fn shape(compute_nodes: u32, threads: u32, lanes: u32) -> Shape {
    Shape { compute_nodes, threads, lanes, host_bytes: vec![1 << 20], colocated: false, device_bytes: None }
}

type Script = for<'a> fn(&'a Lane<'_>, u64) -> Pin<Box<dyn Future<Output = Result<(), VerbError>> + 'a>>;

/// An index whose every operation runs one function; the operation's limit is its argument.
struct ScriptedIndex {
    script: Script,
    plan: ScratchPlan,
}

fn scripted(script: Script) -> ScriptedIndex {
    let plan = RawReads::new(4096, 1 << 20, 1).plan().clone();
    ScriptedIndex { script, plan }
}

impl Index for ScriptedIndex {
    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }
    fn assumptions(&self) -> Assumptions {
        Assumptions::empty()
    }
    async fn execute<'a>(&'a self, lane: &'a Lane<'_>, op: Operation) -> Result<Outcome, OpError> {
        (self.script)(lane, op.limit.into()).await.map_err(|error| OpError::harmless(Cause::Verb(error)))?;
        Ok(Outcome::Absent)
    }
    async fn settle<'a>(&'a self, _: &'a Lane<'_>) -> Result<(), OpError> {
        Ok(())
    }
    async fn validate<'a>(&'a self, _: &'a Lane<'_>) -> Result<Census, OpError> {
        Ok(Census::default())
    }
    async fn bulk_append<'a>(&'a self, _: &'a Lane<'_>) -> Result<(), OpError> {
        Ok(())
    }
    async fn bulk_finish<'a>(&'a self, _: &'a Lane<'_>) -> Result<(), OpError> {
        Ok(())
    }
    async fn sweep<'a>(&'a self, _: &'a Lane<'_>, _: RowId, _: IndexSet) -> Result<Swept, OpError> {
        Ok(Swept::default())
    }
}

/// Gives every lane `each` operations and notes when and how they ended.
struct Each {
    left: Vec<u64>,
    latencies_ns: Vec<u64>,
    log: Vec<(usize, u64, bool)>,
}

impl Work for Each {
    fn next(&mut self, lane: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next {
        let Some(left) = self.left[lane].checked_sub(1) else { return Next::Finished };
        self.left[lane] = left;
        let number = (lane as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(left << 7) >> 9;
        scratch[plan.key.clone()].copy_from_slice(&number.to_le_bytes());
        let mut operation = Operation::point(OperationKind::Get);
        operation.limit = lane as u32;
        Next::Run(operation)
    }

    fn done(&mut self, lane: usize, finished: Finished<'_>) {
        self.latencies_ns.push(finished.latency_ns);
        self.log.push((lane, finished.latency_ns, finished.result.is_ok()));
    }
}

/// What a run came to.
struct Ran {
    work: Each,
    usage: Usage,
    words: Vec<u64>,
    handed: u64,
}

fn run<I: Index>(profile: &Profile, shape: &Shape, indexes: &[I], each: u64) -> Ran {
    let config = Cluster::config(profile, shape);
    let memories = Memories::new(&config.host_bytes, config.device_bytes as usize);
    let count = (shape.compute_nodes * shape.lanes_per_node()) as usize;
    let lane_bytes = indexes[0].plan().total_bytes;
    let mut scratch = vec![0; lane_bytes * count];
    let lanes: Vec<_> = scratch
        .chunks_mut(lane_bytes)
        .enumerate()
        .map(|(number, scratch)| Lane::new(LaneId((number as u32 % shape.lanes_per_node()) as u16), scratch))
        .collect();
    let mut cluster = Cluster::new(profile, shape, memories);
    let mut workers =
        Workers::new(&mut cluster, indexes, &lanes, |index, lane, operation| index.execute(lane, operation));
    let mut work = Each { left: vec![each; count], latencies_ns: Vec::new(), log: Vec::new() };
    let before = workers.snapshot();
    workers.run(&mut work, Until::Finished).unwrap();
    workers.settle();
    let usage = Usage::between(workers.cluster(), &before, &workers.snapshot());
    let handed = workers.marked(Mark::HAND_OVER);
    let memory = cluster.memories_mut().get(MN).unwrap();
    let words = (0..16).map(|word| memory.host.word(word * 8)).collect();
    Ran { work, usage, words, handed }
}

fn cx6() -> Profile {
    Profile::load("cx6").unwrap()
}

#[test]
fn an_idle_cluster_answers_in_the_time_its_profile_adds_up_to() {
    // rnic-model: READ of 64 bytes 1.9 us, WRITE 1.6, CAS in host memory 2.1, in device memory 1.6, from post to poll.
    let scripts: [(Script, f64); 4] = [
        (
            |lane, _| Box::pin(async { lane.port().call(Request::read(Label::Tool, MN, 0, 64, 128)).await.map(drop) }),
            1900.0,
        ),
        (
            |lane, _| Box::pin(async { lane.port().call(Request::write(Label::Tool, MN, 0, 64, 128)).await.map(drop) }),
            1600.0,
        ),
        (
            |lane, _| Box::pin(async { lane.port().call(Request::cas(Label::Tool, MN, 0, 0, 0)).await.map(drop) }),
            2100.0,
        ),
        (
            |lane, _| {
                let cas = Request::cas(Label::Tool, MN, 0, 0, 0).in_space(Space::Device);
                Box::pin(async move { lane.port().call(cas).await.map(drop) })
            },
            1600.0,
        ),
    ];
    let profile = cx6();
    for (script, expected_ns) in scripts {
        let ran = run(&profile, &shape(1, 1, 1), &[scripted(script)], 3);
        // Without what the thread does before the post and after the poll.
        let own_ns =
            profile.thread.operation_ns + profile.thread.step_ns + 64.0 / 1024.0 * profile.thread.search_ns_per_kib;
        for latency_ns in ran.work.latencies_ns {
            let took_ns = latency_ns as f64 - own_ns;
            assert!((took_ns / expected_ns - 1.0).abs() < 0.08, "{took_ns} ns, expected {expected_ns}");
        }
    }
}

#[test]
fn two_runs_are_equal_to_the_last_digit() {
    let runs = [(); 2].map(|()| {
        let raw = RawReads::new(256, 1 << 20, 1);
        let ran = run(&cx6(), &shape(3, 4, 2), &vec![raw; 3], 200);
        (ran.work.log, ran.usage)
    });
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn nothing_is_used_more_than_there_is_and_what_is_short_is_used_up() {
    for (bytes, short) in [(8, "request rate"), (4096, "link out")] {
        let raw = RawReads::new(bytes, 1 << 20, 1);
        let ran = run(&cx6(), &shape(10, 16, 4), &vec![raw; 10], 100);
        let node = &ran.usage.memory_nodes[0];
        for (name, share) in node.shares() {
            assert!((0.0..=1.0).contains(&share), "{name}: {share}");
        }
        for node in &ran.usage.compute_nodes {
            for share in [node.threads_share, node.request_rate_share, node.link_in_share, node.link_out_share] {
                assert!((0.0..=1.0).contains(&share), "{share}");
            }
        }
        assert_eq!(ran.usage.bottleneck, short);
        assert_eq!(ran.usage.requests, 640 * 100);
        assert_eq!(node.read_bytes, 640 * 100 * bytes as u64);
    }
}

#[test]
fn a_rate_and_a_bandwidth_are_reached_and_not_exceeded() {
    // 45 M/s; 92.57 Gb/s of 1024 bytes and 86 of headers.
    for (bytes, expected) in [(64, 45.0), (1024, 92.57e3 / 8.0 / 1110.0)] {
        let raw = RawReads::new(bytes, 1 << 20, 1);
        let ran = run(&cx6(), &shape(10, 16, 4), &vec![raw; 10], 300);
        let rate = ran.usage.memory_nodes[0].rate_mops;
        assert!((0.95..=1.0).contains(&(rate / expected)), "{rate} M/s of {expected}");
    }
}

#[test]
fn a_thread_does_one_thing_at_a_time() {
    let raw = || vec![RawReads::new(8, 1 << 20, 1)];
    let profile = cx6();
    let ran = run(&profile, &shape(1, 1, 64), &raw(), 200);
    let thread = &profile.thread;
    let cpu_ns = thread.operation_ns + thread.step_ns + thread.post_ns + thread.doorbell_ns + thread.poll_ns;
    let rate = ran.usage.memory_nodes[0].rate_mops;
    assert!((0.97..=1.0).contains(&(rate * cpu_ns / 1e3)), "{rate} M/s, {cpu_ns} ns an operation");
    assert_eq!(ran.usage.bottleneck, "compute threads");
}

/// Every lane spins on one lock, lanes' own words are incremented under it.
fn increment<'a>(lane: &'a Lane<'_>, space: Space) -> Pin<Box<dyn Future<Output = Result<(), VerbError>> + 'a>> {
    Box::pin(async move {
        let port = lane.port();
        let lock = |compare, swap| Request::cas(Label::Lock, MN, 8, compare, swap).in_space(space);
        while port.call(lock(0, 1)).await?.value != 0 {}
        port.call(Request::read(Label::Tool, MN, 64, 8, 128)).await?;
        let word = port.with(|scratch| u64::from_le_bytes(scratch[128..136].try_into().unwrap()));
        port.push(Request::write_word(Label::Tool, MN, 64, word + 1));
        port.push(lock(1, 0));
        port.submit().await
    })
}

#[test]
fn a_lock_excludes_whatever_the_timing() {
    for parked_max in [0, 1, 16, 1000] {
        for space in [Space::Host, Space::Device] {
            let mut profile = cx6();
            profile.atomics.parked_max = parked_max;
            let script: Script = match space {
                Space::Host => |lane, _| increment(lane, Space::Host),
                Space::Device => |lane, _| increment(lane, Space::Device),
            };
            let ran = run(&profile, &shape(2, 8, 2), &[scripted(script), scripted(script)], 20);
            assert_eq!(ran.words[8], 32 * 20, "{parked_max} parked at most, {space:?}");
            assert_eq!(ran.handed, 0);
        }
    }
}

#[test]
fn parked_atomics_stall_everybody_and_device_memory_is_the_way_out() {
    // Half of the lanes spin on a lock, the others READ.
    let mixed: Script = |lane, number| {
        if number % 2 == 0 {
            return increment(lane, Space::Host);
        }
        Box::pin(async {
            for _ in 0..20 {
                lane.port().call(Request::read(Label::Leaf, MN, 4096, 64, 128)).await?;
            }
            Ok(())
        })
    };
    let relieved: Script = |lane, number| {
        if number % 2 == 0 {
            return increment(lane, Space::Device);
        }
        Box::pin(async {
            for _ in 0..20 {
                lane.port().call(Request::read(Label::Leaf, MN, 4096, 64, 128)).await?;
            }
            Ok(())
        })
    };
    let slowest_reader = |script, parked_max| {
        let mut profile = cx6();
        profile.atomics.parked_max = parked_max;
        let indexes: Vec<_> = (0..8).map(|_| scripted(script)).collect();
        let ran = run(&profile, &shape(8, 16, 1), &indexes, 20);
        let readers = ran.work.log.iter().filter(|(lane, ..)| lane % 2 == 1);
        (readers.map(|(_, latency_ns, _)| *latency_ns).max().unwrap(), ran.usage.memory_nodes[0].stalled_share)
    };
    let (stalled_ns, share) = slowest_reader(mixed, 16);
    let (free_ns, none) = slowest_reader(mixed, 100_000);
    let (device_ns, _) = slowest_reader(relieved, 16);
    assert!(share > 0.5 && none < f64::EPSILON, "{share}, {none}");
    assert!(stalled_ns > 3 * free_ns, "{stalled_ns} ns behind parked atomics, {free_ns} ns past them");
    assert!(stalled_ns > 2 * device_ns, "{stalled_ns} ns behind host memory's, {device_ns} ns behind device memory's");
}

#[test]
fn a_seventeenth_read_waits_for_the_first_and_a_fence_for_all() {
    thread_local!(static ELAPSED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) });
    let reads: Script = |lane, _| {
        Box::pin(async {
            let port = lane.port();
            for number in 0..8 {
                port.push(Request::read(Label::Leaf, MN, number * 64, 64, 128));
            }
            port.push(Request::write_word(Label::Tool, MN, 0, 1));
            port.push(Request::write_word(Label::Tool, MN, 0, 1).fenced());
            port.submit().await?;
            ELAPSED.with_borrow_mut(|elapsed| elapsed.extend((0..10).map(|at| port.completion(at).elapsed_ns)));
            Ok(())
        })
    };
    let mut profile = cx6();
    profile.requester.outstanding_reads_max = 4;
    run(&profile, &shape(1, 1, 1), &[scripted(reads)], 1);
    let elapsed = ELAPSED.take();
    assert!(elapsed[3] < elapsed[0] + 300, "four go together: {elapsed:?}");
    assert!(elapsed[4] > elapsed[0] + 1000, "the fifth is a round trip later: {elapsed:?}");
    assert!(elapsed[8] >= elapsed[7], "completions come in post order: {elapsed:?}");
    assert!(elapsed[9] > elapsed[7] + 1000, "the fenced WRITE is sent after the last READ came back: {elapsed:?}");
}

#[test]
fn what_a_memory_node_cannot_do_it_refuses() {
    thread_local!(static ENDED: RefCell<Vec<Status>> = const { RefCell::new(Vec::new()) });
    let wrong: Script = |lane, _| {
        Box::pin(async {
            let port = lane.port();
            port.push(Request::read(Label::Tool, MN, 1 << 20, 8, 128));
            port.push(Request::cas(Label::Tool, MN, 4, 0, 1));
            port.push(Request::read(Label::Tool, NodeId(9), 0, 8, 128));
            port.push(Request::rpc(Label::Tool, MN, [1, 2, 3, 4]));
            port.push(Request::masked_cas(Label::Tool, MN, 0, [0; 4]));
            port.push(Request::read(Label::Tool, MN, 0, 8, 1 << 30));
            port.push(Request::cas(Label::Tool, MN, 0, 0, 1).in_space(Space::Device));
            let _ = port.submit().await;
            ENDED.with_borrow_mut(|ended| ended.extend((0..7).map(|at| port.completion(at).status)));
            Ok(())
        })
    };
    run(&Profile::load("soft-roce").unwrap(), &shape(1, 1, 1), &[scripted(wrong)], 1);
    let (refused, unsupported) = (Status::Refused, Status::Unsupported);
    let expected = [refused, refused, refused, unsupported, unsupported, refused, unsupported];
    assert_eq!(ENDED.take(), expected);
}

#[test]
fn machines_that_are_both_use_no_link_for_themselves() {
    let mut both = shape(1, 4, 1);
    both.colocated = true;
    let raw = vec![RawReads::new(1024, 1 << 20, 1)];
    let own = run(&cx6(), &both, &raw, 100);
    let far = run(&cx6(), &shape(1, 4, 1), &raw, 100);
    assert!(own.usage.memory_nodes[0].out_gb_per_s < f64::EPSILON);
    assert!(far.usage.memory_nodes[0].out_gb_per_s > 0.0);
    let mean = |ran: &Ran| ran.work.latencies_ns.iter().sum::<u64>() / ran.work.latencies_ns.len() as u64;
    assert!(mean(&own) < mean(&far) && mean(&own) * 10 > mean(&far) * 8, "{} and {} ns", mean(&own), mean(&far));
}
