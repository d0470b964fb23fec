//! The page store step by step, in every order of the steps of a few lanes, and with several threads.

extern crate std;
use super::settle::Paid;
use super::*;
use crate::lane::Lane;
use crate::marks::Mark;
use crate::remote::address::Address;
use crate::verbs::{LaneId, NodeId, Verb};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use std::vec::Vec;

mod concurrency;
mod eviction;
mod fills;
mod flushes;
mod interleavings;
mod structure;
mod waiting;

/// Two lanes, pages of one line.
pub(super) const SHAPE: Shape =
    Shape { page_bytes: 64, lanes: 2, fills_per_lane: 2, cooling: Cooling::Map, admission: Admission::EAGER };

/// Words that are not zero: the store must not rely on the content of its storage.
pub(super) fn storage(words: usize) -> Vec<AtomicU32> {
    (0..words as u32).map(|i| AtomicU32::new(i.wrapping_mul(0x9E37_79B9) | 1)).collect()
}

/// Words in which nothing is.
pub(super) fn clear(words: &[AtomicU32]) {
    for word in words {
        word.store(0, Relaxed);
    }
}

/// The address of a page.
pub(super) fn page(number: u64) -> Address {
    Address::new(NodeId((number % 2) as u16), 4096 + number * 1024, (number % 3) as u8)
}

fn lane(id: u16) -> Lane<'static> {
    Lane::new(LaneId(id), &mut [])
}

/// The lanes that this lane has woken since it was made.
fn woken(lane: &Lane<'_>) -> Vec<u16> {
    let requests = lane.port().requests();
    let woken = requests.iter().map(|request| {
        assert_eq!(request.verb, Verb::Wake);
        request.operands[0] as u16
    });
    woken.collect()
}

/// The image of a page whose first word is this number.
fn image(number: u32) -> [u8; 64] {
    let mut image = [number as u8; 64];
    image[..4].copy_from_slice(&number.to_le_bytes());
    image
}

/// The fill that a lane gets for a page that is not there.
fn fill(store: &PageStore<'_>, lane: &Lane<'_>, id: Address, admit: Admit) -> Fill {
    match store.find(lane, id, admit) {
        Found::Mine(fill) => fill,
        other => panic!("{id}: {other:?}"),
    }
}

/// Fills a page with a number.
fn bring(store: &PageStore<'_>, lane: &Lane<'_>, id: Address, number: u32) -> FrameName {
    let fill = fill(store, lane, id, Admit::Always);
    store.admit(lane, &fill, &image(number)).unwrap()
}

/// The number of a page.
fn number(store: &PageStore<'_>, name: FrameName) -> Result<u32, Refused> {
    store.read(name, |image| image.word(0))
}

/// Gives a page a number, with a log record.
fn set(store: &PageStore<'_>, lane: &Lane<'_>, name: FrameName, number: u32, lsn: u64) -> Result<(), Refused> {
    store.change(
        lane,
        name,
        || true,
        |page| {
            let mut writing = page.record(Lsn::from_bits(lsn), || Ok::<_, Refused>(Lsn::from_bits(lsn)))??;
            writing.put(0, &number.to_le_bytes());
            Ok(())
        },
    )
}

fn states(store: &PageStore<'_>) -> Vec<(Address, PageState, u64)> {
    let mut states = Vec::new();
    store.for_each_page(&mut |id, state, oldest| states.push((id, state, oldest.to_bits())));
    states.sort_unstable_by_key(|(id, ..)| *id);
    states
}
