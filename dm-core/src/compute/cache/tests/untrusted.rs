//! Nodes that are not in order, and storage with any content.

use super::*;

#[test]
fn what_is_not_a_node_in_order_is_not_copied() {
    let storage = storage(words_for_frames(4, 8, 4));
    let cache = IndexCache::new(&storage, 8, 4);
    let good = node(1, 10, Some(50), &[20, 30, 40], 50);
    assert!(cache.insert(at(1), &good, 0));
    cache.clear();
    let changes: [fn(&mut Node); 9] = [
        |node| node.level = 0,
        |node| node.level = LEVEL_MAX + 1,
        |node| node.children[2] = Address::NULL,
        |node| node.separators.swap(0, 1),
        |node| node.separators[0] = node.low.clone(),
        |node| node.separators[2] = node.high.clone().unwrap(),
        |node| node.high = Some(node.low.clone()),
        |node| node.children.clear(),
        |node| {
            node.separators.push(45u64.to_be_bytes().to_vec());
            node.children.push(at(99));
        },
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut bad = good.clone();
        change(&mut bad);
        assert!(!cache.insert(at(1), &bad, 0), "change {i}");
    }
    assert!(!cache.insert(Address::NULL, &good, 0));
    assert_eq!(cache.usage().frames_used, 0);
}

/// A node that gives another answer at every call.
struct Liar(core::cell::RefCell<Draw>);

impl Branch for Liar {
    fn level(&self) -> u8 {
        1 + self.0.borrow_mut().below(3) as u8
    }
    fn low(&self, out: &mut [u8]) {
        out.fill(0);
    }
    fn high(&self, _: &mut [u8]) -> bool {
        false
    }
    fn children(&self) -> usize {
        1 + self.0.borrow_mut().below(2) as usize
    }
    fn child(&self, _: usize) -> Address {
        Address::from_bits(self.0.borrow_mut().next())
    }
    fn separator(&self, _: usize, out: &mut [u8]) {
        for byte in out.iter_mut() {
            *byte = self.0.borrow_mut().next() as u8;
        }
    }
}

#[test]
fn readers_survive_any_content_of_the_storage() {
    let mut draw = Draw(3);
    for key_bytes in [8, 20] {
        let storage = storage(words_for_frames(16, key_bytes, 9));
        let cache = IndexCache::new(&storage, key_bytes, 9);
        let liar = Liar(core::cell::RefCell::new(Draw(4)));
        for i in 1..50 {
            assert!(cache.insert(at(i), &liar, 0));
        }
        for _ in 0..20_000 {
            // Small numbers look like frames, links and counts. Sometimes the addresses of copies are left as they
            // are.
            let word = draw.below(storage.len() as u64) as usize;
            let value = if draw.below(2) == 0 { draw.below(20) as u32 } else { draw.next() as u32 };
            storage[word].store(value, Relaxed);
            let key = draw.next().to_be_bytes();
            let known = cache.frame(draw.below(16) as u32).unwrap().address();
            cache.route(known, draw.next() as u8, 0, &key, 0);
            cache.ask_ahead(known, draw.next() as u8, &key, |_| {});
            cache.route_at(draw.below(40) as u32, &key, 0);
            cache.route(known, 1 + draw.below(3) as u8, 0, &key[..draw.below(9) as usize], 0);
        }
    }
}
