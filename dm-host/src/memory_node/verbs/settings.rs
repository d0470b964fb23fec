//! Where a memory node serves and whom it lets in: command line, file, and what the machine has.

use super::client::PORT_DEFAULT;
use super::secret::Secret;
use crate::fabric::devices::{self, RdmaDevice, RdmaGid, RdmaPort};
use crate::fabric::verbs::VerbsError;
use crate::fabric::verbs::profile::Profile;
use clap::Args;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

/// Settings of `--fabric verbs`. The short ones are those of perftest.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "With --fabric verbs")]
pub struct VerbsArguments {
    /// Address of this memory node, of an RDMA device [default: that of the chosen or first active GID; port 7471]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub listen: Option<String>,

    /// File with the secret that compute nodes have to know: 16 bytes or more, mode 0600
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// Accept every connection, without a secret
    #[arg(long, conflicts_with = "secret_file")]
    pub insecure: bool,

    /// RDMA device
    #[arg(short = 'd', long, value_name = "DEVICE")]
    pub ib_dev: Option<String>,

    /// Port of the device
    #[arg(short = 'i', long, value_name = "PORT")]
    pub ib_port: Option<u8>,

    /// Index of the GID
    #[arg(short = 'x', long, value_name = "INDEX")]
    pub gid_index: Option<u16>,

    /// Largest packet, in bytes: 256, 512, 1024, 2048 or 4096 [default: what the port has]
    #[arg(short = 'm', long, value_name = "BYTES")]
    pub mtu: Option<u32>,

    /// Size of one registration of the region, a power of two; several are made at a time
    #[arg(long, value_name = "SIZE", value_parser = crate::memory_node::size::bytes, default_value = "4GiB")]
    pub registration_size: u64,

    /// What the platform is known for beyond the specification: specification, rc-x86-host, soft-roce [default: by
    /// device]
    #[arg(long, value_name = "PROFILE", value_parser = profile)]
    pub profile: Option<Profile>,
}

fn profile(name: &str) -> Result<Profile, String> {
    Profile::from_name(name).ok_or_else(|| "one of specification, rc-x86-host, soft-roce".to_owned())
}

impl VerbsArguments {
    /// The secret, or the permission to serve without one.
    pub fn secret(&self) -> Result<Option<Secret>, VerbsError> {
        match &self.secret_file {
            Some(path) => Ok(Some(Secret::load(path)?)),
            None if self.insecure => Ok(None),
            None => Err(VerbsError::Choice(
                "who may reach this memory? give --secret-file FILE (make one with `(umask 077; head -c 32 \
                 /dev/urandom > FILE)`), or --insecure for everybody who can connect"
                    .to_owned(),
            )),
        }
    }

    /// The address to listen at, and the GID that has it.
    pub fn choose(&self) -> Result<Chosen, VerbsError> {
        choose(&devices::list(), self)
    }
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Address and port.
    pub address: SocketAddr,
    /// Device.
    pub device: String,
    /// Port of the device.
    pub port: u8,
    /// GID.
    pub gid: RdmaGid,
}

/// Chooses among `devices`: by address if one is given, otherwise the first active port with an address, RoCE version 2
/// before others. Every setting restricts the choice; the one that leaves nothing is named in the error.
pub fn choose(devices: &[RdmaDevice], arguments: &VerbsArguments) -> Result<Chosen, VerbsError> {
    let wrong = |text: String| Err(VerbsError::Choice(text));
    if devices.is_empty() {
        return wrong(format!(
            "no RDMA device: {} is empty; load the NIC's driver, or try Soft-RoCE with `modprobe rdma_rxe && rdma link \
             add rxe0 type rxe netdev eth0`; `dm doctor` tells more",
            devices::CLASS
        ));
    }
    let asked = arguments.listen.as_deref().map(resolve).transpose()?;
    let names = || devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(name) = &arguments.ib_dev
        && !devices.iter().any(|device| device.name == *name)
    {
        return wrong(format!("--ib-dev {name}: no such device; there are {}", names()));
    }
    let mut down = None;
    let mut candidates: Vec<(&RdmaDevice, &RdmaPort, &RdmaGid)> = Vec::new();
    for device in devices.iter().filter(|device| arguments.ib_dev.as_ref().is_none_or(|name| *name == device.name)) {
        if let Some(number) = arguments.ib_port
            && arguments.ib_dev.is_some()
            && !device.ports.iter().any(|port| port.number == number)
        {
            return wrong(format!("--ib-port {number}: {} has ports 1 to {}", device.name, device.ports.len()));
        }
        for port in device.ports.iter().filter(|port| arguments.ib_port.is_none_or(|number| number == port.number)) {
            let has_it = asked.is_none_or(|asked| port.gids.iter().any(|gid| gid.address() == Some(asked.ip())));
            if port.state != "ACTIVE" {
                if has_it {
                    down = Some((device, port));
                }
                continue;
            }
            if let Some(index) = arguments.gid_index
                && arguments.ib_dev.is_some()
                && !port.gids.iter().any(|gid| gid.index == index)
            {
                let have: Vec<_> = port.gids.iter().map(|gid| gid.index.to_string()).collect();
                let have = if have.is_empty() { "none".to_owned() } else { have.join(", ") };
                return wrong(format!(
                    "--gid-index {index}: port {} of {} has no such GID; it has {have}",
                    port.number, device.name
                ));
            }
            candidates.extend(port.gids.iter().map(|gid| (device, port, gid)));
        }
    }
    candidates.retain(|(_, _, gid)| {
        arguments.gid_index.is_none_or(|index| index == gid.index)
            && gid.address().is_some_and(|address| asked.is_none_or(|asked| asked.ip() == address))
    });
    // A stable sort: among the GIDs of the first device and port, the routable kind comes first.
    candidates.sort_by_key(|(_, _, gid)| !gid.is_roce_v2());
    if let Some((device, port, gid)) = candidates.first()
        && let Some(ip) = gid.address()
    {
        let listen = asked.map_or(PORT_DEFAULT, |asked| asked.port());
        return Ok(Chosen {
            address: SocketAddr::new(ip, listen),
            device: device.name.clone(),
            port: port.number,
            gid: (*gid).clone(),
        });
    }
    if let Some((device, port)) = down {
        return wrong(format!(
            "port {} of {} is {}; bring its link up (`ip link set DEV up`, cable, subnet manager)",
            port.number, device.name, port.state
        ));
    }
    let have: Vec<_> = devices
        .iter()
        .flat_map(|device| device.ports.iter().map(move |port| (device, port)))
        .flat_map(|(device, port)| port.gids.iter().map(move |gid| (device, gid)))
        .filter_map(|(device, gid)| Some(format!("{} ({})", gid.address()?, device.name)))
        .collect();
    let have = if have.is_empty() { "no address at all: give its interface one".to_owned() } else { have.join(", ") };
    match asked {
        Some(asked) => wrong(format!("--listen {}: no RDMA device has this address; they have {have}", asked.ip())),
        None => wrong(format!("no active port of an RDMA device fits; they have {have}")),
    }
}

/// An address, with the default port if it names none.
fn resolve(text: &str) -> Result<SocketAddr, VerbsError> {
    let wrong = |error| VerbsError::Choice(format!("--listen {text}: {error}; give HOST or HOST:PORT"));
    let mut found = match text.to_socket_addrs() {
        Ok(found) => found,
        Err(_) => (text, PORT_DEFAULT).to_socket_addrs().map_err(wrong)?,
    };
    found.next().ok_or_else(|| VerbsError::Choice(format!("--listen {text}: has no address")))
}

/// The address of the compute node's device, if the user named one by device, port or GID.
pub fn source(
    device: Option<&str>,
    port: Option<u8>,
    gid_index: Option<u16>,
) -> Result<Option<SocketAddr>, VerbsError> {
    if device.is_none() && port.is_none() && gid_index.is_none() {
        return Ok(None);
    }
    let arguments =
        VerbsArguments { ib_dev: device.map(str::to_owned), ib_port: port, gid_index, ..VerbsArguments::default() };
    let ip: IpAddr = arguments.choose()?.address.ip();
    Ok(Some(SocketAddr::new(ip, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(index: u16, address: &str, kind: &str) -> RdmaGid {
        let bytes = match address.parse().unwrap() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        RdmaGid { index, bytes, kind: kind.to_owned(), interface: "eth0".to_owned() }
    }

    fn device(name: &str, state: &str, gids: Vec<RdmaGid>) -> RdmaDevice {
        let port = RdmaPort {
            number: 1,
            state: state.to_owned(),
            link_layer: "Ethernet".to_owned(),
            rate: "100 Gb/sec".to_owned(),
            gids,
        };
        RdmaDevice { name: name.to_owned(), driver: "mlx5_core".to_owned(), ports: vec![port] }
    }

    fn machine() -> Vec<RdmaDevice> {
        let gids = |last: u8| {
            vec![
                gid(0, "fe80::1", "IB/RoCE v1"),
                gid(1, "fe80::1", "RoCE v2"),
                gid(2, &format!("10.0.0.{last}"), "IB/RoCE v1"),
                gid(3, &format!("10.0.0.{last}"), "RoCE v2"),
            ]
        };
        vec![device("mlx5_0", "DOWN", gids(1)), device("mlx5_1", "ACTIVE", gids(2))]
    }

    fn refused(devices: &[RdmaDevice], arguments: &VerbsArguments) -> String {
        choose(devices, arguments).unwrap_err().to_string()
    }

    #[test]
    fn nothing_needs_to_be_named() {
        let chosen = choose(&machine(), &VerbsArguments::default()).unwrap();
        assert_eq!((chosen.device.as_str(), chosen.gid.index), ("mlx5_1", 3));
        assert_eq!(chosen.address, "10.0.0.2:7471".parse().unwrap());
        let named = VerbsArguments { listen: Some("10.0.0.2:9".to_owned()), ..VerbsArguments::default() };
        assert_eq!(choose(&machine(), &named).unwrap().address, "10.0.0.2:9".parse().unwrap());
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is() {
        let with = |change: &dyn Fn(&mut VerbsArguments)| {
            let mut arguments = VerbsArguments::default();
            change(&mut arguments);
            refused(&machine(), &arguments)
        };
        assert!(refused(&[], &VerbsArguments::default()).contains("modprobe rdma_rxe"));
        let text = with(&|a| a.ib_dev = Some("mlx4_0".to_owned()));
        assert_eq!(text, "--ib-dev mlx4_0: no such device; there are mlx5_0, mlx5_1");
        let text = with(&|a| (a.ib_dev, a.gid_index) = (Some("mlx5_1".to_owned()), Some(7)));
        assert_eq!(text, "--gid-index 7: port 1 of mlx5_1 has no such GID; it has 0, 1, 2, 3");
        let text = with(&|a| (a.ib_dev, a.ib_port) = (Some("mlx5_1".to_owned()), Some(2)));
        assert_eq!(text, "--ib-port 2: mlx5_1 has ports 1 to 1");
        assert!(with(&|a| a.ib_dev = Some("mlx5_0".to_owned())).contains("port 1 of mlx5_0 is DOWN"));
        assert!(with(&|a| a.listen = Some("10.0.0.1".to_owned())).contains("is DOWN"));
        assert!(with(&|a| a.listen = Some("10.9.9.9".to_owned())).contains("they have 10.0.0.1 (mlx5_0)"));
        let who = VerbsArguments::default().secret().unwrap_err().to_string();
        assert!(who.contains("--secret-file") && who.contains("--insecure"));
    }
}
