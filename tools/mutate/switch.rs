//! Which mutant is on: in the copy that `dm-mutate` builds, and nowhere else.
//!
//! `DM_MUTANT` names it. `DM_MUTANT_COVER` names a file instead, to which the number of every point is appended when it
//! is evaluated for the first time.

extern crate std;

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::io::Write as _;

/// The environment was not read yet.
const UNREAD: u32 = u32::MAX;

/// Points that are evaluated are noted.
const COVER: u32 = u32::MAX - 1;

/// More points than dm-core has.
const POINTS_MAX: usize = 1 << 16;

static ACTIVE: AtomicU32 = AtomicU32::new(UNREAD);
static REACHED: [AtomicBool; POINTS_MAX] = [const { AtomicBool::new(false) }; POINTS_MAX];

/// Whether this mutant is on.
#[inline]
pub fn on(point: u32) -> bool {
    let active = ACTIVE.load(Ordering::Relaxed);
    if active >= COVER { look(point) } else { active == point }
}

#[cold]
#[inline(never)]
fn look(point: u32) -> bool {
    if ACTIVE.load(Ordering::Relaxed) == UNREAD {
        let named = std::env::var("DM_MUTANT").ok().and_then(|number| number.parse().ok());
        let active = if std::env::var_os("DM_MUTANT_COVER").is_some() { COVER } else { named.unwrap_or(0) };
        ACTIVE.store(active, Ordering::Relaxed);
        return on(point);
    }
    if !REACHED[point as usize].swap(true, Ordering::Relaxed) {
        let path = std::env::var_os("DM_MUTANT_COVER").unwrap();
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.unwrap().write_all(std::format!("{point}\n").as_bytes()).unwrap();
    }
    false
}
