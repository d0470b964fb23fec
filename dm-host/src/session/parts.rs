//! Parts of the keys that move between compute nodes, where keys have owners: what a session does for others, and what it asks of
//! them.
//!
//! | when | what |
//! |---|---|
//! | every [`KEEP`] | the session gives up what others have asked for, takes what is kept for it, and says what load its parts have |
//! | once it is open, if it shares parts | it asks for its share of the load ([`SessionOptions::shares_parts`]) |
//! | when it closes, if it shares parts | it has its parts kept for others, each for the one that has the least load by then |
//! | when it is told to | it moves one part, cuts one in two, evens the loads of all compute nodes, or moves nodes of its parts off a memory node |
//!
//! All of these are moves of single parts ([`Index::move_part`]), and [`Balance`] says which. They run on the walker's lane, which
//! is free between two moves.
//!
//! A session knows other compute nodes by the parts that they have. One that has the index open and has no part yet gets none
//! from others; it asks itself, if it shares parts.
//!
//! [`SessionOptions::shares_parts`]: super::SessionOptions::shares_parts

use super::error::SessionError;
use super::walker::Walker;
use super::watch::Watched;
use dm_core::index::Index;
use dm_core::index::balance::{Balance, Move, Part, RowLoad};
use dm_core::operation::OpError;
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::NodeId;
use std::collections::BTreeSet;
use std::iter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How often a compute node looks whether others have asked for its parts of the keys, where keys have owners: the pause of a
/// part that moves is mostly this. It costs one READ.
const KEEP: Duration = Duration::from_millis(20);

/// How long a session that opens or closes waits for a part to move. Owners look for what is asked of them much more often.
const SHARE_WAIT: Duration = Duration::from_secs(1);

/// What a session is told to have moved.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// A part, to the compute node of that row.
    Part { part: u32, to: RowId },
    /// The part that has a key is cut in two.
    Cut { key: Vec<u8> },
    /// Parts, until loads are about even.
    Even,
    /// The nodes of this session's parts that are on a memory node.
    Nodes { from: NodeId },
}

/// What has moved.
#[derive(Clone, Debug, Default)]
pub(super) struct Moved {
    /// Parts of the keys.
    pub(super) parts: Vec<Move>,
    /// Nodes of the index.
    pub(super) nodes: u64,
}

/// Gives up parts that others have asked for, and takes those that are kept for this compute node, until the session closes. `share`:
/// it asks for its share of the parts first, as the compute node of that row.
pub(super) fn keep(
    index: &Watched<'_, impl Index>,
    walker: &Mutex<Walker>,
    closes: &AtomicBool,
    mut share: Option<RowId>,
) {
    let is_over = || closes.load(Ordering::Relaxed);
    while !is_over() {
        thread::sleep(KEEP);
        if let Some(me) = share.take() {
            match even(index, walker, (me, Whose::Mine), SHARE_WAIT, is_over) {
                Ok(moves) => tracing::debug!("row {} has asked for {} parts of the keys", me.0, moves.len()),
                Err(error) => tracing::debug!("row {} does not get its share of the keys: {error}", me.0),
            }
        }
        // If a walk has the lane, this is tried again later.
        let Ok(mut walker) = walker.try_lock() else { continue };
        if let Err(error) = look(index, &mut walker) {
            tracing::debug!("parts that others ask for are not given up yet: {error}");
        }
    }
}

/// Does what the session of the compute node of row `me` is told. Each part may take `wait`. Returns what has moved of a plan, or nodes.
pub(super) fn ask(
    index: &Watched<'_, impl Index>,
    walker: &Mutex<Walker>,
    me: RowId,
    (what, wait): (Ask, Duration),
) -> Result<Moved, SessionError> {
    let moved = match what {
        Ask::Part { part, to } => move_part(index, walker, (part, to), wait).map(|()| Moved::default()),
        Ask::Cut { key } => cut_part(index, walker, &key, wait).map(|()| Moved::default()),
        Ask::Even => even(index, walker, (me, Whose::Everybodys), wait, || false)
            .map(|parts| Moved { parts, ..Moved::default() }),
        Ask::Nodes { from } => vacate(index, walker, (me, from), wait).map(|nodes| Moved { nodes, ..Moved::default() }),
    };
    moved.map_err(SessionError::Operation)
}

/// Has all parts of the compute node of row `me` kept for others, as far as there are any. What does not move is free
/// afterwards, when the index is given up.
pub(super) fn give(index: &Watched<'_, impl Index>, walker: &Mutex<Walker>, me: RowId) {
    if index.part(0).is_none() {
        // It has not opened the index.
        return;
    }
    let mut walker_lane = walker.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(error) = look(index, &mut walker_lane) {
        tracing::debug!("row {} gives no part of the keys to others: {error}", me.0);
        return;
    }
    drop(walker_lane);
    let mut refused = BTreeSet::new();
    // Of two that close at once, each could give the other back what it got.
    for _ in 0..parts(index).len() {
        let mut parts = parts(index);
        let mut rows = rows(&parts, me);
        rows.retain(|row| !refused.contains(&row.row));
        let Some(Move { part, to, .. }) = Balance::new(&mut parts, &mut rows).next_from(me) else { return };
        if let Err(error) = move_part(index, walker, (part, to), SHARE_WAIT) {
            tracing::debug!("part {part} of the keys is not kept for row {}: {error}", to.0);
            refused.insert(to);
        }
    }
}

/// Whose load is evened.
#[derive(Clone, Copy)]
enum Whose {
    /// Parts move to the compute node that asks.
    Mine,
    /// Parts move to whichever has the least load.
    Everybodys,
}

/// Moves parts for the compute node of row `me`, until no move helps or `is_over`. Returns those that have moved.
fn even(
    index: &Watched<'_, impl Index>,
    walker: &Mutex<Walker>,
    (me, whose): (RowId, Whose),
    wait: Duration,
    is_over: impl Fn() -> bool,
) -> Result<Vec<Move>, OpError> {
    {
        let mut walker = walker.lock().unwrap_or_else(PoisonError::into_inner);
        walker.run(index, async |lane| index.parts(lane).await)?;
        look(index, &mut walker)?;
    }
    let mut parts = parts(index);
    let mut rows = rows(&parts, me);
    let mut balance = Balance::new(&mut parts, &mut rows);
    let next = || match whose {
        Whose::Mine => balance.next_for(me),
        Whose::Everybodys => balance.next_move(),
    };
    let mut moves: Vec<Move> = iter::from_fn(next).collect();
    for (done, step) in moves.iter().enumerate() {
        if is_over() {
            moves.truncate(done);
            break;
        }
        move_part(index, walker, (step.part, step.to), wait)?;
    }
    Ok(moves)
}

/// What this compute node knows of all parts.
fn parts(index: &Watched<'_, impl Index>) -> Vec<Part> {
    (0..).map_while(|part| index.part(part)).map(|(word, load)| Part::new(word, load)).collect()
}

/// Rows of compute nodes that have parts, and this one's.
fn rows(parts: &[Part], me: RowId) -> Vec<RowLoad> {
    let named: BTreeSet<_> = parts.iter().map(Part::row).filter(|row| row.0 != 0).chain([me]).collect();
    named.into_iter().map(RowLoad::new).collect()
}

/// READs the owner of each part, gives up the parts that others ask for, and takes those that are kept for this compute node.
fn look(index: &Watched<'_, impl Index>, walker: &mut Walker) -> Result<(), OpError> {
    walker.run(index, async |lane| index.keep_parts(lane).await)
}

fn cut_part(
    index: &Watched<'_, impl Index>,
    walker: &Mutex<Walker>,
    key: &[u8],
    wait: Duration,
) -> Result<(), OpError> {
    let mut walker = walker.lock().unwrap_or_else(PoisonError::into_inner);
    let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
    walker.run(index, async |lane| index.cut_part(lane, key, wait_ns).await)
}

/// Moves nodes of the parts of row `me` off a memory node, from the last part to the first one. Returns how many.
fn vacate(
    index: &Watched<'_, impl Index>,
    walker: &Mutex<Walker>,
    (me, from): (RowId, NodeId),
    wait: Duration,
) -> Result<u64, OpError> {
    let walker = || walker.lock().unwrap_or_else(PoisonError::into_inner);
    walker().run(index, async |lane| index.parts(lane).await)?;
    look(index, &mut walker())?;
    let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
    let mut moved = 0;
    for part in (0..parts(index).len() as u32).rev() {
        // Others may ask for parts meanwhile: the lane is free between two.
        let is_mine = index.part(part).is_some_and(|(word, load)| Part::new(word, load).row() == me);
        if is_mine {
            moved += walker().run(index, async |lane| index.vacate_part(lane, part, from, wait_ns).await)?;
        }
    }
    Ok(moved)
}

fn move_part(
    index: &Watched<'_, impl Index>,
    walker: &Mutex<Walker>,
    (part, to): (u32, RowId),
    wait: Duration,
) -> Result<(), OpError> {
    let mut walker = walker.lock().unwrap_or_else(PoisonError::into_inner);
    let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
    walker.run(index, async |lane| index.move_part(lane, part, to, wait_ns).await)
}
