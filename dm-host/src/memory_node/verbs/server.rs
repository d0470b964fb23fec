//! Sessions of compute processes, their queue pairs, and fencing.
//!
//! **What fencing confirms.** A call of `Fence` marks the row's incarnations as refused, and takes their queue pairs
//! out of the table under the same lock under which connection requests put them in. It destroys them, and answers
//! after that. `ibv_destroy_qp` returns when the device executes nothing for the queue pair any more; packets that
//! arrive later find none. A connection request that was being handled either had put its queue pair into the table
//! before, and then it is among those destroyed, or it sees the mark and is refused. `Server::closing` makes one of two
//! calls wait for the other, so that the second does not answer while the first still destroys.

use super::client::keep_alive;
use super::secret::{Secret, Side, nonce};
use super::wire::{self, Answer, FENCED, HELLO_BYTES, Hello, PROOF_BYTES, Pair, VERSION, Welcome, WireError, refusal};
use crate::fabric::verbs::cm::{Channel, Event, Id};
use crate::fabric::verbs::device::Device;
use crate::fabric::verbs::queue_pair::{CompletionQueue, QueuePair, Sizes};
use crate::fabric::verbs::{Patience, VerbsError};
use crate::memory_node::counters::{self, Counters};
use crate::memory_node::message::{ANNOUNCE, CALL_BYTES, Call, HeadError, Return, WITHDRAW};
use crate::metrics::{Kind, Labels, Page};
use dm_core::remote::rpc::{Procedure, Reply};
use rdma_sys::rdma_cm_event_type;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use zerocopy::IntoBytes as _;

/// Most sessions of a memory node: well below the descriptors that a process may open by default.
pub const SESSIONS_MAX: usize = 500;

/// Most queue pairs of one session.
pub const PAIRS_MAX: usize = 4096;

/// Most connections that have not proved anything yet.
const GREETING_MAX: usize = 64;

/// How long a client may take for its hello and its proof.
const HELLO_WAIT: Duration = Duration::from_secs(5);

/// How often the thread of the connection manager checks whether it should stop.
const TICK: Duration = Duration::from_millis(200);

/// A session: one control connection.
#[derive(Debug)]
struct Session {
    /// For messages that answer no call.
    stream: Arc<Mutex<TcpStream>>,
    /// Compute-node rows and incarnations that it announced.
    rows: Vec<(u64, u64)>,
    fenced: bool,
    pairs: usize,
}

/// A queue pair. Rust drops the fields in this order.
#[derive(Debug)]
struct Connected {
    _pair: QueuePair,
    id: Id,
    ticket: u64,
    number: u64,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<u64, Session>,
    /// By key of the identifier.
    pairs: HashMap<usize, Connected>,
    /// By row: incarnations up to this one are refused.
    fenced: HashMap<u64, u64>,
}

/// Queue pairs, counted.
#[derive(Debug, Default)]
pub(super) struct QueuePairCounters {
    pub(super) now: AtomicU64,
    pub(super) total: AtomicU64,
}

impl QueuePairCounters {
    pub(super) fn put(&self, page: &mut Page, labels: &Labels) {
        let of = |count: &AtomicU64| [(labels.clone(), count.load(Ordering::Relaxed))];
        page.put("dm_memd_queue_pairs", Kind::Gauge, "Queue pairs connected now.", of(&self.now));
        let help = "Queue pairs connected so far.";
        page.put("dm_memd_queue_pairs_total", Kind::Counter, help, of(&self.total));
    }
}

/// What a memory node serves.
pub struct Server {
    /// What clients receive; each client gets a ticket of its own.
    pub welcome: Welcome,
    /// The secret that clients have to know.
    pub secret: Option<Secret>,
    /// Its device.
    pub device: Arc<Device>,
    /// The exponent of the largest packet: 1..=5 for 256 to 4096 bytes.
    pub mtu: u8,
    pub(super) counters: Arc<Counters>,
    pub(super) queue_pairs: Arc<QueuePairCounters>,
    completions: Arc<CompletionQueue>,
    state: Mutex<State>,
    /// Held while queue pairs are destroyed.
    closing: Mutex<()>,
    greeting: AtomicUsize,
    stopping: AtomicBool,
}

impl Server {
    /// A server that does not listen yet.
    pub fn new(
        welcome: Welcome,
        secret: Option<Secret>,
        device: &Arc<Device>,
        mtu: u8,
    ) -> Result<Arc<Self>, VerbsError> {
        Ok(Arc::new(Self {
            welcome,
            secret,
            device: Arc::clone(device),
            mtu,
            counters: Arc::default(),
            queue_pairs: Arc::default(),
            // The server posts nothing, and peers' one-sided requests bring no completions to this end.
            completions: CompletionQueue::new(device, 1)?,
            state: Mutex::default(),
            closing: Mutex::new(()),
            greeting: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
        }))
    }

    /// Serves until `stop` becomes readable; then every queue pair is destroyed before this returns.
    pub(crate) fn run(
        self: &Arc<Self>,
        listener: &TcpListener,
        connections: &Id,
        stop: BorrowedFd<'_>,
    ) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let outcome = thread::scope(|scope| {
            let channel = Arc::clone(connections.channel());
            let manager = thread::Builder::new().name("dm-connections".to_owned()).spawn_scoped(scope, move || {
                self.manage(&channel);
            });
            let outcome = manager.and_then(|_| self.accept(listener, stop));
            self.stopping.store(true, Ordering::Release);
            outcome
        });
        let closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let (sessions, pairs) = {
            let mut state = self.lock();
            (std::mem::take(&mut state.sessions), std::mem::take(&mut state.pairs))
        };
        for session in sessions.values() {
            let stream = session.stream.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = stream.shutdown(Shutdown::Both);
        }
        destroy(pairs.into_values());
        drop(closing);
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts clients until told to stop.
    fn accept(self: &Arc<Self>, listener: &TcpListener, stop: BorrowedFd<'_>) -> io::Result<()> {
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(stop, PollFlags::IN),
                PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            if !fds[0].revents().is_empty() {
                return Ok(());
            }
            match listener.accept() {
                Ok((stream, from)) => {
                    if self.greeting.fetch_add(1, Ordering::Relaxed) >= GREETING_MAX {
                        self.greeting.fetch_sub(1, Ordering::Relaxed);
                        tracing::warn!(%from, limit = GREETING_MAX, "too many clients that have proved nothing: refused one");
                        continue;
                    }
                    let server = Arc::clone(self);
                    let serve = move || {
                        if let Err(error) = server.attend(&stream) {
                            counters::add(&server.counters.refused_total);
                            tracing::warn!(%from, "a client was turned away: {error}");
                        }
                    };
                    let thread =
                        thread::Builder::new().name("dm-session".to_owned()).stack_size(256 << 10).spawn(serve);
                    if let Err(error) = thread {
                        self.greeting.fetch_sub(1, Ordering::Relaxed);
                        tracing::warn!(%error, "cannot start a thread for a client");
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => {
                    // The process is out of descriptors, for example. The listener stays readable, so do not spin on
                    // it.
                    tracing::warn!(%error, "cannot accept a client");
                    thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// Serves one client, from its hello to its end. `Err`: the client was not let in.
    fn attend(&self, stream: &TcpStream) -> Result<(), Refusal> {
        let greeted = self.greet(stream);
        self.greeting.fetch_sub(1, Ordering::Relaxed);
        let ticket = greeted?;
        counters::add(&self.counters.processes);
        counters::add(&self.counters.processes_total);
        let why = self.answer_calls(stream, ticket);
        tracing::info!(ticket, "a compute process is gone: {why}");
        self.end(ticket);
        counters::sub(&self.counters.processes);
        Ok(())
    }

    /// Greets a client. Returns its ticket.
    fn greet(&self, mut stream: &TcpStream) -> Result<u64, Refusal> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(HELLO_WAIT))?;
        stream.set_write_timeout(Some(HELLO_WAIT))?;
        let mut bytes = [0; HELLO_BYTES];
        stream.read_exact(&mut bytes)?;
        let hello = Hello::decode(&bytes)?;
        let ours = nonce()?;
        let answer = match &self.secret {
            _ if hello.version != VERSION => Answer::Version,
            Some(_) => Answer::Yes,
            None => Answer::Open,
        };
        stream.write_all(&Hello { version: VERSION, answer, nonce: ours }.encode())?;
        if answer == Answer::Version {
            return Err(WireError::from(HeadError::Version { theirs: hello.version, ours: VERSION }).into());
        }
        let mut proof = [0; PROOF_BYTES];
        stream.read_exact(&mut proof)?;
        let right = self.secret.as_ref().is_none_or(|secret| secret.check(Side::Client, &hello.nonce, &ours, &proof));
        if !right {
            stream.write_all(&refusal(Answer::Secret))?;
            return Err(Refusal::Proof);
        }
        keep_alive(stream)?;
        let ticket = u64::from_le_bytes(*nonce()?.first_chunk().unwrap_or(&[0; 8]));
        {
            let mut state = self.lock();
            if state.sessions.len() >= SESSIONS_MAX || self.stopping.load(Ordering::Acquire) {
                drop(state);
                stream.write_all(&refusal(Answer::Full))?;
                return Err(WireError::from(HeadError::Full).into());
            }
            let stream = Arc::new(Mutex::new(stream.try_clone()?));
            state.sessions.insert(ticket, Session { stream, rows: Vec::new(), fenced: false, pairs: 0 });
        }
        let proof =
            self.secret.as_ref().map_or([0; PROOF_BYTES], |secret| secret.proof(Side::Server, &hello.nonce, &ours));
        let welcome = Welcome { ticket, ..self.welcome.clone() }.encode(&proof);
        if let Err(error) = stream.write_all(&welcome).and_then(|()| stream.set_read_timeout(None)) {
            self.end(ticket);
            return Err(error.into());
        }
        Ok(ticket)
    }

    /// Answers calls until the connection ends. Returns why it ended.
    fn answer_calls(&self, mut stream: &TcpStream, ticket: u64) -> io::Error {
        let mut bytes = [0; CALL_BYTES];
        loop {
            if let Err(error) = stream.read_exact(&mut bytes) {
                return error;
            }
            let call = Call::decode(&bytes);
            let value = self.execute(ticket, call.operands);
            counters::add(&self.counters.calls_total);
            let Some(to) = self.lock().sessions.get(&ticket).map(|session| Arc::clone(&session.stream)) else {
                return io::ErrorKind::NotConnected.into();
            };
            let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = to.write_all(&Return { id: call.id, value }.encode()) {
                return error;
            }
        }
    }

    /// Executes a procedure. Each may be repeated: none counts its calls.
    fn execute(&self, ticket: u64, [procedure, a, b, c]: [u64; 4]) -> u64 {
        if self.lock().sessions.get(&ticket).is_none_or(|session| session.fenced) {
            return FENCED;
        }
        match procedure {
            ANNOUNCE => return self.announce(ticket, a, b),
            WITHDRAW => {
                if let Some(session) = self.lock().sessions.get_mut(&ticket) {
                    session.rows.retain(|&row| row != (a, b));
                    counters::add(&self.counters.leaves_total);
                }
                return Reply::Done as u64;
            }
            _ => {}
        }
        match Procedure::from_number(procedure) {
            Some(Procedure::Ping) => a,
            Some(Procedure::Fence) => {
                self.fence(a, b);
                Reply::Done as u64
            }
            Some(Procedure::CloseQueuePair) => {
                self.close(|pair| pair.ticket == ticket && pair.number == c);
                Reply::Done as u64
            }
            _ => Reply::Unknown as u64,
        }
    }

    fn announce(&self, ticket: u64, row: u64, incarnation: u64) -> u64 {
        let mut state = self.lock();
        if state.fenced.get(&row).is_some_and(|&fenced| incarnation <= fenced) {
            // The name is fenced, this session is not.
            return Reply::Impossible as u64;
        }
        let Some(session) = state.sessions.get_mut(&ticket) else { return FENCED };
        if !session.rows.contains(&(row, incarnation)) {
            session.rows.push((row, incarnation));
            counters::add(&self.counters.joins_total);
        }
        Reply::Done as u64
    }

    /// See the module's documentation. All queue pairs of a process go with any one of its rows. The server does not
    /// know which of them the row's lanes use, and a process that lost a row has to start its sessions anew in any
    /// case.
    fn fence(&self, row: u64, incarnation: u64) {
        let closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told = Vec::new();
        let pairs = {
            let mut state = self.lock();
            let limit = state.fenced.entry(row).or_insert(incarnation);
            *limit = (*limit).max(incarnation);
            let mut tickets = Vec::new();
            for (&ticket, session) in &mut state.sessions {
                let theirs = session.rows.iter().any(|&(announced, life)| announced == row && life <= incarnation);
                if theirs && !session.fenced {
                    session.fenced = true;
                    tickets.push(ticket);
                    told.push(Arc::clone(&session.stream));
                }
            }
            take(&mut state, |pair| tickets.contains(&pair.ticket))
        };
        let count = pairs.len();
        self.queue_pairs.now.fetch_sub(count as u64, Ordering::Relaxed);
        destroy(pairs.into_iter());
        drop(closing);
        if !told.is_empty() {
            self.counters.fenced_total.fetch_add(told.len() as u64, Ordering::Relaxed);
            tracing::info!(row, incarnation, pairs = count, "fenced off a compute node");
        }
        for stream in told {
            let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = stream.write_all(&Return { id: 0, value: FENCED }.encode());
        }
    }

    /// Destroys the queue pairs that `which` picks, and returns when they are gone.
    fn close(&self, which: impl Fn(&Connected) -> bool) {
        let closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs = take(&mut self.lock(), which);
        self.queue_pairs.now.fetch_sub(pairs.len() as u64, Ordering::Relaxed);
        destroy(pairs.into_iter());
        drop(closing);
    }

    /// Ends a session: its ticket is not accepted any more.
    fn end(&self, ticket: u64) {
        if let Some(session) = self.lock().sessions.remove(&ticket) {
            self.counters.deaths_total.fetch_add(session.rows.len() as u64, Ordering::Relaxed);
        }
        self.close(|pair| pair.ticket == ticket);
    }

    /// Handles connection requests and ends until told to stop.
    fn manage(&self, channel: &Arc<Channel>) {
        while !self.stopping.load(Ordering::Acquire) {
            match channel.next(TICK) {
                Ok(Some(event)) => self.handle(channel, &event),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!("{error}");
                    thread::sleep(TICK);
                }
            }
        }
    }

    fn handle(&self, channel: &Arc<Channel>, event: &Event) {
        match event.kind {
            rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST => {
                // SAFETY: the identifier of a connection request just read from this channel.
                let Some(id) = (unsafe { Id::adopt(event.id, channel) }) else { return };
                if let Err(answer) = self.connect(id, event) {
                    counters::add(&self.counters.refused_total);
                    tracing::warn!("a connection request was turned away: {answer:?}");
                }
            }
            rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED
            | rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_ERROR
            | rdma_cm_event_type::RDMA_CM_EVENT_UNREACHABLE
            | rdma_cm_event_type::RDMA_CM_EVENT_DEVICE_REMOVAL => {
                self.close(|pair| pair.id.key() == event.id);
            }
            _ => {}
        }
    }

    fn connect(&self, id: Id, event: &Event) -> Result<(), Answer> {
        let refuse = |id: &Id, answer: Answer| {
            id.reject(wire::pair_refusal(answer).as_bytes());
            answer
        };
        let pair = match Pair::decode(&event.private) {
            Ok(pair) => pair,
            Err(WireError::Head(HeadError::Version { .. })) => return Err(refuse(&id, Answer::Version)),
            Err(_) => return Err(refuse(&id, Answer::Ticket)),
        };
        let welcome = self.lock().sessions.get(&pair.ticket).is_some_and(|session| !session.fenced);
        if !welcome {
            return Err(refuse(&id, Answer::Ticket));
        }
        let mtu = self.mtu.min(pair.mtu);
        let answered = event.reads_asked.min(self.device.limits().reads_answered_max);
        let made = match id.device() {
            Ok(Some((device, _))) if Arc::ptr_eq(&device, &self.device) => self.make(&id, mtu),
            Ok(_) => Err(VerbsError::Choice("a connection request came by another device".to_owned())),
            Err(error) => Err(error),
        };
        let made = made.map_err(|error| {
            tracing::error!("{error}");
            refuse(&id, Answer::Device)
        })?;
        // Under the lock, so that either fencing sees the queue pair or the request sees the fence.
        let mut state = self.lock();
        let stopping = self.stopping.load(Ordering::Acquire);
        let session = state.sessions.get_mut(&pair.ticket).filter(|session| !session.fenced && !stopping);
        let Some(session) = session else { return Err(refuse(&id, Answer::Ticket)) };
        if session.pairs >= PAIRS_MAX {
            return Err(refuse(&id, Answer::Full));
        }
        let response = Pair { mtu, ticket: 0, number: 0 }.encode();
        // Counted before the peer knows of it.
        counters::add(&self.queue_pairs.now);
        counters::add(&self.queue_pairs.total);
        if let Err(error) = id.accept(made.number(), answered, &response) {
            counters::sub(&self.queue_pairs.now);
            tracing::error!("{error}");
            return Err(Answer::Device);
        }
        session.pairs += 1;
        let connected = Connected { _pair: made, ticket: pair.ticket, number: pair.number, id };
        state.pairs.insert(connected.id.key(), connected);
        Ok(())
    }

    /// A queue pair that is ready to answer.
    fn make(&self, id: &Id, mtu: u8) -> Result<QueuePair, VerbsError> {
        let pair = QueuePair::new(&self.completions, Sizes { requests: 0, inline_bytes: 0 })?;
        pair.initialise(id)?;
        pair.make_ready(id, mtu, Patience::of(self.welcome.profile))?;
        Ok(pair)
    }
}

/// Takes queue pairs out of the table.
fn take(state: &mut State, which: impl Fn(&Connected) -> bool) -> Vec<Connected> {
    let taken: Vec<_> = state.pairs.extract_if(|_, pair| which(pair)).map(|(_, pair)| pair).collect();
    for pair in &taken {
        if let Some(session) = state.sessions.get_mut(&pair.ticket) {
            session.pairs -= 1;
        }
    }
    taken
}

/// Destroys queue pairs and tells their peers. When this returns, the queue pairs execute nothing any more.
fn destroy(pairs: impl Iterator<Item = Connected>) {
    for pair in pairs {
        let Connected { _pair: queue_pair, id, .. } = pair;
        drop(queue_pair);
        id.disconnect();
    }
}

/// Why a client was not let in.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error("its proof is wrong")]
    Proof,
}
