//! Copies of links: which layer continues behind a slice.
//!
//! A link is made once and stays as long as the index does. Numbers of layers are not used again. So a copy of a link
//! is never stale. With copies, a key of many slices is found with one READ of its entry, however deep it is. Two
//! copies that hash to the same place overwrite each other. A lane that has no copy READs the entry.

use crate::layout::city::city_hash_64;
use spin::Mutex;

/// Length of the longest entry key.
const ENTRY_KEY_BYTES_MAX: usize = 64;

/// A place for one copy. Storage for [`Links`].
#[derive(Clone, Copy, Debug)]
pub struct Link {
    entry_key: [u8; ENTRY_KEY_BYTES_MAX],
    /// The layer that continues behind the slice. 0, the number of the root layer, says that the place is empty.
    layer: u64,
}

impl Default for Link {
    fn default() -> Self {
        Self { entry_key: [0; ENTRY_KEY_BYTES_MAX], layer: 0 }
    }
}

/// Copies of links, shared by the lanes of a compute node.
pub struct Links<'s> {
    places: &'s [Mutex<Link>],
}

impl<'s> Links<'s> {
    /// No copies at first, and at most as many as there are places.
    pub const fn new(places: &'s [Mutex<Link>]) -> Self {
        Self { places }
    }

    /// Bytes of the places.
    pub const fn bytes(&self) -> u64 {
        size_of_val(self.places) as u64
    }

    fn place(&self, entry_key: &[u8]) -> Option<&Mutex<Link>> {
        let count = self.places.len() as u64;
        let at = city_hash_64(entry_key).checked_rem(count)?;
        self.places.get(at as usize)
    }

    /// The layer that continues behind `entry_key`, if there is a copy.
    pub fn get(&self, entry_key: &[u8]) -> Option<u64> {
        let link = self.place(entry_key)?.lock();
        (link.layer != 0 && link.entry_key.get(..entry_key.len()) == Some(entry_key)).then_some(link.layer)
    }

    /// Stores that `layer` continues behind `entry_key`.
    pub fn put(&self, entry_key: &[u8], layer: u64) {
        let Some(place) = self.place(entry_key) else { return };
        let mut link = place.lock();
        if let Some(to) = link.entry_key.get_mut(..entry_key.len()) {
            to.copy_from_slice(entry_key);
            link.layer = layer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_exact_or_missing() {
        let places = [const { Mutex::new(Link { entry_key: [0; 64], layer: 0 }) }; 2];
        let links = Links::new(&places);
        let key = |number: u8| [number; 16];
        assert_eq!(links.get(&key(0)), None, "an empty place is no link of the zero key");
        for number in 1..=9 {
            links.put(&key(number), u64::from(number));
            assert_eq!(links.get(&key(number)), Some(u64::from(number)));
        }
        let known = (1..=9).filter(|&number| links.get(&key(number)).is_some()).count();
        assert!((1..=2).contains(&known));
        assert!((1..=9).all(|number| links.get(&key(number)).is_none_or(|layer| layer == u64::from(number))));
        assert_eq!(Links::new(&[]).get(&key(1)), None);
        Links::new(&[]).put(&key(1), 1);
    }
}
