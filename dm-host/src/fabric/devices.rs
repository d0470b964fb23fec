//! The RDMA devices of this machine, read from /sys. No library is needed for that.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// Where the kernel lists the devices.
pub const CLASS: &str = "/sys/class/infiniband";

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaDevice {
    /// Its name, e.g. `mlx5_0`.
    pub name: String,
    /// Its driver, or `rxe on eth0` for a software device; empty if the kernel does not say.
    pub driver: String,
    /// Its ports, numbered from 1.
    pub ports: Vec<RdmaPort>,
}

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaPort {
    /// From 1.
    pub number: u8,
    /// E.g. `ACTIVE`, `DOWN`.
    pub state: String,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: String,
    /// E.g. `100 Gb/sec (4X EDR)`.
    pub rate: String,
    /// Its GIDs, without unset entries.
    pub gids: Vec<RdmaGid>,
}

/// A GID: an address of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaGid {
    /// Its index.
    pub index: u16,
    /// Its bytes.
    pub bytes: [u8; 16],
    /// E.g. `RoCE v2`, `IB/RoCE v1`.
    pub kind: String,
    /// The network interface it belongs to, if any.
    pub interface: String,
}

impl RdmaGid {
    /// The IP address that the GID stands for: RoCE forms GIDs from addresses. `None` for a link-local GID and on
    /// InfiniBand.
    pub fn address(&self) -> Option<IpAddr> {
        let v6 = Ipv6Addr::from(self.bytes);
        if let Some(v4) = v6.to_ipv4_mapped() {
            return (v4 != Ipv4Addr::UNSPECIFIED).then_some(IpAddr::V4(v4));
        }
        // Link-local addresses need a scope, which a GID does not have.
        let usable = self.kind.contains("RoCE") && !v6.is_unspecified() && v6.segments()[0] != 0xfe80;
        usable.then_some(IpAddr::V6(v6))
    }

    /// Whether this is a GID of RoCE version 2, the routable one.
    pub fn is_roce_v2(&self) -> bool {
        self.kind == "RoCE v2"
    }
}

/// All devices, by name. Empty if there are none, or if the kernel has no RDMA.
pub fn list() -> Vec<RdmaDevice> {
    list_in(Path::new(CLASS))
}

/// As [`list`], of another directory.
pub fn list_in(class: &Path) -> Vec<RdmaDevice> {
    let mut devices: Vec<_> = entries(class)
        .into_iter()
        .map(|(name, path)| {
            let driver = match text(&path.join("parent")) {
                parent if !parent.is_empty() => format!("rxe on {parent}"),
                _ => fs::read_link(path.join("device/driver"))
                    .ok()
                    .and_then(|driver| Some(driver.file_name()?.to_string_lossy().into_owned()))
                    .unwrap_or_default(),
            };
            let mut ports: Vec<_> = entries(&path.join("ports"))
                .into_iter()
                .filter_map(|(number, path)| Some(port(number.parse().ok()?, &path)))
                .collect();
            ports.sort_by_key(|port| port.number);
            RdmaDevice { name, driver, ports }
        })
        .collect();
    devices.sort_by(|a, b| a.name.cmp(&b.name));
    devices
}

fn port(number: u8, path: &Path) -> RdmaPort {
    let state = text(&path.join("state"));
    let mut gids: Vec<_> = entries(&path.join("gids"))
        .into_iter()
        .filter_map(|(index, file)| {
            let bytes = parse_gid(&text(&file))?;
            let attribute = |kind: &str| text(&path.join("gid_attrs").join(kind).join(&index));
            let index = index.parse().ok()?;
            Some(RdmaGid { index, bytes, kind: attribute("types"), interface: attribute("ndevs") })
        })
        .collect();
    gids.sort_by_key(|gid| gid.index);
    RdmaPort {
        number,
        state: state.split_once(": ").map_or(state.clone(), |(_, name)| name.to_owned()),
        link_layer: text(&path.join("link_layer")),
        rate: text(&path.join("rate")),
        gids,
    }
}

/// A GID as the kernel writes it; `None` for an unset one.
fn parse_gid(text: &str) -> Option<[u8; 16]> {
    let address: Ipv6Addr = text.parse().ok()?;
    let bytes = address.octets();
    // An unset entry is zeros, or a subnet prefix without an identifier.
    (bytes[8..] != [0; 8]).then_some(bytes)
}

fn entries(directory: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.file_name().into_string().ok()?, entry.path()))
        })
        .collect()
}

/// A file's text without surrounding white space; empty if the file cannot be read.
fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_as_the_kernel_shows_them() {
        let directory = tempfile::tempdir().unwrap();
        let port = directory.path().join("rxe0/ports/1");
        for (file, content) in [
            ("rxe0/parent", "eth0\n"),
            ("rxe0/ports/1/state", "4: ACTIVE\n"),
            ("rxe0/ports/1/link_layer", "Ethernet\n"),
            ("rxe0/ports/1/rate", "2.5 Gb/sec (1X SDR)\n"),
            ("rxe0/ports/1/gids/0", "fe80:0000:0000:0000:5054:00ff:fe77:0001\n"),
            ("rxe0/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a4d:0001\n"),
            ("rxe0/ports/1/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n"),
            ("rxe0/ports/1/gid_attrs/types/1", "RoCE v2\n"),
            ("rxe0/ports/1/gid_attrs/ndevs/1", "eth0\n"),
        ] {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        assert!(port.exists());
        let devices = list_in(directory.path());
        assert_eq!(devices.len(), 1);
        assert_eq!((devices[0].driver.as_str(), devices[0].ports[0].state.as_str()), ("rxe on eth0", "ACTIVE"));
        let gids = &devices[0].ports[0].gids;
        assert_eq!(gids.iter().map(|gid| gid.index).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(gids[0].address(), None, "link-local");
        assert_eq!(gids[1].address(), Some("10.77.0.1".parse().unwrap()));
        assert!(gids[1].is_roce_v2());
        assert_eq!(list_in(&directory.path().join("nothing")), []);
    }
}
