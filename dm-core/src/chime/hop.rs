//! Making room: hopscotch insertion (Herlihy, Shavit, Tzafrir, DISC 2008; CHIME section 4.1.2), and when the entry of a
//! deleted record may be used again.
//!
//! From the home of the new key on, look for a *hole*: an entry that is empty, or dead under the condition below. While
//! the hole is too far from the home, the *farthest* of the `H - 1` entries before it moves into it, of those whose
//! key's home is near enough to the hole. The entry where that key was is the new hole.
//!
//! **The rule that readers rely on**: *between two WRITEs of the whole node, when an entry's key is replaced by
//! another, the new key lies farther from its home there than the old one did.* So an entry never again gets a key of
//! the same home. A dead entry is filled only if the key that moves in lies farther from its home than the dead key
//! does. [`chime_neighborhoods`](crate::manual::chime_neighborhoods) proves that hops keep the rule, and that it is
//! enough.
//!
//! If a dead record's own key is inserted again, the record is revived in place: it is the same key.
//!
//! # Rearrangement
//!
//! Hops go forward only. In a leaf that was split once that leaves room unused: records lie far from their homes with
//! holes before them. When no hop helps and the leaf is going to be written as a whole anyway, records may move in both
//! directions within their neighborhoods. Entries and records are the two sides of a bipartite graph, and a shortest
//! *augmenting path* (Berge, PNAS 1957) from the new record to an empty entry makes room if any arrangement has it.
//! With 64 entries and neighborhoods of 8 a leaf then splits when it is 93 % full, instead of 88 %.

use super::layout::{LeafMut, SPAN_MAX, State, Touched};
use crate::layout::Bits;
use heapless::Vec;

impl LeafMut<'_> {
    /// Inserts a record, whose key is neither live nor dead here, into the neighborhood of `home`, by hops if needed.
    /// Only the `count` entries of the image from `home` on may be looked at. Returns how far from `home` the hole was:
    /// all changes lie between. `None`: no hops make room, and nothing was changed.
    pub fn place(
        &mut self,
        home: usize,
        key: &[u8],
        value: &[u8],
        count: usize,
        touched: &mut Touched,
    ) -> Option<usize> {
        let shape = self.shape();
        for hole in 0..count.min(shape.span) {
            let dead = match self.view().state(shape.after(home, hole)) {
                State::Live => continue,
                State::Empty => None,
                State::Dead => Some(self.view().displacement(shape.after(home, hole))),
            };
            if !self.reaches(home, hole, dead) {
                continue;
            }
            if let Some(displacement) = dead {
                // The dead record here is overwritten.
                let slot = shape.after(home, hole);
                let former = shape.after(slot, shape.span - displacement);
                self.set_bit(former, displacement, false);
                touched.add_bitmap(former);
            }
            let mut at = hole;
            while at >= shape.neighborhood {
                // `reaches` took the same steps.
                let (from, displacement) = self.farthest(home, at)?;
                self.hop(home, from, at, displacement, touched);
                at = from;
            }
            let slot = shape.after(home, at);
            self.put(slot, key, value);
            self.set_bit(home, at, true);
            touched.add(slot);
            touched.add_bitmap(home);
            return Some(hole);
        }
        None
    }

    /// Whether a hole at distance `hole` can be brought into the neighborhood of `home`, and, if it is dead, be filled
    /// at all.
    fn reaches(&self, home: usize, hole: usize, dead: Option<usize>) -> bool {
        let mut at = hole;
        let mut first = true;
        while at >= self.shape().neighborhood {
            let Some((from, displacement)) = self.farthest(home, at) else { return false };
            if first && dead.is_some_and(|dead| at - from + displacement <= dead) {
                return false;
            }
            first = false;
            at = from;
        }
        !first || dead.is_none_or(|dead| at > dead)
    }

    /// The farthest record that can move to distance `at`, and its displacement where it is.
    ///
    /// Its home is less than a neighborhood in front of `at`, and has a bit for it. Bitmaps are looked at, and the home of the one
    /// record that they name: the homes of all records in front, each a hash, took a tenth of an insert.
    fn farthest(&self, home: usize, at: usize) -> Option<(usize, usize)> {
        let (shape, leaf) = (self.shape(), self.view());
        let mut farthest = None;
        for owner in at + 1 - shape.neighborhood..at {
            // A record lies at its home or behind it.
            let end = farthest.map_or(at, |(from, _)| from);
            if owner >= end {
                break;
            }
            let of_home = Bits(leaf.bitmap(shape.after(home, owner)).into()).map(usize::from);
            let is_live = |displacement: &usize| leaf.state(shape.after(home, owner + displacement)) == State::Live;
            let nearest = of_home.take_while(|displacement| owner + displacement < end).find(is_live);
            farthest = nearest.map(|displacement| (owner + displacement, displacement)).or(farthest);
        }
        // A bit that is wrong must not move a record out of its neighborhood.
        farthest.filter(|(from, displacement)| leaf.displacement(shape.after(home, *from)) == *displacement)
    }

    fn hop(&mut self, home: usize, from: usize, to: usize, displacement: usize, touched: &mut Touched) {
        let shape = self.shape();
        let (source, target) = (shape.after(home, from), shape.after(home, to));
        let owner = shape.after(source, shape.span - displacement);
        self.copy_within(source, target);
        self.set_state(target, State::Live);
        self.set_bit(owner, displacement, false);
        self.set_bit(owner, displacement + to - from, true);
        touched.add(source);
        touched.add(target);
        touched.add_bitmap(owner);
    }

    /// As [`LeafMut::place`] with all entries and without its rule: by any moves of records within their neighborhoods.
    /// Only for images without dead records that are written as a whole. `false`: no arrangement has room for this
    /// record, and nothing was changed.
    pub fn rearrange(&mut self, home: usize, key: &[u8], value: &[u8]) -> bool {
        let shape = self.shape();
        // For each entry that was reached: the entry whose record would move there; itself: the new record would.
        let mut from = [u16::MAX; SPAN_MAX];
        let mut queue: Vec<u16, SPAN_MAX> = Vec::new();
        for slot in (0..shape.neighborhood).map(|distance| shape.after(home, distance)) {
            if let Some(mark) = from.get_mut(slot) {
                *mark = slot as u16;
            }
            // It has room: as many as slots, each once.
            let _ = queue.push(slot as u16);
        }
        let mut next = 0;
        let hole = loop {
            // Breadth first: the fewest moves.
            let Some(&slot) = queue.get(next) else { return false };
            let slot = usize::from(slot);
            next += 1;
            if self.view().state(slot) != State::Live {
                break slot;
            }
            let owner = self.view().home_of(slot);
            for reached in (0..shape.neighborhood).map(|distance| shape.after(owner, distance)) {
                if let Some(mark) = from.get_mut(reached)
                    && *mark == u16::MAX
                {
                    *mark = slot as u16;
                    let _ = queue.push(reached as u16);
                }
            }
        };
        let mut at = hole;
        // Ends: each entry was reached from one that was reached before, and the first from none.
        while let Some(source) = from.get(at).map(|&source| usize::from(source)).filter(|&source| source != at) {
            let owner = self.view().home_of(source);
            self.copy_within(source, at);
            self.set_state(at, State::Live);
            self.set_bit(owner, shape.distance(owner, source), false);
            self.set_bit(owner, shape.distance(owner, at), true);
            at = source;
        }
        self.put(at, key, value);
        self.set_bit(home, shape.distance(home, at), true);
        true
    }

    /// Visits the live slots, one after the other from `home`, whose removal would make room for a key of that home
    /// (CHIME section 4.4, "critical keys"). The live ones of the `H` of the neighborhood are always among them.
    pub fn critical(&self, home: usize, mut visit: impl FnMut(usize)) {
        let shape = self.shape();
        for hole in 0..shape.span {
            let slot = shape.after(home, hole);
            if self.view().state(slot) != State::Live {
                break;
            }
            if self.reaches(home, hole, None) {
                visit(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Leaf, LeafShape, SPAN_MAX};
    use super::*;
    use crate::btree::node::{self, Header, NodeFlags};
    use crate::layout::stripes;
    use crate::remote::address::Address;
    use proptest::prelude::*;
    extern crate std;
    use std::collections::BTreeMap;
    use std::vec;
    use std::vec::Vec;

    fn image(shape: &LeafShape) -> Vec<u8> {
        let mut image = vec![0; shape.bytes];
        let header =
            Header { generation: 0, level: 0, index: 1, flags: NodeFlags::empty(), count: 0, sibling: Address::NULL };
        node::start(&mut image, &header, &[0; 8], None);
        LeafMut::new(shape, &mut image).seal(0);
        image
    }

    /// A leaf, what is in it, and each image of it since it was last written as a whole.
    struct Model {
        shape: LeafShape,
        image: Vec<u8>,
        records: BTreeMap<u64, u64>,
        epoch: Vec<(Vec<u8>, BTreeMap<u64, u64>)>,
        /// How many hops there were: a test that never hops proves nothing.
        hops: usize,
    }

    impl Model {
        fn new(shape: LeafShape) -> Self {
            let image = image(&shape);
            let epoch = vec![(image.clone(), BTreeMap::new())];
            Self { shape, image, records: BTreeMap::new(), epoch, hops: 0 }
        }

        fn leaf(&self) -> Leaf<'_> {
            Leaf::new(&self.shape, &self.image)
        }

        fn changed(&mut self, touched: &Touched) {
            self.touched_all(touched);
            LeafMut::new(&self.shape, &mut self.image).raise(touched);
            self.epoch.push((self.image.clone(), self.records.clone()));
        }

        /// Nothing has changed but what is said to be touched: nothing else would be WRITTEN.
        fn touched_all(&self, touched: &Touched) {
            let Some((before, _)) = self.epoch.last() else { return };
            for slot in 0..self.shape.span {
                let mut more = *touched;
                more.add(slot);
                let range = self.shape.write_range(&(slot..slot + 1));
                assert!(more == *touched || self.image[range.clone()] == before[range], "entry {slot} is not touched");
            }
        }

        fn written_whole(&mut self) {
            let version = stripes::node_version(&self.image).unwrap();
            LeafMut::new(&self.shape, &mut self.image).seal(version.wrapping_add(1));
            self.epoch = vec![(self.image.clone(), self.records.clone())];
        }

        /// `false`: the leaf would have to split.
        fn insert(&mut self, key: u64, value: u64) -> bool {
            let (bytes, new) = (key.to_be_bytes(), value.to_le_bytes());
            let home = self.shape.home(&bytes);
            let mut touched = Touched::default();
            for state in [State::Live, State::Dead] {
                if let Some(slot) = self.leaf().find_locked(home, &bytes, state) {
                    let mut leaf = LeafMut::new(&self.shape, &mut self.image);
                    leaf.set_value(slot, &new);
                    leaf.set_state(slot, State::Live);
                    touched.add(slot);
                    self.records.insert(key, value);
                    self.changed(&touched);
                    return true;
                }
            }
            let before = self.image.clone();
            let span = self.shape.span;
            let placed = LeafMut::new(&self.shape, &mut self.image).place(home, &bytes, &new, span, &mut touched);
            if let Some(hole) = placed {
                self.hops += usize::from(hole >= self.shape.neighborhood);
                self.rule_holds(&before);
                self.records.insert(key, value);
                self.changed(&touched);
                return true;
            }
            assert_eq!(self.image, before, "a failed attempt changed the image");
            LeafMut::new(&self.shape, &mut self.image).purge();
            let mut touched = Touched::default();
            let placed = LeafMut::new(&self.shape, &mut self.image).place(home, &bytes, &new, span, &mut touched);
            if placed.is_some() {
                self.records.insert(key, value);
            }
            self.written_whole();
            placed.is_some()
        }

        fn delete(&mut self, key: u64, how: State) {
            let bytes = key.to_be_bytes();
            let home = self.shape.home(&bytes);
            let Some(slot) = self.leaf().find_locked(home, &bytes, State::Live) else { return };
            let mut touched = Touched::default();
            let mut leaf = LeafMut::new(&self.shape, &mut self.image);
            if how == State::Empty {
                leaf.vacate(slot);
                touched.add(home);
            } else {
                leaf.delete(slot);
            }
            touched.add(slot);
            self.records.remove(&key);
            self.changed(&touched);
        }

        /// A key that was replaced by another was nearer to its home.
        fn rule_holds(&self, before: &[u8]) {
            let (old, new) = (Leaf::new(&self.shape, before), self.leaf());
            let (mut left, mut right) = ([0; 8], [0; 8]);
            for slot in 0..self.shape.span {
                old.read_key(slot, &mut left);
                new.read_key(slot, &mut right);
                if old.state(slot) != State::Empty && left != right {
                    assert!(new.displacement(slot) > old.displacement(slot), "slot {slot}");
                }
            }
        }

        /// Every invariant of a leaf holds.
        fn sound(&self) {
            assert_eq!(self.leaf().check(&[0; 8], None), Ok(self.records.len() as u64));
            let mut value = [0; 8];
            for (key, expected) in &self.records {
                let bytes = key.to_be_bytes();
                let slot = self.leaf().find(self.shape.home(&bytes), &bytes).unwrap().expect("a key that is there");
                self.leaf().read_value(slot, &mut value);
                assert_eq!(u64::from_le_bytes(value), *expected);
            }
            let mut slots = [0; SPAN_MAX];
            assert_eq!(self.leaf().sorted(&[0; 8], None, &mut slots), self.records.len());
        }

        /// READs every entry as it was at some other instant since the last WRITE of the whole, and looks for the keys
        /// that were there all the time. Returns how many were missed without notice.
        fn misses(&self, draw: &mut impl FnMut(usize) -> usize) -> usize {
            let window = 2 + draw(7);
            let instants = &self.epoch[self.epoch.len().saturating_sub(window)..];
            let mut mixed = self.image.clone();
            for slot in 0..self.shape.span {
                let (image, _) = &instants[draw(instants.len())];
                let range = self.shape.write_range(&(slot..slot + 1));
                mixed[range.clone()].copy_from_slice(&image[range]);
            }
            let leaf = Leaf::new(&self.shape, &mixed);
            let settled = leaf.settled();
            let mut slots = [0; SPAN_MAX];
            let count = leaf.sorted(&[0; 8], None, &mut slots);
            let mut key = [0; 8];
            let scanned: Vec<u64> = slots[..count]
                .iter()
                .map(|&slot| {
                    leaf.read_key(slot as usize, &mut key);
                    u64::from_be_bytes(key)
                })
                .collect();
            let throughout = instants[0].1.keys().filter(|key| instants.iter().all(|(_, at)| at.contains_key(key)));
            throughout
                .filter(|key| {
                    let bytes = key.to_be_bytes();
                    let missed = leaf.find(self.shape.home(&bytes), &bytes) == Ok(None);
                    missed || settled.is_ok() && !scanned.contains(key)
                })
                .count()
        }
    }

    fn random(seed: u64) -> impl FnMut(usize) -> usize {
        let mut state = seed;
        move |end| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) as usize) % end.max(1)
        }
    }

    /// Random runs on one leaf; returns records missed by readers that mix instants, and hops.
    fn run(seed: u64, how: State) -> (usize, usize) {
        let mut draw = random(seed);
        let neighborhood = [2, 3, 4, 8][draw(4)];
        let shape = LeafShape::new(8, 8, 8 + draw(12), neighborhood);
        let mut model = Model::new(shape);
        let mut misses = 0;
        for step in 0..300 {
            let key = draw(shape.span * 2) as u64;
            if draw(100) < 55 {
                model.insert(key, step);
            } else {
                model.delete(key, how);
            }
            model.sound();
            for _ in 0..4 {
                misses += model.misses(&mut draw);
            }
        }
        (misses, model.hops)
    }

    #[test]
    fn a_reader_that_mixes_instants_misses_no_key_without_notice() {
        let mut hops = 0;
        for seed in 0..150 {
            let (misses, hopped) = run(seed, State::Dead);
            assert_eq!(misses, 0, "seed {seed}");
            hops += hopped;
        }
        assert!(hops > 300, "only {hops} hops");
    }

    #[test]
    fn with_deletes_that_empty_the_entry_readers_would_miss_keys() {
        let misses: usize = (0..150).map(|seed| run(seed, State::Empty).0).sum();
        assert!(misses > 0, "the test above cannot fail");
    }

    #[test]
    fn a_leaf_without_a_way_for_hops_often_has_another_arrangement() {
        let (mut rearranged, mut full) = (0, 0);
        for seed in 0..2000 {
            let (mut model, key) = stuck(seed);
            // As after a split: the upper half of the keys has left, and others come.
            let middle = *model.records.keys().nth(model.records.len() / 2).unwrap();
            for slot in 0..model.shape.span {
                let mut resident = [0; 8];
                model.leaf().read_key(slot, &mut resident);
                if model.leaf().state(slot) == State::Live && u64::from_be_bytes(resident) >= middle {
                    LeafMut::new(&model.shape, &mut model.image).vacate(slot);
                }
            }
            model.records.retain(|&resident, _| resident < middle);
            model.written_whole();
            let mut draw = random(seed ^ key);
            let (key, home) = loop {
                let key = (draw(1 << 20) << 8 | draw(256)) as u64;
                if !model.records.contains_key(&key) && !model.insert(key, 1) {
                    break (key, model.shape.home(&key.to_be_bytes()));
                }
            };
            let before = model.image.clone();
            if LeafMut::new(&model.shape, &mut model.image).rearrange(home, &key.to_be_bytes(), &7u64.to_le_bytes()) {
                rearranged += 1;
                model.records.insert(key, 7);
                model.sound();
            } else {
                full += 1;
                assert_eq!(model.image, before, "a failed attempt changed the image");
                // Hall's condition: some run of homes has more keys than entries in reach, the new one counted.
                let shape = model.shape;
                let homes: Vec<usize> =
                    model.records.keys().chain([&key]).map(|key| shape.home(&key.to_be_bytes())).collect();
                let overflows = (0..shape.span).any(|first| {
                    (1..=shape.span).any(|count| {
                        let inside = homes.iter().filter(|&&home| shape.distance(first, home) < count).count();
                        inside > (count + shape.neighborhood - 1).min(shape.span)
                    })
                });
                assert!(overflows, "seed {seed}: there is an arrangement, and it was not found");
            }
        }
        assert!(rearranged > 100 && full > 100, "{rearranged} rearranged, {full} full");
    }

    /// A leaf in which hops make no room for a key; the keys in it.
    fn stuck(seed: u64) -> (Model, u64) {
        let mut draw = random(seed);
        let neighborhood = [2, 4, 8, 16][draw(4)];
        let mut model = Model::new(LeafShape::new(8, 8, neighborhood.max(8 + draw(60)), neighborhood));
        loop {
            let key = (draw(1 << 20) << 8 | draw(256)) as u64;
            if !model.records.contains_key(&key) && !model.insert(key, 1) {
                return (model, key);
            }
        }
    }

    #[test]
    fn the_median_of_critical_keys_makes_room_on_both_sides() {
        for seed in 0..2000 {
            let (model, key) = stuck(seed);
            let bytes = key.to_be_bytes();
            let home = model.shape.home(&bytes);
            let mut image = model.image.clone();
            let mut critical = vec![key];
            LeafMut::new(&model.shape, &mut image).critical(home, |slot| {
                let mut key = [0; 8];
                model.leaf().read_key(slot, &mut key);
                critical.push(u64::from_be_bytes(key));
            });
            assert!(critical.len() > model.shape.neighborhood, "seed {seed}");
            critical.sort_unstable();
            let separator = critical[critical.len() / 2];
            let mut leaf = LeafMut::new(&model.shape, &mut image);
            for slot in 0..model.shape.span {
                let mut resident = [0; 8];
                leaf.view().read_key(slot, &mut resident);
                let stays = (u64::from_be_bytes(resident) < separator) == (key < separator);
                if leaf.view().state(slot) == State::Live && !stays {
                    leaf.vacate(slot);
                }
            }
            let placed = leaf.place(home, &bytes, &[0; 8], model.shape.span, &mut Touched::default());
            assert!(placed.is_some(), "seed {seed}: no room for key {key} on its side of {separator}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_at_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..1500), key: u64) {
            for (span, neighborhood) in [(8, 2), (9, 9), (16, 16), (61, 8)] {
                let shape = LeafShape::new(8, 8, span, neighborhood);
                let mut image = bytes.clone();
                let bytes = key.to_be_bytes();
                let home = shape.home(&bytes);
                let leaf = Leaf::new(&shape, &image);
                let _ = (leaf.find(home, &bytes), leaf.settled(), leaf.check(&[0; 8], None));
                let _ = leaf.agrees(&shape.runs(home, neighborhood));
                let mut touched = Touched::default();
                let mut leaf = LeafMut::new(&shape, &mut image);
                let _ = leaf.place(home, &bytes, &[0; 8], span, &mut touched);
                leaf.raise(&touched);
                leaf.critical(home, |_| {});
                leaf.purge();
            }
        }
    }
}
