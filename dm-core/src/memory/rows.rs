//! What epochs and collections READ and WRITE of rows: epochs, closed chunks, which incarnations have ended.

use crate::error::VerbError;
use crate::lane::{Lane, word_at};
use crate::mutants::{Mutant, planted};
use crate::port::OUTBOX_REQUESTS;
use crate::remote::lock_word::RowId;
use crate::remote::row::{
    EPOCH_AT, LINE_WORDS, Member, ROW_COUNT_MAX, Row, RowState, RowWord, SUMMARY_BYTES, closed_offset, epoch_offset,
};
use crate::remote::{HOME, NodeGeometry, SCRATCH_BYTES};
use crate::verbs::{Label, Request};
use static_assertions::const_assert;
use thiserror::Error;
use zerocopy::IntoBytes;

/// Why a compute node could not join or beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RowError {
    /// A request failed.
    #[error(transparent)]
    Verb(#[from] VerbError),
    /// All rows are taken, being swept, or used up.
    #[error("no compute-node row is free: {live} of {rows} are live, {fenced} await a sweep, {used_up} are used up")]
    NoFreeRow {
        /// Rows besides row 0.
        rows: u32,
        /// Live ones.
        live: u32,
        /// Fencing or dead ones.
        fenced: u32,
        /// Free ones that have seen [`INCARNATION_MAX`](crate::remote::row::INCARNATION_MAX).
        used_up: u32,
    },
    /// The row word is not this compute node's any more: it was fenced.
    #[error("compute-node row {} was fenced off: its word is {word:#018x}", row.0)]
    Fenced {
        /// Which row.
        row: RowId,
        /// What its word is now.
        word: u64,
    },
    /// A row that this crate never writes.
    #[error("compute-node row {} is corrupt: {what}", row.0)]
    Corrupt {
        /// Which.
        row: RowId,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The pool has had memory nodes added of which the compute node does not know.
    #[error("the pool has {memory_nodes} memory nodes by now, not {known}: connect to all of them")]
    Grown {
        /// Memory nodes that it knows.
        known: u16,
        /// Memory nodes of the pool.
        memory_nodes: u16,
    },
    /// The low 28 bits of the joiner's token are zero, which would look like no compute node.
    #[error("the token must be random: its low 28 bits are zero")]
    BadToken,
}

/// As [`heartbeat`], of `epoch` alone: the heartbeat does not change.
pub(crate) async fn publish_epoch(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    member: Member,
    epoch: u64,
    scratch: usize,
) -> Result<u64, RowError> {
    let offset = geometry.row_offset(member.row) + EPOCH_AT;
    published(lane, geometry, member, Request::write_word(Label::Row, HOME, offset, epoch), scratch).await
}

/// Posts a WRITE to the own row, and looks at the row word and the pool's epoch behind it.
pub(crate) async fn published(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    member: Member,
    write: Request,
    scratch: usize,
) -> Result<u64, RowError> {
    lane.port().push(write);
    lane.port().push(Request::read(Label::Row, HOME, geometry.row_offset(member.row), 8, scratch));
    lane.port().push(Request::read(Label::Row, HOME, epoch_offset(geometry), 8, scratch + 8));
    lane.port().submit().await?;
    let word = word_at(lane, scratch);
    if word == member.word().0 {
        Ok(word_at(lane, scratch + 8))
    } else {
        Err(RowError::Fenced { row: member.row, word })
    }
}

/// READs the pool's epoch word. One round trip.
pub(crate) async fn read_epoch(lane: &Lane<'_>, geometry: &NodeGeometry, scratch: usize) -> Result<u64, RowError> {
    lane.port().call(Request::read(Label::Row, HOME, epoch_offset(geometry), 8, scratch)).await?;
    Ok(word_at(lane, scratch))
}

/// READs which chunks are closed.
pub(crate) async fn read_closed(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
) -> Result<[u64; LINE_WORDS], VerbError> {
    let read = Request::read(Label::Row, HOME, closed_offset(geometry), LINE_WORDS * 8, scratch);
    lane.port().call(read).await?;
    let mut line = [0; LINE_WORDS];
    for (at, word) in line.iter_mut().enumerate() {
        *word = word_at(lane, scratch + at * 8);
    }
    Ok(line)
}

/// READs the word of a row. `None`: there is no such row.
pub async fn tenant(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    row: RowId,
    scratch: usize,
) -> Result<Option<RowWord>, VerbError> {
    if row.0 == 0 || u32::from(row.0) >= geometry.row_count {
        return Ok(None);
    }
    lane.port().call(Request::read(Label::Row, HOME, geometry.row_offset(row), 8, scratch)).await?;
    Ok(Some(RowWord(word_at(lane, scratch))))
}

/// Rows that [`Tenants`] remembers.
const TENANTS: usize = 16;

/// Words of rows, READ once each, for a caller that asks about the same rows again and again.
///
/// A word is of some instant since this value was made, so it may be old. What it says of departed compute nodes stays
/// true: a row never gets an incarnation back. Of those that it says are in the pool, some may have departed since. Of those
/// that have joined since it says nothing ([`RowWord::is_gone`]).
#[derive(Debug)]
pub(crate) struct Tenants([(RowId, RowWord); TENANTS]);

impl Tenants {
    /// Nothing is known yet.
    pub(crate) const fn new() -> Self {
        // Nobody has row 0.
        Self([(RowId(0), RowWord(0)); TENANTS])
    }

    /// As [`tenant`]. No round trip if the row is remembered.
    pub(crate) async fn tenant(
        &mut self,
        lane: &Lane<'_>,
        geometry: &NodeGeometry,
        row: RowId,
        scratch: usize,
    ) -> Result<Option<RowWord>, VerbError> {
        let at = usize::from(row.0) % TENANTS;
        let known = self.0.get(at).filter(|(known, _)| row.0 != 0 && *known == row);
        if let Some((_, word)) = known {
            return Ok(Some(*word));
        }
        let word = tenant(lane, geometry, row, scratch).await?;
        if let Some((entry, word)) = self.0.get_mut(at).zip(word) {
            *entry = (row, word);
        }
        Ok(word)
    }
}

/// How many incarnations have ended, in all rows. One round trip for eight rows.
pub(crate) async fn lives_ended(lane: &Lane<'_>, geometry: &NodeGeometry, scratch: usize) -> Result<u32, VerbError> {
    Ok(lives(lane, geometry, scratch).await?.0)
}

/// The same, if no row is fenced or dead.
pub(crate) async fn all_finalized(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
) -> Result<Option<u32>, VerbError> {
    let (ended, dead) = lives(lane, geometry, scratch).await?;
    Ok((!dead).then_some(ended))
}

/// How many incarnations have ended, and whether a row is fenced or dead.
async fn lives(lane: &Lane<'_>, geometry: &NodeGeometry, scratch: usize) -> Result<(u32, bool), VerbError> {
    let (mut first, mut ended, mut dead) = (1, 0u32, false);
    while first < geometry.row_count {
        let count = (geometry.row_count - first).min(SUMMARIES_AT_ONCE);
        for step in 0..count {
            let offset = geometry.row_offset(RowId((first + step) as u16));
            lane.port().push(Request::read(Label::Row, HOME, offset, 8, scratch + step as usize * 8));
        }
        lane.port().submit().await?;
        for step in 0..count as usize {
            let word = RowWord(word_at(lane, scratch + step * 8));
            let under_way = word.state() != Some(RowState::Free);
            ended = ended.wrapping_add(word.incarnation().wrapping_sub(under_way.into()));
            dead |= under_way && word.state() != Some(RowState::Live);
        }
        first += count;
    }
    Ok((ended, dead))
}

/// The head of a row's first line: what the memory of other compute nodes depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSummary {
    pub word: RowWord,
    pub heartbeat: u64,
    pub epoch: u64,
    /// The incarnation to which the other fields belong.
    pub incarnation: u32,
    /// 0: the row does not say.
    pub lease_ns: u64,
    /// Memory nodes that the compute node knows.
    pub memory_nodes: u16,
}

/// Rows READ at once.
const SUMMARIES_AT_ONCE: u32 = 8;

const_assert!(
    SUMMARIES_AT_ONCE as usize * SUMMARY_BYTES <= SCRATCH_BYTES && SUMMARIES_AT_ONCE as usize <= OUTBOX_REQUESTS
);

/// The row whose first [`SUMMARY_BYTES`] were fetched to scratch offset `at`; the rest is zero.
pub(crate) fn fetched_head(lane: &Lane<'_>, at: usize) -> Row {
    let mut row = Row::ZERO;
    lane.port().with(|bytes| {
        let (to, from) = (row.as_mut_bytes().get_mut(..SUMMARY_BYTES), bytes.get(at..at + SUMMARY_BYTES));
        if let (Some(to), Some(from)) = (to, from) {
            to.copy_from_slice(from);
        }
    });
    row
}

/// Calls `visit` with every row from `first` on, until it returns `false`. One round trip for eight rows.
pub(crate) async fn read_summaries_from(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    first: RowId,
    scratch: usize,
    visit: &mut impl FnMut(RowId, &RowSummary) -> bool,
) -> Result<(), RowError> {
    let rows = geometry.row_count.min(ROW_COUNT_MAX);
    let mut first = u32::from(first.0);
    while first < rows {
        let count = (rows - first).min(SUMMARIES_AT_ONCE);
        for step in 0..count {
            let offset = geometry.row_offset(RowId((first + step) as u16));
            let at = scratch + step as usize * SUMMARY_BYTES;
            lane.port().push(Request::read(Label::Row, HOME, offset, SUMMARY_BYTES, at));
        }
        lane.port().submit().await?;
        for step in 0..count {
            let at = scratch + step as usize * SUMMARY_BYTES;
            let row = fetched_head(lane, at);
            let row_summary = RowSummary {
                word: RowWord(row.word.get()),
                heartbeat: row.heartbeat.get(),
                epoch: row.epoch.get(),
                incarnation: row.incarnation.get(),
                // A value that is no lease counts as none.
                lease_ns: row.lease_ns().ok().flatten().unwrap_or(0),
                memory_nodes: row.memory_nodes.get(),
            };
            if !visit(RowId((first + step) as u16), &row_summary) {
                return Ok(());
            }
        }
        first += count;
        if planted(Mutant::ONE_WINDOW_OF_ROWS) {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Step, poll_once};
    use crate::remote::superblock::small_for_tests;
    use crate::verbs::LaneId;
    use core::pin::pin;

    #[test]
    fn nobody_is_asked_about_a_row_that_is_not_in_the_table() {
        let geometry = small_for_tests();
        let mut scratch = [0; 8];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let ask = |row| poll_once(lane.port(), pin!(tenant(&lane, &geometry, row, 0)));
        for row in [RowId(0), RowId(geometry.row_count as u16), RowId(u16::MAX)] {
            assert!(matches!(ask(row), Step::Done(Ok(None))), "{row:?}");
        }
        assert!(matches!(ask(RowId(geometry.row_count as u16 - 1)), Step::Requests));
    }
}
