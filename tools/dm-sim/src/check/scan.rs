//! Pages: their shape, and the gets they stand for.

use crate::check::history::{Call, History, OpId, Record};
use crate::check::model::{Item, Makes, Needs, Step};
use std::fmt;

/// What is wrong with a page by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageFault {
    /// Two neighbouring keys do not ascend strictly: out of order, or twice the same.
    Order {
        /// The first of them.
        key: u64,
        /// The one that follows it.
        next: u64,
    },
    /// A key outside the bounds.
    Bounds {
        /// Which.
        key: u64,
    },
    /// More records than wanted.
    Limit {
        /// How many.
        records: u32,
    },
    /// It says that there is more and yet has room. Where keys have owners: and has no record.
    Short {
        /// How many records it has.
        records: u32,
    },
    /// The answer to a scan is no page, or the answer to something else is one.
    Kind,
}

impl fmt::Display for PageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order { key, next } if key == next => write!(f, "returned key {key} twice"),
            Self::Order { key, next } => write!(f, "returned key {next} behind key {key}"),
            Self::Bounds { key } => write!(f, "returned key {key}, which is outside its bounds"),
            Self::Limit { records } => write!(f, "returned {records} records, more than it was asked for"),
            Self::Short { records } => {
                write!(f, "returned only {records} records, fewer than it was asked for, and says that there are more")
            }
            Self::Kind => write!(f, "has an answer of the wrong kind"),
        }
    }
}

/// Checks what can be said of a scan's page without looking at any other operation.
pub fn page_fault(history: &History, record: &Record) -> Option<PageFault> {
    use crate::check::history::Answer;
    let (answer, _) = record.answer?;
    let (after, high, limit, page, more) = match (record.call, answer) {
        (_, Answer::Failed(_)) => return None,
        (Call::Scan { after, high, limit, .. }, Answer::Page { more, .. }) => {
            (after, high, limit, history.page(answer), more)
        }
        (Call::Scan { .. }, _) | (_, Answer::Page { .. }) => return Some(PageFault::Kind),
        _ => return None,
    };
    let inside = |key: u64| at_or_after(record.key, after, key) && high.is_none_or(|high| key < high);
    if let Some(&(key, _)) = page.iter().find(|(key, _)| !inside(*key)) {
        return Some(PageFault::Bounds { key });
    }
    if let Some(pair) = page.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        return Some(PageFault::Order { key: pair[0].0, next: pair[1].0 });
    }
    let records = page.len() as u32;
    if records > limit {
        return Some(PageFault::Limit { records });
    }
    // Where keys have owners, a page with a record may end before it is full.
    let least = if history.has_owners { limit.min(1) } else { limit };
    (more && records < least).then_some(PageFault::Short { records })
}

/// Calls `item` with every key of `keys` (ascending) that the page of `operation` says something about, and the get
/// it stands for. The page must be without fault.
pub(crate) fn expand(history: &History, operation: OpId, keys: &[u64], mut item: impl FnMut(u64, Item)) {
    use crate::check::history::Answer;
    let record = history.operation(operation);
    let (Call::Scan { after, high, down, .. }, Some((answer @ Answer::Page { more, .. }, responded))) =
        (record.call, record.answer)
    else {
        return;
    };
    let page = history.page(answer);
    let (first, last) = (page.first().map(|(key, _)| *key), page.last().map(|(key, _)| *key));
    // A page that says `more` is silent about what follows its last key; downwards, about what is before its first.
    let told = |key: u64| {
        if down { first.is_some_and(|first| key >= first) } else { last.is_some_and(|last| key <= last) }
    };
    let covered =
        |key: u64| at_or_after(record.key, after, key) && high.is_none_or(|high| key < high) && (!more || told(key));
    let mut records = page.iter().peekable();
    for &key in keys.iter().filter(|key| covered(**key)) {
        let needs = match records.next_if(|(next, _)| *next == key) {
            Some(&(_, value)) => Needs::Value(value),
            None => Needs::Absent,
        };
        let step = Step { needs, makes: Makes::Same };
        let (from, until) = (record.invoked.sequence, responded.sequence);
        item(key, Item { operation: operation.0, step, optional: false, from, until });
    }
}

const fn at_or_after(low: u64, after: bool, key: u64) -> bool {
    key > low || (key == low && !after)
}
