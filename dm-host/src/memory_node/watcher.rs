//! One sleeping thread that learns of memory nodes' ends for the whole process.

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What is watched: a memory node's control socket, and the flag to raise when it ends.
struct Watched {
    socket: UnixStream,
    down: Arc<AtomicBool>,
}

struct Watcher {
    epoll: OwnedFd,
    watched: Mutex<HashMap<u64, Watched>>,
    next: AtomicU64,
}

/// Ends the watching, and the connection with it, when dropped.
#[derive(Debug)]
pub(super) struct Guard {
    key: u64,
}

/// Raises `down` when `socket` ends, or when its other end says anything: the protocol has nothing for it to say.
pub(super) fn watch(socket: UnixStream, down: Arc<AtomicBool>) -> io::Result<Guard> {
    let watcher = watcher()?;
    let key = watcher.next.fetch_add(1, Ordering::Relaxed);
    let mut watched = watcher.watched.lock().unwrap_or_else(PoisonError::into_inner);
    let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
    epoll::add(&watcher.epoll, &socket, epoll::EventData::new_u64(key), flags)?;
    watched.insert(key, Watched { socket, down });
    Ok(Guard { key })
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Ok(watcher) = watcher() {
            let mut watched = watcher.watched.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(gone) = watched.remove(&self.key) {
                // Closing would do unless the socket was duplicated.
                let _ = epoll::delete(&watcher.epoll, &gone.socket);
            }
        }
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
            WATCHER.get_or_init(|| Watcher { epoll, watched: Mutex::new(HashMap::new()), next: AtomicU64::new(0) });
        std::thread::Builder::new().name("dm-watcher".to_owned()).stack_size(128 << 10).spawn(|| run(watcher))?;
    }
    WATCHER.get().ok_or_else(|| io::Error::other("the watcher did not start"))
}

fn run(watcher: &Watcher) {
    let mut events = Vec::with_capacity(16);
    loop {
        events.clear();
        match epoll::wait(&watcher.epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                // Cannot happen to a valid epoll; if it does, nodes that cannot be watched must not be trusted.
                tracing::error!(%error, "cannot watch memory nodes");
                let watched = watcher.watched.lock().unwrap_or_else(PoisonError::into_inner);
                watched.values().for_each(|node| node.down.store(true, Ordering::Release));
                return;
            }
        }
        let watched = watcher.watched.lock().unwrap_or_else(PoisonError::into_inner);
        for event in &events {
            let Some(node) = watched.get(&event.data.u64()) else { continue };
            let mut byte = [0; 1];
            let said = recv(&node.socket, &mut byte, RecvFlags::DONTWAIT);
            if matches!(said, Err(Errno::AGAIN | Errno::INTR)) {
                continue;
            }
            node.down.store(true, Ordering::Release);
            let _ = epoll::delete(&watcher.epoll, &node.socket);
            tracing::warn!("a memory node is down: its control socket ended");
        }
    }
}
