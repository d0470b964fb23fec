extern crate std;
use super::super::slot::{self, Child, Header, NodeType, Place};
use super::super::tile::Tile;
use super::*;
use crate::remote::address::Address;
use crate::verbs::NodeId;
use proptest::prelude::*;
use std::{vec, vec::Vec};

/// Of any content.
fn storage(bytes: usize) -> Vec<AtomicU32> {
    (0..bytes as u32 / 4).map(|n| AtomicU32::new(n.wrapping_mul(0x9e37_79b9) | 1)).collect()
}

fn image(kind: u8, position: usize, key: &[u8], slots: impl IntoIterator<Item = Slot>) -> Vec<u8> {
    let kind = NodeType::new(kind).unwrap();
    let mut image = vec![0; kind.bytes()];
    slot::build(&mut image, &Header::new(kind, 0, position, key), 1, slots);
    image
}

fn node_slot(kind: u8, n: u64) -> Slot {
    Slot::node(0, NodeType::new(kind).unwrap(), Place::new(NodeId(0), n * 16))
}

fn insert(cache: &NodeCache<'_>, to: Slot, image: &[u8]) {
    let Some((kind, _)) = to.below() else { panic!() };
    cache.insert(to, &Node::new(image, kind, 1).unwrap(), 0);
}

#[test]
fn lookups_follow_copies_and_patches() {
    let words = storage(1 << 16);
    let cache = NodeCache::new(&words);
    let key = *b"abcdefgh";
    assert_eq!(cache.route(&key, 0), None);
    let (top, below) = (node_slot(7, 100), node_slot(1, 300).under(b'c'));
    cache.set_root(top, 0);
    let leaf = Slot::leaf(b'f', Place::new(NodeId(0), 3200));
    insert(&cache, top, &image(7, 2, &key, (0..100).map(|n| node_slot(1, 500 + n).under(n as u8))));
    let route = cache.route(&key, 0).unwrap();
    assert_eq!((route.word, route.depth, route.owner, route.index), (node_slot(1, 599).under(99), 3, top, 99));
    cache.patch(top, 99, below, 0);
    assert_eq!(cache.route(&key, 0).unwrap().word, below);
    insert(&cache, below, &image(1, 5, &key, [Slot::leaf(b'x', Place::new(NodeId(0), 3232)), leaf]));
    let route = cache.route(&key, 0).unwrap();
    assert_eq!((route.word, route.depth, route.owner, route.index), (leaf, 6, below, 1));
    // A key that differs where the path skips ends above; so does one whose byte no slot has.
    assert_eq!(cache.route(b"abcdXfgh", 0).unwrap().word, below);
    assert_eq!(cache.route(b"abcdeXgh", 0).unwrap().word, below);
    cache.clear();
    assert_eq!(cache.route(&key, 0), None);
}

#[test]
fn copies_older_than_the_operation_count_as_not_there() {
    let words = storage(1 << 16);
    let cache = NodeCache::new(&words);
    let key = *b"abcdefgh";
    let (top, below) = (node_slot(4, 100), node_slot(1, 300).under(b'a'));
    let leaf = |n: u64| Slot::leaf(b'b', Place::new(NodeId(0), 16 * n));
    let copy = |to: Slot, image: &[u8], epoch: u32| {
        let Ok(Child::Node(kind, _)) = to.child() else { panic!() };
        cache.insert(to, &Node::new(image, kind, 1).unwrap(), epoch);
    };
    let word = |epoch: u32| cache.route(&key, epoch).map(|route| route.word);
    cache.set_root(top, 5);
    copy(top, &image(4, 0, &key, [below]), 5);
    copy(below, &image(1, 1, &key, [leaf(7)]), 4);
    assert_eq!((word(4), word(5), word(6)), (Some(leaf(7)), Some(below), None));
    // An operation that began earlier and ends later changes nothing that is younger.
    cache.set_root(Slot::EMPTY, 4);
    cache.patch(top, 0, leaf(9).under(b'a'), 4);
    cache.patch(below, 0, leaf(8), 5);
    assert_eq!((word(4), word(5)), (Some(leaf(8)), Some(below)));
    // The next node of a place: another header under the same slot word.
    copy(below, &image(1, 2, &key, [leaf(6).under(b'c')]), 5);
    assert_eq!(cache.route(&key, 5).unwrap().depth, 3);
    copy(below, &image(1, 1, &key, [leaf(7)]), 4);
    assert_eq!(cache.route(&key, 5).unwrap().depth, 3);
    // Where the bits of an epoch wrap around, all copies go, and late ones do not return.
    let next = 5 + (1 << EPOCH_BITS);
    assert_eq!(word(next), None);
    cache.set_root(top, next);
    assert_eq!((word(5), word(next)), (None, Some(top)));
    copy(top, &image(4, 0, &key, [below]), 5);
    assert_eq!(word(next), Some(top));
    copy(top, &image(4, 0, &key, [below]), next);
    assert_eq!(word(next), Some(below));
}

#[test]
fn every_byte_is_accounted_for() {
    let words = storage(40_000);
    let cache = NodeCache::new(&words);
    for n in 0..2000u64 {
        let kind = 1 + (n % 7) as u8;
        let slots = 0..NodeType::new(kind).unwrap().slots() as u64;
        let image = image(kind, 0, b"x", slots.map(|byte| node_slot(1, 9000).under(byte as u8)));
        insert(&cache, node_slot(kind, 1000 + n), &image);
        let usage = cache.usage();
        assert_eq!(usage.budget_bytes, 40_000);
        let sum = usage.used_bytes + usage.free_bytes + usage.bucket_bytes + usage.slack_bytes;
        assert_eq!(sum, usage.budget_bytes);
    }
    assert!(cache.usage().evictions > 1000);
    let tiny = storage(512);
    let cache = NodeCache::new(&tiny);
    insert(&cache, node_slot(1, 1), &image(1, 0, b"x", []));
    assert_eq!(cache.usage().used_bytes, 0, "too small for a log");
}

/// Two-level tree of `nodes` small nodes under the root's 256; key `[a, b, ..]` has its leaf in node `a`.
#[test]
fn warm_copies_outlive_cold_ones() {
    let words = storage(32 << 10);
    let cache = NodeCache::new(&words);
    let top = node_slot(7, 1);
    cache.set_root(top, 0);
    let children: Vec<Slot> = (0..256).map(|n| node_slot(4, 1000 + 100 * n).under(n as u8)).collect();
    insert(&cache, top, &image(7, 0, b"x", children.iter().copied()));
    let child =
        |a: u8| image(4, 1, b"xy", (0..30).map(|n| Slot::leaf(n, Place::new(NodeId(0), 16 * (u64::from(a) + 1)))));
    // 256 copies of 288 bytes do not fit into 32 KiB; eight are used again and again.
    let mut found = 0;
    for round in 0..4000u32 {
        let a = if round % 2 == 0 { (round / 2 % 8) as u8 } else { (round.wrapping_mul(2_654_435_761) >> 24) as u8 };
        if cache.route(&[a, 3, 0, 0, 0, 0, 0, 0], 0).is_none_or(|route| route.depth < 2) {
            if cache.route(&[a, 3], 0).is_none_or(|route| route.depth < 1) {
                insert(&cache, top, &image(7, 0, b"x", children.iter().copied()));
            }
            insert(&cache, children[usize::from(a)], &child(a));
        } else if round % 2 == 0 {
            found += 1;
        }
    }
    assert!(found > 1900, "{found} of 2000 lookups of what is used all the time");
    assert!(cache.usage().evictions > 500 && cache.usage().moves > 100, "{:?}", cache.usage());
}

/// A tree of two levels with 4096 nodes of all sizes, which are asked for in proportion to a Zipf distribution (0.99)
/// over their numbers, scattered. Returns for how many of the lookups the cache knew the node.
fn hits_on_zipf(cache: &NodeCache<'_>, lookups: u32) -> u32 {
    const NODES: usize = 4096;
    let mut sums = Vec::new();
    let mut sum = 0.0;
    for rank in 1..=NODES {
        sum += 1.0 / std::primitive::f64::powf(rank as f64, 0.99);
        sums.push(sum);
    }
    let mut state = 1_u64;
    let mut hits = 0;
    let key = *b"abcdefgh";
    for _ in 0..lookups {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = (state >> 11) as f64 / (1_u64 << 53) as f64 * sum;
        let rank = sums.partition_point(|sum| *sum < drawn).min(NODES - 1);
        let number = (rank * 2_654_435_761 % NODES) as u64;
        let to = node_slot(1 + (number % 4) as u8, 1000 + 100 * number);
        // A tree whose root slot leads to that node: the question is whether there is a copy of it.
        cache.set_root(to, 0);
        if cache.route(&key, 0).is_some_and(|route| route.depth > 0) {
            hits += 1;
        } else {
            let leaf = Slot::leaf(key[1], Place::new(NodeId(0), 16));
            insert(cache, to, &image(1 + (number % 4) as u8, 1, &key, [leaf]));
        }
    }
    hits
}

#[test]
fn on_zipf_more_is_found_than_first_in_first_out() {
    // Copies of all nodes take 128 KiB.
    for (cache_kib, gain_permille) in [(7, 30), (14, 30), (35, 20)] {
        let (words, others) = (storage(cache_kib << 10), storage(cache_kib << 10));
        let hits = hits_on_zipf(&NodeCache::new(&words), 200_000);
        let fifo = hits_on_zipf(&NodeCache::new(&others).first_in_first_out(), 200_000);
        std::println!("{cache_kib} KiB: {hits} of 200000 found, first in first out {fifo}");
        assert!(hits > fifo + 200 * gain_permille, "{cache_kib} KiB: {hits} hits, {fifo} first in first out");
    }
}

/// A node of every size, full, and one under each of its bytes: every key is led to its own.
#[test]
fn every_byte_of_every_size_is_found() {
    for kind in 1..=7 {
        let words = storage(1 << 20);
        let cache = NodeCache::new(&words);
        let slots = NodeType::new(kind).unwrap().slots() as u64;
        let byte = |n: u64| (n * 37) as u8;
        let child = |n: u64| node_slot(1, 5000 + 3 * n).under(byte(n));
        let top = node_slot(kind, 100);
        cache.set_root(top, 0);
        insert(&cache, top, &image(kind, 1, b"k", (0..slots).map(child)));
        for n in 0..slots {
            let leaf = Slot::leaf(7, Place::new(NodeId(0), 16 + 16 * n));
            insert(&cache, child(n), &image(1, 2, &[b'k', byte(n)], [leaf]));
        }
        for round in 0..2 {
            for n in 0..slots {
                let route = cache.route(&[b'k', byte(n), 7, 0], 0).unwrap();
                let leaf = Slot::leaf(7, Place::new(NodeId(0), 16 + 16 * n));
                assert_eq!((route.word, route.owner), (leaf, child(n)), "{slots} slots, {n}, round {round}");
            }
            let above = cache.route(&[b'k', byte(slots - 1), 8, 0], 0).unwrap();
            assert_eq!((above.owner, above.index), (top, slots as usize - 1));
            insert(&cache, node_slot(7, 9_000_000), &image(7, 0, b"x", []));
        }
    }
}

#[test]
fn readers_never_see_a_mix() {
    // So few that a place is soon used again.
    let words = storage(2 << 10);
    let cache = NodeCache::new(&words);
    let top = node_slot(3, 1);
    cache.set_root(top, 0);
    // Each version of a slot has its number in both halves of the word.
    let version = |n: u64| Slot(node_slot(1, 1 + n * 0x1_0000 + n).0);
    let stop = core::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..200_000u64 {
                let n = n % 0xfff0;
                // What a reader finds if its record has gone: the same byte, and halves that do not belong together.
                let others = (0..8).map(|k| Slot(node_slot(1, 3 + n * 0x1_0000 + k).0).under(7));
                insert(&cache, node_slot(5, 9_000_000 + n), &image(5, 0, b"x", others));
                insert(&cache, top, &image(3, 0, b"x", [version(n).under(7)]));
                cache.patch(top, 0, version(n + 1).under(7), 0);
            }
            stop.store(true, Relaxed);
        });
        while !stop.load(Relaxed) {
            let Some(route) = cache.route(&[7; 8], 0) else { continue };
            if route.depth == 1 {
                let Ok(Child::Node(_, place)) = route.word.child() else { panic!("{route:?}") };
                let n = place.offset() / 16 - 1;
                assert_eq!(n >> 16, n & 0xffff, "a mix: {route:?}");
            }
        }
    });
}

/// A node's place has nodes with and without bytes in front, with few slots and with many, in turns.
#[test]
fn readers_never_see_a_mix_of_forms() {
    let words = storage(24 << 10);
    let cache = NodeCache::new(&words);
    let top = node_slot(3, 1);
    cache.set_root(top, 0);
    let child = |byte: u8| node_slot(1, 5000 + u64::from(byte)).under(byte);
    let stop = core::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..100_000u64 {
                let others = 0..(n % 13) as u8;
                if n % 2 == 0 {
                    insert(
                        &cache,
                        top,
                        &image(3, 0, b"", [child(7)].into_iter().chain(others.map(|n| child(200 + n)))),
                    );
                    cache.patch(top, 14, child(250), 0);
                } else {
                    insert(
                        &cache,
                        top,
                        &image(3, 2, b"xy", [child(9)].into_iter().chain(others.map(|n| child(220 + n)))),
                    );
                    cache.patch(top, 13, child(240), 0);
                }
                if n % 7 == 0 {
                    insert(&cache, node_slot(6, 9_000_000 + n), &image(6, 0, b"x", (0..128).map(child)));
                }
            }
            stop.store(true, Relaxed);
        });
        let mut found = [0_usize; 2];
        while !stop.load(Relaxed) {
            for (key, depth, end) in [(*b"\x07...", 1, 7), (*b"xy\x09.", 3, 9)] {
                let Some(route) = cache.route(&key, 0).filter(|route| route.depth > 0) else { continue };
                assert_eq!((route.word, route.depth, route.index), (child(end), depth, 0));
                found[usize::from(end == 9)] += 1;
            }
            // What no node has: the byte of one at the position of the other.
            for key in [*b"\x09...", *b"xy\x07.", *b"xz\x09."] {
                assert_eq!(cache.route(&key, 0).map(|route| route.depth), Some(0));
            }
        }
        assert!(found.iter().all(|found| *found > 100), "{found:?}");
    });
}

/// Of every type, with bytes in front and without: a copy with one slot, into which all others are patched.
#[test]
fn a_copy_that_grows_keeps_its_slots() {
    for (kind, key) in (1..=7).flat_map(|kind| [(kind, [].as_slice()), (kind, b"abc".as_slice())]) {
        let words = storage(1 << 20);
        let cache = NodeCache::new(&words);
        let top = node_slot(kind, 100);
        cache.set_root(top, 0);
        let slots = NodeType::new(kind).unwrap().slots();
        let leaf = |n: usize| Slot::leaf((n * 37) as u8, Place::new(NodeId(0), 16 + 16 * n as u64));
        insert(&cache, top, &image(kind, key.len(), key, [leaf(0)]));
        for n in 1..slots {
            cache.patch(top, n, leaf(n), 0);
            for other in [0, n / 2, n] {
                let key = [key, &[leaf(other).partial(), 0]].concat();
                let route = cache.route(&key, 0).unwrap();
                assert_eq!((route.word, route.index), (leaf(other), other), "{slots} slots, {other} after {n}");
            }
        }
        let grown = cache.usage();
        let units = counted(&cache).iter().sum::<u32>() as usize;
        let front_bytes = if key.is_empty() { 0 } else { 8 };
        assert_eq!(units, (COPY_BYTES[usize::from(kind) - 1] + front_bytes).div_ceil(16));
        // It does not grow again.
        cache.patch(top, slots - 1, leaf(0).under(leaf(slots - 1).partial()), 0);
        assert_eq!(cache.usage(), grown);
    }
}

#[test]
fn a_copy_has_room_for_the_slots_in_use() {
    let words = storage(1 << 20);
    let cache = NodeCache::new(&words);
    let leaf = |n: u8| Slot::leaf(n, Place::new(NodeId(0), 16));
    let mut all = 0;
    for (kind, slots, bytes) in [(1, 1, 32), (1, 2, 32), (1, 3, 48), (2, 4, 48), (3, 5, 64), (7, 8, 80), (3, 9, 160)] {
        insert(&cache, node_slot(kind, 1000 + all), &image(kind, 0, b"", (0..slots).map(leaf)));
        assert_eq!(cache.usage().used_bytes, all + bytes, "{slots} slots");
        all += bytes;
    }
    assert_eq!(COPY_BYTES, [48, 80, 160, 304, 592, 1168, 2320]);
}

/// What the counts of levels should be, from the log itself.
fn counted(cache: &NodeCache<'_>) -> [u32; LEVELS_MAX] {
    let mut all = [0; LEVELS_MAX];
    let (mut at, tail) = (cache.head.load(Relaxed), cache.tail.load(Relaxed));
    while at < tail {
        let [_, size, ..] = cache.record(at, 1).unwrap() else { panic!() };
        let (units, pad) = (size.load(Relaxed) >> EPOCH_BITS, size.load(Relaxed));
        // Padding at the end of the ring, of one unit or more.
        if units == 0 {
            at += pad;
            continue;
        }
        let [_, _, low, high, ..] = cache.record(at, record::HEAD_UNITS).unwrap() else { panic!() };
        let name = Name::load(low, high);
        // Neither do copies count that larger ones have replaced.
        if name != Name::NONE {
            all[usize::from(name.position())] += units;
        }
        at += units;
    }
    all
}

#[test]
fn copies_of_each_level_are_counted() {
    let words = storage(100_000);
    let cache = NodeCache::new(&words);
    for n in 0..20_000u64 {
        let kind = 1 + (n % 6) as u8;
        // Places are reused, now and then for a node at another position.
        let to = node_slot(kind, 1000 + n * 7919 % 500);
        insert(&cache, to, &image(kind, (n / 500 % 5) as usize, b"xxxxxxxx", []));
        if n % 97 == 0 {
            let units: Vec<u32> = cache.units_at.iter().map(|units| units.load(Relaxed)).collect();
            assert_eq!(units, counted(&cache), "after {n}");
        }
    }
    assert!(cache.usage().evictions > 1000);
    cache.clear();
    assert_eq!(counted(&cache), [0; LEVELS_MAX]);
    assert!(cache.units_at.iter().all(|units| units.load(Relaxed) == 0));
}

/// Two levels of nodes under a root of 256, of which those of the lowest level are too many to be near.
#[test]
fn lookups_in_steps_end_where_others_do() {
    fn nothing(_: &AtomicU32) {}
    let words = storage(4 << 20);
    let cache = NodeCache::new(&words);
    let (top, kind) = (node_slot(7, 1), 3);
    cache.set_root(top, 0);
    let middle = |a: u8| node_slot(5, 1000 + 200 * u64::from(a)).under(a);
    let lowest = |a: u8, b: u8| node_slot(kind, 100_000 + 64 * (u64::from(a) << 6 | u64::from(b))).under(b);
    let leaf = |a: u8, b: u8, c: u8| {
        Slot::leaf(c, Place::new(NodeId(0), 16 * (1 + (u64::from(a) << 16 | u64::from(b) << 8 | u64::from(c)))))
    };
    let fill_top = || insert(&cache, top, &image(7, 0, b"x", (0..=255).map(middle)));
    let fill_middle = |a: u8| insert(&cache, middle(a), &image(5, 1, &[a], (0..64).map(|b| lowest(a, b))));
    let fill_lowest =
        |a: u8, b: u8| insert(&cache, lowest(a, b), &image(kind, 2, &[a, b], (0..16).map(|c| leaf(a, b, 16 * c))));
    fill_top();
    (0..32).for_each(fill_middle);
    for (a, b) in (0..32).flat_map(|a| (0..64).map(move |b| (a, b))) {
        fill_lowest(a, b);
    }
    let all = |visit: &mut dyn FnMut([u8; 8])| {
        for (a, b) in (0..32).flat_map(|a| (0..64).map(move |b| (a, b))) {
            visit([a, b, 16 * (b % 16), 0, 0, 0, 0, 0]);
        }
    };
    let (mut asked, mut steps) = (0, 0);
    // The first time, no record has the positions of the lowest ones.
    for _ in 0..2 {
        asked = 0;
        all(&mut |key| {
            let mut walk = cache.enter_at_root(0).unwrap();
            while !cache.follow(&mut walk, &key, 0, Some(nothing)) {
                asked += 1;
            }
            steps += 1;
            let [a, b, c, ..] = key;
            assert_eq!((walk.route.word, walk.route.owner), (leaf(a, b, c), lowest(a, b)));
            assert_eq!(Some(walk.route), cache.route(&key, 0));
        });
    }
    assert_eq!(asked, steps / 2, "the lowest level is far, and no other");
    // What a lookup waits for may go meanwhile, and return elsewhere; so may the log's positions.
    for turn in 0..9 {
        cache.clear();
        cache.set_root(top, 0);
        fill_top();
        (0..32).for_each(fill_middle);
        all(&mut |[a, b, ..]| fill_lowest(a, b));
        let key = [turn * 3, turn * 7, 16 * turn, 0, 0, 0, 0, 0];
        cache.route(&key, 0);
        let mut walk = cache.enter_at_root(0).unwrap();
        assert!(!cache.follow(&mut walk, &key, 0, Some(nothing)));
        let [a, b, c, ..] = key;
        assert_eq!(walk.route.word, lowest(a, b));
        let mut ends = leaf(a, b, c);
        match turn % 3 {
            0 => {
                cache.clear();
                fill_lowest(31, 63);
                fill_lowest(a, b);
                ends = lowest(a, b);
            }
            1 => {
                for n in 0..10_000 {
                    insert(&cache, node_slot(7, 9_000_000 + 200 * n), &image(7, 0, b"x", (0..=255).map(middle)));
                }
                ends = lowest(a, b);
            }
            _ => cache.patch(lowest(a, b), usize::from(c / 16), Slot::leaf(c, Place::new(NodeId(0), 48)), 0),
        }
        if turn % 3 == 2 {
            ends = Slot::leaf(c, Place::new(NodeId(0), 48));
        }
        assert!(cache.follow(&mut walk, &key, 0, Some(nothing)));
        assert_eq!(walk.route.word, ends, "turn {turn}");
    }
}

/// A node of tiles in the cache: to the slot that an image of it has, and above it if the copy lacks that slot.
fn check_tiles(lows: &[u8], missing: &[bool], patched: bool) -> Result<(), TestCaseError> {
    let words = storage(1 << 16);
    let cache = NodeCache::new(&words);
    let number = (1..=7).find(|number| NodeType::new(*number).unwrap().slots() >= lows.len()).unwrap();
    let kind = NodeType::new(number).unwrap();
    let top = Slot::tile_node(0, kind, Place::new(NodeId(0), 1600));
    let mut sorted = lows.to_vec();
    sorted.sort_unstable();
    let slots: Vec<Slot> = (lows.iter().zip(1..))
        .map(|(low, n)| {
            let next = sorted.iter().find(|other| *other > low);
            let last = next.map_or(255, |next| next - 1);
            match n % 3 {
                0 if last == *low => Slot::tile_node(*low, NodeType::SMALLEST, Place::new(NodeId(0), 16_000 + 64 * n)),
                1 => Slot::tile_leaf(*low, Address::new(NodeId(1), 6400 + 64 * n, n as u8)).unwrap(),
                _ => Slot::void(Tile::new(*low, last).unwrap()),
            }
        })
        .collect();
    // The slot at byte 0 is the first one, and always there.
    let is_missing = |index: usize| index > 0 && missing.get(index) == Some(&true);
    let old = slots.iter().enumerate().filter(|(index, _)| !is_missing(*index)).map(|(_, slot)| *slot);
    let old: Vec<Slot> = if patched { slots[..1].to_vec() } else { old.collect() };
    cache.set_root(top, 0);
    insert(&cache, top, &image(number, 1, b"k", old.iter().copied()));
    if patched {
        let learned = slots.iter().enumerate().skip(1).filter(|(index, _)| !is_missing(*index));
        learned.for_each(|(index, slot)| cache.patch(top, index, *slot, 0));
    }
    for byte in 0..=255 {
        let known = slots.iter().enumerate().filter(|(index, slot)| !is_missing(*index) && slot.partial() <= byte);
        let (_, slot) = known.max_by_key(|(_, slot)| slot.partial()).unwrap();
        let route = cache.route(&[b'k', byte, 9], 0).unwrap();
        if slot.may_cover(byte) {
            prop_assert_eq!((route.word, route.depth, route.owner), (*slot, 2, top), "byte {}", byte);
            prop_assert!(!patched || slots[route.index] == *slot);
        } else {
            prop_assert_eq!((route.word, route.depth), (top, 0), "byte {}", byte);
        }
    }
    prop_assert_eq!(cache.route(b"x99", 0).unwrap().word, top);
    Ok(())
}

#[test]
fn a_node_of_tiles_below_a_node_of_bytes_is_searched_for_the_floor() {
    let words = storage(1 << 16);
    let cache = NodeCache::new(&words);
    let top = node_slot(3, 100);
    let below = Slot::tile_node(b'a', NodeType::new(2).unwrap(), Place::new(NodeId(0), 8000));
    let leaf = |low: u8| Slot::tile_leaf(low, Address::new(NodeId(0), 64 * (1 + u64::from(low)), low)).unwrap();
    cache.set_root(top, 0);
    insert(&cache, top, &image(3, 0, b"", [below]));
    let Some((kind, _)) = below.below() else { panic!() };
    let bytes = image(2, 1, b"a", [leaf(0), leaf(90), leaf(10)]);
    cache.insert(below, &Node::new(&bytes, kind, 1).unwrap(), 0);
    for (byte, low, index) in [(0, 0, 0), (9, 0, 0), (10, 10, 2), (89, 10, 2), (90, 90, 1), (255, 90, 1)] {
        let route = cache.route(&[b'a', byte], 0).unwrap();
        assert_eq!((route.word, route.index, route.depth), (leaf(low), index, 2), "byte {byte}");
    }
    assert_eq!(cache.route(&[b'b', 0], 0).unwrap().word, top, "of bytes: only equal ones");
}

proptest! {
    #[test]
    fn a_copy_of_tiles_leads_to_the_floor(
        lows in proptest::collection::btree_set(1_u8..=255, 0..255),
        turn in any::<usize>(),
        missing in proptest::collection::vec(any::<bool>(), 256),
        patched in any::<bool>(),
    ) {
        let mut lows: Vec<u8> = lows.into_iter().collect();
        let count = lows.len().max(1);
        lows.rotate_left(turn % count);
        lows.insert(0, 0);
        check_tiles(&lows, &missing, patched)?;
    }
}
