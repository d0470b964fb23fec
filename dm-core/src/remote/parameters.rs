//! Parameter blocks of catalog entries: the sizes an index was created with. They never change.
//!
//! The catalog keeps a block as 64 bytes and a version; here is how the kinds read them. Sizes of a block that passed
//! its checks are safe to compute with; whether a span comes out of them is for the index to say.

use crate::remote::address::LINE_BYTES;
use crate::remote::catalog::PARAMETER_BYTES;
use crate::remote::record::{Le16, Le32, record};
use core::ops::RangeInclusive;
use static_assertions::const_assert_eq;
use thiserror::Error;
use zerocopy::IntoBytes;

/// Key slots of fixed-size indexes, in bytes.
pub const KEY_BYTES: RangeInclusive<u16> = 8..=64;

/// Inline values, in bytes.
pub const VALUE_BYTES: RangeInclusive<u32> = 8..=1024;

/// Nodes, in bytes: multiples of 64. The upper end is what one READ of a node may reasonably move.
pub const NODE_BYTES: RangeInclusive<u32> = 128..=65536;

/// Why a parameter block cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// Written by another version of the index.
    #[error("parameter block of version {found}; this program reads version {supported}")]
    Version {
        /// That of the block.
        found: u16,
        /// What this code reads.
        supported: u16,
    },
    /// A size out of its range.
    #[error("parameter {name} = {value}: {rule}")]
    Value {
        /// Which.
        name: &'static str,
        /// Its value.
        value: u32,
        /// What it has to be.
        rule: &'static str,
    },
}

record! {
    /// The parameter block of Sherman as stored.
    pub struct ShermanBlock {
        key_bytes: Le16 = "key slot, 8..=64",
        reserved_2: [u8; 2] = "zero",
        value_bytes: Le32 = "inline value, 8..=1024",
        leaf_bytes: Le32 = "stored size of a leaf, a multiple of 64",
        inner_bytes: Le32 = "stored size of an inner node, a multiple of 64",
        flags: Le32 = "options that change what is stored; none yet",
        reserved_20: [u8; 44] = "zero",
    }
}
const_assert_eq!(ShermanBlock::BYTES, PARAMETER_BYTES);

/// What a Sherman index was created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShermanParameters {
    /// Key slot, in bytes.
    pub key_bytes: u16,
    /// Inline value, in bytes.
    pub value_bytes: u32,
    /// Stored size of a leaf, in bytes.
    pub leaf_bytes: u32,
    /// Stored size of an inner node, in bytes.
    pub inner_bytes: u32,
    /// Options that change what is stored.
    pub flags: u32,
}

impl ShermanParameters {
    /// Version of the block.
    pub const VERSION: u16 = 1;

    /// Options this code knows.
    pub const FLAGS_KNOWN: u32 = 0;

    /// The block of a catalog entry.
    pub fn encode(&self) -> [u8; PARAMETER_BYTES] {
        let mut block = ShermanBlock::ZERO;
        block.key_bytes = self.key_bytes.into();
        block.value_bytes = self.value_bytes.into();
        block.leaf_bytes = self.leaf_bytes.into();
        block.inner_bytes = self.inner_bytes.into();
        block.flags = self.flags.into();
        let mut bytes = [0; PARAMETER_BYTES];
        bytes.copy_from_slice(block.as_bytes());
        bytes
    }

    /// Reads and checks the block of a catalog entry.
    pub fn decode(version: u16, bytes: &[u8; PARAMETER_BYTES]) -> Result<Self, ParameterError> {
        if version != Self::VERSION {
            return Err(ParameterError::Version { found: version, supported: Self::VERSION });
        }
        let block: ShermanBlock = zerocopy::transmute!(*bytes);
        let parameters = Self {
            key_bytes: block.key_bytes.get(),
            value_bytes: block.value_bytes.get(),
            leaf_bytes: block.leaf_bytes.get(),
            inner_bytes: block.inner_bytes.get(),
            flags: block.flags.get(),
        };
        parameters.check()?;
        let rest = block.reserved_2.iter().chain(&block.reserved_20);
        if rest.clone().any(|&byte| byte != 0) {
            return Err(ParameterError::Value { name: "reserved", value: 1, rule: "zero" });
        }
        Ok(parameters)
    }

    /// Whether every value is in its range.
    pub fn check(&self) -> Result<(), ParameterError> {
        let check = |name, value: u32, holds, rule| {
            if holds { Ok(()) } else { Err(ParameterError::Value { name, value, rule }) }
        };
        check("key_bytes", self.key_bytes.into(), KEY_BYTES.contains(&self.key_bytes), "8..=64")?;
        check("value_bytes", self.value_bytes, VALUE_BYTES.contains(&self.value_bytes), "8..=1024")?;
        for (name, bytes) in [("leaf_bytes", self.leaf_bytes), ("inner_bytes", self.inner_bytes)] {
            let whole = NODE_BYTES.contains(&bytes) && bytes.is_multiple_of(LINE_BYTES as u32);
            check(name, bytes, whole, "a multiple of 64, 128..=65536")?;
        }
        check("flags", self.flags, self.flags & !Self::FLAGS_KNOWN == 0, "no unknown option")
    }
}
