//! One key as a register: what an operation with its answer needs it to hold, and what it makes of it.

use crate::check::history::{Answer, Call};
use dm_core::operation::Effect;

/// What a key holds.
pub type State = Option<u64>;

/// What the register must hold for a step to be legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// No matter.
    Anything,
    /// Nothing.
    Absent,
    /// Any value.
    Present,
    /// This value.
    Value(u64),
    /// The call never gives this answer.
    Impossible,
}

/// What the register holds after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Makes {
    /// What it held before.
    Same,
    /// Nothing.
    Absent,
    /// This value.
    Value(u64),
}

/// One atomic step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Before.
    pub needs: Needs,
    /// After.
    pub makes: Makes,
}

impl Step {
    /// The step that explains `answer` to `call`; `None` if there is nothing to explain.
    pub fn of(call: Call, answer: Answer) -> Option<Self> {
        let same = |needs| Some(Self { needs, makes: Makes::Same });
        let change = |needs, value| Some(Self { needs, makes: Makes::Value(value) });
        match (call, answer) {
            (_, Answer::Failed(Effect::None)) | (Call::Scan { .. }, _) => None,
            (_, Answer::Failed(Effect::Unknown | Effect::Done)) => Self::effect_of(call),
            (Call::Get, Answer::Found(value)) | (Call::Insert { .. }, Answer::Exists(value)) => {
                same(Needs::Value(value))
            }
            (Call::UpdateIf { expected, .. } | Call::DeleteIf { expected }, Answer::Mismatch(value))
                if value != expected =>
            {
                same(Needs::Value(value))
            }
            (
                Call::Get | Call::Update { .. } | Call::UpdateIf { .. } | Call::Delete | Call::DeleteIf { .. },
                Answer::Absent,
            ) => same(Needs::Absent),
            (Call::Insert { value } | Call::Upsert { value }, Answer::Inserted) => change(Needs::Absent, value),
            (Call::Update { value }, Answer::Updated) | (Call::Upsert { value }, Answer::Replaced) => {
                change(Needs::Present, value)
            }
            (Call::UpdateIf { expected, value }, Answer::Updated) => change(Needs::Value(expected), value),
            (Call::Delete, Answer::Deleted) => Some(Self { needs: Needs::Present, makes: Makes::Absent }),
            (Call::DeleteIf { expected }, Answer::Deleted) => {
                Some(Self { needs: Needs::Value(expected), makes: Makes::Absent })
            }
            _ => same(Needs::Impossible),
        }
    }

    /// The step of a call that changed its key; `None` if it never does. (A call that finds nothing to change has no
    /// effect, and needs no step.)
    pub fn effect_of(call: Call) -> Option<Self> {
        let (needs, makes) = match call {
            Call::Insert { value } => (Needs::Absent, Makes::Value(value)),
            Call::Update { value } => (Needs::Present, Makes::Value(value)),
            Call::Upsert { value } => (Needs::Anything, Makes::Value(value)),
            Call::UpdateIf { expected, value } => (Needs::Value(expected), Makes::Value(value)),
            Call::Delete => (Needs::Present, Makes::Absent),
            Call::DeleteIf { expected } => (Needs::Value(expected), Makes::Absent),
            Call::Get | Call::Scan { .. } => return None,
        };
        Some(Self { needs, makes })
    }

    /// Whether it leaves the register as it is, whatever that is.
    #[inline]
    pub fn only_looks(self) -> bool {
        self.makes == Makes::Same
    }

    /// Whether it is legal only if the register holds `value`.
    pub fn names(self, value: u64) -> bool {
        self.needs == Needs::Value(value)
    }

    /// Whether it is legal in `state`.
    #[inline]
    pub fn applies(self, state: State) -> bool {
        match self.needs {
            Needs::Anything => true,
            Needs::Absent => state.is_none(),
            Needs::Present => state.is_some(),
            Needs::Value(value) => state == Some(value),
            Needs::Impossible => false,
        }
    }

    /// The state after it.
    #[inline]
    pub fn next(self, state: State) -> State {
        match self.makes {
            Makes::Same => state,
            Makes::Absent => None,
            Makes::Value(value) => Some(value),
        }
    }
}

/// An operation's part in the history of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Position of the operation in its history.
    pub operation: u32,
    /// What it did.
    pub step: Step,
    /// It may also never have happened.
    pub optional: bool,
    /// Sequence number from which on it may happen.
    pub from: u32,
    /// Sequence number by which it has happened, if it ever does; `u32::MAX` = no bound.
    pub until: u32,
}
