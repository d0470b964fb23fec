//! Gives back all memory of an index that nobody has open: every chunk is zeroed, and is free then.
//!
//! ```text
//!  granted to anybody, or used ──claim──► granted to the eraser ──zeros──► free, or withheld if it was
//! ```
//!
//! **Rule.** No compute node has the index open, and none can open it any more. Then nobody has a pointer into its
//! chunks, and nobody WRITEs there: every chunk of it may be claimed, with any owner. A free chunk is all zeros
//! ([`chunks`]), so the zeros land before the entry becomes free.
//!
//! An eraser that dies leaves chunks that are granted to it, for the same index. The next eraser claims them as any
//! others, and zeroes them anew. It may begin only when the row of the first one is gone, and with it every WRITE that
//! the first one had posted.

use super::chunks::{self, RequestIds};
use crate::error::VerbError;
use crate::lane::{Lane, word_at};
use crate::operation::{Cause, OpError};
use crate::remote::catalog::IndexNumber;
use crate::remote::chunk::{ChunkEntry, ChunkWord, Grant};
use crate::remote::row::Member;
use crate::remote::{NodeGeometry, SCRATCH_BYTES};
use crate::verbs::{Label, NodeId, Request};
use core::ops::Range;

/// What an erasure did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Chunks that are free now.
    pub chunks: u32,
    /// Chunks that somebody else claimed meanwhile.
    pub lost: u32,
}

/// Frees every chunk of index `number` on `node`. `zeros` is a part of the scratch that is zero, behind the first
/// [`SCRATCH_BYTES`].
///
/// One round trip per 64 chunks, and for each chunk of the index two and one per sixteen times as many bytes as `zeros`
/// has.
pub async fn erase(
    lane: &Lane<'_>,
    (node, geometry): (NodeId, &NodeGeometry),
    number: IndexNumber,
    owner: Member,
    requests: &RequestIds,
    zeros: Range<usize>,
) -> Result<Erased, OpError> {
    let mut erased = Erased::default();
    if zeros.is_empty() || zeros.start < SCRATCH_BYTES {
        return Err(OpError::harmless(Cause::BadInput("no room for the zeros of an erasure")));
    }
    for chunk in 0..geometry.chunk_count {
        let at = (chunk as usize * 8) % SCRATCH_BYTES;
        if at == 0 {
            let bytes = SCRATCH_BYTES.min((geometry.chunk_count - chunk) as usize * 8);
            lane.port().call(Request::read(Label::Chunk, node, geometry.chunk_entry(chunk), bytes, 0)).await?;
        }
        let seen = ChunkWord(word_at(lane, at));
        let (kind, index, erased_word) = match seen.decode() {
            Ok(ChunkEntry::Granted(Grant { kind, index, .. }) | ChunkEntry::Used { kind, index }) => {
                (kind, index, ChunkWord::FREE)
            }
            Ok(ChunkEntry::Withheld { used: Some((kind, index)) }) => (kind, index, ChunkWord::WITHHELD),
            _ => continue,
        };
        if index != number {
            continue;
        }
        let used_up = "this incarnation has used all its requests for chunks: join anew";
        let request = requests.next().ok_or(OpError::harmless(Cause::BadInput(used_up)))?;
        let mine = Grant::new(owner, kind, number, request).word();
        if !chunks::swap(lane, (node, geometry, chunk), seen, mine).await? {
            erased.lost += 1;
            continue;
        }
        zero(lane, node, geometry.chunk_offset(chunk), geometry.chunk_bytes, &zeros).await?;
        if chunks::swap(lane, (node, geometry, chunk), mine, erased_word).await? {
            erased.chunks += 1;
        } else {
            erased.lost += 1;
        }
    }
    Ok(erased)
}

/// WRITEs zeros, as many at a time as fit into a submit.
async fn zero(lane: &Lane<'_>, node: NodeId, offset: u64, bytes: u64, zeros: &Range<usize>) -> Result<(), VerbError> {
    let mut done = 0;
    while done < bytes {
        for _ in 0..lane.port().room().max(1) {
            let piece = (bytes - done).min(zeros.len() as u64);
            if piece == 0 {
                break;
            }
            lane.port().push(Request::write(Label::Chunk, node, offset + done, piece as usize, zeros.start));
            done += piece;
        }
        lane.port().submit().await?;
    }
    Ok(())
}
