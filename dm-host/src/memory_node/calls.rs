//! Calls to a memory node's daemon that wait for their return.
//!
//! A caller sends a frame without blocking and gets a [`Ticket`]. The process's watcher thread receives returns and
//! leaves them where the ticket finds them. No function here waits: a worker looks at its tickets between other lanes.

use super::message::{Call, RETURN_BYTES, Return};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the watcher leaves a return.
#[derive(Debug, Default)]
struct Place {
    value: AtomicU64,
    is_there: AtomicBool,
}

/// The calls of one connection.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    waiting: HashMap<u64, Arc<Place>>,
    /// A return that has arrived in part.
    input: [u8; RETURN_BYTES],
    received: usize,
}

/// What arrived from the daemon's end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing, or returns.
    Returns,
    /// The stream ended.
    End,
}

/// An outstanding call. Dropping the ticket forgets the call: a late return is ignored.
#[derive(Debug)]
pub struct Ticket {
    calls: Arc<Calls>,
    id: u64,
    place: Arc<Place>,
}

impl Calls {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a call. `None`: the socket has ended, or is full, which happens only if the daemon has not read thousands
    /// of calls.
    pub(super) fn send(self: &Arc<Self>, socket: &UnixStream, operands: [u64; 4]) -> Option<Ticket> {
        let mut open = self.open();
        open.last += 1;
        let id = open.last;
        let bytes = Call { id, operands }.encode();
        // The mutex keeps frames from mixing. A frame goes in one piece or not at all: Unix sockets take a write that
        // fits one buffer whole.
        match send(socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) if sent == bytes.len() => {}
            _ => return None,
        }
        let place = Arc::new(Place::default());
        open.waiting.insert(id, Arc::clone(&place));
        Some(Ticket { calls: Arc::clone(self), id, place })
    }

    /// Receives the returns that have arrived. Only the watcher calls this.
    pub(super) fn receive(&self, socket: &UnixStream) -> Heard {
        let mut open = self.open();
        loop {
            let Open { waiting, input, received, .. } = &mut *open;
            match recv(socket, &mut input[*received..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Heard::End,
                Ok((count, _)) => *received += count,
                Err(Errno::AGAIN | Errno::INTR) => return Heard::Returns,
                Err(_) => return Heard::End,
            }
            if *received == RETURN_BYTES {
                *received = 0;
                let Return { id, value } = Return::decode(input);
                if let Some(place) = waiting.remove(&id) {
                    place.value.store(value, Ordering::Relaxed);
                    // Release: a thread that sees the flag sees the value.
                    place.is_there.store(true, Ordering::Release);
                }
            }
        }
    }
}

impl Ticket {
    /// The return, if it has arrived.
    pub(crate) fn returned(&self) -> Option<u64> {
        self.place.is_there.load(Ordering::Acquire).then(|| self.place.value.load(Ordering::Relaxed))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.returned().is_none() {
            self.calls.open().waiting.remove(&self.id);
        }
    }
}
