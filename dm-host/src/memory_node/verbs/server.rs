//! Sessions of compute processes, their queue pairs, and fencing.
//!
//! **What fencing confirms.** A call of `Fence` marks the row's incarnations as refused, and takes their queue pairs
//! out of the table under the same lock under which connection requests put them in. It destroys them, and answers
//! after that. `ibv_destroy_qp` returns when the device executes nothing for the queue pair any more; packets that
//! arrive later find none. A connection request that was being handled either had put its queue pair into the table
//! before, and then it is among those destroyed, or it sees the mark and is refused. `Server::closing` makes one of two
//! calls wait for the other, so that the second does not answer while the first still destroys.
//!
//! **Calls to the memory node's processor** come by the same queue pairs (`call_server`). A SEND that was received may be served
//! after its queue pair was closed. So the gates of the queue pairs are closed first (`gate`): the fence is confirmed when no
//! call of the compute node is running, and none can begin.

use super::call_server::{CallServer, Caller, CallerPair};
use super::client::keep_alive;
use super::gate::{Gate, Terms};
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
use dm_core::verbs::Callee;
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
    caller: Arc<Caller>,
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
struct QueuePairCounters {
    now: AtomicU64,
    total: AtomicU64,
}

impl QueuePairCounters {
    fn put(&self, page: &mut Page, labels: &Labels) {
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
    queue_pairs: Arc<QueuePairCounters>,
    completions: Arc<CompletionQueue>,
    /// `None`: this memory node answers no calls of compute nodes to its processor.
    calls: Option<Arc<CallServer>>,
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
        counters: Arc<Counters>,
        calls: Option<Arc<CallServer>>,
    ) -> Result<Arc<Self>, VerbsError> {
        Ok(Arc::new(Self {
            welcome,
            secret,
            device: Arc::clone(device),
            mtu,
            counters,
            queue_pairs: Arc::default(),
            // For queue pairs whose peers may not call: nothing is posted there, and peers' one-sided requests bring no completions
            // to this end.
            completions: CompletionQueue::new(device, 1)?,
            calls,
            state: Mutex::default(),
            closing: Mutex::new(()),
            greeting: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
        }))
    }

    /// Puts what is counted of queue pairs and calls on the page.
    pub(super) fn put(&self, page: &mut Page, labels: &Labels) {
        self.queue_pairs.put(page, labels);
        if let Some(calls) = &self.calls {
            calls.put(page, labels);
        }
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
        self.destroy(&pairs.into_values().collect::<Vec<_>>());
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
        self.destroy(&pairs);
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
        self.destroy(&pairs);
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
            let failed = self.calls.as_ref().map(|calls| calls.take_failed()).unwrap_or_default();
            if !failed.is_empty() {
                // Their peers are told, and make new ones.
                self.close(|pair| failed.contains(&pair.caller.terms.number));
            }
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
        let welcome = self.lock().sessions.get(&pair.ticket).is_some_and(|session| {
            // Calls of a compute node are passed on to the process that announced it.
            let is_its_own = |row| session.rows.iter().any(|&(announced, _)| announced == u64::from(row));
            !session.fenced && (pair.serves == Callee::MEMORY_NODE || pair.serves.row().is_some_and(is_its_own))
        });
        if !welcome {
            return Err(refuse(&id, Answer::Ticket));
        }
        let mtu = self.mtu.min(pair.mtu);
        let answered = event.reads_asked.min(self.device.limits().reads_answered_max);
        let made = match id.device() {
            Ok(Some((device, _))) if Arc::ptr_eq(&device, &self.device) => self.make(&id, mtu, pair.calls),
            Ok(_) => Err(VerbsError::Choice("a connection request came by another device".to_owned())),
            Err(error) => Err(error),
        };
        let made = made.map_err(|error| {
            tracing::error!("{error}");
            refuse(&id, Answer::Device)
        })?;
        let terms = Terms { number: made.pair.number(), credits: made.credits, serves: pair.serves };
        let caller = Gate::new(made, terms);
        let connected = Connected { caller, ticket: pair.ticket, number: pair.number, id };
        let admitted = self.admit(connected, mtu, answered);
        admitted.map_err(|(answer, connected)| {
            self.destroy(&[connected]);
            answer
        })
    }

    /// Puts a queue pair into the table, and accepts the connection, unless its session is fenced by now.
    fn admit(&self, connected: Connected, mtu: u8, answered: u8) -> Result<(), (Answer, Connected)> {
        let refuse = |connected: Connected, answer: Answer| {
            connected.id.reject(wire::pair_refusal(answer).as_bytes());
            Err((answer, connected))
        };
        // Under the lock, so that either fencing sees the queue pair or the request sees the fence.
        let mut state = self.lock();
        let stopping = self.stopping.load(Ordering::Acquire);
        let session = state.sessions.get_mut(&connected.ticket).filter(|session| !session.fenced && !stopping);
        let Some(session) = session else { return refuse(connected, Answer::Ticket) };
        if session.pairs >= PAIRS_MAX {
            return refuse(connected, Answer::Full);
        }
        let Terms { number, credits, serves } = connected.caller.terms;
        let response = Pair { mtu, ticket: 0, number: 0, calls: credits, serves }.encode();
        // Before the peer knows of it, and can call.
        counters::add(&self.queue_pairs.now);
        counters::add(&self.queue_pairs.total);
        if let Some(calls) = &self.calls {
            calls.admit(&connected.caller);
        }
        if let Err(error) = connected.id.accept(number, answered, &response) {
            counters::sub(&self.queue_pairs.now);
            tracing::error!("{error}");
            return Err((Answer::Device, connected));
        }
        session.pairs += 1;
        state.pairs.insert(connected.id.key(), connected);
        Ok(())
    }

    /// A queue pair that is ready to answer, and to take calls if its peer asks for that.
    fn make(&self, id: &Id, mtu: u8, asked: u32) -> Result<CallerPair, VerbsError> {
        let made = if let Some(calls) = &self.calls {
            calls.make(asked)?
        } else {
            let sizes = Sizes { requests: 0, receives: 0, inline_bytes: 0 };
            CallerPair::without_calls(QueuePair::new(&self.completions, sizes, None)?)
        };
        let ready =
            made.pair.initialise(id).and_then(|()| made.pair.make_ready(id, mtu, Patience::of(self.welcome.profile)));
        match ready {
            Ok(_) => Ok(made),
            Err(error) => {
                self.end_pairs(vec![made]);
                Err(error)
            }
        }
    }

    /// Destroys queue pairs and tells their peers. When this returns, the queue pairs execute nothing any more, and no call of
    /// theirs is running or will be. The gates of all are shut before this waits for the calls of one.
    fn destroy(&self, connected: &[Connected]) {
        for Connected { caller, .. } in connected {
            caller.shut();
        }
        if let Some(calls) = &self.calls {
            calls.forget(&connected.iter().map(|connected| connected.caller.terms).collect::<Vec<_>>());
        }
        let pairs = connected.iter().filter_map(|connected| connected.caller.close()).collect();
        self.end_pairs(pairs);
        for Connected { id, .. } in connected {
            id.disconnect();
        }
    }

    fn end_pairs(&self, pairs: Vec<CallerPair>) {
        let Some(calls) = &self.calls else { return drop(pairs) };
        calls.retire(pairs.iter());
        for pair in pairs {
            calls.destroy(pair);
        }
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
