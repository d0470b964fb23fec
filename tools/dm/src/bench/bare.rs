//! Which indexes the bare loop of [`baseline`](super::baseline) is for.

use crate::failure::Failure;
use dm_core::remote::catalog::IndexKind;
use dm_host::kinds::{AnyIndex, Form};

/// An index of the kind whose nodes the bare loop knows.
pub type Index<'s> = dm_core::sherman::Sherman<'s>;

/// The index, if it is of the bare loop's kind.
pub const fn index_of<'a, 's>(any: &AnyIndex<'a, '_, 's>) -> Option<&'a Index<'s>> {
    if let AnyIndex::Sherman(Form::Plain(index)) = any { Some(index.stored()) } else { None }
}

/// Refuses a kind that there is no bare loop for.
pub fn check(kind: IndexKind) -> Result<(), Failure> {
    if kind == IndexKind::Sherman {
        Ok(())
    } else {
        Err(Failure::Usage("--baseline: the bare loop is of Sherman's nodes".to_owned()))
    }
}
