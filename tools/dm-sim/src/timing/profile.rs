//! RNIC profiles: the numbers of the model, read from TOML.
//!
//! Five are built in ([`BUILT_IN`]); their files in `tools/dm-sim/profiles` say where each number comes from and are
//! meant to be copied and edited. A file must give every key: a default would be a number that was not looked at.

use dm_core::verbs::{CALL_BYTES_MAX, Capabilities, INLINE_BYTES_MAX};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Profiles that come with the simulator: name and text.
pub const BUILT_IN: [(&str, &str); 5] = [
    ("cx5", include_str!("../../profiles/cx5.toml")),
    ("cx6", include_str!("../../profiles/cx6.toml")),
    ("cx7-200g", include_str!("../../profiles/cx7-200g.toml")),
    ("soft-roce", include_str!("../../profiles/soft-roce.toml")),
    ("cxl", include_str!("../../profiles/cxl.toml")),
];

/// A platform: NICs, links, memory nodes and the processors of compute nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// One line for reports.
    pub description: String,
    /// Processor time of one thread of a compute node.
    pub thread: Thread,
    /// The NIC of a compute node.
    pub requester: Requester,
    /// Everything between two NICs.
    pub link: Link,
    /// The NIC of a memory node, READs, WRITEs and the acceptance of everything.
    pub responder: Responder,
    /// The NIC of a memory node, atomics.
    pub atomics: Atomics,
    /// The processor of a memory node.
    pub rpc: Rpc,
}

/// Processor time of one thread of a compute node. A thread does one thing at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// Per operation: choosing it, looking the route up in the index cache, handing out its result.
    pub operation_ns: f64,
    /// Per submit that came back: going on with the operation.
    pub step_ns: f64,
    /// Per KiB that a READ brought: looking at it.
    pub search_ns_per_kib: f64,
    /// Per request posted.
    pub post_ns: f64,
    /// Per chain posted.
    pub doorbell_ns: f64,
    /// Per completion polled.
    pub poll_ns: f64,
}

/// The NIC of a compute node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requester {
    /// Requests a second, in millions, of all threads together.
    pub rate_mops: f64,
    /// From the doorbell to the first byte on the wire.
    pub send_ns: f64,
    /// From the last byte of the answer to a completion that can be polled.
    pub receive_ns: f64,
    /// READs and atomics in flight per queue pair; more stall the send queue.
    pub outstanding_reads_max: u16,
}

/// Everything between two NICs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Usable bandwidth per direction in Gb/s, headers included.
    pub gbps: f64,
    /// Bytes around the payload of each packet.
    pub packet_bytes: u32,
    /// More bytes of a READ or WRITE request: remote address, key, length.
    pub address_bytes: u32,
    /// More bytes of a request for an atomic.
    pub atomic_bytes: u32,
    /// More bytes of an answer.
    pub answer_bytes: u32,
    /// Bytes of the acknowledgement of a WRITE, coalescing taken into account.
    pub ack_bytes: u32,
    /// Payload of a packet.
    pub mtu_bytes: u32,
    /// Cable and switch, one way.
    pub one_way_ns: f64,
    /// Instead of that, between a compute node and a memory node on one machine.
    pub loopback_ns: f64,
}

/// The NIC of a memory node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Responder {
    /// READs a second, in millions.
    pub read_mops: f64,
    /// WRITEs a second, in millions.
    pub write_mops: f64,
    /// Atomics a second on host memory, in millions, all buckets together.
    pub host_atomic_mops: f64,
    /// Atomics a second on device memory, in millions, all words together.
    pub device_atomic_mops: f64,
    /// From the last byte of a request to its service.
    pub pipeline_ns: f64,
    /// Fetching from host memory.
    pub host_read_ns: f64,
    /// Sending to host memory, as far as the acknowledgement waits for it.
    pub host_write_ns: f64,
    /// More time per KiB of a READ or WRITE on host memory, besides the link's.
    pub ns_per_kib: f64,
    /// Answers the NIC holds while its link is busy; then it takes no requests.
    pub answer_buffer_bytes: u32,
    /// On-chip memory; 0 = none.
    pub device_bytes: u32,
}

/// Atomics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Atomics {
    /// Whether masked CAS works.
    pub masked: bool,
    /// Low bits of a host address that choose a bucket. Atomics of one bucket exclude each other.
    pub bucket_bits: u32,
    /// How long a CAS that fails occupies its bucket.
    pub failed_ns: f64,
    /// How long an atomic that changes its word occupies its bucket.
    pub done_ns: f64,
    /// How long any atomic occupies its word of device memory.
    pub device_ns: f64,
    /// Atomics that wait for their buckets before the NIC takes no more requests.
    pub parked_max: u32,
}

/// The processor of a memory node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rpc {
    /// Cores that serve.
    pub cores: u32,
    /// Time per call: taking it from its queue, and answering.
    pub service_ns: f64,
    /// More time per node of an index that a call reads: a search in memory that is in no cache.
    pub node_ns: f64,
}

/// Why there is no profile.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// Neither a name nor a file's.
    #[error("no profile \"{name}\"; there are {}, or name a file ending in .toml", names())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The file cannot be read.
    #[error("profile {}: {error}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is not what a profile looks like.
    #[error("profile {source_name}, line {line}: {what}")]
    Parse {
        /// File or name.
        source_name: String,
        /// Where.
        line: usize,
        /// What.
        what: String,
    },
    /// A value that makes no sense.
    #[error("profile {source_name}: {key} = {value} is outside {least} to {most}")]
    Range {
        /// File or name.
        source_name: String,
        /// Which.
        key: &'static str,
        /// Its value.
        value: f64,
        /// The least allowed.
        least: f64,
        /// The most allowed.
        most: f64,
    },
}

fn names() -> String {
    BUILT_IN.map(|(name, _)| name).join(", ")
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

impl Profile {
    /// The profile called `name`, or the one in the file of that name if it ends in `.toml`.
    pub fn load(name: &str) -> Result<Self, ProfileError> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(name, text);
        }
        let path = Path::new(name);
        if path.extension().is_none_or(|extension| extension != "toml") {
            return Err(ProfileError::Unknown { name: name.to_owned() });
        }
        let text =
            std::fs::read_to_string(path).map_err(|error| ProfileError::Read { path: path.to_owned(), error })?;
        Self::parse(name, &text)
    }

    /// Reads a profile; `source_name` is for errors.
    pub fn parse(source_name: &str, text: &str) -> Result<Self, ProfileError> {
        let profile: Self = toml::from_str(text).map_err(|error| ProfileError::Parse {
            source_name: source_name.to_owned(),
            line: error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count()),
            what: error.message().split_whitespace().collect::<Vec<_>>().join(" "),
        })?;
        profile.check(source_name)?;
        Ok(profile)
    }

    fn check(&self, source_name: &str) -> Result<(), ProfileError> {
        // A second is longer than anything that is not broken; rates end where integers of picoseconds get coarse.
        const NS: RangeInclusive<f64> = 0.0..=1e9;
        const MOPS: RangeInclusive<f64> = 1e-6..=10_000.0;
        let Self { thread, requester, link, responder, atomics, rpc, .. } = self;
        let values = [
            ("thread.operation_ns", thread.operation_ns, NS),
            ("thread.step_ns", thread.step_ns, NS),
            ("thread.search_ns_per_kib", thread.search_ns_per_kib, NS),
            ("thread.post_ns", thread.post_ns, NS),
            ("thread.doorbell_ns", thread.doorbell_ns, NS),
            ("thread.poll_ns", thread.poll_ns, NS),
            ("requester.rate_mops", requester.rate_mops, MOPS),
            ("requester.send_ns", requester.send_ns, NS),
            ("requester.receive_ns", requester.receive_ns, NS),
            ("requester.outstanding_reads_max", requester.outstanding_reads_max.into(), 1.0..=1024.0),
            ("link.gbps", link.gbps, 1e-3..=100_000.0),
            ("link.packet_bytes", link.packet_bytes.into(), 0.0..=1024.0),
            ("link.address_bytes", link.address_bytes.into(), 0.0..=1024.0),
            ("link.atomic_bytes", link.atomic_bytes.into(), 0.0..=1024.0),
            ("link.answer_bytes", link.answer_bytes.into(), 0.0..=1024.0),
            ("link.ack_bytes", link.ack_bytes.into(), 0.0..=1024.0),
            ("link.mtu_bytes", link.mtu_bytes.into(), 64.0..=65_536.0),
            ("link.one_way_ns", link.one_way_ns, NS),
            ("link.loopback_ns", link.loopback_ns, NS),
            ("responder.read_mops", responder.read_mops, MOPS),
            ("responder.write_mops", responder.write_mops, MOPS),
            ("responder.host_atomic_mops", responder.host_atomic_mops, MOPS),
            ("responder.device_atomic_mops", responder.device_atomic_mops, MOPS),
            ("responder.pipeline_ns", responder.pipeline_ns, NS),
            ("responder.host_read_ns", responder.host_read_ns, NS),
            ("responder.host_write_ns", responder.host_write_ns, NS),
            ("responder.ns_per_kib", responder.ns_per_kib, NS),
            ("responder.answer_buffer_bytes", responder.answer_buffer_bytes.into(), 4096.0..=(1_u32 << 30).into()),
            ("responder.device_bytes", responder.device_bytes.into(), 0.0..=(1_u32 << 22).into()),
            ("atomics.bucket_bits", atomics.bucket_bits.into(), 3.0..=20.0),
            ("atomics.failed_ns", atomics.failed_ns, NS),
            ("atomics.done_ns", atomics.done_ns, NS),
            ("atomics.device_ns", atomics.device_ns, NS),
            ("atomics.parked_max", atomics.parked_max.into(), 0.0..=1e6),
            ("rpc.cores", rpc.cores.into(), 1.0..=1024.0),
            ("rpc.service_ns", rpc.service_ns, NS),
            ("rpc.node_ns", rpc.node_ns, NS),
        ];
        for (key, value, range) in values {
            // Also refuses what is not a number.
            if !range.contains(&value) {
                let (least, most) = range.into_inner();
                return Err(ProfileError::Range { source_name: source_name.to_owned(), key, value, least, most });
            }
        }
        Ok(())
    }

    /// The shortest time between the effects of two WRITEs of which the second was posted after the first had
    /// completed: an answer on an empty path, polling, posting, and a request on an empty path. `loopback`: some compute
    /// node has a memory node on its machine.
    pub fn write_turn_ns(&self, loopback: bool) -> u32 {
        let one_way_ns = if loopback { self.link.loopback_ns.min(self.link.one_way_ns) } else { self.link.one_way_ns };
        let answer_ns = self.responder.host_write_ns + one_way_ns + self.requester.receive_ns;
        let request_ns = self.requester.send_ns + one_way_ns + self.responder.pipeline_ns;
        let thread_ns = self.thread.poll_ns + self.thread.post_ns + self.thread.doorbell_ns;
        (answer_ns + thread_ns + request_ns) as u32
    }

    /// What such a platform offers. `loopback`: see [`Profile::write_turn_ns`].
    pub fn capabilities(&self, loopback: bool) -> Capabilities {
        Capabilities {
            masked_atomics: self.atomics.masked,
            device_bytes: self.responder.device_bytes,
            inline_bytes_max: INLINE_BYTES_MAX as u32,
            outstanding_reads_max: self.requester.outstanding_reads_max,
            chain_requests_max: 16,
            fencing: true,
            crash_atomic_bytes: self.link.mtu_bytes,
            // 0 would mean that nothing is known.
            write_turn_ns_min: self.write_turn_ns(loopback).max(1),
            call_bytes_max: CALL_BYTES_MAX as u32,
            calls_change: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_profile_is_sound() {
        for (name, _) in BUILT_IN {
            let profile = Profile::load(name).unwrap();
            assert!(profile.write_turn_ns(true) > 100, "{name}");
            assert!(!profile.description.is_empty());
        }
    }

    #[test]
    fn every_key_is_needed_and_no_other_is_known() {
        let (_, text) = BUILT_IN[0];
        for line in text.lines().filter(|line| line.contains(" = ")) {
            let without = text.replacen(line, "", 1);
            let key = line.split(" = ").next().unwrap().trim();
            let error = Profile::parse("x", &without).unwrap_err().to_string();
            assert!(
                error.contains(key) && error.starts_with("profile x, line ") && error.lines().count() == 1,
                "{error}"
            );
        }
        let error = Profile::parse("x", &format!("turbo = 1\n{text}")).unwrap_err().to_string();
        assert!(error.contains("turbo") && error.contains("line 1"), "{error}");
    }

    #[test]
    fn absurd_values_are_refused_with_key_value_and_range() {
        let (_, text) = BUILT_IN[0];
        let with = |key: &str, value: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap();
            Profile::parse("x.toml", &text.replacen(line, &format!("{key} = {value}"), 1)).unwrap_err().to_string()
        };
        assert_eq!(with("read_mops", "0.0"), "profile x.toml: responder.read_mops = 0 is outside 0.000001 to 10000");
        assert_eq!(with("gbps", "-1.0"), "profile x.toml: link.gbps = -1 is outside 0.001 to 100000");
        assert_eq!(with("gbps", "nan"), "profile x.toml: link.gbps = NaN is outside 0.001 to 100000");
        assert_eq!(with("bucket_bits", "40"), "profile x.toml: atomics.bucket_bits = 40 is outside 3 to 20");
        assert!(with("cores", "-1").starts_with("profile x.toml, line "));
        assert!(with("gbps", "\"fast\"").contains("string"));
    }

    #[test]
    fn a_name_that_is_neither_profile_nor_file_lists_the_profiles() {
        let error = Profile::load("cx9").unwrap_err().to_string();
        assert!(error.contains("cx9") && error.contains("cx5, cx6, cx7-200g, soft-roce, cxl"), "{error}");
        let error = Profile::load("/nowhere/cx9.toml").unwrap_err().to_string();
        assert!(error.contains("/nowhere/cx9.toml"), "{error}");
    }
}
