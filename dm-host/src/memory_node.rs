//! The memory node's daemon and the client that connects to it.
//!
//! A memory node owns one [`Region`] and a Unix *control socket*. A compute process connects, is told the layout and
//! handed the region's file, maps it, and from then on executes its verbs itself; the daemon's processor is idle on
//! the data path. The connection stays open: it is how each side learns of the other's end.
//!
//! ```text
//!   compute process                                dm-memd
//!        │  connect                                   │
//!        │  Hello { magic, version } ───────────────► │  SO_PEERCRED, pidfd_open
//!        │ ◄──────── Welcome { layout, connection } + file descriptor (SCM_RIGHTS)
//!        │                                            │
//!        │  loads, stores, atomics on the region      │  waits
//!        │                                            │
//!        │ ─ ─ ─ ─ end of stream: it is gone ─ ─ ─ ─► │  releases lines it died in
//!        │ ◄─ ─ ─ end of stream: memory node down ─ ─ │
//! ```
//!
//! A process's sockets are closed only after the last of its threads has left user mode, so the end of the stream
//! also says that nothing is written any more by that process. It does not keep a process that runs from writing:
//! that is fencing, which is not offered yet (`Capabilities::fencing` is false); the pidfd it will need is held.
//!
//! - [`wire`]: the two messages.
//! - [`server`][]: [`serve`].
//! - [`client`][]: [`connect`].
//! - [`daemon`]: the program around [`serve`], with its command line.
//! - `verbs` (feature `verbs`): the same on an RDMA device.

pub mod client;
pub mod daemon;
pub mod server;
#[cfg(feature = "verbs")]
pub mod verbs;
mod watcher;
pub mod wire;

pub use client::{ConnectError, RemoteNode, connect};
pub use server::{Ready, ServeError, ServeOptions, serve};

#[cfg(doc)]
use crate::region::Region;
