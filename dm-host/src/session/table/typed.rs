//! Keys and values of Rust types, as the bytes that an index stores.
//!
//! | type | bytes | as a part of a tuple that is not the last |
//! |---|---|---|
//! | `bool`, `u8` to `u128` | big-endian | the same |
//! | `i8` to `i128` | big-endian, the sign bit inverted | the same |
//! | `[u8; N]` | as they are | the same |
//! | `&[u8]`, `&str` | as they are, in UTF-8 | 00 becomes 00 FF; 00 00 at the end |
//! | `(A, B)`, `(A, B, C)` | the parts in order | the parts in order, all as such parts |
//! | `()` | none | none |
//!
//! **Order.** Bytes compare as the keys do. *Numbers:* big-endian puts the more significant byte first, and inverting
//! the sign bit puts the negative numbers below the others. *Strings in tuples:* where two strings differ in a byte,
//! that byte decides, also if one of them is 00, since no other byte begins with 00. Where one string is the beginning
//! of the other, the shorter one ends with 00 00, and the longer one goes on with more: a byte above 00, or 00 FF.
//! Where they are equal, the next part decides.
//!
//! **In slots of one size**, as an index has them if it was created with [`IndexOptions::fixed_bytes`], or for types
//! whose values all have one size: such a type's bytes are followed by zeros; other bytes are stored as a
//! [`byte_string`]. Both keep the order.
//!
//! These bytes are a format: they do not change. The catalog keeps sizes, not types: a program has to open a table with
//! the types that it was written with.
//!
//! No published crate is used for this. The one that is kept, `storekey`, marks the end of a string also where nothing
//! follows, has no size of a type at compile time, and most of its releases are incompatible with the one before.

use super::super::byte_string;
use super::super::error::SessionError;
#[cfg(doc)]
use super::IndexOptions;
use std::any::type_name;

/// A type whose values an index stores.
pub trait Value {
    /// What calls take.
    type Ref<'a>: Copy;
    /// What calls return.
    type Owned;

    /// Bytes of every value, if all have the same number.
    const WIDTH: Option<usize>;

    /// Appends the bytes of `value`.
    fn encode(value: Self::Ref<'_>, bytes: &mut Vec<u8>);

    /// The value of these bytes; `None` if [`Value::encode`] writes no such bytes.
    fn decode(bytes: &[u8]) -> Option<Self::Owned>;
}

/// A type whose bytes compare as its values do, byte by byte.
pub trait Key: Value {
    /// What [`Table::prefix`](super::Table::prefix) takes: the beginning of a key. Of a string the first bytes; of a
    /// tuple the first parts; of a number nothing.
    type Prefix<'a>: Copy;

    /// Appends the bytes with which exactly the keys begin that begin with `prefix`.
    fn encode_prefix(prefix: Self::Prefix<'_>, bytes: &mut Vec<u8>);

    /// Appends the bytes of `key` as a part of a tuple that is not the last. They tell where they end.
    fn encode_part(key: Self::Ref<'_>, bytes: &mut Vec<u8>);

    /// Takes such a part off the front of `bytes`.
    fn decode_part(bytes: &mut &[u8]) -> Option<Self::Owned>;
}

/// Takes as many bytes off the front as every value of this type has.
fn split_part<T: Value>(bytes: &mut &[u8]) -> Option<T::Owned> {
    let (part, rest) = bytes.split_at_checked(T::WIDTH?)?;
    *bytes = rest;
    T::decode(part)
}

macro_rules! fixed_key {
    ($(<const $N:ident: usize>)? $T:ty) => {
        impl $(<const $N: usize>)? Key for $T {
            type Prefix<'a> = ();

            fn encode_prefix((): (), _: &mut Vec<u8>) {}

            fn encode_part(key: Self, bytes: &mut Vec<u8>) {
                Self::encode(key, bytes);
            }

            fn decode_part(bytes: &mut &[u8]) -> Option<Self> {
                split_part::<Self>(bytes)
            }
        }
    };
}

/// Numbers. `$sign` is the bit to invert.
macro_rules! number {
    ($($T:ident $sign:expr),*) => {
        $(
            impl Value for $T {
                type Ref<'a> = Self;
                type Owned = Self;

                const WIDTH: Option<usize> = Some(size_of::<Self>());

                fn encode(value: Self, bytes: &mut Vec<u8>) {
                    bytes.extend_from_slice(&(value ^ $sign).to_be_bytes());
                }

                fn decode(bytes: &[u8]) -> Option<Self> {
                    Some(Self::from_be_bytes(bytes.try_into().ok()?) ^ $sign)
                }
            }

            fixed_key! { $T }
        )*
    };
}

number! {
    u8 0, u16 0, u32 0, u64 0, u128 0, i8 i8::MIN, i16 i16::MIN, i32 i32::MIN, i64 i64::MIN, i128 i128::MIN
}

impl Value for bool {
    type Ref<'a> = Self;
    type Owned = Self;

    const WIDTH: Option<usize> = Some(1);

    fn encode(value: Self, bytes: &mut Vec<u8>) {
        bytes.push(value.into());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

fixed_key! { bool }

impl Value for () {
    type Ref<'a> = Self;
    type Owned = Self;

    const WIDTH: Option<usize> = Some(0);

    fn encode((): (), _: &mut Vec<u8>) {}

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(())
    }
}

fixed_key! { () }

impl<const N: usize> Value for [u8; N] {
    type Ref<'a> = Self;
    type Owned = Self;

    const WIDTH: Option<usize> = Some(N);

    fn encode(value: Self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&value);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
}

impl<const N: usize> Key for [u8; N] {
    type Prefix<'a> = &'a [u8];

    fn encode_prefix(prefix: &[u8], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(prefix);
    }

    fn encode_part(key: Self, bytes: &mut Vec<u8>) {
        Self::encode(key, bytes);
    }

    fn decode_part(bytes: &mut &[u8]) -> Option<Self> {
        split_part::<Self>(bytes)
    }
}

impl Value for &[u8] {
    type Ref<'a> = &'a [u8];
    type Owned = Vec<u8>;

    const WIDTH: Option<usize> = None;

    fn encode(value: &[u8], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(value);
    }

    fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}

impl Key for &[u8] {
    type Prefix<'a> = &'a [u8];

    fn encode_prefix(prefix: &[u8], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(prefix);
    }

    fn encode_part(key: &[u8], bytes: &mut Vec<u8>) {
        for &byte in key {
            bytes.push(byte);
            if byte == 0 {
                bytes.push(0xFF);
            }
        }
        bytes.extend_from_slice(&[0, 0]);
    }

    fn decode_part(bytes: &mut &[u8]) -> Option<Vec<u8>> {
        let mut part = Vec::new();
        loop {
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            if byte == 0 {
                let (&mark, rest) = bytes.split_first()?;
                *bytes = rest;
                match mark {
                    0 => return Some(part),
                    0xFF => {}
                    _ => return None,
                }
            }
            part.push(byte);
        }
    }
}

impl Value for &str {
    type Ref<'a> = &'a str;
    type Owned = String;

    const WIDTH: Option<usize> = None;

    fn encode(value: &str, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(value.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<String> {
        String::from_utf8(bytes.to_vec()).ok()
    }
}

impl Key for &str {
    type Prefix<'a> = &'a str;

    fn encode_prefix(prefix: &str, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(prefix.as_bytes());
    }

    fn encode_part(key: &str, bytes: &mut Vec<u8>) {
        <&[u8]>::encode_part(key.as_bytes(), bytes);
    }

    fn decode_part(bytes: &mut &[u8]) -> Option<String> {
        String::from_utf8(<&[u8]>::decode_part(bytes)?).ok()
    }
}

const fn sum(one: Option<usize>, other: Option<usize>) -> Option<usize> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        _ => None,
    }
}

impl<A: Key, B: Key> Value for (A, B) {
    type Ref<'a> = (A::Ref<'a>, B::Ref<'a>);
    type Owned = (A::Owned, B::Owned);

    const WIDTH: Option<usize> = sum(A::WIDTH, B::WIDTH);

    fn encode((a, b): Self::Ref<'_>, bytes: &mut Vec<u8>) {
        A::encode_part(a, bytes);
        B::encode(b, bytes);
    }

    fn decode(mut bytes: &[u8]) -> Option<Self::Owned> {
        Some((A::decode_part(&mut bytes)?, B::decode(bytes)?))
    }
}

impl<A: Key, B: Key> Key for (A, B) {
    type Prefix<'a> = A::Ref<'a>;

    fn encode_prefix(a: A::Ref<'_>, bytes: &mut Vec<u8>) {
        A::encode_part(a, bytes);
    }

    fn encode_part((a, b): Self::Ref<'_>, bytes: &mut Vec<u8>) {
        A::encode_part(a, bytes);
        B::encode_part(b, bytes);
    }

    fn decode_part(bytes: &mut &[u8]) -> Option<Self::Owned> {
        Some((A::decode_part(bytes)?, B::decode_part(bytes)?))
    }
}

impl<A: Key, B: Key, C: Key> Value for (A, B, C) {
    type Ref<'a> = (A::Ref<'a>, B::Ref<'a>, C::Ref<'a>);
    type Owned = (A::Owned, B::Owned, C::Owned);

    const WIDTH: Option<usize> = sum(sum(A::WIDTH, B::WIDTH), C::WIDTH);

    fn encode((a, b, c): Self::Ref<'_>, bytes: &mut Vec<u8>) {
        A::encode_part(a, bytes);
        B::encode_part(b, bytes);
        C::encode(c, bytes);
    }

    fn decode(mut bytes: &[u8]) -> Option<Self::Owned> {
        Some((A::decode_part(&mut bytes)?, B::decode_part(&mut bytes)?, C::decode(bytes)?))
    }
}

impl<A: Key, B: Key, C: Key> Key for (A, B, C) {
    /// The first part, or the first two.
    type Prefix<'a> = (A::Ref<'a>, Option<B::Ref<'a>>);

    fn encode_prefix((a, b): Self::Prefix<'_>, bytes: &mut Vec<u8>) {
        A::encode_part(a, bytes);
        if let Some(b) = b {
            B::encode_part(b, bytes);
        }
    }

    fn encode_part((a, b, c): Self::Ref<'_>, bytes: &mut Vec<u8>) {
        A::encode_part(a, bytes);
        B::encode_part(b, bytes);
        C::encode_part(c, bytes);
    }

    fn decode_part(bytes: &mut &[u8]) -> Option<Self::Owned> {
        Some((A::decode_part(bytes)?, B::decode_part(bytes)?, C::decode_part(bytes)?))
    }
}

/// What an index has for a key or a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Bytes of every one, or of the longest.
    pub(super) bytes: usize,
    /// They have any length up to that.
    pub(super) any_length: bool,
}

impl Slot {
    /// Whether the slot has room for values of `T`: for all of them, if they have one size.
    pub(super) fn takes<T: Value>(self) -> bool {
        match T::WIDTH {
            Some(width) => width <= self.bytes,
            None => self.any_length || self.bytes <= byte_string::SLOT_BYTES_MAX,
        }
    }

    /// Makes a slot of the bytes of a `T`, or of the beginning of such bytes. Fails with the most bytes that fit.
    pub(super) fn fill<T: Value>(self, mut bytes: Vec<u8>) -> Result<Vec<u8>, usize> {
        let room = if self.any_length { self.bytes } else { self.bytes.saturating_sub(1) };
        let most = T::WIDTH.unwrap_or(room);
        if bytes.len() > most {
            return Err(most);
        }
        if !self.any_length {
            let string = bytes.len() as u8;
            bytes.resize(self.bytes, 0);
            // As `byte_string::pack_into`, in place.
            if let (None, Some(last)) = (T::WIDTH, bytes.last_mut()) {
                *last = string;
            }
        }
        Ok(bytes)
    }
}

/// The value in a slot; `part` is what it is, for the error.
pub(super) fn open<T: Value>(slot: &[u8], any_length: bool, part: &'static str) -> Result<T::Owned, SessionError> {
    let value = match T::WIDTH {
        _ if any_length => T::decode(slot),
        Some(width) => match slot.split_at_checked(width) {
            Some((bytes, padding)) if padding.iter().all(|&byte| byte == 0) => T::decode(bytes),
            _ => None,
        },
        None => byte_string::unpack(slot).and_then(T::decode),
    };
    value.ok_or(SessionError::NotOfType { part, type_name: type_name::<T>(), bytes: slot.len() })
}

/// The least byte string above all that begin with `prefix`; `None`: there is none.
pub(in super::super) fn above(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.last_mut() {
        if *last < 0xFF {
            *last += 1;
            return Some(prefix);
        }
        prefix.pop();
    }
    None
}

#[cfg(test)]
mod tests;
