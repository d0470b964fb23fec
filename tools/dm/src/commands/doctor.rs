//! `dm doctor`: what this machine has for RDMA, what the engine would choose and why, what is missing and how to mend it.
//!
//! Everything is read from /sys and /proc, so it works without RDMA libraries, without a device and without rights.

use crate::failure::{Failure, print};
use dm_host::fabric::devices::{self, RdmaDevice, RdmaGid, RdmaPort};
use procfs::process::Process;
use rustix::system::uname;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Arguments of `dm doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  dm doctor        exit code 1 if something has to be mended before RDMA works here")]
pub(super) struct Arguments {}

/// What is needed from the kernel, by module, and the file that says that it is there.
const MODULES: [(&str, &str, &str); 4] = [
    ("ib_core", "/sys/class/infiniband", "the RDMA core"),
    ("ib_uverbs", "/sys/class/infiniband_verbs", "verbs for programs"),
    ("rdma_ucm", "/sys/class/misc/rdma_cm", "connections by IP address"),
    ("rdma_rxe", "/sys/module/rdma_rxe", "Soft-RoCE, only where there is no RDMA hardware"),
];

/// Libraries that the feature `verbs` is linked against.
const LIBRARIES: [&str; 2] = ["libibverbs.so.1", "librdmacm.so.1"];

/// What the machine is like, gathered.
struct Machine {
    devices: Vec<RdmaDevice>,
    /// Whether each of [`MODULES`] is there.
    modules: [bool; MODULES.len()],
    /// Whether each of [`LIBRARIES`] is there.
    libraries: [bool; LIBRARIES.len()],
    /// Bytes this process may lock; `None`: as many as it likes.
    memlock: Option<u64>,
    /// Size, number and free number of each kind of huge page.
    huge_pages: Vec<(u64, u64, u64)>,
    /// Transparent huge pages for shared memory: the chosen word.
    shmem_transparent: String,
    /// Relaxed ordering or several paths are none of ours; the kernel's name for itself is.
    kernel: String,
}

impl Machine {
    fn look() -> Self {
        let mut huge_pages: Vec<_> = fs::read_dir("/sys/kernel/mm/hugepages")
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
                let number = |file: &str| text(&entry.path().join(file)).parse().unwrap_or(0);
                Some((kib << 10, number("nr_hugepages"), number("free_hugepages")))
            })
            .collect();
        huge_pages.sort_unstable();
        Self {
            devices: devices::list(),
            modules: MODULES.map(|(_, file, _)| Path::new(file).exists()),
            libraries: LIBRARIES.map(library),
            memlock: memlock(),
            huge_pages,
            shmem_transparent: chosen(&text(Path::new("/sys/kernel/mm/transparent_hugepage/shmem_enabled"))),
            kernel: uname().release().to_string_lossy().into_owned(),
        }
    }

    /// The port and GID that would be used if nothing is named.
    fn choice(&self) -> Option<(&RdmaDevice, &RdmaPort, &RdmaGid)> {
        choose(&self.devices, |_, _| true)
    }

    /// What has to be mended before RDMA works, with the command that does; then what would make it better.
    fn findings(&self) -> (Vec<String>, Vec<String>) {
        let (mut broken, mut advice) = (Vec::new(), Vec::new());
        let [core, uverbs, ucm, _] = self.modules;
        if self.devices.is_empty() {
            broken.push(if core {
                "no RDMA device: load the driver of the NIC (`modprobe mlx5_ib`, `modprobe irdma`, ...), or try \
                 Soft-RoCE: `modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0`"
                    .to_owned()
            } else {
                format!(
                    "this kernel ({}) has no RDMA: `modprobe ib_core ib_uverbs rdma_ucm`, or install a kernel that has \
                     these modules; without one, tools/rxe/vm boots a virtual machine with Soft-RoCE",
                    self.kernel
                )
            });
        }
        for ((name, _, what), there) in MODULES.into_iter().zip(self.modules).skip(1).take(2) {
            if !there && (core || !self.devices.is_empty()) {
                broken.push(format!("no {what}: `modprobe {name}`"));
            }
        }
        let _ = (uverbs, ucm);
        for (name, there) in LIBRARIES.into_iter().zip(self.libraries) {
            if !there {
                let package =
                    if name.starts_with("libibverbs") { "libibverbs1 ibverbs-providers" } else { "librdmacm1" };
                broken.push(format!("{name} is not installed: `apt-get install {package}`"));
            }
        }
        for device in &self.devices {
            for port in device.ports.iter().filter(|port| port.state != "ACTIVE") {
                let interface = port.gids.first().map_or("DEV", |gid| gid.interface.as_str());
                advice.push(format!(
                    "port {} of {} is {}: `ip link set {interface} up`, look at the cable{}",
                    port.number,
                    device.name,
                    port.state,
                    if port.link_layer == "InfiniBand" { ", and at the subnet manager" } else { "" }
                ));
            }
        }
        if !self.devices.is_empty() && self.choice().is_none() {
            broken.push(
                "no active port has an IP address to be reached at: `ip addr add 10.0.0.1/24 dev DEV` (on InfiniBand: \
                 of its IPoIB interface)"
                    .to_owned(),
            );
        }
        if let Some(limit) = self.memlock
            && limit < 64 << 20
        {
            broken.push(format!(
                "a process may lock {limit} bytes, and registered memory is locked: `ulimit -l unlimited` as root, \
                 LimitMEMLOCK=infinity in a systemd unit, or memlock in /etc/security/limits.conf"
            ));
        }
        if self.huge_pages.iter().all(|&(_, _, free)| free == 0) {
            advice.push(
                "no huge page is free: a NIC translates addresses faster with them; `sysctl vm.nr_hugepages=2048` \
                 reserves 4 GiB of 2 MiB"
                    .to_owned(),
            );
            if self.shmem_transparent == "never" {
                advice.push(
                    "and none are made of small ones: `echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled`"
                        .to_owned(),
                );
            }
        }
        (broken, advice)
    }

    fn report(&self) -> (String, bool) {
        let mut text = format!("kernel      {}\n", self.kernel);
        // Writing to a string does not fail, here and below.
        let there = |there| if there { "yes" } else { "no" };
        for ((name, _, what), found) in MODULES.into_iter().zip(self.modules) {
            let _ = writeln!(text, "module      {name:<11} {:<4} {what}", there(found));
        }
        for (name, found) in LIBRARIES.into_iter().zip(self.libraries) {
            let _ = writeln!(text, "library     {name:<16} {}", there(found));
        }
        let built = if cfg!(feature = "verbs") { "yes" } else { "no: build with `--features verbs`" };
        let _ = writeln!(text, "built with  verbs: {built}");
        match self.memlock {
            Some(limit) => writeln!(text, "may lock    {limit} bytes"),
            None => writeln!(text, "may lock    all memory"),
        }
        .unwrap_or_default();
        for (bytes, number, free) in &self.huge_pages {
            let _ = writeln!(text, "huge pages  {:>7} KiB: {free} of {number} free", bytes >> 10);
        }
        let _ = writeln!(text, "            transparent, shared memory: {}", self.shmem_transparent);
        if self.devices.is_empty() {
            text.push_str("device      none\n");
        }
        for device in &self.devices {
            let driver = if device.driver.is_empty() { "unknown driver" } else { &device.driver };
            let _ = writeln!(text, "device      {} ({driver})", device.name);
            for port in &device.ports {
                let RdmaPort { number, state, link_layer, rate, .. } = port;
                let _ = writeln!(text, "  port {number}    {state}, {link_layer}, {rate}");
                for gid in &port.gids {
                    let raw = std::net::Ipv6Addr::from(gid.bytes);
                    let address = gid.address().map_or("no address".to_owned(), |address| address.to_string());
                    let RdmaGid { index, kind, interface, .. } = gid;
                    let _ = writeln!(text, "    gid {index:<3} {raw}  {kind}  {address}  {interface}");
                }
            }
        }
        if let Some((device, port, gid)) = self.choice() {
            let address = gid.address().map_or(String::new(), |address| address.to_string());
            let software = device.driver.starts_with("rxe ");
            let profile = if software { "soft-roce" } else { "rc-x86-host on x86" };
            let _ = write!(
                text,
                "\nchoice      dm-memd --fabric verbs --listen {address}\n            {} port {} gid {}: the first active \
                 port with an address{}\n            profile {profile}: {}\n",
                device.name,
                port.number,
                gid.index,
                if gid.is_roce_v2() { ", RoCE v2, which is routed" } else { "" },
                if software {
                    "a device in software; sound with one processor on-line only, and no measure of hardware"
                } else {
                    "whole lines and words are asserted, not promised by the specification; `dm litmus` tries"
                }
            );
        }
        let (broken, advice) = self.findings();
        text.push('\n');
        for line in &broken {
            let _ = writeln!(text, "MEND        {line}");
        }
        for line in &advice {
            let _ = writeln!(text, "advice      {line}");
        }
        if broken.is_empty() {
            text.push_str("RDMA can be used on this machine.\n");
        }
        (text, broken.is_empty())
    }
}

/// Of those that are wanted, the first GID with an address of an active port, RoCE version 2 before version 1.
pub(super) fn choose(
    devices: &[RdmaDevice],
    wanted: impl Fn(&RdmaDevice, &RdmaGid) -> bool,
) -> Option<(&RdmaDevice, &RdmaPort, &RdmaGid)> {
    let mut candidates: Vec<_> = devices
        .iter()
        .flat_map(|device| device.ports.iter().map(move |port| (device, port)))
        .filter(|(_, port)| port.state == "ACTIVE")
        .flat_map(|(device, port)| port.gids.iter().map(move |gid| (device, port, gid)))
        .filter(|(device, _, gid)| gid.address().is_some() && wanted(device, gid))
        .collect();
    candidates.sort_by_key(|(_, _, gid)| !gid.is_roce_v2());
    candidates.first().copied()
}

pub(super) fn run(_: &Arguments) -> Result<(), Failure> {
    let (text, well) = Machine::look().report();
    print(&text)?;
    if well { Ok(()) } else { Err(Failure::Run("RDMA cannot be used on this machine yet: see MEND above".to_owned())) }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The word in brackets: `always within_size [advise] never`.
fn chosen(words: &str) -> String {
    let chosen = words.split(' ').find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    chosen.unwrap_or("unknown").to_owned()
}

/// Whether a shared library is where the linker looks.
fn library(name: &str) -> bool {
    let architecture = format!("{}-linux-gnu", std::env::consts::ARCH);
    ["/usr/lib", "/lib", "/usr/lib64", "/lib64", "/usr/local/lib"].iter().any(|directory| {
        let directory = Path::new(directory);
        directory.join(name).exists() || directory.join(&architecture).join(name).exists()
    })
}

/// What this process may lock, unless it may lock everything.
fn memlock() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    /// CAP_IPC_LOCK, as a bit of the effective set (capabilities(7)).
    const IPC_LOCK: u64 = 1 << 14;
    let status = Process::myself().and_then(|process| process.status());
    let capable = status.is_ok_and(|status| status.capeff & IPC_LOCK != 0);
    if capable { None } else { getrlimit(Resource::Memlock).current }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let gid = |index, last: u8, kind: &str| RdmaGid {
            index,
            bytes: std::net::Ipv4Addr::new(10, 0, 0, last).to_ipv6_mapped().octets(),
            kind: kind.to_owned(),
            interface: "eth1".to_owned(),
        };
        let port = |state: &str, last| RdmaPort {
            number: 1,
            state: state.to_owned(),
            link_layer: "Ethernet".to_owned(),
            rate: "100 Gb/sec (4X EDR)".to_owned(),
            gids: vec![gid(2, last, "IB/RoCE v1"), gid(3, last, "RoCE v2")],
        };
        let device =
            |name: &str, port| RdmaDevice { name: name.to_owned(), driver: "mlx5_core".to_owned(), ports: vec![port] };
        Machine {
            devices: vec![device("mlx5_0", port("DOWN", 1)), device("mlx5_1", port("ACTIVE", 2))],
            modules: [true, true, true, false],
            libraries: [true, true],
            memlock: None,
            huge_pages: vec![(2 << 20, 8, 8)],
            shmem_transparent: "advise".to_owned(),
            kernel: "6.1".to_owned(),
        }
    }

    #[test]
    fn a_machine_in_order_is_told_what_to_run() {
        let (text, well) = machine().report();
        assert!(well, "{text}");
        assert!(text.contains("dm-memd --fabric verbs --listen 10.0.0.2\n"), "{text}");
        assert!(text.contains("mlx5_1 port 1 gid 3"), "{text}");
        assert!(text.contains("advice      port 1 of mlx5_0 is DOWN: `ip link set eth1 up`"), "{text}");
    }

    #[test]
    fn each_thing_that_is_missing_comes_with_the_command_that_mends_it() {
        let bare = Machine {
            devices: Vec::new(),
            modules: [false; 4],
            libraries: [true, false],
            memlock: Some(64 << 10),
            huge_pages: Vec::new(),
            shmem_transparent: "never".to_owned(),
            ..machine()
        };
        let (text, well) = bare.report();
        assert!(!well);
        for part in [
            "modprobe ib_core ib_uverbs rdma_ucm",
            "librdmacm.so.1 is not installed: `apt-get install librdmacm1`",
            "a process may lock 65536 bytes",
            "sysctl vm.nr_hugepages",
            "shmem_enabled",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let (text, _) = Machine { modules: [true, true, false, false], ..machine() }.report();
        assert!(text.contains("MEND        no connections by IP address: `modprobe rdma_ucm`"), "{text}");
        let (text, _) = Machine { devices: Vec::new(), ..machine() }.report();
        assert!(text.contains("rdma link add rxe0"), "{text}");
    }
}
