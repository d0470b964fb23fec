//! The memory node's daemon and the client that connects to it.
//!
//! A memory node owns one [`Region`] and a Unix *control socket*. A compute process connects, is told the layout and
//! handed the region's file, maps it, and from then on executes its verbs itself; the daemon's processor is idle on
//! the data path. The connection stays open: it is how each side learns of the other's end.
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
//! socket only after it has unmapped the region, so the end of the stream also says that nothing is written any more by
//! that process. What keeps a process that runs, or is stopped, from writing is fencing: `members` has the protocol and
//! its proof.
//!
//! A daemon that dies takes nothing with it but the calls: its clients see the end of the stream and let go of the region
//! ([`RemoteNode`]). If the region is a file, a new daemon takes it up as it is, in the pool's next incarnation, once all
//! of them have ([`daemon`]).
//!
//! - `message`: what is said on every control connection. [`wire`]: the greeting on this one.
//! - `server`: [`serve`]. `members`: who announced what. `process`: a client, named for good.
//! - `client`: [`connect`]. `calls`: calls that wait for their return; `watcher`: the thread that receives them.
//! - [`daemon`]: the program around [`serve`]. `arguments`: its command line; `size`: sizes there.
//! - `verbs` (feature `verbs`): the same on an RDMA device.

mod arguments;
mod calls;
mod client;
pub mod daemon;
mod members;
mod message;
pub(crate) mod process;
mod server;
mod size;
#[cfg(feature = "verbs")]
pub mod verbs;
mod watcher;
pub mod wire;

pub(crate) use calls::Ticket;
pub use client::{AnnounceError, ConnectError, RemoteNode, connect};
pub use server::{Ready, ServeError, ServeOptions, serve};

#[cfg(doc)]
use crate::region::Region;
