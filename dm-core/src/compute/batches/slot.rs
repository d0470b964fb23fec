//! A lane's part in batches, and where the batches of a key are found.

use super::worth::Account;
use crate::operation::{Cause, OpError, OperationKind, Outcome};
use crate::registry::KEY_BYTES_MAX;
use core::sync::atomic::AtomicU8;
use spin::Mutex;

pub(super) const NOBODY: u16 = u16::MAX;

// States of a batch slot.
/// In no batch.
pub(super) const IDLE: u8 = 0;
/// Leads an open batch, or works alone or for a sealed one.
pub(super) const LEADS: u8 = 1;
/// Leads an open batch, and lets it fill until the READ that is under way is back.
pub(super) const FILLS: u8 = 2;
/// Member of an open or a sealed batch.
pub(super) const FOLLOWS: u8 = 3;
/// Member of a batch that was answered: the answer is in the slot.
pub(super) const ANSWERED: u8 = 4;

/// Where batches of a key are found. Storage for [`Batches`](super::Batches).
#[derive(Debug)]
pub struct Bucket {
    /// Leader of the open batch.
    pub(super) open: u16,
    /// Leader of a sealed read batch whose READ is not back.
    pub(super) reading: u16,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { open: NOBODY, reading: NOBODY }
    }
}

/// A lane's state in batches. Storage for [`Batches`](super::Batches).
#[derive(Debug)]
pub struct BatchSlot<'s> {
    pub(super) state: AtomicU8,
    /// One for reads, one for writes.
    pub(super) accounts: [Account; 2],
    pub(super) part: Mutex<Part<'s>>,
}

impl<'s> BatchSlot<'s> {
    /// `value` is as long as the values of the index.
    pub fn new(value: &'s mut [u8]) -> Self {
        let part = Part {
            key: [0; KEY_BYTES_MAX],
            key_bytes: 0,
            kind: OperationKind::Get,
            closed: false,
            sealed: false,
            count: 0,
            members: NOBODY,
            next: NOBODY,
            failed: None,
            answer: Answer::Alone,
            value,
        };
        Self { state: AtomicU8::new(IDLE), accounts: [Account::default(), Account::default()], part: Mutex::new(part) }
    }
}

/// A lane's part in a batch, as its leader or as a member.
#[derive(Debug)]
pub(super) struct Part<'s> {
    pub(super) key: [u8; KEY_BYTES_MAX],
    pub(super) key_bytes: usize,
    pub(super) kind: OperationKind,
    /// Leader: nobody can join any more.
    pub(super) closed: bool,
    /// Leader: it closed the batch itself, at the point from which its result is also its members' result.
    pub(super) sealed: bool,
    /// Leader: how many have joined.
    pub(super) count: u16,
    /// Leader: the member that joined last.
    pub(super) members: u16,
    /// Member: the member that joined before it.
    pub(super) next: u16,
    /// Leader: the error of its operation, if its members are told only after settling.
    pub(super) failed: Option<OpError>,
    /// Member: the result of its operation.
    pub(super) answer: Answer,
    /// Leader of a write batch: the value of the member that joined last. Member of a read batch: the value that was
    /// found.
    pub(super) value: &'s mut [u8],
}

impl Part<'_> {
    pub(super) fn key(&self) -> &[u8] {
        self.key.get(..self.key_bytes).unwrap_or_default()
    }

    pub(super) fn begin(&mut self, kind: OperationKind, key: &[u8]) {
        if let Some(slot) = self.key.get_mut(..key.len()) {
            slot.copy_from_slice(key);
        }
        self.key_bytes = key.len();
        self.kind = kind;
        self.closed = false;
        self.sealed = false;
        self.count = 0;
        self.members = NOBODY;
        self.next = NOBODY;
        self.failed = None;
        self.answer = Answer::Alone;
    }

    pub(super) fn keep(&mut self, value: &[u8]) {
        for (to, from) in self.value.iter_mut().zip(value) {
            *to = *from;
        }
    }
}

/// What a member is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Work alone.
    Alone,
    /// The leader's outcome, translated for this member.
    Outcome(Outcome),
    /// The leader failed, and its effect is unknown.
    Unknown(Cause),
}
