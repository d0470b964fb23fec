//! Splitting a leaf in which no hops make room for a record that has to go in.
//!
//! The records from the separator on move to a new right sibling, each to the same entry there; those that stay are not
//! touched. On the new key's side one of the *critical* keys has to be gone: those whose removal makes room for it
//! (CHIME section 4.4). The median of all keys does that almost always, and halves the leaf. Otherwise the separator is
//! the paper's: the middle one of the critical keys and the new one.
//!
//! The sibling is written first, then the old leaf with its lowered fence, the link and without the moved entries: that
//! WRITE is both the split and, wherever the record went, the insert. [`chime_splits`](crate::manual::chime_splits)
//! says why one critical key is enough, and why the sibling needs no lock.

use super::Chime;
use super::layout::{Leaf, LeafMut, SPAN_MAX, State, Touched};
use crate::btree::node::{self, Header, NodeFlags};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::stripes;
use crate::locks::protocol::{Held, Locks};
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::remote::place::{NodeClass, UnlinkedNode};
use crate::verbs::Label;
use heapless::Vec;

impl Chime<'_> {
    /// Splits the locked leaf, whole in image 0, and inserts the operation's record. Returns the new sibling, which the
    /// parent is to be told of.
    pub(super) async fn split_and_insert(&self, lane: &Lane<'_>, held: Held) -> Result<Address, Interrupt> {
        let left = held.protects;
        let home = self.hashed(lane).home;
        let Some(fresh) = lane.take_to_link(NodeClass::Leaf, left.node()) else {
            self.release(lane, held).await?;
            return Err(Interrupt::NoMemory);
        };
        lane.mark(Mark::LEAF_SPLIT);
        if fresh.version != 0 {
            lane.mark(Mark::NODE_REUSED);
        }
        let right = fresh.address;
        let port = lane.port();
        let Some((left_vacancy, right_vacancy)) = port.with(|scratch| self.split_images(scratch, fresh, home)) else {
            lane.is_through(fresh);
            self.tree.give_back(NodeClass::Leaf, fresh);
            self.release(lane, held).await?;
            return Err(crate::btree::Tree::corrupt(left, "a leaf without a way to split for its keys").into());
        };
        // Compiled with the feature only: the future of a link would lie within this one.
        #[cfg(feature = "planted")]
        if planted(Mutant::LINKED_BEFORE_LANDING) {
            self.link_early(lane, right).await?;
        }
        if !planted(Mutant::LINKED_BEFORE_LANDING) {
            port.push(self.tree.leaf_image(1).write_to(Label::Sibling, right));
        }
        port.push(self.first_vacancy_request(right, right_vacancy));
        if right.node() != left.node() || !self.tree.options.combine {
            port.submit().await?;
        }
        lane.change_is_next();
        let left_image = self.tree.leaf_image(0);
        self.tree.push_in_place(lane, held.lock, Label::Node, left, 0..left_image.bytes, left_image)?;
        self.remember_vacancy(right, right_vacancy);
        self.release_with(lane, held.freed_as(left_vacancy)).await?;
        lane.is_through(fresh);
        Ok(right)
    }

    /// The mutant of that name: the new sibling is written and linked before the old leaf is written. A link uses node
    /// images 0 to 2, so the image of the old leaf lies in another one meanwhile.
    #[cfg(feature = "planted")]
    async fn link_early(&self, lane: &Lane<'_>, right: Address) -> Result<(), Interrupt> {
        let (image, aside) = (self.tree.leaf_image(0), self.tree.leaf_image(3));
        lane.port().with(|scratch| image.copy_to(scratch, aside.at));
        lane.port().call(self.tree.leaf_image(1).write_to(Label::Sibling, right)).await?;
        let _ = crate::btree::router::Router::link(&self.tree, lane, 0, right).await;
        lane.port().with(|scratch| aside.copy_to(scratch, image.at));
        Ok(())
    }

    /// Builds both halves with the record in one of them, the separator in its scratch range; returns their vacancies.
    /// `None`: the image is not one that this crate writes.
    fn split_images(&self, scratch: &mut [u8], fresh: UnlinkedNode, home: usize) -> Option<(u64, u64)> {
        let (front, right) = self.tree.leaf_image(1).split(scratch)?;
        let (arguments, left) = self.plan.arguments_and(self.tree.leaf_image(0), front).ok()?;
        let (key, key_bytes) = (arguments.key(), self.leaf.key_bytes);
        let version = stripes::node_version(left)?;

        LeafMut::new(&self.leaf, left).purge();
        let mut separator = [0; KEY_BYTES_MAX];
        let separator = separator.get_mut(..key_bytes)?;
        self.choose_separator(left, key, home, separator)?;

        let mut told = [0; KEY_BYTES_MAX];
        let told = told.get_mut(..key_bytes)?;
        told.copy_from_slice(separator);
        if planted(Mutant::PIVOT_NOT_MAXIMUM) {
            self.cut_behind_largest(left, key, separator);
        }
        let mut high = [0; KEY_BYTES_MAX];
        let high = high.get_mut(..key_bytes)?;
        let bounded = node::read_high(left, high);
        let generation = fresh.address.generation();
        let header = Header { generation, flags: NodeFlags::empty(), ..Header::read(left) };
        node::start(right, &header, separator, bounded.then_some(&*high));
        self.tree.owner_tag().write(right);
        let mut resident = [0; KEY_BYTES_MAX];
        let resident = resident.get_mut(..key_bytes)?;
        for slot in 0..self.leaf.span {
            let leaf = Leaf::new(&self.leaf, left);
            if leaf.state(slot) != State::Live {
                continue;
            }
            leaf.read_key(slot, resident);
            if *resident >= *separator {
                let home = self.leaf.home(resident);
                LeafMut::new(&self.leaf, right).copy_slot(&leaf, home, slot);
                LeafMut::new(&self.leaf, left).vacate_of(home, slot);
            }
        }
        node::set_right(left, Some(separator), fresh.address);
        let side = if key < &*separator { &mut *left } else { &mut *right };
        let mut touched = Touched::default();
        LeafMut::new(&self.leaf, side).place(home, key, arguments.value(), self.leaf.span, &mut touched)?;
        LeafMut::new(&self.leaf, left).seal(version.wrapping_add(1));
        LeafMut::new(&self.leaf, right).seal(fresh.version.wrapping_add(1));
        let vacancy = |image: &[u8]| self.buckets.exact(&Leaf::new(&self.leaf, image));
        let vacancies = (vacancy(left), vacancy(right));
        scratch.get_mut(self.tree.scratch.separator.clone())?.copy_from_slice(told);
        Some(vacancies)
    }

    /// Lowers the separator to right behind the largest key below it.
    fn cut_behind_largest(&self, image: &[u8], key: &[u8], separator: &mut [u8]) {
        let leaf = Leaf::new(&self.leaf, image);
        let mut below = [0; KEY_BYTES_MAX];
        let (mut resident, length) = ([0; KEY_BYTES_MAX], separator.len());
        let (Some(below), Some(resident)) = (below.get_mut(..length), resident.get_mut(..length)) else { return };
        if key < &*separator {
            below.copy_from_slice(key);
        }
        for slot in 0..self.leaf.span {
            leaf.read_key(slot, resident);
            if leaf.state(slot) == State::Live && *resident < *separator && *resident > *below {
                below.copy_from_slice(resident);
            }
        }
        separator.copy_from_slice(below);
        for byte in separator.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
    }

    /// The median of the keys in a leaf and `key`: the first of the upper half.
    fn median(leaf: &Leaf<'_>, key: &[u8], median: &mut [u8]) -> Option<()> {
        let mut slots = [0; SPAN_MAX];
        let low = [0; KEY_BYTES_MAX];
        let low = low.get(..key.len())?;
        let below = leaf.sorted(low, Some(key), &mut slots);
        let all = leaf.sorted(low, None, &mut slots);
        let middle = all.div_ceil(2);
        if middle == 0 {
            return None;
        }
        if middle == below {
            median.copy_from_slice(key);
        } else {
            leaf.read_key(usize::from(*slots.get(if middle < below { middle } else { middle - 1 })?), median);
        }
        Some(())
    }

    /// The median of all keys and `key`, if a critical key does not stay with `key`; otherwise the middle one of the
    /// critical keys and `key`.
    fn choose_separator(&self, image: &mut [u8], key: &[u8], home: usize, separator: &mut [u8]) -> Option<()> {
        let mut critical: Vec<u16, SPAN_MAX> = Vec::new();
        LeafMut::new(&self.leaf, image).critical(home, |slot| {
            // It has room: as many as slots.
            let _ = critical.push(slot as u16);
        });
        let leaf = Leaf::new(&self.leaf, image);
        if self.tree.options.rearrange && Self::median(&leaf, key, separator).is_some() {
            let mut room = [0; KEY_BYTES_MAX];
            let resident = room.get_mut(..key.len())?;
            let leaves = |&slot: &u16| {
                leaf.read_key(slot as usize, resident);
                (*resident < *separator) != (key < &*separator)
            };
            if critical.iter().any(leaves) {
                return Some(());
            }
        }
        let (mut one, mut other) = ([0; KEY_BYTES_MAX], [0; KEY_BYTES_MAX]);
        let (one, other) = (one.get_mut(..key.len())?, other.get_mut(..key.len())?);
        critical.sort_unstable_by(|a, b| {
            leaf.read_key(*a as usize, one);
            leaf.read_key(*b as usize, other);
            (*one).cmp(&*other)
        });
        let below = critical.partition_point(|slot| {
            leaf.read_key(*slot as usize, one);
            &*one < key
        });
        let middle = critical.len().div_ceil(2);
        if middle == below {
            separator.copy_from_slice(key);
        } else {
            let slot = critical.get(if middle < below { middle } else { middle - 1 })?;
            leaf.read_key(*slot as usize, separator);
        }
        // Both sides get a key, and at least one leaves the first.
        (middle > 0).then_some(())
    }
}
