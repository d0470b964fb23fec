use super::*;
use crate::btree::node::{self, NodeFlags};
use crate::remote::lock_word::RowId;
use crate::remote::owner_tag::OwnerTag;
use crate::remote::row::Member;
extern crate std;
use std::vec;
use std::vec::Vec;

const OWNER: Member = Member { row: RowId(7), incarnation: 3, nonce: 1 };

const SHAPE: LeafShape = LeafShape::new(8, 8, 64, 8);

#[test]
fn the_papers_sizes_hold() {
    assert_eq!(SHAPE.entry_bytes(), 19);
    assert_eq!(SHAPE.bytes, 1408);
    assert_eq!(SHAPE.place_bytes(), 1472);
    for home in 0..64 {
        let bytes: usize = SHAPE.runs(home, 8).iter().map(|run| SHAPE.read_range(run).len()).sum();
        assert!((164..=166).contains(&bytes), "home {home}: {bytes} bytes");
    }
}

#[test]
fn every_neighborhood_has_a_replica() {
    for (span, neighborhood) in [(8, 2), (8, 8), (9, 4), (64, 8), (61, 7), (512, 16)] {
        let shape = LeafShape::new(8, 8, span, neighborhood);
        for home in 0..span {
            let at = stripes::stored_offset(shape.replica_at(shape.replica_near(home)));
            let runs = shape.runs(home, neighborhood);
            let inside = |offset: usize| runs.iter().any(|run| shape.read_range(run).contains(&offset));
            let last = stripes::stored_offset(shape.replica_at(shape.replica_near(home)) + REPLICA_BYTES - 1);
            assert!(inside(at) && inside(last), "span {span}, H {neighborhood}, home {home}");
        }
    }
}

/// A sealed, empty image.
fn image(shape: &LeafShape) -> Vec<u8> {
    let mut image = vec![0; shape.bytes];
    let header =
        Header { generation: 3, level: 0, index: 1, flags: NodeFlags::empty(), count: 0, sibling: Address::NULL };
    node::start(&mut image, &header, &[0; KEY_BYTES_MAX][..shape.key_bytes], None);
    LeafMut::new(shape, &mut image).seal(5);
    image
}

#[test]
fn pieces_that_begin_anywhere_show_the_node_version() {
    let mut image = image(&SHAPE);
    for home in 0..64 {
        assert!(Leaf::new(&SHAPE, &image).agrees(&SHAPE.runs(home, 8)), "home {home}");
    }
    // One line of another WRITE of the whole node: entries 4..=6 and their parts.
    let mut other = image.clone();
    LeafMut::new(&SHAPE, &mut other).seal(6);
    let line = SHAPE.write_range(&(5..6)).start / 64 * 64;
    image[line..line + 64].copy_from_slice(&other[line..line + 64]);
    for home in 0..64 {
        let runs = SHAPE.runs(home, 8);
        let mixed = {
            let lines: Vec<bool> = runs
                .iter()
                .map(|run| SHAPE.read_range(run))
                .flat_map(|range| range.map(|at| at / 64 * 64 == line).collect::<Vec<_>>())
                .collect();
            lines.contains(&true) && lines.contains(&false)
        };
        assert_eq!(Leaf::new(&SHAPE, &image).agrees(&runs), !mixed, "home {home}");
    }
}

#[test]
fn a_walk_sees_what_looks_at_single_entries_see() {
    for shape in [SHAPE, LeafShape::new(8, 120, 9, 2), LeafShape::new(24, 8, 61, 16), LeafShape::new(8, 8, 512, 7)] {
        let mut image = image(&shape);
        for slot in (0..shape.span).step_by(3) {
            let mut leaf = LeafMut::new(&shape, &mut image);
            leaf.put(slot, &[slot as u8; 64][..shape.key_bytes], &[7; 120][..shape.value_bytes]);
            leaf.set_bit(slot, slot % shape.neighborhood, true);
            if slot % 2 == 0 {
                leaf.delete(slot);
            }
        }
        // An entry that is of two WRITEs.
        let lines = |slot: usize| stripes::crossings(shape.entry_at(slot), shape.entry_bytes()).next();
        let torn = (1..shape.span).find_map(lines).expect("an entry that reaches into another line");
        image[torn] ^= 0x10;
        let leaf = Leaf::new(&shape, &image);
        for first in [0, 5, shape.span - 1] {
            let walked: Vec<_> = leaf.walk(first, shape.span).collect();
            assert_eq!(walked.len(), shape.span);
            for (distance, (slot, here)) in walked.into_iter().enumerate() {
                assert_eq!(slot, shape.after(first, distance));
                assert_eq!(leaf.state_at(here), leaf.state(slot), "entry {slot}");
                assert_eq!(leaf.is_whole_at(here), leaf.is_whole(slot), "entry {slot}");
                assert_eq!(leaf.bitmap_at(here), leaf.bitmap(slot), "entry {slot}");
                assert_eq!(leaf.home_at(slot, here), leaf.home_of(slot), "entry {slot}");
            }
        }
        assert!(!leaf.entries_whole(0, shape.span));
    }
}

#[test]
fn an_entry_alone_tells_whose_it_is() {
    for shape in [SHAPE, LeafShape::new(8, 120, 16, 16)] {
        let mut image = image(&shape);
        let key = 42u64.to_be_bytes();
        let slot = 7;
        let mut leaf = LeafMut::new(&shape, &mut image);
        leaf.put(slot, &key, &[7; 120][..shape.value_bytes]);
        let part = shape.write_range(&(slot..slot + 1));
        let alone = |image: &[u8], generation| {
            let mut only = vec![0; shape.bytes];
            only[part.clone()].copy_from_slice(&image[part.clone()]);
            Leaf::new(&shape, &only).holds(slot, generation, &key)
        };
        assert!(alone(&image, 3));
        assert!(!alone(&image, 4), "the next life of the place");
        LeafMut::new(&shape, &mut image).set_state(slot, State::Dead);
        assert!(!alone(&image, 3), "deleted");
        LeafMut::new(&shape, &mut image).set_state(slot, State::Live);
        node::retire(&mut image, Address::NULL, OwnerTag::of(OWNER, 128));
        LeafMut::new(&shape, &mut image).seal(6);
        assert!(!alone(&image, 3), "retired");
    }
}

#[test]
fn a_record_deleted_is_not_found_and_its_bit_still_leads_to_it() {
    for (span, neighborhood) in [(64, 8), (16, 16), (9, 15)] {
        let shape = LeafShape::new(8, 8, span, neighborhood.min(span));
        let mut image = image(&shape);
        let key = 42u64.to_be_bytes();
        let home = shape.home(&key);
        let slot = shape.after(home, 1);
        let mut leaf = LeafMut::new(&shape, &mut image);
        leaf.put(slot, &key, &[7; 8]);
        leaf.set_bit(home, 1, true);
        assert_eq!(leaf.view().find(home, &key), Ok(Some(slot)));
        assert_eq!(leaf.view().check(&[0; 8], None), Ok(1));
        leaf.delete(slot);
        assert_eq!(leaf.view().find(home, &key), Ok(None));
        assert_eq!(leaf.view().check(&[0; 8], None), Ok(0));
        leaf.set_state(slot, State::Empty);
        assert_eq!(leaf.view().find(home, &key), Err(DecodeError::Torn), "a bit that leads nowhere");
    }
}

#[test]
fn a_bit_that_leads_to_no_key_is_found_though_there_are_as_many_bits_as_keys() {
    let mut image = image(&SHAPE);
    let key = 42u64.to_be_bytes();
    let home = SHAPE.home(&key);
    let check = |image: &[u8]| Leaf::new(&SHAPE, image).check(&[0; 8], None);
    let mut leaf = LeafMut::new(&SHAPE, &mut image);
    leaf.put(SHAPE.after(home, 1), &key, &[7; 8]);
    leaf.set_bit(home, 1, true);
    assert_eq!(check(&image), Ok(1));
    let mut leaf = LeafMut::new(&SHAPE, &mut image);
    leaf.set_bit(home, 1, false);
    leaf.set_bit(home, 2, true);
    assert_eq!(check(&image), Err(DecodeError::Torn));
}

/// Each change of one entry's state byte is found, but for one: a record that was deleted comes back with a value of zeros.
#[test]
fn an_entry_whose_state_was_lost_is_told() {
    for (key_bytes, value_bytes, neighborhood) in [(8, 8, 8), (24, 100, 8), (8, 8, 16)] {
        let shape = LeafShape::new(key_bytes, value_bytes, 16, neighborhood);
        let check = |image: &[u8]| Leaf::new(&shape, image).check(&[0; 64][..key_bytes], None);
        let key = [42; 64];
        let home = shape.home(&key[..key_bytes]);
        let slot = shape.after(home, 1);
        let with = |state: State| {
            let mut image = image(&shape);
            let mut leaf = LeafMut::new(&shape, &mut image);
            leaf.put(slot, &key[..key_bytes], &[7; 100][..value_bytes]);
            leaf.set_bit(home, 1, true);
            match state {
                State::Live => {}
                State::Dead => leaf.delete(slot),
                State::Empty => leaf.vacate(slot),
            }
            image
        };
        let states = [State::Empty, State::Live, State::Dead];
        for (is, says) in
            states.into_iter().flat_map(|is| states.map(|says| (is, says))).filter(|(is, says)| is != says)
        {
            let mut image = with(is);
            assert_eq!(check(&image), Ok(u64::from(is == State::Live)), "{is:?}");
            LeafMut::new(&shape, &mut image).set_state(slot, says);
            let told = check(&image);
            match (is, says) {
                (State::Dead, State::Live) => assert_eq!(told, Ok(1)),
                (State::Live, State::Dead) => assert_eq!(told, Err(DecodeError::UNUSED_NOT_ZERO)),
                _ => assert!(told.is_err(), "{is:?} that says {says:?}"),
            }
            // The bit of its home changes with it.
            LeafMut::new(&shape, &mut image).set_bit(home, 1, says != State::Empty);
            if says != State::Live {
                assert!(is == State::Empty || check(&image) == Err(DecodeError::UNUSED_NOT_ZERO), "{is:?}, {says:?}");
            }
        }
    }
}

/// Whatever an image has: what is seen in one piece is what is seen line by line.
#[test]
fn a_leaf_in_one_piece_is_the_leaf_in_lines() {
    let mut state = 1_u64;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (mut settled, mut torn) = (0, 0);
    for (key_bytes, value_bytes, span, neighborhood) in [(8, 8, 64, 8), (24, 40, 16, 4), (8, 8, 61, 16), (9, 8, 30, 7)]
    {
        let shape = LeafShape::new(key_bytes, value_bytes, span, neighborhood);
        for round in 0..300 {
            let mut image = image(&shape);
            for number in 0..draw() % span as u64 {
                let mut key = [0; KEY_BYTES_MAX];
                key[..8].copy_from_slice(&(draw() >> 60).to_be_bytes());
                key[8] = number as u8;
                let (home, distance) = (shape.home(&key[..key_bytes]), draw() as usize % neighborhood);
                let mut leaf = LeafMut::new(&shape, &mut image);
                leaf.put(shape.after(home, distance), &key[..key_bytes], &vec![7; value_bytes]);
                leaf.set_bit(home, distance, true);
            }
            // In every second image a byte is something else, in some all are.
            match round % 8 {
                0 => image.iter_mut().for_each(|byte| *byte = draw() as u8),
                1 | 3 | 5 | 7 => {
                    let at = draw() as usize % image.len();
                    image[at] ^= 1 << (draw() % 8);
                }
                _ => {}
            }
            let mut bounds = [[0; KEY_BYTES_MAX]; 2];
            for bound in &mut bounds {
                bound[..8].copy_from_slice(&(draw() >> 60).to_be_bytes());
            }
            let [low, high] = bounds.each_ref().map(|bound| &bound[..key_bytes]);
            let seen = |leaf: &Leaf<'_>| {
                let records = [None, Some(high)].map(|high| {
                    let mut slots = [0; SPAN_MAX];
                    let count = leaf.sorted(low, high, &mut slots);
                    let record_bytes = key_bytes + value_bytes;
                    let mut records = vec![0; count * record_bytes];
                    let look = Look { image: leaf.image, piece: leaf.piece };
                    shape.read_records(look, &slots[..count], record_bytes, &mut records);
                    (slots, records)
                });
                (leaf.settled(), records)
            };
            let lines = seen(&Leaf::new(&shape, &image));
            *(if lines.0.is_ok() { &mut settled } else { &mut torn }) += 1;
            assert_eq!(Look::at(&image, |look| seen(&Leaf::in_look(&shape, look))), lines);
        }
    }
    assert!(settled > 100 && torn > 100, "{settled} settled, {torn} torn");
}
