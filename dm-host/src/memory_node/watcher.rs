//! One sleeping thread that receives from memory nodes' daemons, and notices when they end, for the whole process.

use super::calls::Heard;
use dm_core::verbs::NodeId;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// A connection to a memory node's daemon.
pub(super) trait Connection: Send + Sync {
    /// Its control socket.
    fn socket(&self) -> Option<&UnixStream>;

    /// Receives what the daemon sent.
    fn receive(&self) -> Heard;

    /// The stream has ended.
    fn end(&self);

    /// The number of the memory node.
    fn node_id(&self) -> NodeId;
}

struct Watcher {
    epoll: OwnedFd,
    nodes: Mutex<HashMap<u64, Weak<dyn Connection>>>,
    next: AtomicU64,
}

/// A watched memory node, for [`forget`].
#[derive(Debug)]
pub(super) struct Watched {
    key: u64,
}

/// Watches `socket`, the control socket of `node`: `node` receives what arrives there, and is told when the stream
/// ends.
pub(super) fn watch(socket: &UnixStream, node: Weak<dyn Connection>) -> io::Result<Watched> {
    let watcher = watcher()?;
    let key = watcher.next.fetch_add(1, Ordering::Relaxed);
    // Before the socket is watched, since it may have ended already.
    watcher.nodes.lock().unwrap_or_else(PoisonError::into_inner).insert(key, node);
    let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
    if let Err(error) = epoll::add(&watcher.epoll, socket, epoll::EventData::new_u64(key), flags) {
        watcher.nodes.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        return Err(error.into());
    }
    Ok(Watched { key })
}

/// Ends the watching.
pub(super) fn forget(watched: &Watched, socket: &UnixStream) {
    if let Ok(watcher) = watcher() {
        watcher.nodes.lock().unwrap_or_else(PoisonError::into_inner).remove(&watched.key);
        // Closing would do unless the socket was duplicated. If the stream ended before, the socket is not watched any
        // more.
        let _ = epoll::delete(&watcher.epoll, socket);
    }
}

fn watcher() -> io::Result<&'static Watcher> {
    static WATCHER: OnceLock<Watcher> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    if let Some(watcher) = WATCHER.get() {
        return Ok(watcher);
    }
    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if WATCHER.get().is_none() {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watcher =
            WATCHER.get_or_init(|| Watcher { epoll, nodes: Mutex::new(HashMap::new()), next: AtomicU64::new(0) });
        std::thread::Builder::new().name("dm-watcher".to_owned()).stack_size(128 << 10).spawn(|| run(watcher))?;
    }
    WATCHER.get().ok_or_else(|| io::Error::other("the watcher did not start"))
}

impl Watcher {
    /// The node of a key. This call may drop the last reference to it, which needs the mutex; so the mutex is not held.
    fn node(&self, key: u64) -> Option<Arc<dyn Connection>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).get(&key).and_then(Weak::upgrade)
    }
}

fn run(watcher: &Watcher) {
    let mut events = Vec::with_capacity(16);
    loop {
        events.clear();
        match epoll::wait(&watcher.epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                // This cannot happen to a valid epoll. If it does, nodes that cannot be watched must not be trusted.
                tracing::error!(%error, "cannot watch memory nodes");
                let keys: Vec<u64> =
                    watcher.nodes.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
                for node in keys.into_iter().filter_map(|key| watcher.node(key)) {
                    node.end();
                }
                return;
            }
        }
        for event in &events {
            let key = event.data.u64();
            let Some(node) = watcher.node(key) else { continue };
            if node.receive() == Heard::End {
                node.end();
                if let Some(socket) = node.socket() {
                    // The end of the stream would stay an event.
                    let _ = epoll::delete(&watcher.epoll, socket);
                }
                tracing::warn!("memory node {} is down: its control socket ended", node.node_id().0);
            }
        }
    }
}
