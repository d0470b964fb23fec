//! The memory node's daemon and the client that connects to it.
//!
//! A memory node owns one [`Region`] and a Unix *control socket*. A compute process connects; the daemon sends it the
//! layout and the region's file. The process maps the file, and from then on executes its verbs itself. The daemon's
//! processor is idle on the data path, but for searches that it is called for. The connection stays open: each side learns from it when the other ends.
//!
//! ```text
//!   compute process                                dm-memd
//!        │  connect                                   │
//!        │  Hello { magic, version } ───────────────► │  SO_PEERPIDFD
//!        │ ◄──────── Welcome { layout, connection } + file descriptor (SCM_RIGHTS)
//!        │                                            │
//!        │  (claims a compute-node row, by a CAS)     │
//!        │  Announce { row, incarnation } ──────────► │  notes whom to kill if that is fenced
//!        │ ◄────────────────────── done, impossible   │
//!        │                                            │
//!        │  loads, stores, atomics on the region      │  waits
//!        │  Rpc: Fence { row, incarnation } ────────► │  SIGKILL, waits for the exit
//!        │ ◄──────────────── done, pending, impossible│
//!        │                                            │
//!        │ ─ ─ ─ ─ end of stream: it is gone ─ ─ ─ ─► │  releases lines it died in
//!        │ ◄─ ─ ─ end of stream: memory node down ─ ─ │
//! ```
//!
//! A process's sockets are closed only after the last of its threads has left user mode, and a live process closes its
//! socket only after it has unmapped the region. So the end of the stream also says that this process writes nothing
//! any more. A process that runs, or is stopped, is kept from writing by fencing: `members` has the protocol and its
//! proof.
//!
//! When a daemon dies, only calls are lost: its clients see the end of the stream and unmap the region
//! ([`RemoteNode`]). If the region is a file, a new daemon takes it over as it is, in the pool's next incarnation, once
//! all clients have unmapped it ([`daemon`]).
//!
//! - `message`: the messages of every control connection. [`wire`]: the greeting on this one.
//! - `call_area`: slots for calls that the daemon's threads answer (`call_server`), in a file that comes with the region's.
//! - `server`: [`serve`]. `members`: which process announced which row. `process`: a client process, identified for
//!   good.
//! - `client`: [`connect`]. `calls`: calls that wait for their return; `watcher`: the thread that receives returns.
//! - [`daemon`]: the program around [`serve`]. `arguments`: its command line; `size`: sizes on command lines; `log`: its
//!   log; `counters`: its metrics; `sweeper`: frees rows of
//!   the dead.
//! - `verbs` (feature `verbs`): the same on an RDMA device.

mod arguments;
pub(crate) mod call_area;
mod call_server;
mod calls;
mod client;
mod counters;
pub mod daemon;
mod log;
mod members;
mod message;
pub(crate) mod process;
mod server;
mod size;
mod sweeper;
#[cfg(feature = "verbs")]
pub mod verbs;
mod watcher;
pub mod wire;

pub(crate) use calls::Ticket;
pub use client::{AnnounceError, ConnectError, RemoteNode, connect};
pub use server::{Ready, ServeError, ServeOptions, serve};

#[cfg(doc)]
use crate::region::Region;
