//! What devices are known for beyond what the specification promises.
//!
//! The InfiniBand Architecture Specification orders the requests of one queue pair; it says next to nothing about which
//! bytes of a READ and of a WRITE from two queue pairs can mix, or how atomics and WRITEs of one word meet. What is
//! relied on there is asserted by a named profile, and reported as such.
//!
//! | assumption | specification | `rc-x86-host` | `soft-roce` |
//! |---|---|---|---|
//! | WRITE_THEN_WRITE, WRITE_THEN_ATOMIC, ATOMIC_THEN_READ | yes, one queue pair | yes | yes |
//! | ATOMIC_THEN_ATOMIC | yes, one queue pair | yes | yes |
//! | READ_THEN_READ | yes, but PCIe does not order reads | no | asserted: rxe executes one request after the other |
//! | COMPLETION_IS_VISIBLE | yes, through the same device | yes | yes |
//! | WORD_ATOMIC | no | asserted: aligned words cross PCIe whole | asserted, **without ground on several processors** |
//! | LINE_ATOMIC | no | asserted: seen on x86 hosts by several studies, promised by nobody | asserted, **without ground on several processors** |
//! | HOST_BEFORE_DEVICE | no | asserted: a READ over PCIe pushes WRITEs before it | – (no device memory) |
//! | ATOMIC_EXCLUDES_WRITE | no | no | asserted as LINE_ATOMIC |
//! | FAILED_CAS_IS_SILENT | no | no | asserted: rxe stores the old value back under one lock, which no other atomic sees; a WRITE can be lost on several processors |
//! | WRITE_ASCENDING | no | no | no |
//! | TIMED_READS | no | asserted: nobody WRITEs a place twice within half the shortest round trip | asserted, as there |
//!
//! **Soft-RoCE** copies each packet's payload with the kernel's `memcpy`, page by page, in a softirq of the memory
//! node. A memory node with *one* processor runs one softirq at a time, so each packet takes effect at once and the
//! profile holds by the way the driver is built; lines never span packets, as READs and WRITEs of nodes begin at
//! lines or the packet does not end inside one (the path MTU is a multiple of 64 bytes and payloads of split messages
//! begin at the start of the message, which is what makes this an assertion). With *several* processors two queue pairs
//! may be served at once, and lines and even words may tear: then the profile is for tests of function, and `dm
//! litmus` says what it sees.

use dm_core::verbs::{Assumptions, Guarantees};

/// A kind of platform a memory node is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Profile {
    /// Nothing is known: only what the specification promises.
    Specification = 0,
    /// A NIC that reaches the memory of an x86 host over PCIe, without relaxed ordering.
    X86Host = 1,
    /// Linux Soft-RoCE.
    SoftRoce = 2,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Specification, Self::X86Host, Self::SoftRoce];

    /// As on the wire.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Specification),
            1 => Some(Self::X86Host),
            2 => Some(Self::SoftRoce),
            _ => None,
        }
    }

    /// Its name, for reports and settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Specification => "specification",
            Self::X86Host => "rc-x86-host",
            Self::SoftRoce => "soft-roce",
        }
    }

    /// The profile of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// That of a device of this machine, by the name of its driver.
    pub fn of_device(device: &str) -> Self {
        let directory = std::path::Path::new("/sys/class/infiniband").join(device);
        // rxe names the interface it is on; no driver of hardware has such a file.
        if directory.join("parent").exists() {
            return Self::SoftRoce;
        }
        if cfg!(target_arch = "x86_64") && directory.join("device/driver").exists() {
            return Self::X86Host;
        }
        Self::Specification
    }

    /// What it grants, and why.
    pub const fn guarantees(self) -> Guarantees {
        let by_construction = Assumptions::WRITE_THEN_WRITE
            .union(Assumptions::WRITE_THEN_ATOMIC)
            .union(Assumptions::ATOMIC_THEN_READ)
            .union(Assumptions::ATOMIC_THEN_ATOMIC)
            .union(Assumptions::COMPLETION_IS_VISIBLE);
        let common = Assumptions::WORD_ATOMIC.union(Assumptions::LINE_ATOMIC).union(Assumptions::TIMED_READS);
        match self {
            Self::Specification => Guarantees { by_construction, asserted: Assumptions::empty(), profile: "" },
            Self::X86Host => Guarantees {
                by_construction,
                asserted: common.union(Assumptions::HOST_BEFORE_DEVICE),
                profile: self.name(),
            },
            Self::SoftRoce => Guarantees {
                by_construction,
                asserted: common
                    .union(Assumptions::READ_THEN_READ)
                    .union(Assumptions::ATOMIC_EXCLUDES_WRITE)
                    .union(Assumptions::FAILED_CAS_IS_SILENT),
                profile: self.name(),
            },
        }
    }

    /// The weaker of two, for a pool of different memory nodes.
    #[must_use]
    pub const fn weaker(self, other: Self) -> Self {
        match (self, other) {
            (Self::X86Host, Self::X86Host) => Self::X86Host,
            (Self::SoftRoce, Self::SoftRoce) => Self::SoftRoce,
            (Self::Specification, _) | (_, Self::Specification) => Self::Specification,
            // Soft-RoCE asserts what a mixed pool needs, on the weaker ground.
            _ => Self::SoftRoce,
        }
    }
}
