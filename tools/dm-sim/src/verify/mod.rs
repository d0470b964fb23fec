//! Runs an index on the simulated fabric, under schedules drawn from a seed, and judges what it did.
//!
//! ```text
//!  seed ──► Draw: a case ──► Subject: memory formatted, the index opened by every compute node
//!                                │
//!          Load: operations, dropped futures, recorder ──► Driver on a World
//!                                │
//!          every key read once more, the structure validated, locks looked at, the history checked ──► Finding
//! ```
//!
//! In reading order:
//!
//! - `settings`: what the caller decides. `draw`: what a seed decides ("swarm testing": Groce et al., ISSTA 2012).
//! - `wide`: keys, values, scans, sizes and events that most histories never have.
//! - `faults` and `fault_plan`: what goes wrong, as data.
//! - `subject`: what is tested. `tree` and `recovered`: what subjects share. Each kind has a file of its name.
//! - `prepared`: a subject with the case of a seed, its types hidden.
//! - `walk`: pools, and walks of an index that look directly at the memories. `memory_walk`: what a kind says for that.
//! - `coding`: keys and values that show who wrote them.
//! - `clocks`: leases that tick, heartbeats, silence.
//! - `load`: starts operations, carries out faults, records. `tolerance`: which failures those faults excuse.
//! - `accounting`: where memory went. `run`: histories from beginning to end. `report`: the results of many.
//! - `damage`: bytes of memory nodes that change though nobody wrote them.
//! - [`crash`]: every point at which an operation can be cut short.
//! - [`reuse`]: places are reused while an operation is paused.
//! - [`mixtures`]: READs whose lines are of several instants.
//!
//! Everything about a history follows from its seed and the [`Settings`]: [`Verifier::run`] gives the same result
//! twice, and [`Verifier::replay`] runs it again and shows every request.

mod accounting;
mod blocks;
mod btree;
mod chime;
mod chunk_table;
mod clocks;
mod coding;
pub mod crash;
mod damage;
mod dex;
mod dolphin;
mod draw;
mod fault_plan;
mod faults;
pub mod items;
mod load;
mod membership;
mod memory_walk;
pub mod mixtures;
mod prepared;
mod radix;
mod recovered;
mod report;
pub mod reuse;
mod run;
mod settings;
mod sherman;
mod smart;
mod subject;
#[cfg(test)]
mod tests;
mod tolerance;
mod toy;
mod tree;
mod walk;
mod wide;

pub use draw::Draw;
pub use fault_plan::FaultPlan;
pub use faults::{Fault, FaultKind, Faults, Moment, Planned};
pub use items::ItemsOver;
pub use recovered::Recovered;
pub use report::{Finding, History, Report};
pub use run::{Replay, Verifier};
pub use settings::{Profile, Settings};
pub use subject::{AfterDeath, Opened, Subject, TestAccess};
pub use tree::{Bounded, TreeKind};
pub use wide::{WIDE_OPTIONS, WideOption, WideOptions};

macro_rules! kinds {
    ([$($Kind:ident $kind:ident),*]) => {
        $(pub use $kind::$Kind;)*
    };
}

dm_core::for_each_kind! { [kinds] }
