//! The machine that a number comes from, as Linux tells it under `/proc`.

use super::text::{counted, size};
use serde::{Deserialize, Serialize};
use std::{fmt, fs, thread};

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
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let logical_cores = thread::available_parallelism().map_or(0, |cores| cores.get() as u32);
        let release = read("/proc/sys/kernel/osrelease");
        Self::parse(&read("/proc/cpuinfo"), &read("/proc/meminfo"), &release, logical_cores)
    }

    fn parse(cpu_info: &str, memory_info: &str, release: &str, logical_cores: u32) -> Self {
        let text = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
        // "MemTotal:  16303212 kB"; counts of pages have no unit.
        let number = |name| -> Option<u64> {
            let mut words = field(memory_info, name)?.split_whitespace();
            let number: u64 = words.next()?.parse().ok()?;
            Some(if words.next() == Some("kB") { number * 1_024 } else { number })
        };
        Self {
            cpu_model: field(cpu_info, "model name").and_then(text),
            logical_cores,
            kernel_release: text(release),
            memory_bytes: number("MemTotal"),
            huge_page_bytes: number("Hugepagesize"),
            huge_pages_total: number("HugePages_Total"),
            huge_pages_free: number("HugePages_Free"),
        }
    }
}

/// What follows the colon in the first line that begins with `name`.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name).map(|(_, value)| value)
}

impl fmt::Display for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        write!(formatter, "{}, {}, ", known(&self.cpu_model), counted(u64::from(self.logical_cores), "core"))?;
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

    const CPU_INFO: &str = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Gold 6242R CPU @ 3.10GHz\nflags\t\t: fpu\n\n\
                            processor\t: 1\nmodel name\t: Another\n";
    const MEMORY_INFO: &str = "MemTotal:       16303212 kB\nMemFree:  1 kB\nHugePages_Total:     512\n\
                               HugePages_Free:      500\nHugepagesize:       2048 kB\n";

    #[test]
    fn the_files_of_linux_are_read() {
        let machine = Machine::parse(CPU_INFO, MEMORY_INFO, "6.1.0-18-amd64\n", 2);
        assert_eq!(machine.cpu_model.as_deref(), Some("Intel(R) Xeon(R) Gold 6242R CPU @ 3.10GHz"));
        assert_eq!(machine.kernel_release.as_deref(), Some("6.1.0-18-amd64"));
        assert_eq!(machine.memory_bytes, Some(16_303_212 * 1_024));
        assert_eq!(machine.huge_page_bytes, Some(2 << 20));
        assert_eq!((machine.huge_pages_total, machine.huge_pages_free), (Some(512), Some(500)));
        assert_eq!(
            machine.to_string(),
            "Intel(R) Xeon(R) Gold 6242R CPU @ 3.10GHz, 2 cores, 15.5 GiB memory, 500 of 512 huge pages of 2.0 MiB free, \
             kernel 6.1.0-18-amd64"
        );
    }

    #[test]
    fn what_is_not_said_is_unknown() {
        let machine = Machine::parse("processor: 0\n", "MemTotal: lots\n", "", 1);
        assert_eq!(machine, Machine { logical_cores: 1, ..Machine::default() });
        assert_eq!(machine.to_string(), "unknown, 1 core, memory unknown, huge pages unknown, kernel unknown");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_cores_memory_and_a_kernel() {
        let machine = Machine::detect();
        assert!(machine.logical_cores > 0);
        assert!(machine.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(machine.kernel_release.is_some());
    }
}
