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
    /// Number of the request, in post order.
    pub sequence: u64,
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

/// What the columns of [`requests`] mean.
pub const REQUESTS_LEGEND: &str = "\
     time ns  lane     when it was posted, and by whom: c1.l2 = compute node 1, lane 2 (position in its slice)
   label      the step of the algorithm
   verb       F = fenced, U = unsignaled
   address    m<memory node>:<offset>+<bytes>; d<..> = device memory
   lines      which lines (or words) took effect, and how long after the post; of an atomic: old word -> new word, = : unchanged
   result     of the completion, and how long after the post";

/// One line per request, in post order, under a legend.
pub fn requests(log: &[LogLine]) -> String {
    use std::fmt::Write as _;
    let mut text = String::from(REQUESTS_LEGEND);
    text.push('\n');
    let mut order: Vec<usize> = (0..log.len()).collect();
    order.sort_by_key(|&at| (log[at].sequence, at));
    for lines in order.chunk_by(|&one, &other| log[one].sequence == log[other].sequence) {
        let _ = writeln!(text, "{}", RequestLine(&lines.iter().map(|&at| log[at]).collect::<Vec<_>>()));
    }
    text
}

/// All that happened to one request, in order.
struct RequestLine<'a>(&'a [LogLine]);

impl fmt::Display for RequestLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use dm_core::verbs::Flags;
        let Some(first) = self.0.first() else { return Ok(()) };
        let Request { verb, label, flags, space, node, offset, bytes, .. } = first.request;
        let who = format!("c{}.l{}", first.compute_node, first.lane);
        let fence = if flags.contains(Flags::FENCE) { " F" } else { "" };
        let unsignaled = if flags.contains(Flags::SIGNALED) { "" } else { " U" };
        let verb = format!("{}{fence}{unsignaled}", verb.name());
        let space = if space == Space::Device { "d" } else { "m" };
        let address = format!("{space}{}:{offset:#x}+{bytes}", node.0);
        write!(f, "{:>12}  {who:<8} {:<8} {verb:<12} {address:<18}", first.now_ns, label.name())?;
        for line in &self.0[1..] {
            let after_ns = line.now_ns - first.now_ns;
            match line.what {
                What::Posted => {}
                What::Effect { units } => write!(f, " {} @+{after_ns}", Ranges(units))?,
                What::Atomic { old, new: Some(new) } => write!(f, " {old:#x} -> {new:#x} @+{after_ns}")?,
                What::Atomic { old, new: None } => write!(f, " {old:#x} = @+{after_ns}")?,
                What::WriteBack { word } => write!(f, " writes {word:#x} back @+{after_ns}")?,
                What::Done(Completion { status: Status::Ok, value: 0, .. }) => write!(f, "  ok @+{after_ns}")?,
                What::Done(Completion { status: Status::Ok, value, .. }) => write!(f, "  ok {value:#x} @+{after_ns}")?,
                What::Done(completion) => write!(f, "  {} @+{after_ns}", completion.status.name())?,
                What::Lost => write!(f, "  cut off @+{after_ns}")?,
            }
        }
        Ok(())
    }
}

/// Set bits as ranges: `0-2,5`.
struct Ranges(u64);

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut from = 0;
        let mut comma = "";
        while from < 64 {
            let zeros = (self.0 >> from).trailing_zeros();
            if zeros == 64 {
                break;
            }
            from += zeros;
            let ones = (self.0 >> from).trailing_ones();
            write!(f, "{comma}{from}")?;
            if ones > 1 {
                write!(f, "-{}", from + ones - 1)?;
            }
            comma = ",";
            from += ones;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dm_core::verbs::{Label, NodeId};

    #[test]
    fn a_request_is_one_line() {
        let request = Request::read(Label::Leaf, NodeId(1), 4096, 256, 0);
        let line = |now_ns, sequence, what| LogLine { now_ns, sequence, compute_node: 2, lane: 1, request, what };
        let done = Completion { elapsed_ns: 2000, ..Completion::default() };
        let log = [
            line(100, 7, What::Posted),
            line(150, 8, What::Posted),
            line(900, 7, What::Effect { units: 0b1011 }),
            line(1500, 7, What::Effect { units: 0b0100 }),
            line(2100, 7, What::Done(done)),
        ];
        let text = requests(&log);
        let lines: Vec<&str> = text.lines().skip(REQUESTS_LEGEND.lines().count()).collect();
        assert_eq!(lines.len(), 2);
        for part in ["100  c2.l1", "leaf", "read", "m1:0x1000+256", "0-1,3 @+800 2 @+1400  ok @+2000"] {
            assert!(lines[0].contains(part), "{:?} does not contain {part:?}", lines[0]);
        }
    }
}
