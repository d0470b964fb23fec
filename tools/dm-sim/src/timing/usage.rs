//! What was used how much: snapshots of a cluster's servers, and the difference of two.

use super::PS_PER_NS;
use super::cluster::{Cluster, Counts};
use serde::{Deserialize, Serialize};

/// A resource used less than this is not what limits the throughput.
const BOTTLENECK: f64 = 0.8;

/// A cluster's servers at some instant.
#[derive(Clone, Debug)]
pub struct Snapshot {
    now_ps: u64,
    served: u64,
    threads_ps: Vec<u64>,
    compute_nodes: Vec<NicAt>,
    memory_nodes: Vec<NodeAt>,
    /// Per memory node, per bucket.
    buckets_ps: Vec<Vec<u64>>,
}

#[derive(Clone, Copy, Debug)]
struct NicAt {
    requester_ps: u64,
    output_ps: u64,
    input_ps: u64,
    bytes_out: u64,
    bytes_in: u64,
}

#[derive(Clone, Copy, Debug)]
struct NodeAt {
    nic: NicAt,
    pipeline_ps: u64,
    cores_ps: u64,
    stalled_ps: u64,
    counts: Counts,
}

impl Snapshot {
    /// Takes one; `threads_ps`: what the threads of each compute node have worked.
    pub(crate) fn take(cluster: &Cluster<'_>, threads_ps: Vec<u64>) -> Self {
        let now_ps = cluster.now_ps();
        let nic = |nic: &super::nic::Nic| NicAt {
            requester_ps: nic.requester.busy_ps(now_ps),
            output_ps: nic.output.busy_ps(now_ps),
            input_ps: nic.input.busy_ps(now_ps),
            bytes_out: nic.bytes_out,
            bytes_in: nic.bytes_in,
        };
        let node = |(number, state): (usize, &super::cluster::MemoryNodeState)| NodeAt {
            // The first NICs are the memory nodes'.
            nic: nic(&cluster.nics[number]),
            pipeline_ps: state.pipeline.busy_ps(now_ps),
            cores_ps: cluster.cores_busy_ps(number),
            stalled_ps: cluster.stalled_ps(number),
            counts: state.counts,
        };
        let buckets = |number| cluster.buckets.of_node(number).iter().map(|bucket| bucket.busy_ps(now_ps)).collect();
        Self {
            now_ps,
            served: cluster.served(),
            threads_ps,
            compute_nodes: (0..cluster.shape().compute_nodes).map(|node| nic(cluster.nic_of(node as usize))).collect(),
            memory_nodes: cluster.memory_nodes.iter().enumerate().map(node).collect(),
            buckets_ps: (0..cluster.memory_nodes.len()).map(buckets).collect(),
        }
    }

    /// Virtual time in ps.
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }
}

/// What was used between two snapshots. Shares are of the time between, 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Virtual time between the snapshots, in ns.
    pub elapsed_ns: u64,
    /// Requests served by memory nodes.
    pub requests: u64,
    /// What limits the throughput: the resource used most, if it is used for more than 80 % of the time.
    pub bottleneck: String,
    /// Per compute node.
    pub compute_nodes: Vec<ComputeNodeUsage>,
    /// Per memory node.
    pub memory_nodes: Vec<MemoryNodeUsage>,
}

/// A compute node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComputeNodeUsage {
    /// Processor time of its threads, of all there is.
    pub threads_share: f64,
    /// Its NIC's rate of requests.
    pub request_rate_share: f64,
    /// Its link out.
    pub link_out_share: f64,
    /// Its link in.
    pub link_in_share: f64,
}

/// A memory node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryNodeUsage {
    /// Requests it served a second, in millions.
    pub rate_mops: f64,
    /// Of those READs, WRITEs, atomics on host and on device memory, RPCs.
    pub reads: u64,
    /// WRITEs.
    pub writes: u64,
    /// Atomics on host memory.
    pub host_atomics: u64,
    /// Atomics on device memory.
    pub device_atomics: u64,
    /// CASes that failed, among both.
    pub failed_atomics: u64,
    /// RPCs.
    pub calls: u64,
    /// Payload of READs.
    pub read_bytes: u64,
    /// Payload of WRITEs.
    pub written_bytes: u64,
    /// Bytes out, with headers, a second, in units of 10^9.
    pub out_gb_per_s: f64,
    /// Bytes in, likewise.
    pub in_gb_per_s: f64,
    /// Its NIC's rate of requests.
    pub request_rate_share: f64,
    /// Its link out.
    pub link_out_share: f64,
    /// Its link in.
    pub link_in_share: f64,
    /// The bucket of atomics used most.
    pub hottest_bucket_share: f64,
    /// How long it took in nothing because an atomic could not be parked.
    pub stalled_share: f64,
    /// Atomics parked, on average over time.
    pub parked_mean: f64,
    /// Most atomics parked at once, since the cluster began.
    pub parked_most: u32,
    /// Its cores, those that serve RPCs.
    pub cores_share: f64,
    /// Which of these limits it, if one does.
    pub bottleneck: String,
}

impl Usage {
    /// What was used from `from` to `to` on `cluster`.
    pub fn between(cluster: &Cluster<'_>, from: &Snapshot, to: &Snapshot) -> Self {
        let elapsed_ps = to.now_ps.saturating_sub(from.now_ps).max(1);
        let share = |from_ps: u64, to_ps: u64| to_ps.saturating_sub(from_ps) as f64 / elapsed_ps as f64;
        let per_s = |count: u64| count as f64 / (elapsed_ps as f64 / 1e12);
        let threads = f64::from(cluster.shape().threads);
        let compute_nodes: Vec<_> = from
            .compute_nodes
            .iter()
            .zip(&to.compute_nodes)
            .enumerate()
            .map(|(number, (from_nic, to_nic))| ComputeNodeUsage {
                threads_share: share(
                    from.threads_ps.get(number).copied().unwrap_or(0),
                    to.threads_ps.get(number).copied().unwrap_or(0),
                ) / threads,
                request_rate_share: share(from_nic.requester_ps, to_nic.requester_ps),
                link_out_share: share(from_nic.output_ps, to_nic.output_ps),
                link_in_share: share(from_nic.input_ps, to_nic.input_ps),
            })
            .collect();
        let cores = f64::from(cluster.profile().rpc.cores);
        let memory_nodes: Vec<_> = from
            .memory_nodes
            .iter()
            .zip(&to.memory_nodes)
            .zip(from.buckets_ps.iter().zip(&to.buckets_ps))
            .map(|((was, is), (buckets_were, buckets_are))| {
                let (a, b) = (&was.counts, &is.counts);
                let atomics = |counts: &Counts| counts.host_atomics + counts.device_atomics;
                let served = (b.reads + b.writes + atomics(b) + b.calls) - (a.reads + a.writes + atomics(a) + a.calls);
                let hottest = buckets_were.iter().zip(buckets_are).map(|(&was, &is)| share(was, is));
                let mut node = MemoryNodeUsage {
                    rate_mops: per_s(served) / 1e6,
                    reads: b.reads - a.reads,
                    writes: b.writes - a.writes,
                    host_atomics: b.host_atomics - a.host_atomics,
                    device_atomics: b.device_atomics - a.device_atomics,
                    failed_atomics: b.failed_atomics - a.failed_atomics,
                    calls: b.calls - a.calls,
                    read_bytes: b.payload_read - a.payload_read,
                    written_bytes: b.payload_written - a.payload_written,
                    out_gb_per_s: per_s(is.nic.bytes_out - was.nic.bytes_out) / 1e9,
                    in_gb_per_s: per_s(is.nic.bytes_in - was.nic.bytes_in) / 1e9,
                    request_rate_share: share(was.pipeline_ps, is.pipeline_ps),
                    link_out_share: share(was.nic.output_ps, is.nic.output_ps),
                    link_in_share: share(was.nic.input_ps, is.nic.input_ps),
                    hottest_bucket_share: hottest.fold(0.0, f64::max),
                    stalled_share: share(was.stalled_ps, is.stalled_ps),
                    parked_mean: share(a.parked_ps, b.parked_ps),
                    parked_most: b.parked_most,
                    cores_share: share(was.cores_ps, is.cores_ps) / cores,
                    bottleneck: String::new(),
                };
                node.bottleneck = most(&node.shares());
                node
            })
            .collect();
        let mut usage = Self {
            elapsed_ns: elapsed_ps / PS_PER_NS,
            requests: to.served - from.served,
            bottleneck: String::new(),
            compute_nodes,
            memory_nodes,
        };
        usage.bottleneck = usage.limit();
        usage
    }

    /// The resource of the whole cluster used most.
    fn limit(&self) -> String {
        let mut shares: Vec<(&'static str, f64)> = Vec::new();
        for node in &self.memory_nodes {
            shares.extend(node.shares());
        }
        for node in &self.compute_nodes {
            shares.extend([
                ("compute threads", node.threads_share),
                ("compute NIC request rate", node.request_rate_share),
                ("compute NIC link out", node.link_out_share),
                ("compute NIC link in", node.link_in_share),
            ]);
        }
        most(&shares)
    }
}

impl MemoryNodeUsage {
    /// Its resources by name.
    pub fn shares(&self) -> [(&'static str, f64); 6] {
        [
            ("request rate", self.request_rate_share),
            ("link out", self.link_out_share),
            ("link in", self.link_in_share),
            ("hottest atomic bucket", self.hottest_bucket_share),
            ("stalled ingress", self.stalled_share),
            ("RPC cores", self.cores_share),
        ]
    }
}

fn most(shares: &[(&'static str, f64)]) -> String {
    let most = shares.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    match most {
        Some((name, share)) if share >= BOTTLENECK => name.to_owned(),
        _ => "none: round trips".to_owned(),
    }
}
