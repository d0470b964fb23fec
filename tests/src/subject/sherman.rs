//! Sherman as a subject.

use super::items::UnderItems;
use super::{Shape, Subject};
use dm_core::btree::Options;
use dm_core::locks::ChainedRead;
use dm_core::marks::Mark;
use dm_core::sherman::parameters::Parameters;
use dm_host::kinds::IndexParameters;

/// The subject.
pub const SUBJECT: ShermanSubject = ShermanSubject;

/// Sherman.
#[derive(Clone, Copy, Debug)]
pub struct ShermanSubject;

impl ShermanSubject {
    const fn parameters(shape: &Shape) -> Parameters {
        Parameters {
            key_bytes: shape.key_bytes,
            value_bytes: shape.value_bytes,
            leaf_span: shape.spans.0,
            inner_span: shape.spans.1,
        }
    }
}

impl Subject for ShermanSubject {
    fn name(&self) -> &'static str {
        "sherman"
    }

    fn parameters(&self, shape: &Shape) -> IndexParameters {
        Self::parameters(shape).into()
    }

    fn switches(&self) -> Vec<(&'static str, Options)> {
        let on = Options::default();
        let mut switches = vec![
            ("default", on),
            ("no command combination", Options { combine: false, ..on }),
            ("no local queues", Options { hierarchical: false, ..on }),
            ("whole-node writes", Options { entry_writes: false, ..on }),
            ("READ when the lock is held", Options { chain_lock_read: ChainedRead::Never, ..on }),
            ("shared operations", Options { rdwc: true, ..on }),
        ];
        let off = Options { combine: false, hierarchical: false, entry_writes: false, ..on };
        switches.push(("the paper's baseline", off));
        switches.push(("everything else", Options { chain_lock_read: ChainedRead::Always, combine: false, ..on }));
        switches
    }
}

impl UnderItems for ShermanSubject {
    const WITH_ITEMS: &'static str = "items over sherman";

    fn few_keys_with_items(&self) -> (u32, &'static [Mark]) {
        (3, &[Mark::LEAF_SPLIT, Mark::MERGE, Mark::LAYER_MADE])
    }
}
