//! A memory node on an RDMA device: the daemon that registers its region, and the client's end.
//!
//! ```text
//!   compute process                                          dm-memd
//!     TCP: hello, challenge, proof, welcome ───────────────►  control connection = one *session*: ticket, keys
//!     librdmacm: connect with the ticket ──────────────────►  a queue pair of that session
//!     TCP: announce row and incarnation ───────────────────►  the session is that compute node's
//!     READ, WRITE, atomics on the region                      (its processor is idle)
//!     SEND a call of its processor ────────────────────────►  a shared receive queue; a thread searches, and replies by SEND
//!     TCP: fence row r up to incarnation i ────────────────►  destroys the queue pairs of sessions that announced it,
//!     ◄──────────────────────────────────── Done              refuses it from now on, then answers
//!     TCP ends ────────────────────────────────────────────►  destroys the session's queue pairs
//! ```
//!
//! Why there is a TCP connection beside librdmacm's. The private data of a connection request has 56 bytes, too few for
//! challenge, proof and keys. The control connection also outlives queue pairs, ends with either process, and carries
//! the few procedures there are ([`dm_core::remote::rpc`]). Calls of the memory node's processor
//! ([`dm_core::verbs::Verb::Call`]) are many, and come by the queue pairs.
//!
//! - [`wire`]: the messages. [`secret`]: the shared secret.
//! - [`settings`]: command line and file. `registered`: the region, registered.
//! - `server`: sessions, queue pairs, fencing.
//! - `call_server`: the threads that answer calls. `call_wire`: their messages. `gate`: when calls begin and end.
//!   `own_path`: how they change the region. `relays`: calls that one compute node executes for another. `planted`: bugs
//!   that unit tests plant.
//! - [`client`]: the compute process's end.

mod call_server;
pub(crate) mod call_wire;
pub mod client;
mod gate;
mod own_path;
pub(crate) mod planted;
mod registered;
mod relays;
pub mod secret;
mod server;
pub mod settings;
pub mod wire;

use super::ServeError;
use super::arguments::Arguments;
use super::counters;
use crate::fabric::verbs::cm::{Channel, Id};
use crate::fabric::verbs::profile::Profile;
use crate::fabric::verbs::{VerbsError, choose_mtu, mtu_bytes};
use crate::metrics::Endpoint;
use crate::pool;
use crate::region::layout::DEVICE_BYTES_DEFAULT;
use crate::region::{LineMode, Region, RegionSpec};
use call_server::CallServer;
use dm_core::verbs::NodeId;
use own_path::Home;
use registered::Registered;
use server::Server;
use std::error::Error;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use wire::Welcome;

/// Runs the daemon of a memory node on an RDMA device, until `stop` becomes readable.
pub(super) fn run(arguments: &Arguments, stop: BorrowedFd<'_>) -> Result<(), Box<dyn Error>> {
    let settings = &arguments.verbs;
    let (node, nodes) = (arguments.node_id, arguments.memory_nodes);
    if node >= nodes {
        return Err(ServeError::Number { node, nodes }.into());
    }
    let size = arguments.size()?;
    let secret = settings.secret()?;
    let chosen = settings.choose()?;

    let channel = Channel::new()?;
    let connections = Id::new(&channel)?;
    connections.bind(chosen.address)?;
    let no_device =
        || VerbsError::Choice(format!("{}: the kernel binds this address to no RDMA device", chosen.address));
    let (device, port) = connections.device()?.ok_or_else(no_device)?;
    if device.name() != chosen.device || port != chosen.port {
        return Err(VerbsError::Choice(format!(
            "{}: the kernel takes port {port} of {}, not port {} of {}; leave --ib-dev and --ib-port out, or give --listen",
            chosen.address.ip(),
            device.name(),
            chosen.port,
            chosen.device
        ))
        .into());
    }
    let (active_mtu, active) = device.port(port)?;
    if !active {
        return Err(VerbsError::PortDown { device: device.name().to_owned(), port }.into());
    }
    if !device.limits().atomics {
        return Err(VerbsError::NoAtomics { device: device.name().to_owned() }.into());
    }
    let mtu = choose_mtu(settings.mtu, active_mtu, device.name())?;
    let profile = settings.profile.unwrap_or_else(|| Profile::of_device(device.name()));
    if settings.profile.is_none()
        && let Some(doubt) = profile.doubt(device.name())
    {
        return Err(doubt.into());
    }
    let device_bytes = device_memory(arguments.device_size, device.limits().device_bytes, device.name())?;

    // Sizes that must be refused are refused here, before memory is taken.
    crate::fabric::verbs::memory::check_locked_memory(size)?;
    let spec = RegionSpec { region_bytes: size, device_bytes: 0, mode: LineMode::Vector, backing: arguments.backing() };
    let region = Region::create(&spec)?;
    let (plan, incarnation) = arguments.plan_for(&region, device_bytes)?;
    if region.is_kept() && device_bytes > 0 && plan.format()?.lock_space != 0 {
        return Err(
            "the pool in the file had its locks in device memory, which did not survive; delete the file, and give \
                    --device-size 0 when a pool is to be found again"
                .into(),
        );
    }
    let found = region.is_kept();
    let superblock = pool::format(&plan)?;
    region.write_image(0, &superblock)?;
    let pages = region.pages().to_string();
    let registered = Registered::new(region, &device, settings.registration_size, device_bytes)?;
    let (device_bytes, device_key) = registered.device();
    let mut welcome = Welcome {
        ticket: 0,
        node,
        nodes,
        profile,
        region_bytes: size,
        device_bytes,
        device_key,
        masked_atomics: device.limits().masked_atomics,
        calls_change: false,
        base: registered.base(),
        registration_bytes: registered.piece_bytes(),
        keys: registered.keys(),
    };
    let secured = if secret.is_some() { "secret" } else { "INSECURE: every client that can connect is let in" };
    let counters = Arc::default();
    let calls = if arguments.call_threads == 0 {
        None
    } else {
        let (device, address) = (Arc::clone(&device), chosen.address.ip());
        let home = Home { device, address, welcome: Arc::new(welcome.clone()), mtu };
        CallServer::new(home, NodeId(node), registered.region(), &counters)?
    };
    welcome.calls_change = calls.as_ref().is_some_and(|calls| calls.changes());
    let threads = calls.as_ref().map(|calls| calls.start(arguments.call_threads.into())).transpose()?;
    let server = Server::new(welcome, secret, &device, mtu, counters, calls)?;
    let listener = TcpListener::bind(chosen.address).map_err(|source| VerbsError::Call {
        doing: "listen at",
        whom: chosen.address.to_string(),
        source,
    })?;
    connections.listen()?;
    let endpoint = arguments.metrics.map(|address| {
        let (region, server) = (registered.region(), Arc::clone(&server));
        Endpoint::serve(address, move || {
            let (labels, mut page) = counters::page(&region, &server.counters);
            server.put(&mut page, &labels);
            page
        })
    });
    let endpoint = endpoint.transpose().map_err(|error| VerbsError::Choice(format!("--metrics: {error}")))?;
    let metrics = endpoint.as_ref().and_then(Endpoint::address).map_or("off".to_owned(), |address| address.to_string());

    let limits = device.limits();
    let guarantees = profile.guarantees();
    let asserted: Vec<_> = guarantees.asserted.names().collect();
    let atomics = if limits.atomics_global { "towards processors, too" } else { "among queue pairs of this device" };
    let changes = if server.welcome.calls_change { "device" } else { "none" };
    // The process that started the daemon may have closed its end of the pipe; that is no reason to stop.
    let _ = writeln!(
        std::io::stdout(),
        "READY node={node} nodes={nodes} incarnation={incarnation} region_bytes={size} device_bytes={device_bytes} listen={} device={} port={port} \
         gid_index={} gid_type={:?} mtu={} reads_in_flight={} registrations={} registered_ms={} memory={} access={secured:?} \
         profile={} changes={changes} metrics={metrics} ({pages}; atomics {atomics}; asserted by the profile: {})",
        chosen.address,
        device.name(),
        chosen.gid.index,
        chosen.gid.kind,
        mtu_bytes(mtu),
        limits.reads_answered_max,
        server.welcome.keys.len(),
        registered.took.as_millis(),
        if found { "kept" } else { "new" },
        profile.name(),
        if asserted.is_empty() { "nothing".to_owned() } else { asserted.join(", ") },
    );
    // Without a service manager there is none to tell.
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    let served = server.run(&listener, &connections, stop);
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Stopping]);
    drop(endpoint);
    // No calls come any more.
    drop(threads);
    // All queue pairs are gone. Now the memory is deregistered, and then unmapped.
    drop(registered);
    let _ = writeln!(std::io::stdout(), "STOPPED node={node}: queue pairs destroyed, memory deregistered");
    Ok(served?)
}

/// How much device memory to take.
fn device_memory(asked: Option<u64>, has: u64, device: &str) -> Result<u32, VerbsError> {
    match asked {
        None => Ok(has.min(u64::from(DEVICE_BYTES_DEFAULT)) as u32 / 64 * 64),
        Some(asked) if asked <= has && asked.is_multiple_of(64) && u32::try_from(asked).is_ok() => Ok(asked as u32),
        Some(asked) => Err(VerbsError::Choice(format!(
            "--device-size {asked}: a multiple of 64, and {device} has {has} bytes of device memory"
        ))),
    }
}
