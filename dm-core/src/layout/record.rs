//! Records: structures of fixed layout without stripes, each declared once.
//!
//! The macro makes the struct, the documentation of its fields and its field map from the same text. So a golden always
//! agrees with the code.

use zerocopy::byteorder::little_endian::{U16, U32, U64};

/// Declares a `repr(C)` struct of byte arrays and little-endian words (alignment 1: no padding) with a
/// `FIELDS: &[Field]` map, a `BYTES` constant and a zeroed value.
macro_rules! record {
    ($(#[$doc:meta])* $vis:vis struct $name:ident { $($field:ident: $type:ty = $meaning:literal,)* }) => {
        $(#[$doc])*
        #[derive(
            Clone,
            Copy,
            Debug,
            PartialEq,
            Eq,
            zerocopy::FromBytes,
            zerocopy::IntoBytes,
            zerocopy::KnownLayout,
            zerocopy::Immutable,
            zerocopy::Unaligned,
        )]
        #[repr(C)]
        $vis struct $name { $(#[doc = $meaning] pub $field: $type,)* }

        impl $name {
            /// Stored size.
            pub const BYTES: usize = core::mem::size_of::<Self>();

            /// The fields, for the goldens.
            pub const FIELDS: &'static [$crate::layout::fields::Field] = &[$(
                $crate::layout::fields::Field::bytes(
                    core::mem::offset_of!($name, $field),
                    core::mem::size_of::<$type>(),
                    stringify!($field),
                    $meaning,
                ),
            )*];

            /// All bytes zero.
            pub const ZERO: Self = zerocopy::transmute!([0_u8; core::mem::size_of::<Self>()]);

            /// The record at the start of `bytes`, if they are enough.
            pub fn from_prefix(bytes: &[u8]) -> Option<Self> {
                zerocopy::FromBytes::read_from_prefix(bytes).ok().map(|(record, _)| record)
            }
        }
    };
}
pub(crate) use record;

/// Short names for the words of records.
pub type Le16 = U16;
/// See [`Le16`].
pub type Le32 = U32;
/// See [`Le16`].
pub type Le64 = U64;

/// The `width` bits of `word` from bit `at`.
#[inline]
pub(crate) const fn cut(word: u64, at: u32, width: u32) -> u64 {
    word >> at & mask(width)
}

/// `width` one bits. `width` is 1..=63.
#[inline]
pub(crate) const fn mask(width: u32) -> u64 {
    (1 << width) - 1
}

/// CRC-32C (RFC 3720 appendix B.4), bit by bit: records are small and checked when a pool or an index is opened, and
/// a table would cost firmware 1 KB.
pub(crate) const CRC: crc::Crc<u32, crc::NoTable> = crc::Crc::<u32, crc::NoTable>::new(&crc::CRC_32_ISCSI);

/// Text in a fixed field: valid UTF-8 without control characters, and zeros behind it. `None` for anything else.
pub(crate) fn text(field: &[u8], bytes: u8) -> Option<&str> {
    let (name, rest) = field.split_at_checked(usize::from(bytes))?;
    let name = core::str::from_utf8(name).ok()?;
    (rest.iter().all(|&byte| byte == 0) && !name.chars().any(char::is_control)).then_some(name)
}

/// Stores `name` in a fixed field. `None` if it does not fit, or if [`text`] would not read it back.
pub(crate) fn set_text(field: &mut [u8], name: &str) -> Option<u8> {
    field.fill(0);
    field.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    (!name.chars().any(char::is_control)).then_some(())?;
    u8::try_from(name.len()).ok()
}
