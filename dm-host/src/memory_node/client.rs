//! Connects to a memory node.

use super::call_area::CallArea;
use super::calls::{Calls, Heard, Ticket};
use super::message::{ANNOUNCE, WITHDRAW};
use super::watcher::{self, Connection, Watched};
use super::wire::{Hello, VERSION, WELCOME_BYTES, Welcome, WireError};
use crate::region::{Region, RegionError};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::rpc::Reply;
use dm_core::verbs::NodeId;
use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::{self, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long a memory node may take to answer. Its daemon only has to wake up.
pub const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// Why there is no connection.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No daemon listens at the socket.
    #[error("{socket}: no memory node listens there ({source}); start one with `dm-memd --socket {socket}`", socket = socket.display())]
    NotListening {
        /// The control socket.
        socket: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A daemon listens, but did not answer in time, or hung up.
    #[error("{socket}: no answer from a memory node: {source}", socket = socket.display())]
    NoAnswer {
        /// The control socket.
        socket: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The answer is not one of this protocol.
    #[error("{socket}: {source}", socket = socket.display())]
    Protocol {
        /// The control socket.
        socket: PathBuf,
        /// What is wrong.
        source: WireError,
    },
    /// The answer came without the slots for calls that it spoke of, or they cannot be mapped here.
    #[error("{socket}: the memory node's slots for calls cannot be mapped: {source}", socket = socket.display())]
    Calls {
        /// The control socket.
        socket: PathBuf,
        /// The system's reason.
        source: io::Error,
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
        /// The reason.
        source: RegionError,
    },
}

/// A memory node that this process is connected to, with its memory mapped.
///
/// **When the daemon ends.** When the daemon's end of the control socket closes, the process's watcher thread raises
/// the flag that [`RemoteNode::is_down`] shows. Then it puts private memory in place of the region
/// ([`Region::detach`]). From then on nothing that this process does reaches the region, whatever its threads are in
/// the middle of, and the kernel releases the file for the next daemon. A thread that accessed the memory around that
/// instant may have reached private memory. It looks at the flag *after* its accesses, and finds it raised (see
/// [`crate::fabric::shm`]).
#[derive(Debug)]
pub struct RemoteNode {
    region: Region,
    node_id: NodeId,
    memory_nodes: u16,
    owner: u64,
    down: AtomicBool,
    /// The daemon could kill this process; without a daemon no process could.
    fencing: bool,
    calls: Arc<Calls>,
    /// Where calls to the memory node's processor lie, if it answers any.
    call_area: Option<CallArea>,
    watched: OnceLock<Watched>,
    /// Closed last, after the memory is unmapped: the end of the stream says that this process cannot write any more.
    socket: Option<UnixStream>,
}

impl RemoteNode {
    /// A memory node without a daemon: memory of this process, the only node of its pool.
    pub fn in_process(region: Region) -> Self {
        Self::in_process_at(region, NodeId(0), 1)
    }

    /// A memory node without a daemon, number `node_id` of a pool of `memory_nodes`.
    pub fn in_process_at(region: Region, node_id: NodeId, memory_nodes: u16) -> Self {
        Self {
            region,
            node_id,
            memory_nodes,
            owner: 1,
            down: AtomicBool::new(false),
            fencing: false,
            calls: Arc::default(),
            // For compute nodes of this process. Without it they go without calls.
            call_area: CallArea::create().ok(),
            watched: OnceLock::new(),
            socket: None,
        }
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

    /// Number of memory nodes in its pool.
    pub fn memory_nodes(&self) -> u16 {
        self.memory_nodes
    }

    /// The name by which its daemon knows this process.
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    /// Whether its daemon can keep a compute process of this machine from ever writing again.
    pub fn can_fence(&self) -> bool {
        self.fencing
    }

    /// Whether there is a daemon to call.
    pub(crate) fn has_daemon(&self) -> bool {
        self.socket.is_some()
    }

    /// Where calls to its processor, and to compute nodes, lie, and the name of this process there. A memory node without a daemon
    /// has no processor.
    #[inline]
    pub(crate) fn call_area(&self) -> Option<(&CallArea, u32)> {
        // Connections have 32 bits.
        self.call_area.as_ref().map(|area| (area, self.owner as u32))
    }

    /// Whether its daemon has ended. Once down, a connection stays down.
    #[inline]
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire)
    }

    /// Takes the memory node for dead: its requests complete with `NodeDown` from now on.
    pub fn mark_down(&self) {
        self.down.store(true, Ordering::Release);
    }

    /// Calls a procedure of [`dm_core::remote::rpc`] without waiting. `None`: the daemon takes no calls any more.
    pub(crate) fn call(&self, operands: [u64; 4]) -> Option<Ticket> {
        self.calls.send(self.socket.as_ref()?, operands)
    }

    /// Makes the daemon note that this process acts for a compute-node row, so that fencing the row ends this process.
    /// A process does this at every memory node before its first WRITE under that name; `members` tells why.
    pub fn announce(&self, row: RowId, incarnation: u32) -> Result<(), AnnounceError> {
        match self.ask(ANNOUNCE, row, incarnation)? {
            value if value == Reply::Done as u64 => Ok(()),
            _ => Err(AnnounceError::Fenced { node: self.node_id.0, row: row.0, incarnation }),
        }
    }

    /// Promises that this process writes nothing under that name any more, now or later.
    pub fn withdraw(&self, row: RowId, incarnation: u32) -> Result<(), AnnounceError> {
        self.ask(WITHDRAW, row, incarnation).map(drop)
    }

    /// Makes a call and waits for its return. Without a daemon there is nothing to tell.
    fn ask(&self, procedure: u64, row: RowId, incarnation: u32) -> Result<u64, AnnounceError> {
        if self.socket.is_none() {
            return Ok(Reply::Done as u64);
        }
        let silent = || AnnounceError::Silent { node: self.node_id.0 };
        let ticket = self.call([procedure, u64::from(row.0), u64::from(incarnation), 0]).ok_or_else(silent)?;
        let deadline = Instant::now() + ANSWER_WAIT;
        loop {
            if let Some(value) = ticket.returned() {
                return Ok(value);
            }
            if self.is_down() || Instant::now() > deadline {
                return Err(silent());
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

impl Connection for RemoteNode {
    fn socket(&self) -> Option<&UnixStream> {
        self.socket.as_ref()
    }

    fn receive(&self) -> Heard {
        self.socket.as_ref().map_or(Heard::End, |socket| self.calls.receive(socket))
    }

    /// Unmaps the region.
    fn end(&self) {
        // Before the memory is exchanged, so that a thread that saw private memory sees the flag.
        self.mark_down();
        if let Err(error) = self.region.detach() {
            // Then the region is unmapped when this process ends; until then no other daemon gets the file.
            tracing::error!("memory node {}: cannot let go of its memory: {error}", self.node_id.0);
        }
    }

    fn node_id(&self) -> NodeId {
        self.node_id
    }
}

impl Drop for RemoteNode {
    fn drop(&mut self) {
        if let (Some(watched), Some(socket)) = (self.watched.get(), &self.socket) {
            watcher::forget(watched, socket);
        }
    }
}

/// Why a memory node did not note which row this process acts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AnnounceError {
    /// Others fenced this compute node before it had announced itself.
    #[error("memory node {node}: incarnation {incarnation} of compute-node row {row} was fenced off; join again")]
    Fenced {
        /// The memory node.
        node: u16,
        /// The row.
        row: u16,
        /// The incarnation.
        incarnation: u32,
    },
    /// The daemon has ended, or did not answer in time.
    #[error("memory node {node} does not answer")]
    Silent {
        /// The memory node.
        node: u16,
    },
}

/// Connects to the memory node at `socket` and maps its region.
pub fn connect(socket: &Path) -> Result<Arc<RemoteNode>, ConnectError> {
    let no_answer = |source: io::Error| ConnectError::NoAnswer { socket: socket.to_owned(), source };
    let stream = UnixStream::connect(socket)
        .map_err(|source| ConnectError::NotListening { socket: socket.to_owned(), source })?;
    let (bytes, files) = greet(&stream).map_err(no_answer)?;
    let welcome =
        Welcome::decode(&bytes).map_err(|source| ConnectError::Protocol { socket: socket.to_owned(), source })?;
    let mut files = files.into_iter();
    let fd = files.next().ok_or_else(|| ConnectError::NoRegion { socket: socket.to_owned() })?;
    let calls = files.next().filter(|_| welcome.calls);
    let call_area = match calls.map(CallArea::attach) {
        None if welcome.calls => Err(io::ErrorKind::UnexpectedEof.into()),
        area => area.transpose(),
    };
    let call_area = call_area.map_err(|source| ConnectError::Calls { socket: socket.to_owned(), source })?;
    let region = Region::attach(fd, welcome.layout, true)
        .map_err(|source| ConnectError::Region { socket: socket.to_owned(), source })?;
    let node = Arc::new(RemoteNode {
        region,
        node_id: NodeId(welcome.node),
        memory_nodes: welcome.nodes,
        owner: u64::from(welcome.connection),
        down: AtomicBool::new(false),
        fencing: welcome.fencing,
        calls: Arc::default(),
        call_area,
        watched: OnceLock::new(),
        socket: Some(stream),
    });
    if let Some(stream) = &node.socket {
        let weak = Arc::downgrade(&node);
        let watched = watcher::watch(stream, weak).map_err(no_answer)?;
        // Set once, here.
        let _ = node.watched.set(watched);
    }
    Ok(node)
}

/// Sends the hello and receives the answer. A memory node that has as many connections as it takes refuses without waiting
/// for the hello, and hangs up: the hello cannot be sent then, but the refusal is there.
fn greet(stream: &UnixStream) -> io::Result<([u8; WELCOME_BYTES], Vec<OwnedFd>)> {
    let deadline = Instant::now() + ANSWER_WAIT;
    stream.set_write_timeout(Some(ANSWER_WAIT))?;
    let mut writer = stream;
    let sent = writer.write_all(&Hello { version: VERSION }.encode());
    // Of two failures, the first one is the reason.
    receive(stream, deadline).map_err(|error| sent.err().unwrap_or(error))
}

/// Receives a welcome and the files that come with it.
fn receive(stream: &UnixStream, deadline: Instant) -> io::Result<([u8; WELCOME_BYTES], Vec<OwnedFd>)> {
    let mut bytes = [0; WELCOME_BYTES];
    let mut received = 0;
    let mut fds = Vec::new();
    while received < WELCOME_BYTES {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
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
                fds.extend(files);
            }
        }
    }
    Ok((bytes, fds))
}

#[cfg(test)]
mod tests {
    use super::super::message::HeadError;
    use super::super::wire::{Answer, refusal};
    use super::*;

    #[test]
    fn a_refusal_is_heard_after_the_memory_node_has_hung_up() {
        let (here, mut there) = UnixStream::pair().unwrap();
        there.write_all(&refusal(Answer::Full)).unwrap();
        drop(there);
        let (bytes, files) = greet(&here).unwrap();
        assert_eq!((Welcome::decode(&bytes), files.is_empty()), (Err(HeadError::Full.into()), true));
        let (here, there) = UnixStream::pair().unwrap();
        drop(there);
        assert_eq!(greet(&here).unwrap_err().kind(), io::ErrorKind::BrokenPipe, "the reason, not its consequence");
    }
}
