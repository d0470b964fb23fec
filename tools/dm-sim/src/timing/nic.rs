//! Servers, and bytes on the wire.

use super::PS_PER_NS;
use super::profile::{Link, Profile};
use dm_core::verbs::{Request, Verb};

/// Nanoseconds of a profile as picoseconds of the clock.
pub(crate) fn ps(ns: f64) -> u64 {
    (ns * PS_PER_NS as f64).round() as u64
}

/// Picoseconds between two of `mops` million a second.
pub(crate) fn ps_of_rate(mops: f64) -> u64 {
    ps(1e3 / mops).max(1)
}

/// Something that does one thing at a time. It is used in the order of calls, which must be the order of time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server {
    /// Until then it has work.
    pub(crate) free_ps: u64,
    /// Work it was given, all in all.
    given_ps: u64,
}

impl Server {
    /// Gives it work at `now_ps`; returns when that is done.
    #[inline]
    pub(crate) fn serve(&mut self, now_ps: u64, work_ps: u64) -> u64 {
        self.given_ps += work_ps;
        self.free_ps = self.free_ps.max(now_ps) + work_ps;
        self.free_ps
    }

    /// Lets something through whose last byte cannot come before `last_ps`, and whose bytes take `work_ps` of this
    /// link: cut through, so that on an idle link the two overlap. Returns when its last byte is through.
    #[inline]
    pub(crate) fn pass(&mut self, last_ps: u64, work_ps: u64) -> u64 {
        self.given_ps += work_ps;
        self.free_ps = (self.free_ps + work_ps).max(last_ps);
        self.free_ps
    }

    /// Time it has worked until `now_ps`: what it was given without what it still has to do.
    pub(crate) fn busy_ps(&self, now_ps: u64) -> u64 {
        self.given_ps - self.free_ps.saturating_sub(now_ps).min(self.given_ps)
    }
}

/// One NIC: both directions of its link, and what it can send requests at. A machine that is both a compute node and a
/// memory node has one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nic {
    pub(crate) output: Server,
    pub(crate) input: Server,
    pub(crate) requester: Server,
    /// Bytes sent and received, headers included.
    pub(crate) bytes_out: u64,
    pub(crate) bytes_in: u64,
}

/// Bytes on the wire, per direction.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    link: Link,
    ps_per_byte: f64,
}

impl Wire {
    pub(crate) fn new(profile: &Profile) -> Self {
        Self { link: profile.link.clone(), ps_per_byte: 8_000.0 / profile.link.gbps }
    }

    /// How long `bytes` occupy a link.
    #[inline]
    pub(crate) fn time_ps(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.ps_per_byte) as u64
    }

    fn packets(&self, payload_bytes: u32) -> u64 {
        u64::from(payload_bytes.div_ceil(self.link.mtu_bytes).max(1))
    }

    /// From compute node to memory node.
    #[inline]
    pub(crate) fn request_bytes(&self, request: &Request) -> u64 {
        let link = &self.link;
        let packet = u64::from(link.packet_bytes);
        match request.verb {
            Verb::Read => packet + u64::from(link.address_bytes),
            Verb::Write => {
                packet * self.packets(request.bytes) + u64::from(link.address_bytes) + u64::from(request.bytes)
            }
            // Two more operands.
            Verb::MaskedCas => packet + u64::from(link.atomic_bytes) + 16,
            Verb::Rpc => packet + 32,
            Verb::Call => packet * self.packets(request.bytes) + u64::from(request.bytes),
            _ => packet + u64::from(link.atomic_bytes),
        }
    }

    /// From memory node to compute node.
    #[inline]
    pub(crate) fn answer_bytes(&self, request: &Request) -> u64 {
        let link = &self.link;
        let packet = u64::from(link.packet_bytes);
        match request.verb {
            Verb::Read => {
                packet * self.packets(request.bytes) + u64::from(link.answer_bytes) + u64::from(request.bytes)
            }
            Verb::Write => u64::from(link.ack_bytes),
            Verb::Call => packet + u64::from(link.answer_bytes) + request.operands[0],
            _ => packet + u64::from(link.answer_bytes) + 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dm_core::verbs::{Label, NodeId};

    #[test]
    fn bytes_of_roce_are_those_of_the_specification() {
        let wire = Wire::new(&Profile::load("cx6").unwrap());
        let read = |bytes| Request::read(Label::Leaf, NodeId(0), 0, bytes, 0);
        let write = |bytes| Request::write(Label::Leaf, NodeId(0), 0, bytes, 0);
        let cas = Request::cas(Label::Lock, NodeId(0), 0, 0, 1);
        assert_eq!((wire.request_bytes(&read(64)), wire.answer_bytes(&read(64))), (98, 150));
        assert_eq!((wire.request_bytes(&read(9000)), wire.answer_bytes(&read(9000))), (98, 9000 + 3 * 82 + 4));
        assert_eq!(wire.request_bytes(&write(1024)), 1024 + 98);
        assert_eq!((wire.request_bytes(&cas), wire.answer_bytes(&cas)), (110, 94));
    }

    #[test]
    fn a_server_is_never_busy_for_longer_than_time_has_passed() {
        let mut server = Server::default();
        assert_eq!(server.serve(100, 50), 150);
        assert_eq!(server.serve(120, 50), 200);
        assert_eq!((server.busy_ps(100), server.busy_ps(160), server.busy_ps(300)), (0, 60, 100));
        assert_eq!(server.serve(300, 10), 310);
        assert_eq!(server.busy_ps(305), 105);
    }

    #[test]
    fn an_idle_link_adds_nothing_to_what_the_sender_took() {
        let mut link = Server::default();
        assert_eq!(link.pass(1_000, 90), 1_000);
        // Two that end at once share the link.
        assert_eq!(link.pass(1_000, 90), 1_090);
    }
}
