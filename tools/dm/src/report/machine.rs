//! The machine that a number comes from, as `/proc` of Linux describes it.

use super::text::{counted, size};
use procfs::{CpuInfo, Current as _, Meminfo};
use rustix::system::uname;
use serde::{Deserialize, Serialize};
use std::{fmt, thread};

/// The machine; `None` where the system does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// `model name` of the first processor in `/proc/cpuinfo`.
    pub cpu_model: Option<String>,
    /// Processors that this process may run on.
    pub logical_cores: u32,
    /// Release of the kernel.
    pub kernel_release: Option<String>,
    /// Main memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Size of a huge page of the default size, in bytes.
    pub huge_page_bytes: Option<u64>,
    /// Huge pages of that size set aside.
    pub huge_pages_total: Option<u64>,
    /// Of these, how many are free.
    pub huge_pages_free: Option<u64>,
}

impl Machine {
    /// Looks at this machine. What cannot be read is `None`: a report without a model name is still a report.
    pub fn detect() -> Self {
        let cpu = CpuInfo::current().ok();
        let memory = Meminfo::current().ok();
        Self {
            cpu_model: cpu.and_then(|cpu| cpu.model_name(0).map(str::to_owned)),
            logical_cores: thread::available_parallelism().map_or(0, |cores| cores.get() as u32),
            kernel_release: uname().release().to_str().ok().map(str::to_owned),
            memory_bytes: memory.as_ref().map(|memory| memory.mem_total),
            huge_page_bytes: memory.as_ref().and_then(|memory| memory.hugepagesize),
            huge_pages_total: memory.as_ref().and_then(|memory| memory.hugepages_total),
            huge_pages_free: memory.as_ref().and_then(|memory| memory.hugepages_free),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        write!(formatter, "{}, {}, ", known(&self.cpu_model), counted(self.logical_cores, "core"))?;
        match self.memory_bytes {
            Some(bytes) => write!(formatter, "{} memory, ", size(bytes))?,
            None => write!(formatter, "memory unknown, ")?,
        }
        match (self.huge_pages_free, self.huge_pages_total, self.huge_page_bytes) {
            (Some(free), Some(total), Some(bytes)) => {
                write!(formatter, "{free} of {total} huge pages of {} free, ", size(bytes))?;
            }
            _ => write!(formatter, "huge pages unknown, ")?,
        }
        write!(formatter, "kernel {}", known(&self.kernel_release))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_said_in_one_line() {
        let machine = Machine {
            cpu_model: Some("Intel(R) Xeon(R) Gold 6242R CPU @ 3.10GHz".to_owned()),
            logical_cores: 2,
            kernel_release: Some("6.1.0-18-amd64".to_owned()),
            memory_bytes: Some(16_303_212 * 1_024),
            huge_page_bytes: Some(2 << 20),
            huge_pages_total: Some(512),
            huge_pages_free: Some(500),
        };
        assert_eq!(
            machine.to_string(),
            "Intel(R) Xeon(R) Gold 6242R CPU @ 3.10GHz, 2 cores, 15.5 GiB memory, 500 of 512 huge pages of 2.0 MiB free, \
             kernel 6.1.0-18-amd64"
        );
        let machine = Machine { logical_cores: 1, ..Machine::default() };
        assert_eq!(machine.to_string(), "unknown, 1 core, memory unknown, huge pages unknown, kernel unknown");
    }

    #[test]
    fn this_machine_has_cores_memory_and_a_kernel() {
        let machine = Machine::detect();
        assert!(machine.logical_cores > 0);
        assert!(machine.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(machine.kernel_release.is_some());
    }
}
