//! Routes are those of a model, and end where copies end or do not cover the key.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::vec;

/// A tree over given leaf boundaries, and per level a map from first key to node.
struct Model {
    root: Address,
    root_level: u8,
    nodes: BTreeMap<Address, Node>,
    leaves: BTreeMap<Vec<u8>, Address>,
}

impl Model {
    fn grow(draw: &mut Draw, keys: &BTreeSet<Vec<u8>>, key_bytes: usize, children_max: usize) -> Self {
        let mut line = 1;
        let mut place = || {
            line += 1;
            at(line)
        };
        let mut leaves: BTreeMap<Vec<u8>, Address> = keys.iter().map(|key| (key.clone(), place())).collect();
        leaves.insert(vec![0; key_bytes], place());
        let mut nodes = BTreeMap::new();
        let mut below: Vec<(Vec<u8>, Address)> = leaves.clone().into_iter().collect();
        let mut level = 0;
        while below.len() > 1 || level == 0 {
            level += 1;
            let mut above = Vec::new();
            let mut rest = &below[..];
            while !rest.is_empty() {
                let children = (1 + draw.below(children_max as u64) as usize).max(2).min(children_max).min(rest.len());
                let (chunk, after) = rest.split_at(children);
                rest = after;
                let address = place();
                above.push((chunk[0].0.clone(), address));
                nodes.insert(
                    address,
                    Node {
                        level,
                        low: chunk[0].0.clone(),
                        high: rest.first().map(|next| next.0.clone()),
                        separators: chunk[1..].iter().map(|child| child.0.clone()).collect(),
                        children: chunk.iter().map(|child| child.1).collect(),
                    },
                );
            }
            below = above;
        }
        Self { root: below[0].1, root_level: level, nodes, leaves }
    }

    fn route(&self, cached: &BTreeSet<Address>, key: &[u8]) -> Route {
        let mut route =
            Route { address: self.root, level: self.root_level, parent: None, next: Address::NULL, stale: false };
        while route.level > 0 && cached.contains(&route.address) {
            let node = &self.nodes[&route.address];
            let slot = node.separators.iter().filter(|separator| separator.as_slice() <= key).count();
            route = Route {
                address: node.children[slot],
                level: route.level - 1,
                parent: Some(route.address),
                next: Address::NULL,
                stale: false,
            };
        }
        route
    }
}

/// Keys of several kinds, each of which tries another part of the search.
fn draw_key(draw: &mut Draw, kind: u64, key_bytes: usize) -> Vec<u8> {
    let mut key = vec![0; key_bytes];
    match kind {
        // Spread over the whole key space.
        0 => key.iter_mut().for_each(|byte| *byte = draw.next() as u8),
        // Dense at the end of a long shared prefix.
        1 => {
            key.fill(0x55);
            let number = (draw.below(3_000) as u16).to_be_bytes();
            key[key_bytes - 2..].copy_from_slice(&number);
        }
        // Two clusters far apart: the discriminators of a node between them are all equal.
        2 => {
            key[0] = if draw.below(2) == 0 { 1 } else { 0xfe };
            key[key_bytes - 1] = draw.next() as u8;
            key[key_bytes - 2] = draw.below(4) as u8;
        }
        // Few values per byte, everywhere: ties at every depth.
        3 => key.iter_mut().for_each(|byte| *byte = b'0' + draw.below(3) as u8),
        // The ends of the key space.
        _ => {
            key.fill(if draw.below(2) == 0 { 0 } else { 0xff });
            let byte = draw.below(key_bytes as u64) as usize;
            key[byte] = draw.next() as u8;
        }
    }
    key
}

fn step(key: &[u8], up: bool) -> Vec<u8> {
    let mut key = key.to_vec();
    for byte in key.iter_mut().rev() {
        *byte = if up { byte.wrapping_add(1) } else { byte.wrapping_sub(1) };
        if *byte != if up { 0 } else { 0xff } {
            break;
        }
    }
    key
}

/// Every operation may begin at the copy that it asked for, and then no route comes by to note where that copy is.
#[test]
fn asking_notes_where_the_copy_is() {
    // As a host hands it in.
    let storage: Vec<_> = (0..words_for_frames(8, 8, 8)).map(|_| AtomicU32::new(0)).collect();
    let cache = IndexCache::new(&storage, 8, 8);
    let root = node(2, 0, None, &[100], 20);
    assert!(cache.insert(at(1), &root, 0));
    assert!(cache.insert(root.children[1], &node(1, 100, None, &[200], 40), 0));
    let key = 150_u64.to_be_bytes();
    let noted = || cache.descend(at(1), 2, 1, ShortKey::new(&key), 0).1.map(|hint| hint.load(Relaxed));
    assert_eq!(noted(), Some(0));
    let asked = cache.ask_ahead(at(1), 2, &key, |_| {}).unwrap();
    assert_eq!(noted(), Some(asked + 1));
    assert_eq!(cache.ask_ahead(at(1), 2, &key, |_| {}), Some(asked));
    assert_eq!(cache.route_at(asked, &key, 0).map(|route| route.address), Some(at(40)));
}

#[test]
fn routes_are_the_models_for_every_key_size_and_kind() {
    let mut draw = Draw(1);
    for key_bytes in [2, 7, 8, 9, 12, 16, 31, 64] {
        for kind in 0..5 {
            for children_max in [2, 17, 61, 130] {
                let keys: BTreeSet<Vec<u8>> = (0..600).map(|_| draw_key(&mut draw, kind, key_bytes)).collect();
                let model = Model::grow(&mut draw, &keys, key_bytes, children_max);
                let words = words_for_frames(model.nodes.len(), key_bytes, children_max);
                let storage = storage(words);
                let cache = IndexCache::new(&storage, key_bytes, children_max);
                assert_eq!(cache.usage().frames, model.nodes.len() as u64);
                let (mut cached, mut begun) = (BTreeSet::new(), 0);
                // Some copies, then all: misses at every level, and hints that change from wrong to right.
                for share in [3, 1] {
                    for (address, node) in &model.nodes {
                        if draw.below(share) == 0 || share == 1 {
                            assert!(cache.insert(*address, node, 0));
                            cached.insert(*address);
                        }
                    }
                    for _ in 0..2 {
                        for key in &keys {
                            for key in [key.clone(), step(key, true), step(key, false)] {
                                let route = cache.route(model.root, model.root_level, 0, &key, 0);
                                assert_eq!(
                                    route,
                                    model.route(&cached, &key),
                                    "{key_bytes} bytes, kind {kind}: {key:?}"
                                );
                                // A route that begins at the copy that was asked for leads to the same leaf, or to none.
                                if let Some(at) = cache.ask_ahead(model.root, model.root_level, &key, |_| {}) {
                                    let asked = cache.route_at(at, &key, 0);
                                    assert!(asked.is_none_or(|asked| asked == route), "{asked:?}, {route:?}");
                                    begun += usize::from(asked.is_some());
                                }
                                let any = cache.route_at(draw.below(2 * model.nodes.len() as u64) as u32, &key, 0);
                                assert!(share != 1 || any.is_none_or(|any| any == route), "{any:?}, {route:?}");
                            }
                            let key = draw_key(&mut draw, kind, key_bytes);
                            let route = cache.route(model.root, model.root_level, 0, &key, 0);
                            if share == 1 {
                                let leaf = model.leaves.range(..=key).next_back().unwrap();
                                assert_eq!((route.address, route.level), (*leaf.1, 0));
                            }
                        }
                    }
                }
                assert_eq!(cache.usage().evictions, 0);
                assert!(
                    begun >= keys.len() || model.root_level == 0,
                    "{begun} routes began at the copy that was asked for"
                );
            }
        }
    }
}

#[test]
fn a_root_that_is_a_leaf_or_unknown_ends_the_route_at_once() {
    let storage = storage(words_for_frames(4, 8, 61));
    let cache = IndexCache::new(&storage, 8, 61);
    assert_eq!(
        route_to(&cache, at(9), 0, 5),
        Route { address: at(9), level: 0, parent: None, next: Address::NULL, stale: false }
    );
    assert_eq!(
        route_to(&cache, at(9), 3, 5),
        Route { address: at(9), level: 3, parent: None, next: Address::NULL, stale: false }
    );
    assert_eq!(route_to(&cache, Address::NULL, 3, 5).address, Address::NULL);
}

#[test]
fn another_generation_of_the_place_is_a_miss() {
    let storage = storage(words_for_frames(4, 8, 61));
    let cache = IndexCache::new(&storage, 8, 61);
    let old = at(10);
    assert!(cache.insert(old, &node(1, 0, None, &[100], 50), 0));
    assert_eq!(route_to(&cache, old, 1, 100).address, at(51));
    let new = old.next_generation();
    assert_eq!(
        route_to(&cache, new, 1, 100),
        Route { address: new, level: 1, parent: None, next: Address::NULL, stale: false }
    );

    // A copy of the next generation takes the frame of the former one.
    assert!(cache.insert(new, &node(1, 0, None, &[100], 60), 0));
    assert_eq!(cache.usage().frames_used, 1);
    assert_eq!(route_to(&cache, new, 1, 100).address, at(61));
    assert_eq!(route_to(&cache, old, 1, 100).level, 1);
}

#[test]
fn invalidation_spares_the_copy_of_a_later_generation() {
    let storage = storage(words_for_frames(4, 8, 61));
    let cache = IndexCache::new(&storage, 8, 61);
    let old = Address::new(NodeId(1), 640, 63);
    let new = old.next_generation();
    assert!(cache.insert(new, &node(1, 0, None, &[100], 60), 0));
    cache.invalidate(old);
    assert_eq!(cache.usage().frames_used, 1);
    cache.invalidate(new);
    assert_eq!(cache.usage().frames_used, 0);
    cache.invalidate(new);
    assert!(cache.insert(old, &node(1, 0, None, &[100], 60), 0));
    cache.invalidate(new);
    assert_eq!(cache.usage().frames_used, 0);
    assert_eq!(route_to(&cache, old, 1, 100).level, 1);
}

#[test]
fn a_copy_that_does_not_cover_the_key_stops_the_route_above_it() {
    let storage = storage(words_for_frames(4, 8, 61));
    let cache = IndexCache::new(&storage, 8, 61);
    let root = at(1);
    assert!(cache.insert(root, &node(2, 0, None, &[1000, 2000], 50), 0));
    // The middle child was copied before or after a split: its fences are 1100..1900.
    assert!(cache.insert(at(51), &node(1, 1100, Some(1900), &[1500], 70), 0));
    assert_eq!(route_to(&cache, root, 2, 1500).address, at(71));
    for key in [1000, 1099, 1900, 1999] {
        let route = route_to(&cache, root, 2, key);
        assert_eq!(
            route,
            Route { address: at(51), level: 1, parent: Some(root), next: Address::NULL, stale: true },
            "key {key}"
        );
    }
    // A copy of another level than its parent says is refused as well.
    assert!(cache.insert(at(50), &node(5, 0, Some(1000), &[500], 80), 0));
    assert_eq!(
        route_to(&cache, root, 2, 5),
        Route { address: at(50), level: 1, parent: Some(root), next: Address::NULL, stale: true }
    );
    // After another READ it is followed.
    assert!(cache.insert(at(51), &node(1, 1000, Some(2000), &[1500], 70), 0));
    assert_eq!(
        route_to(&cache, root, 2, 1999),
        Route { address: at(71), level: 0, parent: Some(at(51)), next: Address::NULL, stale: false }
    );
}
