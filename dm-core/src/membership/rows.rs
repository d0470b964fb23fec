//! Compute-node rows: which compute nodes are in the pool. Those of memory node 0 count.
//!
//! ```text
//!  row word      63               32 31            4 3     0
//!               ┌───────────────────┬───────────────┬───────┐
//!               │ incarnation       │ nonce         │ state │   changed by CAS only
//!               └───────────────────┴───────────────┴───────┘
//!
//!                 join                    lease over              every memory node confirmed
//!        ┌─► FREE ─────► LIVE ───────────────────► FENCING ──────────────────────────────────► DEAD ─┐
//!        │    ▲            │ leave, settled           ▲                                              │
//!        │    └────────────┤                          │                                              │
//!        │                 └── leave, not settled ────┘                            swept             │
//!        └───────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Row 0 is no compute node: lock words and chunk entries say 0 for "no row". A free row remembers its last
//! incarnation, and a join raises it by one. So `(row, incarnation)` never names two compute nodes. See
//! [`rows`](crate::manual::rows) for who may change what, and for halves of a row that belong to an earlier
//! incarnation.
//!
//! **Row 0** has three things of the pool, and is zero otherwise. Its epoch field is the pool's epoch, changed by CAS
//! only ([`crate::memory::epochs`]). It says how many memory nodes there are, once one was added
//! ([`growth`](crate::membership::growth)). Its second line says which chunks are closed ([`crate::memory::closed`]).
//!
//! **Limit.** Incarnations end at [`INCARNATION_MAX`], because chunk and catalog entries keep 16 bits of them. A row
//! that has used them all is reported as used up.

use crate::lane::Lane;
use crate::lane::word_at;
use crate::layout::record::{Le64, cut};
use crate::memory::rows::{RowError, published};
use crate::mutants::{Mutant, planted};
use crate::remote::address::Address;
use crate::remote::lock_word::RowId;
use crate::remote::row::{INCARNATION_MAX, Joiner, LEASE_NS_MAX, Member, ROW_COUNT_MAX, Row, RowState, RowWord};
use crate::remote::{HOME, NodeGeometry, SCRATCH_BYTES};
use crate::verbs::{Flags, Label, Request};
use static_assertions::const_assert;
use zerocopy::IntoBytes;

const_assert!(Row::BYTES <= SCRATCH_BYTES);

/// Result of a look at all row words.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    mine: Option<Member>,
    free: Option<(RowId, RowWord)>,
    live: u32,
    fenced: u32,
    used_up: u32,
}

/// Joins the pool: [`claim`], then [`publish_row`]. For fabrics on which memory nodes need not be told in between.
///
/// Round trips: rows / 16 to look, 1 CAS, 1 WRITE; more for each lost race.
pub async fn join(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    joiner: &Joiner<'_>,
    scratch: usize,
) -> Result<Member, RowError> {
    let member = claim(lane, geometry, joiner, scratch).await?;
    publish_row(lane, geometry, member, joiner, scratch).await?;
    Ok(member)
}

/// Claims a free row by CAS: the one thing that a compute node may do before memory nodes know which process to fence
/// for the row. The rest of the row is for [`publish_row`].
///
/// A retry after a failure of unknown effect passes the same token. It looks first: a live row with the token's nonce,
/// whose token is the same or not written yet, is its own. (Another process with the same 28 bits would be mistaken for
/// it, if that process died or stopped between its CAS and its WRITE; tokens are random so that this does not happen.)
/// A retry comes after the old queue pair is known to be closed. Otherwise its CAS may still take effect later; the row
/// that it claims then never beats, and is fenced like any dead one.
///
/// Round trips: rows / 16 to look, 1 CAS; more for each lost race.
pub async fn claim(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    joiner: &Joiner<'_>,
    scratch: usize,
) -> Result<Member, RowError> {
    let nonce = cut(joiner.token, 0, 28) as u32;
    if nonce == 0 {
        return Err(RowError::BadToken);
    }
    // A lost race means that another compute node joined: there are at most as many as there are rows.
    let mut look = Look::default();
    for _ in 0..geometry.row_count {
        look = look_at_words(lane, geometry, joiner, nonce, scratch).await?;
        if let Some(member) = look.mine {
            return Ok(member);
        }
        let Some((row, word)) = look.free else { break };
        let is_kept = planted(Mutant::INCARNATION_TWICE) && word.incarnation() > 0;
        let member = Member { row, incarnation: word.incarnation() + u32::from(!is_kept), nonce };
        let claim = Request::cas(Label::Row, HOME, geometry.row_offset(row), word.0, member.word().0);
        if lane.port().call(claim).await?.value == word.0 {
            return Ok(member);
        }
    }
    let Look { live, fenced, used_up, .. } = look;
    Err(RowError::NoFreeRow { rows: geometry.row_count - 1, live, fenced, used_up })
}

async fn look_at_words(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    joiner: &Joiner<'_>,
    nonce: u32,
    scratch: usize,
) -> Result<Look, RowError> {
    let mut look = Look::default();
    let rows = geometry.row_count.min(ROW_COUNT_MAX);
    let mut first = 1;
    while first < rows {
        let count = (rows - first).min(lane.port().room().max(1) as u32);
        for step in 0..count {
            let offset = geometry.row_offset(RowId((first + step) as u16));
            lane.port().push(Request::read(Label::Row, HOME, offset, 8, scratch + step as usize * 8));
        }
        lane.port().submit().await?;
        let mut candidate = None;
        for step in 0..count {
            let row = RowId((first + step) as u16);
            let word = RowWord(word_at(lane, scratch + step as usize * 8));
            let state = word.state().ok_or(RowError::Corrupt { row, what: "unknown row state" })?;
            match state {
                RowState::Free if word.incarnation() >= INCARNATION_MAX => look.used_up += 1,
                RowState::Free => look.free = look.free.or(Some((row, word))),
                RowState::Live => {
                    look.live += 1;
                    if word.nonce() == nonce {
                        candidate = Some((row, word));
                    }
                }
                RowState::Fencing | RowState::Dead => look.fenced += 1,
            }
        }
        if let Some((row, word)) = candidate {
            let seen = read(lane, geometry, row, scratch).await?;
            let unwritten = seen.incarnation.get() != word.incarnation();
            if seen.word.get() == word.0 && (unwritten || seen.token.get() == joiner.token) {
                look.mine = Some(Member { row, incarnation: word.incarnation(), nonce });
                return Ok(look);
            }
        }
        first += count;
    }
    Ok(look)
}

/// Completes the row that was claimed: WRITEs everything but the row word, which changes by CAS only. One round trip.
///
/// On a fabric that fences, this comes after every memory node knows which process to fence for the row. Otherwise a
/// late WRITE of a compute node that was fenced meanwhile would overwrite what the next one in the row says of itself.
pub async fn publish_row(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    member: Member,
    joiner: &Joiner<'_>,
    scratch: usize,
) -> Result<(), RowError> {
    const WORD: usize = size_of::<Le64>();
    let row = Row::of(member, joiner);
    lane.port().with(|bytes| {
        if let Some(place) = bytes.get_mut(scratch..scratch + Row::BYTES) {
            place.copy_from_slice(row.as_bytes());
        }
    });
    let offset = geometry.row_offset(member.row) + WORD as u64;
    lane.port().call(Request::write(Label::Row, HOME, offset, Row::BYTES - WORD, scratch + WORD)).await?;
    Ok(())
}

/// Says, after [`publish_row`], how long the compute node may be without a heartbeat. A waiter waits at least that long,
/// whatever its own lease is. Rounded up to microseconds. One round trip.
pub async fn declare_lease(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    member: Member,
    lease_ns: u64,
) -> Result<(), RowError> {
    // The upper half of the word counts calls that were given up: none yet.
    let lease_us = lease_ns.min(LEASE_NS_MAX).div_ceil(1000);
    let offset = geometry.row_offset(member.row) + core::mem::offset_of!(Row, lease_us) as u64;
    lane.port().call(Request::write_word(Label::Row, HOME, offset, lease_us)).await?;
    Ok(())
}

/// Says, after [`publish_row`] and before the compute node owns anything, where its log ring begins: a ring whose
/// description and head are there ([`crate::dex::log::append::make`]). Until then the row names none. One round trip.
pub async fn announce_ring(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    member: Member,
    ring: Address,
) -> Result<(), RowError> {
    let offset = geometry.row_offset(member.row) + core::mem::offset_of!(Row, ring) as u64;
    lane.port().call(Request::write_word(Label::Row, HOME, offset, ring.to_bits())).await?;
    Ok(())
}

/// Renews the lease: WRITEs `counter` and `epoch`, and looks whether the row is still its own. `counter` has to differ
/// from the last one; `epoch` is the reclamation epoch its lanes have reached, 0 = none.
///
/// Returns the pool's epoch word.
///
/// [`RowError::Fenced`] means: post no more WRITEs, join anew.
///
/// One round trip: a WRITE, a READ of the row word and one of the pool's epoch in one chain.
pub async fn heartbeat(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    member: Member,
    counter: u64,
    epoch: u64,
    scratch: usize,
) -> Result<u64, RowError> {
    let offset = geometry.row_offset(member.row);
    let mut beat = Request::write_word(Label::Row, HOME, offset + 8, counter);
    beat.bytes = 16;
    beat.operands[1] = epoch;
    debug_assert!(beat.flags.contains(Flags::INLINE));
    published(lane, geometry, member, beat, scratch).await
}

/// Leaves the pool.
///
/// `settled` is the caller's promise that no lane has a lock record, every posted request has completed, and no queue
/// pair failed without being confirmed closed. Then no lock names the row, now or later, and it is free at once.
/// Otherwise the row is left FENCING for others to finish. Its chunks stay its own in both cases: nodes of indexes live
/// in them.
///
/// One round trip. Leaving again after an unknown outcome is harmless.
pub async fn leave(lane: &Lane<'_>, geometry: &NodeGeometry, member: Member, settled: bool) -> Result<(), RowError> {
    let state = if settled { RowState::Free } else { RowState::Fencing };
    advance(lane, geometry, member.row, member.word(), state).await?;
    // A row that is no longer this compute node's was left before, or fenced: either way it is done.
    Ok(())
}

/// Moves a row to `state` if its word is still `seen`. Returns the word that it then has.
///
/// The caller keeps the order of the picture above: FENCING before any memory node is asked to fence, DEAD only when
/// all have confirmed, FREE only after the sweep.
pub async fn advance(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    row: RowId,
    seen: RowWord,
    state: RowState,
) -> Result<RowWord, RowError> {
    let next = seen.with_state(state);
    let cas = Request::cas(Label::Row, HOME, geometry.row_offset(row), seen.0, next.0);
    let found = lane.port().call(cas).await?.value;
    Ok(if found == seen.0 { next } else { RowWord(found) })
}

/// READs one row. One round trip.
pub async fn read(lane: &Lane<'_>, geometry: &NodeGeometry, row: RowId, scratch: usize) -> Result<Row, RowError> {
    lane.port().call(Request::read(Label::Row, HOME, geometry.row_offset(row), Row::BYTES, scratch)).await?;
    let found = lane.port().with(|bytes| bytes.get(scratch..).and_then(Row::from_prefix));
    found.ok_or(RowError::Corrupt { row, what: "scratch too small for a row" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBER: Member = Member { row: RowId(3), incarnation: 2, nonce: 7 };

    fn row(lease_us: u64) -> Row {
        let mut row = Row::of(MEMBER, &Joiner { token: 7, lanes: 1, memory_nodes: 1, host: "here" });
        row.lease_us = (lease_us as u32).into();
        row
    }

    #[test]
    fn a_ring_is_one_of_this_life() {
        let ring = Address::new(crate::verbs::NodeId(2), 0x4_0000, 0).to_bits();
        let mut said = row(250);
        assert_eq!(said.decode().unwrap().life.map(|life| life.ring), Some(0));
        said.ring = ring.into();
        assert_eq!(said.decode().unwrap().life.map(|life| life.ring), Some(ring));
        said.word = Member { incarnation: 3, ..MEMBER }.word().0.into();
        assert_eq!(said.decode().unwrap().life, None, "what an earlier tenant said");
    }

    #[test]
    fn a_lease_is_believed_up_to_an_hour_and_of_this_life_only() {
        assert_eq!(row(0).lease_ns(), Ok(None));
        assert_eq!(row(250).lease_ns(), Ok(Some(250_000)));
        assert_eq!(row(LEASE_NS_MAX / 1000).lease_ns(), Ok(Some(LEASE_NS_MAX)));
        assert!(row(LEASE_NS_MAX / 1000 + 1).lease_ns().is_err());
        assert!(row(u64::from(u32::MAX)).decode().is_err());
        let mut next = row(250);
        next.word = Member { incarnation: 3, ..MEMBER }.word().0.into();
        assert_eq!(next.lease_ns(), Ok(None), "what an earlier tenant said");
    }
}
