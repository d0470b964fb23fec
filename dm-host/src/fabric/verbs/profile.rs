//! What platforms do beyond what the specification promises.
//!
//! The InfiniBand Architecture Specification orders the requests of one queue pair. It says next to nothing about which
//! bytes of a READ and of a WRITE from two queue pairs can mix, or how atomics and WRITEs of one word interact. A named
//! profile asserts what the indexes rely on there, and it is reported as asserted.
//!
//! | assumption | specification | `rc-x86-host` | `soft-roce` |
//! |---|---|---|---|
//! | WRITE_THEN_WRITE, WRITE_THEN_ATOMIC, ATOMIC_THEN_READ | yes, one queue pair | yes | yes |
//! | ATOMIC_THEN_ATOMIC | yes, one queue pair | yes | yes |
//! | COMPLETION_IS_VISIBLE | yes, through the same device | yes | yes |
//! | READ_THEN_READ | yes, but PCIe does not order reads | no | asserted: one request is executed after the other |
//! | WORD_ATOMIC | no | asserted: aligned words cross PCIe whole | asserted, on one processor |
//! | LINE_ATOMIC | no | asserted: seen on x86 hosts by several studies, promised by no vendor | asserted, on one processor |
//! | HOST_BEFORE_DEVICE | no | asserted: a READ over PCIe pushes WRITEs before it | – (no device memory) |
//! | ATOMIC_EXCLUDES_WRITE | no | no | asserted, on one processor |
//! | FAILED_CAS_IS_SILENT | no | no | asserted, on one processor |
//! | WRITE_ASCENDING | no | no | no |
//! | TIMED_READS | no | asserted: no compute node WRITEs a place twice within half the shortest round trip | asserted, as there |
//!
//! **Soft-RoCE** copies the payload of each packet with the kernel's `memcpy`. On a memory node with *several*
//! processors the kernel serves two queue pairs at once, and words and lines do tear: `dm litmus` on an emulated
//! machine with two processors saw a torn word in 4 % of READs, within seconds. With *one* processor on-line the kernel
//! serves one packet after the other (in a softirq, which no other interrupts; Linux 6.1, not fully preemptible), so
//! each packet takes effect at once. A line lies in one packet as long as messages begin at a multiple of 64 bytes or
//! fit into one packet. So the guarantee is still asserted, not given. `dm-memd` therefore chooses this profile by
//! itself only on a machine with one processor on-line. Elsewhere the user has to name it, for tests of function.

use dm_core::verbs::{Assumptions, Guarantees};

/// The kind of platform that a memory node is on.
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

    /// The profile of a number on the wire.
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

    /// The profile of a device of this machine, by the name of its driver.
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

    /// Why a device of this machine may not do what its profile asserts, and what to do about that.
    pub fn doubt(self, device: &str) -> Option<String> {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let processors = count_processors(online.trim());
        (self == Self::SoftRoce && processors != 1).then(|| {
            format!(
                "{device} is Soft-RoCE, and words and lines tear there with {processors} processors on-line; take all but \
                 one off-line (`echo 0 > /sys/devices/system/cpu/cpu1/online`, ...), or give --profile soft-roce for \
                 tests of function alone"
            )
        })
    }

    /// What the profile grants, and on which ground.
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
            _ => Self::Specification,
        }
    }
}

/// How many numbers a list such as `0-3,5` names.
fn count_processors(list: &str) -> usize {
    let number = |text: &str| text.trim().parse::<usize>().unwrap_or(0);
    list.split(',')
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once('-').map_or(1, |(first, last)| (number(last) + 1).saturating_sub(number(first))))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_as_the_kernel_lists_them() {
        let counts = ["0", "0-1", "0-3,5", "", "2,4-5"].map(count_processors);
        assert_eq!(counts, [1, 2, 5, 0, 3]);
    }

    #[test]
    fn a_mixed_pool_is_as_weak_as_its_weakest_memory_node() {
        use Profile::{SoftRoce, Specification, X86Host};
        assert_eq!(X86Host.weaker(X86Host), X86Host);
        assert_eq!(X86Host.weaker(SoftRoce), Specification, "neither ground holds for both");
        assert_eq!(Specification.weaker(SoftRoce), Specification);
        for profile in Profile::ALL {
            assert_eq!(Profile::from_name(profile.name()), Some(profile));
            assert_eq!(Profile::from_number(profile as u32), Some(profile));
        }
    }
}
