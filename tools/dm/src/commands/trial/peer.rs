//! The other host: memory nodes, and the servers of perftest.

use super::Arguments;
use super::child::{Command, is_installed, stop};
use crate::commands::doctor::choose;
use crate::failure::{Failure, print};
use crate::pool::{RdmaArguments, when_told_to_stop};
use dm_host::fabric::devices::{self, RdmaDevice};
use std::io::{BufRead as _, BufReader};
use std::net::IpAddr;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Where a memory node listens if nothing else is said: as `dm-memd` does.
const PORT: u16 = 7471;

/// A test of perftest: the client prints a line that begins with the number of bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Perftest {
    pub name: &'static str,
    pub program: &'static str,
    arguments: &'static [&'static str],
    /// Messages a second are asked for, and the time of one is wanted.
    inverse: bool,
    pub unit: &'static str,
}

const fn perftest(
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    unit: &'static str,
) -> Perftest {
    Perftest { name, program, arguments, inverse: false, unit }
}

/// What is measured beside the engine: READs of a leaf (1 KiB) and of a small node, an atomic, and a small WRITE, one at a time;
/// READs as many as go. Not ib_write_lat: its ends poll memory, which on one processor measures the scheduler.
pub(super) const PERFTEST: &[Perftest] = &[
    perftest("ib_read_lat, 1024 B", "ib_read_lat", &["-s", "1024", "-n", "300"], "us"),
    perftest("ib_read_lat, 64 B", "ib_read_lat", &["-s", "64", "-n", "300"], "us"),
    perftest("ib_atomic_lat, CAS", "ib_atomic_lat", &["-A", "CMP_AND_SWAP", "-n", "300"], "us"),
    Perftest {
        inverse: true,
        ..perftest("ib_write_bw, 17 B, one at a time", "ib_write_bw", &["-s", "17", "-t", "1", "-n", "300"], "us")
    },
    perftest("ib_read_bw, 1024 B", "ib_read_bw", &["-s", "1024", "-n", "2000"], "M/s"),
    perftest("ib_read_bw, 64 B", "ib_read_bw", &["-s", "64", "-n", "2000"], "M/s"),
];

impl Perftest {
    /// The command of either end; the client's has the server's name behind it.
    pub(super) fn command(&self, place: &Place, first_port: u16) -> Command {
        let number = PERFTEST.iter().position(|test| test == self).unwrap_or(0) as u16;
        let mut arguments: Vec<String> = self.arguments.iter().map(|&argument| argument.to_owned()).collect();
        let Place { device, port, gid_index } = place;
        arguments.extend(["-d".to_owned(), device.clone(), "-i".to_owned(), port.to_string()]);
        arguments.extend(["-x".to_owned(), gid_index.to_string(), "-F".to_owned()]);
        arguments.extend(["-p".to_owned(), first_port.saturating_add(number).to_string()]);
        Command { program: Some(self.program), arguments }
    }

    /// The typical latency in us, or millions of messages a second: both are in the fifth column.
    pub(super) fn read(&self, said: &str) -> Option<f64> {
        let mut lines = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let result = lines.find(|line| line.len() >= 5 && line.iter().all(|word| word.parse::<f64>().is_ok()))?;
        let value: f64 = result[4].parse().ok()?;
        let value = if self.inverse { 1.0 / value } else { value };
        (value.is_finite() && value > 0.0).then_some(value)
    }
}

/// Where perftest finds the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    device: String,
    port: u8,
    gid_index: u16,
}

impl Place {
    /// Of a device, if its name is known, and of an address, if that is; options count more.
    pub(super) fn find(
        devices: &[RdmaDevice],
        name: Option<&str>,
        address: Option<IpAddr>,
        rdma: &RdmaArguments,
    ) -> Option<Self> {
        let name = rdma.ib_dev.as_deref().or(name);
        let is_named = |device: &RdmaDevice| name.is_none_or(|name| name == device.name);
        let chosen = choose(devices, |device, gid| {
            is_named(device) && address.is_none_or(|address| gid.address() == Some(address))
        });
        let (device, port, gid_index) = chosen.map(|(device, port, gid)| (device, port, gid.index)).or_else(|| {
            // InfiniBand needs no GID, and its GIDs stand for no address.
            let device = devices.iter().find(|device| is_named(device))?;
            Some((device, device.ports.iter().find(|port| port.state == "ACTIVE")?, 0))
        })?;
        Some(Self {
            device: device.name.clone(),
            port: rdma.ib_port.unwrap_or(port.number),
            gid_index: rdma.gid_index.unwrap_or(gid_index),
        })
    }
}

/// Host and port of `HOST`, `HOST:PORT` or `[HOST]:PORT`.
fn parts(address: &str) -> Result<(&str, u16), Failure> {
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if host.ends_with(']') || !host.contains(':') => (host, Some(port)),
        _ => (address, None),
    };
    let number = port.map_or(Ok(PORT), str::parse);
    // One more is the pool without device memory.
    let number = number.ok().filter(|port| *port < u16::MAX);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match number {
        Some(port) if !host.is_empty() => Ok((host, port)),
        _ => Err(Failure::Usage(format!("{address}: not HOST or HOST:PORT"))),
    }
}

/// The host of an address.
pub(super) fn host_of(address: &str) -> &str {
    parts(address).map_or(address, |(host, _)| host)
}

/// The addresses of both pools.
pub(super) fn addresses(peer: &str) -> Result<(String, String), Failure> {
    let (host, port) = parts(peer)?;
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    Ok((format!("{host}:{port}"), format!("{host}:{}", port + 1)))
}

/// The options of verbs that both ends take.
fn options(rdma: &RdmaArguments) -> Vec<String> {
    let RdmaArguments { secret_file, ib_dev, ib_port, gid_index, mtu } = rdma;
    let mut options = Vec::new();
    let mut add = |option: &str, value: Option<String>| {
        options.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
    };
    add("--secret-file", secret_file.as_ref().map(|file| file.display().to_string()));
    add("--ib-dev", ib_dev.clone());
    add("--ib-port", ib_port.map(|port| port.to_string()));
    add("--gid-index", gid_index.map(|index| index.to_string()));
    add("--mtu", mtu.map(|mtu| mtu.to_string()));
    options
}

/// How a command is told of a pool.
pub(super) fn pool_of(address: &str, rdma: &RdmaArguments) -> Vec<String> {
    let pool = ["--fabric", "verbs", "--pool", address].map(str::to_owned);
    pool.into_iter().chain(options(rdma)).collect()
}

/// Serves until it is told to stop.
pub(super) fn serve(arguments: &Arguments, address: &str) -> Result<(), Failure> {
    let (first, second) = addresses(address)?;
    let memory_node = |address: &str, device_size: Option<&str>| {
        let mut command = Command::dm(&["memd", "--fabric", "verbs", "--exit-with-parent", "--listen", address]);
        command.arguments.extend(["--size".to_owned(), arguments.size.clone()]);
        command.arguments.extend(arguments.insecure.then(|| "--insecure".to_owned()));
        command.arguments.extend(options(&arguments.rdma));
        command.arguments.extend(device_size.iter().flat_map(|size| ["--device-size".to_owned(), (*size).to_owned()]));
        start(&command)
    };
    let (mut daemon, ready) = memory_node(&first, None)?;
    print(&ready)?;
    // With locks in host memory, to compare with. Lives as long as this process.
    let _second = if ready.contains(" device_bytes=0 ") {
        None
    } else {
        let (daemon, ready) = memory_node(&second, Some("0"))?;
        print(&ready)?;
        Some(daemon)
    };
    serve_perftest(arguments, host_of(address))?;
    let ended = daemon.wait().map_err(Failure::run)?;
    Err(Failure::Run(format!("the memory node ended: {ended}")))
}

/// Starts a memory node; returns it, and the line it prints once clients can connect.
fn start(command: &Command) -> Result<(Child, String), Failure> {
    let mut process = command.command().map_err(Failure::Run)?;
    let mut daemon = process.stdout(Stdio::piped()).spawn().map_err(Failure::run)?;
    let mut ready = String::new();
    if let Some(out) = daemon.stdout.take() {
        let _ = BufReader::new(out).read_line(&mut ready);
    }
    if ready.starts_with("READY") {
        return Ok((daemon, ready));
    }
    // Its own standard error is this one's.
    let ended = daemon.wait().map_err(Failure::run)?;
    Err(Failure::Run(format!("{command}: {ended}, see above")))
}

/// Keeps a server of each test of perftest up: each serves one client and ends.
fn serve_perftest(arguments: &Arguments, host: &str) -> Result<(), Failure> {
    let running = Arc::new(Mutex::new(Vec::<Child>::new()));
    let to_end = Arc::clone(&running);
    when_told_to_stop(move || {
        for child in to_end.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            stop(child);
        }
    })?;
    let place = Place::find(&devices::list(), None, host.parse().ok(), &arguments.rdma);
    let Some(place) = place else { return print("no perftest: no active port of an RDMA device has this address\n") };
    let (here, missing): (Vec<_>, Vec<_>) = PERFTEST.iter().partition(|test| is_installed(test.program));
    if !missing.is_empty() {
        print("no perftest, or not all of it: `apt-get install perftest`\n")?;
    }
    for test in here {
        let command = test.command(&place, arguments.perftest_port);
        print(&format!("serving {command}\n"))?;
        let running = Arc::clone(&running);
        thread::spawn(move || {
            loop {
                let Ok(mut process) = command.command() else { return };
                let Ok(child) = process.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else { return };
                let number = child.id();
                running.lock().unwrap_or_else(PoisonError::into_inner).push(child);
                loop {
                    thread::sleep(Duration::from_millis(100));
                    let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
                    let ended = |child: &mut Child| child.id() == number && !matches!(child.try_wait(), Ok(None));
                    let before = running.len();
                    running.retain_mut(|child| !ended(child));
                    if running.len() < before {
                        break;
                    }
                }
            }
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dm_host::fabric::devices::{RdmaGid, RdmaPort};

    #[test]
    fn a_peer_is_a_host_and_two_ports() {
        let both = |peer| addresses(peer).unwrap();
        assert_eq!(both("node1"), ("node1:7471".to_owned(), "node1:7472".to_owned()));
        assert_eq!(both("10.0.0.1:9000"), ("10.0.0.1:9000".to_owned(), "10.0.0.1:9001".to_owned()));
        assert_eq!(both("fd00::1").0, "[fd00::1]:7471");
        assert_eq!(both("[fd00::1]:80").1, "[fd00::1]:81");
        assert_eq!(host_of("[fd00::1]:80"), "fd00::1");
        for wrong in ["", ":7471", "node1:", "node1:x", "node1:65535", "node1:65536"] {
            assert!(addresses(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn both_ends_of_perftest_have_the_same_command_and_results_are_read() {
        let gid = RdmaGid {
            index: 3,
            bytes: std::net::Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets(),
            kind: "RoCE v2".to_owned(),
            interface: "eth0".to_owned(),
        };
        let port = RdmaPort {
            number: 2,
            state: "ACTIVE".to_owned(),
            link_layer: "Ethernet".to_owned(),
            rate: "100 Gb/sec (4X EDR)".to_owned(),
            gids: vec![gid],
        };
        let devices = [RdmaDevice { name: "mlx5_0".to_owned(), driver: "mlx5_core".to_owned(), ports: vec![port] }];
        let rdma = RdmaArguments::default();
        let place = Place::find(&devices, None, Some("10.0.0.1".parse().unwrap()), &rdma).unwrap();
        assert_eq!(Place::find(&devices, Some("mlx5_0"), None, &rdma).as_ref(), Some(&place));
        assert_eq!(Place::find(&devices, Some("mlx5_1"), None, &rdma), None);
        let command = PERFTEST[1].command(&place, 18515).to_string();
        assert_eq!(command, "ib_read_lat -s 64 -n 300 -d mlx5_0 -i 2 -x 3 -F -p 18516");
        let said = " #bytes #iterations t_min t_max t_typical\n 64 1000 9.61 119.24 10.52 10.9 2.1 20.0 30.0\n";
        assert_eq!(PERFTEST[1].read(said), Some(10.52));
        assert_eq!(PERFTEST[3].read(" 17 1000 0.30 0.29 0.0200\n"), Some(50.0));
        for nothing in ["", "64 1000 inf", " 64 1000 1 2 inf 3"] {
            assert_eq!(PERFTEST[1].read(nothing), None, "{nothing}");
        }
    }
}
