//! The event log: one line per thing that happened to a request. Off unless asked for.

use dm_core::verbs::{Completion, Request, Space, Status};
use std::fmt;

/// What the columns of a [`LogLine`] mean.
pub const LEGEND: &str = "\
     time ns  who       what
              c1.l2     compute node 1, lane 2 (position in its slice)
   posted     READ, WRITE, atomic or RPC: verb \"label\" m<memory node>:<offset>+<bytes>; d<..> = device memory; F = fenced, U = unsignaled
   effect     lines or words (bit map, lowest address first, from the line the request begins in) seen or changed now
   atomic     old word -> new word; = : the comparison failed
   back       an atomic's late write put this word back
   done       completion: status, value, elapsed ns as reported
   lost       the rest of the request never takes effect";

/// The legend and all lines.
pub fn text(log: &[LogLine]) -> String {
    use fmt::Write as _;
    let mut text = String::from(LEGEND);
    text.push('\n');
    for line in log {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It was posted.
    Posted,
    /// Some of its units took effect.
    Effect {
        /// Unit `i` (the first 64) is bit `i`.
        units: u64,
    },
    /// An atomic executed.
    Atomic {
        /// The word before.
        old: u64,
        /// The word after, if it was changed.
        new: Option<u64>,
    },
    /// The second half of a divided atomic wrote this word.
    WriteBack {
        /// The word.
        word: u64,
    },
    /// It completed.
    Done(Completion),
    /// It was cut off: what has not taken effect never will.
    Lost,
}

/// One line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Virtual time.
    pub now_ns: u64,
    /// Compute node.
    pub compute_node: u16,
    /// Position of the lane in its compute node.
    pub lane: u16,
    /// The request.
    pub request: Request,
    /// What happened to it.
    pub what: What,
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use dm_core::verbs::Flags;
        let Request { verb, label, flags, space, node, offset, bytes, .. } = self.request;
        let space = if space == Space::Device { "d" } else { "m" };
        write!(f, "{:>12}  c{}.l{:<4} ", self.now_ns, self.compute_node, self.lane)?;
        let kind = match self.what {
            What::Posted => "posted",
            What::Effect { .. } => "effect",
            What::Atomic { .. } => "atomic",
            What::WriteBack { .. } => "back",
            What::Done(_) => "done",
            What::Lost => "lost",
        };
        write!(f, "{kind:<7} {} \"{}\" {space}{}:{offset:#x}+{bytes}", verb.name(), label.name(), node.0)?;
        match self.what {
            What::Posted => {
                let fence = if flags.contains(Flags::FENCE) { " F" } else { "" };
                let unsignaled = if flags.contains(Flags::SIGNALED) { "" } else { " U" };
                write!(f, "{fence}{unsignaled}")
            }
            What::Effect { units } => write!(f, " units {units:#b}"),
            What::Atomic { old, new: Some(new) } => write!(f, " {old:#x} -> {new:#x}"),
            What::Atomic { old, new: None } => write!(f, " {old:#x} ="),
            What::WriteBack { word } => write!(f, " {word:#x}"),
            What::Done(Completion { status: Status::Ok, value, elapsed_ns }) => {
                write!(f, " ok {value:#x} {elapsed_ns} ns")
            }
            What::Done(completion) => write!(f, " {}", completion.status.name()),
            What::Lost => Ok(()),
        }
    }
}
