//! Serving a region.

use super::wire::{Answer, HELLO_BYTES, Hello, VERSION, Welcome, WireError, refusal};
use crate::fabric::shm::lines::AccessError;
use crate::region::Region;
use dm_core::verbs::NodeId;
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fmt;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Connections a memory node takes: well below what a process may have open by default.
pub const CONNECTIONS_MAX: usize = 500;

/// How long a client may take to say hello.
pub const HELLO_WAIT: Duration = Duration::from_secs(5);

/// Why a region is not, or no longer, served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A daemon that runs has the socket.
    #[error("{socket}: in use by a running process; stop it or choose another --socket", socket = socket.display())]
    InUse {
        /// The control socket.
        socket: PathBuf,
    },
    /// Something else than a socket has its name.
    #[error("{socket}: exists and is not a socket; choose another --socket", socket = socket.display())]
    NotASocket {
        /// The control socket.
        socket: PathBuf,
    },
    /// The operating system refused.
    #[error("{socket}: cannot {doing}: {source}", socket = socket.display())]
    System {
        /// The control socket.
        socket: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The first image does not fit into the region.
    #[error("cannot write the first image of the region: {0}")]
    Image(#[from] AccessError),
    /// A number past the end.
    #[error("memory node {node} of {nodes}: numbers count from 0; give --memory-nodes the size of the pool")]
    Number {
        /// Its number.
        node: u16,
        /// Memory nodes in the pool.
        nodes: u16,
    },
}

/// What to serve as.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Path of the control socket.
    pub socket: PathBuf,
    /// Number of this memory node.
    pub node_id: NodeId,
    /// Memory nodes in its pool.
    pub memory_nodes: u16,
}

impl ServeOptions {
    /// Whether the numbers go together.
    pub fn check(&self) -> Result<(), ServeError> {
        if self.node_id.0 >= self.memory_nodes {
            return Err(ServeError::Number { node: self.node_id.0, nodes: self.memory_nodes });
        }
        Ok(())
    }
}

/// What is served: the line a daemon prints once clients can connect.
#[derive(Clone, Debug)]
pub struct Ready<'r> {
    /// As what.
    pub options: &'r ServeOptions,
    /// What.
    pub region: &'r Region,
}

impl fmt::Display for Ready<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { options, region } = self;
        let layout = region.layout();
        write!(
            f,
            "READY node={} nodes={} region_bytes={} device_bytes={} lines={} page_bytes={} socket={} ({})",
            options.node_id.0,
            options.memory_nodes,
            layout.region_bytes,
            layout.device_bytes,
            layout.mode.profile(),
            layout.page_bytes,
            options.socket.display(),
            region.pages()
        )
    }
}

/// Serves `region` until `stop` becomes readable.
///
/// `format` writes the first image of the region - superblock, tables - with [`Region::write_image`], before anybody
/// can connect. `ready` is called once clients can.
pub fn serve(
    region: Region,
    options: &ServeOptions,
    format: impl FnOnce(&Region) -> Result<(), AccessError>,
    stop: BorrowedFd<'_>,
    ready: impl FnOnce(&Ready<'_>),
) -> Result<(), ServeError> {
    options.check()?;
    format(&region)?;
    let bound = Bound::new(&options.socket)?;
    ready(&Ready { options, region: &region });
    let mut server = Server { region, options, bound, clients: Vec::new(), next_connection: 1 };
    server.run(stop)
}

/// The control socket, removed when dropped unless somebody has replaced it.
struct Bound {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

impl Bound {
    fn new(path: &Path) -> Result<Self, ServeError> {
        let system = |doing| move |source| ServeError::System { socket: path.to_owned(), doing, source };
        let listener = match UnixListener::bind(path) {
            Ok(listener) => listener,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                Self::remove_stale(path)?;
                UnixListener::bind(path).map_err(system("bind the control socket"))?
            }
            Err(error) => return Err(system("bind the control socket")(error)),
        };
        // Who connects can write all of the pool: the owner only.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(system("protect it"))?;
        listener.set_nonblocking(true).map_err(system("set up the control socket"))?;
        let inode = std::fs::symlink_metadata(path).map_err(system("examine it"))?.ino();
        Ok(Self { listener, path: path.to_owned(), inode })
    }

    /// Removes a socket that a daemon left behind when it died. A live one accepts, or has a full queue.
    fn remove_stale(path: &Path) -> Result<(), ServeError> {
        let system = |doing| move |source| ServeError::System { socket: path.to_owned(), doing, source };
        let metadata = std::fs::symlink_metadata(path).map_err(system("examine what has its name"))?;
        if !metadata.file_type().is_socket() {
            return Err(ServeError::NotASocket { socket: path.to_owned() });
        }
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                tracing::info!(socket = %path.display(), "replacing the socket of a daemon that is gone");
                std::fs::remove_file(path).map_err(system("remove a stale socket"))
            }
            _ => Err(ServeError::InUse { socket: path.to_owned() }),
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|metadata| metadata.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// One connection.
struct Client {
    stream: UnixStream,
    stage: Stage,
}

enum Stage {
    /// Has not said hello yet; what came of it so far.
    Greeting { bytes: [u8; HELLO_BYTES], received: usize, deadline: Instant },
    /// Has the region.
    Member(Member),
}

/// A compute process that has the region.
struct Member {
    connection: u32,
    pid: Option<Pid>,
    /// Names the process for good, unlike its number: what fencing will kill and wait for.
    _process: Option<OwnedFd>,
}

/// What became of a client that had something to say.
enum Verdict {
    Stay,
    Leave(&'static str),
}

struct Server<'o> {
    region: Region,
    options: &'o ServeOptions,
    bound: Bound,
    clients: Vec<Client>,
    next_connection: u32,
}

impl Server<'_> {
    fn run(&mut self, stop: BorrowedFd<'_>) -> Result<(), ServeError> {
        loop {
            let (stopped, knocking, speaking) = self.wait(stop)?;
            if stopped {
                return Ok(());
            }
            // From the back, so that positions stay valid.
            for position in speaking.into_iter().rev() {
                if let Verdict::Leave(why) = self.listen(position) {
                    self.part(position, why);
                }
            }
            let now = Instant::now();
            for position in (0..self.clients.len()).rev() {
                if matches!(self.clients[position].stage, Stage::Greeting { deadline, .. } if now >= deadline) {
                    self.part(position, "said no hello in time");
                }
            }
            if knocking {
                self.accept();
            }
        }
    }

    /// Sleeps until something happens: (stop, somebody connects, positions of clients with something to say).
    fn wait(&self, stop: BorrowedFd<'_>) -> Result<(bool, bool, Vec<usize>), ServeError> {
        let deadline = self.clients.iter().filter_map(|client| match client.stage {
            Stage::Greeting { deadline, .. } => Some(deadline),
            Stage::Member(_) => None,
        });
        let timeout = deadline.min().map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) }
        });
        let mut fds = vec![
            PollFd::from_borrowed_fd(stop, PollFlags::IN),
            PollFd::from_borrowed_fd(self.bound.listener.as_fd(), PollFlags::IN),
        ];
        fds.extend(self.clients.iter().map(|client| PollFd::new(&client.stream, PollFlags::IN)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok((false, false, Vec::new())),
            Err(errno) => {
                let socket = self.options.socket.clone();
                return Err(ServeError::System { socket, doing: "wait for clients", source: errno.into() });
            }
        }
        let happened = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let speaking = (0..self.clients.len()).filter(|position| happened(&fds[position + 2])).collect();
        Ok((happened(&fds[0]), happened(&fds[1]), speaking))
    }

    fn accept(&mut self) {
        match self.bound.listener.accept() {
            Ok((mut stream, _)) => {
                if stream.set_nonblocking(true).is_err() {
                    return;
                }
                if self.clients.len() >= CONNECTIONS_MAX {
                    tracing::warn!(limit = CONNECTIONS_MAX, "too many connections: refused one");
                    let _ = stream.write(&refusal(Answer::Full));
                    return;
                }
                let deadline = Instant::now() + HELLO_WAIT;
                let stage = Stage::Greeting { bytes: [0; HELLO_BYTES], received: 0, deadline };
                self.clients.push(Client { stream, stage });
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => {
                // Out of descriptors, say: the listener stays readable, so do not spin on it.
                tracing::warn!(%error, "cannot accept a connection");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    fn listen(&mut self, position: usize) -> Verdict {
        let Client { stream, stage } = &mut self.clients[position];
        let mut rest = [0; 1];
        let room = match stage {
            Stage::Greeting { bytes, received, .. } => &mut bytes[*received..],
            Stage::Member(_) => &mut rest[..],
        };
        let count = match stream.read(room) {
            Ok(0) => return Verdict::Leave("closed the connection"),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Verdict::Stay;
            }
            Err(_) => return Verdict::Leave("broke the connection"),
        };
        let Stage::Greeting { bytes, received, .. } = stage else {
            return Verdict::Leave("said something that the protocol does not know");
        };
        *received += count;
        if *received < HELLO_BYTES {
            return Verdict::Stay;
        }
        match Hello::decode(bytes) {
            Ok(Hello { version: VERSION }) => {
                let connection = self.next_connection;
                // 2^32 connections later numbers repeat; 0 is nobody.
                self.next_connection = connection.checked_add(1).unwrap_or(1);
                self.welcome(position, connection)
            }
            Ok(Hello { .. }) => {
                let _ = stream.write(&refusal(Answer::Version));
                Verdict::Leave("speaks another version")
            }
            Err(WireError::Magic) => Verdict::Leave("does not speak the protocol"),
            Err(_) => Verdict::Leave("said a hello that makes no sense"),
        }
    }

    fn welcome(&mut self, position: usize, connection: u32) -> Verdict {
        let client = &mut self.clients[position];
        let pid = socket_peercred(&client.stream).ok().map(|peer| peer.pid);
        let process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let welcome = Welcome {
            connection,
            node: self.options.node_id.0,
            nodes: self.options.memory_nodes,
            layout: *self.region.layout(),
        };
        let bytes = welcome.encode();
        let files = [self.region.fd()];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        // An empty socket takes 80 bytes at once, so a short send is an error like any other.
        match sendmsg(&client.stream, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL) {
            Ok(sent) if sent == bytes.len() => {}
            _ => return Verdict::Leave("hung up before it was welcomed"),
        }
        tracing::info!(connection, pid = pid.map(Pid::as_raw_nonzero), "a compute process connected");
        client.stage = Stage::Member(Member { connection, pid, _process: process });
        Verdict::Stay
    }

    /// Ends a connection; what its process died in the middle of is released.
    fn part(&mut self, position: usize, why: &str) {
        let client = self.clients.swap_remove(position);
        let Stage::Member(member) = client.stage else {
            tracing::warn!("a client {why}");
            return;
        };
        let lines = self.region.release_dead_writers(u64::from(member.connection));
        let (connection, pid) = (member.connection, member.pid.map(Pid::as_raw_nonzero));
        tracing::info!(connection, pid, lines, "a compute process {why}; lines released that it was writing");
    }
}
