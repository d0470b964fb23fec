//! Connecting to a memory node.

use super::watcher::{self, Guard};
use super::wire::{Hello, VERSION, WELCOME_BYTES, Welcome, WireError};
use crate::region::{Region, RegionError};
use dm_core::verbs::NodeId;
use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::{self, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long a memory node may take to answer. It only has to wake up.
pub const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// Why there is no connection.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody listens.
    #[error("{socket}: no memory node listens there ({source}); start one with `dm-memd --socket {socket}`", socket = socket.display())]
    NotListening {
        /// The control socket.
        socket: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Somebody listens, but did not answer in time, or hung up.
    #[error("{socket}: no answer from a memory node: {source}", socket = socket.display())]
    NoAnswer {
        /// The control socket.
        socket: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Somebody answered something else.
    #[error("{socket}: {source}", socket = socket.display())]
    Protocol {
        /// The control socket.
        socket: PathBuf,
        /// What is wrong.
        source: WireError,
    },
    /// The answer came without the region.
    #[error("{socket}: the memory node did not hand over its region", socket = socket.display())]
    NoRegion {
        /// The control socket.
        socket: PathBuf,
    },
    /// The region cannot be mapped here.
    #[error("{socket}: {source}", socket = socket.display())]
    Region {
        /// The control socket.
        socket: PathBuf,
        /// Why not.
        source: RegionError,
    },
}

/// A memory node this process is connected to, its memory mapped.
#[derive(Debug)]
pub struct RemoteNode {
    region: Region,
    node_id: NodeId,
    memory_nodes: u16,
    owner: u64,
    down: Arc<AtomicBool>,
    /// Ends the connection last, after nobody here can write any more.
    _connection: Option<Guard>,
}

impl RemoteNode {
    /// A memory node without a daemon: memory of this process, the only one of its pool.
    pub fn in_process(region: Region) -> Self {
        Self::in_process_at(region, NodeId(0), 1)
    }

    /// A memory node without a daemon, number `node_id` of a pool of `memory_nodes`.
    pub fn in_process_at(region: Region, node_id: NodeId, memory_nodes: u16) -> Self {
        Self { region, node_id, memory_nodes, owner: 1, down: Arc::default(), _connection: None }
    }

    /// Its memory.
    #[inline]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Its number.
    #[inline]
    pub fn node_id(&self) -> NodeId {
        self.node_id
    }

    /// Memory nodes in its pool.
    pub fn memory_nodes(&self) -> u16 {
        self.memory_nodes
    }

    /// Whom its daemon knows this process as.
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    /// Whether its daemon is gone. Once down, a connection stays down.
    #[inline]
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire)
    }

    /// Takes it for dead: its requests complete with `NodeDown` from now on.
    pub fn mark_down(&self) {
        self.down.store(true, Ordering::Release);
    }
}

/// Connects to the memory node at `socket` and maps its region.
pub fn connect(socket: &Path) -> Result<RemoteNode, ConnectError> {
    let no_answer = |source: io::Error| ConnectError::NoAnswer { socket: socket.to_owned(), source };
    let stream = UnixStream::connect(socket)
        .map_err(|source| ConnectError::NotListening { socket: socket.to_owned(), source })?;
    let deadline = Instant::now() + ANSWER_WAIT;
    stream.set_write_timeout(Some(ANSWER_WAIT)).map_err(no_answer)?;
    (&stream).write_all(&Hello { version: VERSION }.encode()).map_err(no_answer)?;
    let (bytes, fd) = receive(&stream, deadline).map_err(no_answer)?;
    let welcome =
        Welcome::decode(&bytes).map_err(|source| ConnectError::Protocol { socket: socket.to_owned(), source })?;
    let fd = fd.ok_or_else(|| ConnectError::NoRegion { socket: socket.to_owned() })?;
    let region = Region::attach(fd, welcome.layout, true)
        .map_err(|source| ConnectError::Region { socket: socket.to_owned(), source })?;
    let down = Arc::new(AtomicBool::new(false));
    let guard = watcher::watch(stream, Arc::clone(&down)).map_err(no_answer)?;
    Ok(RemoteNode {
        region,
        node_id: NodeId(welcome.node),
        memory_nodes: welcome.nodes,
        owner: u64::from(welcome.connection),
        down,
        _connection: Some(guard),
    })
}

/// Receives a welcome and the file that comes with it.
fn receive(stream: &UnixStream, deadline: Instant) -> io::Result<([u8; WELCOME_BYTES], Option<OwnedFd>)> {
    let mut bytes = [0; WELCOME_BYTES];
    let mut received = 0;
    let mut fd = None;
    while received < WELCOME_BYTES {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut pieces = [IoSliceMut::new(&mut bytes[received..])];
        match recvmsg(stream, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) if message.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(message) => received += message.bytes,
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(errno) => return Err(errno.into()),
        }
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                fd = files.last().or(fd);
            }
        }
    }
    Ok((bytes, fd))
}
