//! Serves a region.

use super::call_server::CallServer;
use super::counters::{self, Counters};
use super::members::{Members, Name};
use super::message::{ANNOUNCE, CALL_BYTES, Call, HeadError, Return, WITHDRAW};
use super::process::{Process, peer_pid};
use super::wire::{Answer, HELLO_BYTES, Hello, VERSION, Welcome, WireError, refusal};
use crate::metrics::Endpoint;
use crate::region::Region;
use crate::region::lines::AccessError;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row;
use dm_core::remote::rpc::{Procedure, Reply};
use dm_core::verbs::NodeId;
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::Pid;
use std::fmt;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Most connections of a memory node: well below the descriptors that a process may open by default.
pub const CONNECTIONS_MAX: usize = 500;

/// How long a client may take to send its hello.
pub const HELLO_WAIT: Duration = Duration::from_secs(5);

/// Why a region is not, or no longer, served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A running daemon has the socket.
    #[error("{socket}: in use by a running process; stop it or choose another --socket", socket = socket.display())]
    InUse {
        /// The control socket.
        socket: PathBuf,
    },
    /// Something other than a socket has this path.
    #[error("{socket}: exists and is not a socket; choose another --socket", socket = socket.display())]
    NotASocket {
        /// The control socket.
        socket: PathBuf,
    },
    /// The operating system refused a call.
    #[error("{socket}: cannot {doing}: {source}", socket = socket.display())]
    System {
        /// The control socket.
        socket: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// The first image does not fit into the region.
    #[error("cannot write the first image of the region: {0}")]
    Image(#[from] AccessError),
    /// Nobody can answer calls.
    #[error("--call-threads: {0}")]
    Calls(io::Error),
    /// The metrics cannot be served.
    #[error("--metrics: {0}")]
    Metrics(io::Error),
    /// The memory node's number is not below the number of memory nodes.
    #[error("memory node {node} of {nodes}: numbers count from 0; give --memory-nodes the size of the pool")]
    Number {
        /// Its number.
        node: u16,
        /// Memory nodes in the pool.
        nodes: u16,
    },
}

/// Which memory node to serve as.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Path of the control socket.
    pub socket: PathBuf,
    /// Number of this memory node.
    pub node_id: NodeId,
    /// Memory nodes in its pool.
    pub memory_nodes: u16,
    /// The pool's incarnation, for the line that says that the daemon is ready.
    pub incarnation: u64,
    /// Where to serve metrics for Prometheus; port 0: any free port. `None`: nowhere.
    pub metrics: Option<SocketAddr>,
    /// Threads that answer calls; 0: nobody does.
    pub call_threads: usize,
    /// Told which compute nodes have died with their process: their rows are to be swept.
    pub deaths: Option<Sender<row::Member>>,
}

impl ServeOptions {
    /// Checks that the numbers are consistent.
    pub fn check(&self) -> Result<(), ServeError> {
        if self.node_id.0 >= self.memory_nodes {
            return Err(ServeError::Number { node: self.node_id.0, nodes: self.memory_nodes });
        }
        Ok(())
    }
}

/// What is served, as the line that a daemon prints once clients can connect.
#[derive(Clone, Debug)]
pub struct Ready<'r> {
    /// The options it is served with.
    pub options: &'r ServeOptions,
    /// The region.
    pub region: &'r Region,
    /// Where its metrics are.
    pub metrics: Option<SocketAddr>,
}

impl fmt::Display for Ready<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { options, region, metrics } = self;
        let metrics = metrics.map_or("off".to_owned(), |address| address.to_string());
        let layout = region.layout();
        write!(
            f,
            "READY node={} nodes={} region_bytes={} device_bytes={} incarnation={}{} lines={} page_bytes={} metrics={metrics} socket={} ({})",
            options.node_id.0,
            options.memory_nodes,
            layout.region_bytes,
            layout.device_bytes,
            options.incarnation,
            if region.is_kept() { " (kept)" } else { "" },
            layout.mode.profile(),
            layout.page_bytes,
            options.socket.display(),
            region.pages()
        )
    }
}

/// Serves `region` until `stop` becomes readable.
///
/// `format` writes the first image of the region - superblock, tables - with [`Region::write_image`], before any client
/// can connect. `ready` is called once clients can.
pub fn serve(
    region: Region,
    options: &ServeOptions,
    format: impl FnOnce(&Region) -> Result<(), AccessError>,
    stop: BorrowedFd<'_>,
    ready: impl FnOnce(&Ready<'_>),
) -> Result<(), ServeError> {
    options.check()?;
    let bound = Bound::new(&options.socket)?;
    // The server accepts later: clients that connect early wait.
    format(&region)?;
    let (region, counters) = (Arc::new(region), Arc::new(Counters::default()));
    let endpoint = options.metrics.map(|address| {
        let (region, counters) = (Arc::clone(&region), Arc::clone(&counters));
        Endpoint::serve(address, move || counters::page(&region, &counters).1)
    });
    let endpoint = endpoint.transpose().map_err(ServeError::Metrics)?;
    let number = options.node_id;
    let calls = (options.call_threads > 0)
        .then(|| CallServer::start(options.call_threads, number, &region, &counters))
        .transpose()
        .map_err(ServeError::Calls)?;
    ready(&Ready { options, region: &region, metrics: endpoint.as_ref().and_then(Endpoint::address) });
    let (node, nodes) = (options.node_id.0, options.memory_nodes);
    tracing::info!(node, nodes, incarnation = options.incarnation, socket = %options.socket.display(), "serving");
    let mut server = Server {
        region,
        counters,
        options,
        bound,
        clients: Vec::new(),
        members: Members::default(),
        calls,
        next_connection: 1,
    };
    server.run(stop)
}

/// The control socket. Dropping it removes the file, unless another process has replaced it.
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
        // A client that connects can write all of the pool, so only the owner may connect.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(system("protect it"))?;
        listener.set_nonblocking(true).map_err(system("set up the control socket"))?;
        let inode = std::fs::symlink_metadata(path).map_err(system("examine it"))?.ino();
        Ok(Self { listener, path: path.to_owned(), inode })
    }

    /// Removes a socket that a dead daemon left behind. A live daemon's socket accepts, or has a full queue.
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
    /// Has not sent its whole hello yet; the bytes so far.
    Greeting { bytes: [u8; HELLO_BYTES], received: usize, deadline: Instant },
    /// Has the region.
    Member(Member),
}

/// A compute process that has the region.
struct Member {
    connection: u32,
    pid: Option<Pid>,
    /// The process that fencing kills and waits for.
    process: Option<Process>,
    /// A call that has arrived in part.
    bytes: [u8; CALL_BYTES],
    received: usize,
    /// It broke the protocol, so the end of its stream proves nothing any more. The daemon does not read from it, and
    /// takes it to have the region until its process is gone.
    broke_protocol: bool,
    /// The log has told that it is being fenced: calls are repeated until its process is gone.
    is_fencing_told: bool,
}

impl Member {
    fn is_gone(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_gone)
    }
}

/// What follows from what a client sent.
enum Verdict {
    Stay,
    /// It has unmapped the region, or is gone.
    Leave(&'static str),
    /// It broke the protocol.
    StopReading(&'static str),
}

struct Server<'o> {
    region: Arc<Region>,
    counters: Arc<Counters>,
    options: &'o ServeOptions,
    bound: Bound,
    clients: Vec<Client>,
    members: Members,
    calls: Option<CallServer>,
    next_connection: u32,
}

/// What happened while the daemon slept.
#[derive(Default)]
struct News {
    stopped: bool,
    knocking: bool,
    /// Positions of clients that sent something.
    speaking: Vec<usize>,
    /// Positions of clients whose process is gone.
    gone: Vec<usize>,
}

impl Server<'_> {
    fn run(&mut self, stop: BorrowedFd<'_>) -> Result<(), ServeError> {
        loop {
            let news = self.wait(stop)?;
            if news.stopped {
                tracing::info!(connections = self.clients.len(), "stopping: told to by a signal");
                return Ok(());
            }
            let mut leaving: Vec<(usize, &str)> = news.gone.into_iter().map(|at| (at, "is gone")).collect();
            // No client is removed while positions are in use.
            for position in news.speaking {
                match self.listen(position) {
                    Verdict::Stay => {}
                    Verdict::Leave(why) => leaving.push((position, why)),
                    Verdict::StopReading(why) => {
                        if !self.stop_reading(position, why) {
                            leaving.push((position, why));
                        }
                    }
                }
            }
            let now = Instant::now();
            for (position, client) in self.clients.iter().enumerate() {
                if matches!(client.stage, Stage::Greeting { deadline, .. } if now >= deadline) {
                    leaving.push((position, "said no hello in time"));
                }
            }
            // From the back, each once.
            leaving.sort_unstable_by_key(|(position, _)| std::cmp::Reverse(*position));
            leaving.dedup_by_key(|(position, _)| *position);
            for (position, why) in leaving {
                self.part(position, why);
            }
            if news.knocking {
                self.accept();
            }
        }
    }

    /// Sleeps until something happens.
    fn wait(&self, stop: BorrowedFd<'_>) -> Result<News, ServeError> {
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
        let mut of = Vec::new();
        for (position, client) in self.clients.iter().enumerate() {
            let member = if let Stage::Member(member) = &client.stage { Some(member) } else { None };
            if !member.is_some_and(|member| member.broke_protocol) {
                fds.push(PollFd::new(&client.stream, PollFlags::IN));
                of.push((position, false));
            }
            if let Some(process) = member.and_then(|member| member.process.as_ref()) {
                fds.push(PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN));
                of.push((position, true));
            }
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(News::default()),
            Err(errno) => {
                let socket = self.options.socket.clone();
                return Err(ServeError::System { socket, doing: "wait for clients", source: errno.into() });
            }
        }
        let happened = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let mut news = News { stopped: happened(&fds[0]), knocking: happened(&fds[1]), ..News::default() };
        for (fd, (position, is_process)) in fds[2..].iter().zip(of) {
            if happened(fd) {
                (if is_process { &mut news.gone } else { &mut news.speaking }).push(position);
            }
        }
        Ok(news)
    }

    fn accept(&mut self) {
        match self.bound.listener.accept() {
            Ok((mut stream, _)) => {
                if stream.set_nonblocking(true).is_err() {
                    return;
                }
                if self.clients.len() >= CONNECTIONS_MAX {
                    tracing::warn!(limit = CONNECTIONS_MAX, "too many connections: refused one");
                    counters::add(&self.counters.refused_total);
                    let _ = stream.write(&refusal(Answer::Full));
                    return;
                }
                let deadline = Instant::now() + HELLO_WAIT;
                let stage = Stage::Greeting { bytes: [0; HELLO_BYTES], received: 0, deadline };
                self.clients.push(Client { stream, stage });
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => {
                // The process is out of descriptors, for example. The listener stays readable, so do not spin on it.
                tracing::warn!(%error, "cannot accept a connection");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    fn listen(&mut self, position: usize) -> Verdict {
        let Client { stream, stage } = &mut self.clients[position];
        let room = match stage {
            Stage::Greeting { bytes, received, .. } => &mut bytes[*received..],
            Stage::Member(member) => &mut member.bytes[member.received..],
        };
        let count = match stream.read(room) {
            Ok(0) => return Verdict::Leave("closed the connection"),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Verdict::Stay;
            }
            Err(_) => return Verdict::Leave("broke the connection"),
        };
        match stage {
            Stage::Greeting { bytes, received, .. } => {
                *received += count;
                if *received < HELLO_BYTES {
                    return Verdict::Stay;
                }
                match Hello::decode(bytes) {
                    Ok(Hello { version: VERSION }) => {
                        let connection = self.next_connection;
                        // After 2^32 connections numbers repeat; 0 names no connection.
                        self.next_connection = connection.checked_add(1).unwrap_or(1);
                        self.welcome(position, connection)
                    }
                    Ok(Hello { .. }) => {
                        let _ = stream.write(&refusal(Answer::Version));
                        Verdict::Leave("speaks another version")
                    }
                    Err(WireError::Head(HeadError::Magic)) => Verdict::Leave("does not speak the protocol"),
                    Err(_) => Verdict::Leave("said a hello that makes no sense"),
                }
            }
            Stage::Member(member) => {
                member.received += count;
                if member.received < CALL_BYTES {
                    return Verdict::Stay;
                }
                member.received = 0;
                let (connection, pid) = (member.connection, member.pid);
                let call = Call::decode(&member.bytes);
                counters::add(&self.counters.calls_total);
                if call.id == 0 {
                    return Verdict::StopReading("made a call without an id");
                }
                let answer = Return { id: call.id, value: self.answer(connection, pid, &call) };
                match self.clients[position].stream.write(&answer.encode()) {
                    Ok(sent) if sent == answer.encode().len() => Verdict::Stay,
                    Ok(_) => Verdict::StopReading("does not read what it is told"),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        Verdict::StopReading("does not read what it is told")
                    }
                    // The stream is ending; its end is the next event.
                    Err(_) => Verdict::Stay,
                }
            }
        }
    }

    /// Executes a member's call.
    fn answer(&mut self, connection: u32, pid: Option<Pid>, call: &Call) -> u64 {
        let [procedure, a, b, _] = call.operands;
        match procedure {
            ANNOUNCE => {
                let announced = Name::from_words(a, b).is_some_and(|name| self.members.announce(connection, name));
                if announced {
                    counters::add(&self.counters.joins_total);
                    let pid = pid.map(Pid::as_raw_nonzero);
                    tracing::info!(row = a, incarnation = b, connection, pid, "a compute node joined");
                } else {
                    tracing::warn!(
                        row = a,
                        incarnation = b,
                        connection,
                        "refused a compute node that was fenced before"
                    );
                }
                return if announced { Reply::Done } else { Reply::Impossible } as u64;
            }
            WITHDRAW => {
                if let Some(name) = Name::from_words(a, b) {
                    self.members.withdraw(connection, name);
                    counters::add(&self.counters.leaves_total);
                    tracing::info!(row = a, incarnation = b, connection, "a compute node left");
                }
                return Reply::Done as u64;
            }
            _ => {}
        }
        match Procedure::from_number(procedure) {
            Some(Procedure::Ping) => a,
            Some(Procedure::Fence) => self.fence(Name::from_words(a, b)) as u64,
            Some(Procedure::CloseQueuePair) => self.close_queue_pair(connection, Name::from_words(a, b)) as u64,
            _ => Reply::Unknown as u64,
        }
    }

    /// Makes sure that nothing under `name`, or an earlier incarnation of its row, is written any more; see
    /// [`super::members`].
    fn fence(&mut self, name: Option<Name>) -> Reply {
        // No process can have announced what is not a name.
        let Some(name) = name else { return Reply::Done };
        let mut reply = Reply::Done;
        let mut are_calls_over = true;
        for connection in self.members.fence(name) {
            let member = self.clients.iter_mut().find_map(|client| match &mut client.stage {
                Stage::Member(member) if member.connection == connection => Some(member),
                _ => None,
            });
            let Some(member) = member else { continue };
            if member.is_gone() {
                // Before the answer: a node that continues after it must not meet a line that the dead process holds.
                let lines = self.region.release_dead_writers(u64::from(connection));
                let dead = self.members.forget(connection);
                self.counters.deaths_total.fetch_add(dead.len() as u64, Ordering::Relaxed);
                tell_deaths(self.options, dead, member, lines, "is gone");
                are_calls_over &= self.calls.as_ref().is_none_or(|calls| calls.quiesce(Some(connection)));
                continue;
            }
            let killed = member.process.as_ref().is_some_and(|process| process.kill().is_ok());
            let pid = member.pid.map(Pid::as_raw_nonzero);
            if !std::mem::replace(&mut member.is_fencing_told, true) {
                let Name { row, incarnation } = name;
                counters::add(&self.counters.fenced_total);
                tracing::warn!(
                    row,
                    incarnation,
                    connection,
                    pid,
                    killed,
                    "fencing a compute node: its process is ended"
                );
            }
            reply = match (killed, reply) {
                (true, Reply::Done) => Reply::Pending,
                (true, reply) => reply,
                (false, _) => Reply::Impossible,
            };
        }
        // A process that has ended, or has left, may have left a call behind that changes something.
        if reply == Reply::Done && !(are_calls_over && self.calls.as_ref().is_none_or(|calls| calls.quiesce(None))) {
            return Reply::Pending;
        }
        reply
    }

    /// A post of this fabric is over when it returns, so a process that asks for itself has nothing in flight. Of other
    /// processes the daemon can vouch only for those that are gone.
    fn close_queue_pair(&self, connection: u32, name: Option<Name>) -> Reply {
        match name {
            Some(name) if self.members.acted_by_others(connection, name) => Reply::Impossible,
            _ => Reply::Done,
        }
    }

    fn welcome(&mut self, position: usize, connection: u32) -> Verdict {
        let client = &mut self.clients[position];
        let process = Process::of_peer(&client.stream);
        let welcome = Welcome {
            connection,
            node: self.options.node_id.0,
            nodes: self.options.memory_nodes,
            layout: *self.region.layout(),
            fencing: process.as_ref().is_some_and(Process::can_be_killed),
            calls: self.calls.is_some(),
        };
        let bytes = welcome.encode();
        let Some(file) = self.region.fd() else { return Verdict::Leave("wants a region that is not ours to give") };
        let files: Vec<BorrowedFd<'_>> =
            std::iter::once(file.as_fd()).chain(self.calls.iter().map(|calls| calls.area().fd().as_fd())).collect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        // An empty socket takes 88 bytes at once, so a short send is an error like any other.
        match sendmsg(&client.stream, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL) {
            Ok(sent) if sent == bytes.len() => {}
            _ => return Verdict::Leave("hung up before it was welcomed"),
        }
        let pid = peer_pid(&client.stream);
        tracing::debug!(connection, pid = pid.map(Pid::as_raw_nonzero), "a compute process connected");
        counters::add(&self.counters.processes);
        counters::add(&self.counters.processes_total);
        client.stage = Stage::Member(Member {
            connection,
            pid,
            process,
            bytes: [0; CALL_BYTES],
            received: 0,
            broke_protocol: false,
            is_fencing_told: false,
        });
        Verdict::Stay
    }

    /// Stops reading from a member. `false`: the client never was one.
    fn stop_reading(&mut self, position: usize, why: &str) -> bool {
        let Client { stream, stage: Stage::Member(member) } = &mut self.clients[position] else { return false };
        tracing::warn!(connection = member.connection, "a compute process {why}; it is not heard any more");
        member.broke_protocol = true;
        // Tells the process that it has no memory node any more. It may or may not unmap the region.
        let _ = stream.shutdown(std::net::Shutdown::Both);
        true
    }

    /// Ends a connection, and releases the lines that its process died in.
    fn part(&mut self, position: usize, why: &str) {
        let client = self.clients.swap_remove(position);
        let Stage::Member(member) = client.stage else {
            counters::add(&self.counters.refused_total);
            tracing::warn!("refused a client: it {why}");
            return;
        };
        counters::sub(&self.counters.processes);
        if let Some(calls) = &self.calls {
            calls.area().release(member.connection);
        }
        let lines = self.region.release_dead_writers(u64::from(member.connection));
        let dead = self.members.forget(member.connection);
        self.counters.deaths_total.fetch_add(dead.len() as u64, Ordering::Relaxed);
        tell_deaths(self.options, dead, &member, lines, why);
    }
}

/// Tells of a process that is gone which compute nodes it had not withdrawn; those have died with it.
fn tell_deaths(options: &ServeOptions, names: Vec<Name>, member: &Member, lines: u32, why: &str) {
    let (connection, pid) = (member.connection, member.pid.map(Pid::as_raw_nonzero));
    if names.is_empty() {
        tracing::debug!(connection, pid, lines, "a compute process {why}");
    }
    for Name { row, incarnation } in names {
        if let Some(deaths) = &options.deaths {
            // Without a receiver nobody sweeps any more.
            let _ = deaths.send(row::Member { row: RowId(row), incarnation, nonce: 0 });
        }
        tracing::warn!(
            row,
            incarnation,
            connection,
            pid,
            lines,
            "a compute node died: its process {why}; lines released"
        );
    }
}
