//! A memory node as a compute process knows it: its control connection, and what it said of itself.

use super::secret::{Secret, Side, nonce};
use super::wire::{
    Answer, FENCED, HELLO_BYTES, Hello, OVERLAP_BYTES, PROOF_BYTES, VERSION, WELCOME_BYTES, Welcome, WireError,
};
use crate::fabric::verbs::profile::Profile;
use crate::memory_node::AnnounceError;
use crate::memory_node::message::{ANNOUNCE, Call, HeadError, RETURN_BYTES, Return, WITHDRAW};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::rpc::Reply;
use dm_core::verbs::NodeId;
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout,
};
use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// The port of a memory node unless its address names one. It is not an assigned port.
pub const PORT_DEFAULT: u16 = 7471;

/// How long a memory node may take to answer.
pub const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// How long an unresponsive memory node is taken to be alive, for example one whose machine lost power.
const SILENCE_MS: u32 = 10_000;

/// Why there is no control connection.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The text is not an address.
    #[error("{address}: not the address of a memory node ({source}); give HOST:PORT, or HOST for port {PORT_DEFAULT}")]
    Address {
        /// The address as given.
        address: String,
        /// The reason.
        source: io::Error,
    },
    /// No daemon listens at the address.
    #[error(
        "{address}: no memory node answers there ({source}); start one with `dm-memd --fabric verbs --listen {address}`"
    )]
    NotListening {
        /// The address as given.
        address: String,
        /// The reason.
        source: io::Error,
    },
    /// The connection ended.
    #[error("{address}: no answer from a memory node: {source}")]
    NoAnswer {
        /// The address as given.
        address: String,
        /// The reason.
        source: io::Error,
    },
    /// The answer is not one of this protocol, or is a refusal.
    #[error("{address}: {source}")]
    Protocol {
        /// The address as given.
        address: String,
        /// What is wrong.
        source: WireError,
    },
}

/// What the reading thread and callers share.
#[derive(Debug, Default)]
struct Shared {
    down: AtomicBool,
    fenced: AtomicBool,
    /// Replies that no caller has taken yet, by call; `None` while there is none.
    replies: Mutex<HashMap<u64, Option<u64>>>,
    arrived: Condvar,
}

/// A memory node that this process has a control connection to.
#[derive(Debug)]
pub struct Peer {
    address: String,
    socket: SocketAddr,
    welcome: Welcome,
    stream: Mutex<TcpStream>,
    shared: Arc<Shared>,
    next_call: AtomicU64,
    next_pair: AtomicU64,
}

impl Peer {
    /// Connects to the memory node at `address` and proves knowledge of `secret`.
    pub fn connect(address: &str, secret: Option<&Secret>) -> Result<Arc<Self>, PeerError> {
        let wrong = |source| PeerError::Address { address: address.to_owned(), source };
        let candidates = match address.to_socket_addrs() {
            Ok(candidates) => candidates,
            Err(_) => (address, PORT_DEFAULT).to_socket_addrs().map_err(wrong)?,
        };
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        let connected = candidates.into_iter().find_map(|socket| {
            TcpStream::connect_timeout(&socket, ANSWER_WAIT)
                .map(|stream| (socket, stream))
                .map_err(|error| last = error)
                .ok()
        });
        let (socket, stream) =
            connected.ok_or(PeerError::NotListening { address: address.to_owned(), source: last })?;
        let welcome = greet(&stream, secret).map_err(|error| match error {
            Greeting::Io(source) => PeerError::NoAnswer { address: address.to_owned(), source },
            Greeting::Wire(source) => PeerError::Protocol { address: address.to_owned(), source },
        })?;
        let no_answer = |source| PeerError::NoAnswer { address: address.to_owned(), source };
        let reader = stream.try_clone().map_err(no_answer)?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        thread::Builder::new()
            .name("dm-control".to_owned())
            .stack_size(128 << 10)
            .spawn(move || listen(reader, &theirs))
            .map_err(no_answer)?;
        Ok(Arc::new(Self {
            address: address.to_owned(),
            socket,
            welcome,
            stream: Mutex::new(stream),
            shared,
            next_call: AtomicU64::new(1),
            next_pair: AtomicU64::new(1),
        }))
    }

    /// A memory node without memory, behind a connection of this process with itself.
    pub(crate) fn null(region_bytes: u64, masked_atomics: bool) -> Result<Arc<Self>, PeerError> {
        let failed = |source| PeerError::NoAnswer { address: "null".to_owned(), source };
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let socket = listener.local_addr().map_err(failed)?;
        let stream = TcpStream::connect(socket).map_err(failed)?;
        let welcome = Welcome {
            ticket: 0,
            node: 0,
            nodes: 1,
            profile: Profile::Specification,
            region_bytes,
            device_bytes: 0,
            device_key: 0,
            masked_atomics,
            calls_change: false,
            base: 0,
            registration_bytes: region_bytes.next_power_of_two().max(OVERLAP_BYTES),
            keys: vec![1],
        };
        Ok(Arc::new(Self {
            address: "null".to_owned(),
            socket,
            welcome,
            stream: Mutex::new(stream),
            shared: Arc::default(),
            next_call: AtomicU64::new(1),
            next_pair: AtomicU64::new(1),
        }))
    }

    /// The address as it was given.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where connection requests go.
    pub(crate) fn socket(&self) -> SocketAddr {
        self.socket
    }

    /// What the memory node said of itself.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Its number.
    pub fn node_id(&self) -> NodeId {
        NodeId(self.welcome.node)
    }

    /// Whether its control connection has ended. Once down, it stays down.
    #[inline]
    pub fn is_down(&self) -> bool {
        self.shared.down.load(Ordering::Acquire)
    }

    /// Takes the memory node for dead.
    pub fn mark_down(&self) {
        self.shared.down.store(true, Ordering::Release);
        self.shared.arrived.notify_all();
    }

    /// Whether the memory node has fenced this process.
    #[inline]
    pub fn is_fenced(&self) -> bool {
        self.shared.fenced.load(Ordering::Acquire)
    }

    /// Tells the memory node that this process is compute-node row `row`, so that fencing the row stops this process.
    pub fn announce(&self, row: RowId, incarnation: u32) -> Result<(), AnnounceError> {
        match self.call([ANNOUNCE, u64::from(row.0), u64::from(incarnation), 0], ANSWER_WAIT) {
            Ok(value) if value == Reply::Done as u64 => Ok(()),
            Ok(_) => Err(AnnounceError::Fenced { node: self.welcome.node, row: row.0, incarnation }),
            Err(_) => Err(AnnounceError::Silent { node: self.welcome.node }),
        }
    }

    /// Promises that this process writes nothing under that name any more, now or later.
    pub fn withdraw(&self, row: RowId, incarnation: u32) -> Result<(), AnnounceError> {
        match self.call([WITHDRAW, u64::from(row.0), u64::from(incarnation), 0], ANSWER_WAIT) {
            Ok(_) => Ok(()),
            Err(_) => Err(AnnounceError::Silent { node: self.welcome.node }),
        }
    }

    /// A number for a queue pair, never given twice.
    pub(crate) fn number_pair(&self) -> u64 {
        self.next_pair.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a call; the caller takes its reply with [`Peer::take`].
    pub fn begin(&self, operands: [u64; 4]) -> io::Result<u64> {
        let id = self.next_call.fetch_add(1, Ordering::Relaxed);
        self.replies().insert(id, None);
        match self.send(id, operands) {
            Ok(()) => Ok(id),
            Err(error) => {
                self.replies().remove(&id);
                Err(error)
            }
        }
    }

    /// Sends a call again. Every procedure may be repeated.
    pub fn send(&self, id: u64, operands: [u64; 4]) -> io::Result<()> {
        if self.is_down() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = stream.write_all(&Call { id, operands }.encode());
        if sent.is_err() {
            self.mark_down();
        }
        sent
    }

    /// The reply to call `id`, if it has arrived.
    pub fn take(&self, id: u64) -> Option<u64> {
        let mut replies = self.replies();
        let value = (*replies.get(&id)?)?;
        replies.remove(&id);
        Some(value)
    }

    /// Forgets a call.
    pub fn forget(&self, id: u64) {
        self.replies().remove(&id);
    }

    /// Calls and waits for the reply.
    pub fn call(&self, operands: [u64; 4], wait: Duration) -> io::Result<u64> {
        let id = self.begin(operands)?;
        let deadline = Instant::now() + wait;
        let mut replies = self.replies();
        loop {
            if let Some(Some(value)) = replies.get(&id).copied() {
                replies.remove(&id);
                return Ok(value);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_down() {
                replies.remove(&id);
                let kind = if left.is_zero() { io::ErrorKind::TimedOut } else { io::ErrorKind::NotConnected };
                return Err(kind.into());
            }
            replies = self.shared.arrived.wait_timeout(replies, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn replies(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Option<u64>>> {
        self.shared.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Ends the reading thread, which has a descriptor of its own.
        let stream = self.stream.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Reads replies until the connection ends.
fn listen(mut stream: TcpStream, shared: &Shared) {
    let mut bytes = [0; RETURN_BYTES];
    while stream.read_exact(&mut bytes).is_ok() {
        let Return { id, value } = Return::decode(&bytes);
        if value == FENCED {
            shared.fenced.store(true, Ordering::Release);
        }
        if let Some(slot) = shared.replies.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&id) {
            *slot = Some(value);
        }
        shared.arrived.notify_all();
    }
    shared.down.store(true, Ordering::Release);
    shared.arrived.notify_all();
}

enum Greeting {
    Io(io::Error),
    Wire(WireError),
}

impl From<io::Error> for Greeting {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<WireError> for Greeting {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

fn greet(mut stream: &TcpStream, secret: Option<&Secret>) -> Result<Welcome, Greeting> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    stream.set_write_timeout(Some(ANSWER_WAIT))?;
    keep_alive(stream)?;
    let ours = nonce()?;
    stream.write_all(&Hello { version: VERSION, answer: Answer::Yes, nonce: ours }.encode())?;
    let mut bytes = [0; HELLO_BYTES];
    stream.read_exact(&mut bytes)?;
    let challenge = Hello::decode(&bytes)?;
    if challenge.version != VERSION {
        return Err(WireError::from(HeadError::Version { theirs: challenge.version, ours: VERSION }).into());
    }
    let proof = match (challenge.answer, secret) {
        (Answer::Yes, Some(secret)) => secret.proof(Side::Client, &ours, &challenge.nonce),
        (Answer::Yes, None) => return Err(WireError::Needed.into()),
        (Answer::Open, Some(_)) => return Err(WireError::Open.into()),
        (Answer::Open, None) => [0; PROOF_BYTES],
        (Answer::Full, _) => return Err(WireError::from(HeadError::Full).into()),
        (answer, _) => return Err(WireError::Field { what: "answer", value: answer as u64 }.into()),
    };
    stream.write_all(&proof)?;
    let mut bytes = [0; WELCOME_BYTES];
    stream.read_exact(&mut bytes)?;
    let (mut welcome, proof, keys) = Welcome::decode(&bytes)?;
    if secret.is_some_and(|secret| !secret.check(Side::Server, &ours, &challenge.nonce, &proof)) {
        return Err(WireError::Imposter.into());
    }
    let mut bytes = vec![0; keys * 4];
    stream.read_exact(&mut bytes)?;
    welcome.keys =
        bytes.chunks_exact(4).map(|key| key.first_chunk().map_or(0, |key| u32::from_le_bytes(*key))).collect();
    stream.set_read_timeout(None)?;
    Ok(welcome)
}

/// Makes the kernel notice a peer whose machine is gone.
pub(super) fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, Duration::from_secs(4))?;
    set_tcp_keepintvl(stream, Duration::from_secs(2))?;
    set_tcp_keepcnt(stream, 3)?;
    Ok(set_tcp_user_timeout(stream, SILENCE_MS)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of connecting to a server that answers a hello with `answer` and hangs up.
    fn complaint(answer: Vec<u8>, secret: Option<&Secret>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut hello = [0; HELLO_BYTES];
            stream.read_exact(&mut hello).unwrap();
            stream.write_all(&answer).unwrap();
        });
        let error = Peer::connect(&address, secret).unwrap_err().to_string();
        server.join().unwrap();
        assert!(error.starts_with(&format!("{address}: ")) && !error.contains('\n'), "{error}");
        error
    }

    #[test]
    fn a_memory_node_of_another_release_is_named_with_both_versions() {
        let newer = Hello { version: VERSION + 1, answer: Answer::Version, nonce: [0; 32] };
        let error = complaint(newer.encode().to_vec(), None);
        let both = format!("version {} of the dm-memd protocol, this is version {VERSION}; use the same", VERSION + 1);
        assert!(error.contains(&both), "{error}");
        let other = complaint(vec![b'x'; HELLO_BYTES], None);
        assert!(other.contains("does not speak the dm-memd protocol"), "{other}");
        let gone = complaint(Vec::new(), None);
        assert!(gone.contains("no answer from a memory node"), "{gone}");
        let locked = Hello { version: VERSION, answer: Answer::Yes, nonce: [0; 32] };
        assert!(complaint(locked.encode().to_vec(), None).contains("give --secret-file"));
    }
}
