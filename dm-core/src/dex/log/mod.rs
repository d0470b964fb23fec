//! The log of a compute node: one ring in a pool, to which all its lanes append, and which others replay after its death.
//!
//! ```text
//!  lanes                    this machine's memory                        memory node of the ring
//!  stage ──► stage ──► ┌──────────────────────────┐   one chain   ┌──────┬──────────────────────────┐
//!                      │ lines that are not       │ ────────────► │ head │ lines, round and round   │
//!  wait  ◄── wake ◄──  │ durable yet              │   completion  └──────┴──────────────────────────┘
//!                      └──────────────────────────┘
//! ```
//!
//! | room | what it is |
//! |---|---|
//! | [`record`] | records and their checksums |
//! | [`ring`] | where lines are; the description of a ring, and its head |
//! | [`state`] | the arithmetic: lines assigned, posted, durable, used again |
//! | [`staging`] | the same, shared by the lanes of a compute node, with the lines that are not durable yet |
//! | [`append`] | the requests: a flight is posted, its completion wakes those who wait |
//! | [`replay`] | the records of a ring, in order |
//!
//! # Steps of a change
//!
//! 1. Under the frame's short lock: the tenure is checked again; the frame is noted as dirty from [`staging::Log::next_line`]
//!    on; [`staging::Log::stage`] assigns the lines and keeps the record; the frame is changed. No request, no wait.
//! 2. [`append::wait`] returns when the record is durable. One of the lanes that wait posts what is staged, all of
//!    it; the others sleep.
//! 3. The page is flushed later. [`staging::Log::advance_head`] moves the head, and the ring has room again.
//!
//! A ring that is full waits for flushes, and flushes need no line.
//!
//! # What it assumes
//!
//! WRITE_THEN_WRITE: the head in front of the lines, and flight after flight. COMPLETION_IS_VISIBLE. A crash unit is a
//! line at least. No order of the lines of one WRITE is assumed: of a flight that was cut short any lines may have landed,
//! and replay ends at the first that has not.

pub mod append;
pub mod record;
pub mod replay;
pub mod ring;
pub mod staging;
pub mod state;
#[cfg(test)]
mod tests;
