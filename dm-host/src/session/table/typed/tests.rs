use super::*;
use proptest::prelude::*;
use std::fmt::Debug;

fn bytes_of<T: Value>(value: T::Ref<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    T::encode(value, &mut bytes);
    bytes
}

fn part_of<T: Key>(key: T::Ref<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    T::encode_part(key, &mut bytes);
    bytes
}

/// The bytes are a format: if this test fails, programs can no longer read what they wrote.
#[test]
fn the_bytes_are_those_of_the_format() {
    assert_eq!(bytes_of::<u16>(0x0102), [1, 2]);
    assert_eq!(bytes_of::<u64>(1), [0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(bytes_of::<i16>(-2), [0x7F, 0xFE]);
    assert_eq!(bytes_of::<i64>(1), [0x80, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(bytes_of::<bool>(true), [1]);
    assert_eq!(bytes_of::<[u8; 3]>(*b"a\0b"), *b"a\0b");
    assert_eq!(bytes_of::<&str>("a\0ß"), *b"a\0\xC3\x9F");
    assert_eq!(part_of::<&str>("a\0b"), *b"a\0\xFFb\0\0");
    assert_eq!(bytes_of::<(&str, u8)>(("a", 7)), *b"a\0\0\x07");
    assert_eq!(bytes_of::<(u8, &str)>((7, "a")), *b"\x07a");
    assert_eq!(bytes_of::<(i8, &[u8], &str)>((-1, b"", "a")), *b"\x7F\0\0a");
    assert_eq!(bytes_of::<((u8, u8), ())>(((1, 2), ())), [1, 2]);
    // In slots of one size.
    let slot = |bytes| Slot { bytes, any_length: false };
    assert_eq!(slot(8).fill::<u16>(vec![1, 2]).unwrap(), [1, 2, 0, 0, 0, 0, 0, 0]);
    assert_eq!(slot(8).fill::<&str>(b"abc".to_vec()).unwrap(), *b"abc\0\0\0\0\x03");
    assert_eq!(<(i64, &str)>::WIDTH, None);
    assert_eq!(<(i64, [u8; 5], bool)>::WIDTH, Some(14));
}

#[test]
fn what_was_not_written_is_refused() {
    assert_eq!(u64::decode(&[0; 7]), None);
    assert_eq!(bool::decode(&[2]), None);
    assert_eq!(<&str>::decode(b"\xFF"), None);
    assert_eq!(<(&str, u8)>::decode(b"a\0"), None, "no mark at the end");
    assert_eq!(<(&str, u8)>::decode(b"a\0\x01b\0\0\x07"), None, "no such mark");
    assert_eq!(<(&str, u8)>::decode(b"a\0\0\x07\x07"), None, "too long");
    assert!(open::<u16>(&[1, 2, 3, 0, 0, 0, 0, 0], false, "key").is_err(), "not padded with zeros");
    assert!(open::<u64>(&[0; 4], false, "key").is_err());
    assert!(open::<&str>(b"abc\0\0\0\0\x09", false, "key").is_err());
    let refused = open::<u64>(b"abc", true, "value").unwrap_err();
    assert_eq!(refused.to_string(), "a value of 3 bytes in the index is no u64 (nothing was changed)");
}

#[test]
fn slots_have_room_or_say_how_much() {
    let fixed = Slot { bytes: 8, any_length: false };
    assert!(fixed.takes::<u64>() && fixed.takes::<&str>() && !fixed.takes::<u128>());
    assert!(!Slot { bytes: 300, any_length: false }.takes::<&str>());
    assert_eq!(fixed.fill::<&str>(vec![1; 8]), Err(7));
    // As the beginning of a key: it would run into the padding.
    assert_eq!(fixed.fill::<[u8; 4]>(vec![1; 5]), Err(4));
    let any = Slot { bytes: 8, any_length: true };
    assert_eq!(any.fill::<&str>(vec![1; 8]), Ok(vec![1; 8]));
    assert_eq!(any.fill::<&str>(vec![1; 9]), Err(8));
}

/// Both forms of a slot keep order, and give back what was put in; as part of a tuple, too.
fn check<'a, T: Key>(one: T::Ref<'a>, other: T::Ref<'a>) -> Result<(), TestCaseError>
where
    T::Ref<'a>: Ord,
    T::Owned: Debug + PartialEq,
{
    let expected = one.cmp(&other);
    prop_assert_eq!(bytes_of::<T>(one).cmp(&bytes_of::<T>(other)), expected);
    let follows = |key, last| [part_of::<T>(key), vec![last]].concat();
    if expected.is_ne() {
        prop_assert_eq!(follows(one, 0xFF).cmp(&follows(other, 0)), expected);
        prop_assert_eq!(follows(one, 0).cmp(&follows(other, 0xFF)), expected);
    }
    let owned = T::decode(&bytes_of::<T>(one));
    prop_assert!(owned.is_some());
    let part = part_of::<T>(one);
    let rest = [&part[..], b"rest"].concat();
    let mut rest = rest.as_slice();
    prop_assert_eq!(T::decode_part(&mut rest), owned);
    prop_assert_eq!(rest, b"rest");
    let bytes = T::WIDTH.map_or(200, |width| width + 3);
    for any_length in [false, true] {
        let slot = Slot { bytes, any_length };
        let [one_slot, other_slot] = [one, other].map(|key| slot.fill::<T>(bytes_of::<T>(key)).unwrap());
        prop_assert_eq!(one_slot.cmp(&other_slot), expected);
        prop_assert_eq!(open::<T>(&one_slot, any_length, "key").ok(), T::decode(&bytes_of::<T>(one)));
    }
    Ok(())
}

/// Few letters, so that strings begin alike, among them those that are marks.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let letter = prop_oneof![Just(0), Just(1), Just(b'a'), Just(0xFE), Just(0xFF), any::<u8>()];
    prop::collection::vec(letter, 0..6)
}

fn text() -> impl Strategy<Value = String> {
    let letter = prop_oneof![Just('\0'), Just('\u{1}'), Just('a'), any::<char>()];
    prop::collection::vec(letter, 0..6).prop_map(|letters| letters.into_iter().collect())
}

/// The keys that begin with the prefix are those between its bounds.
fn check_prefix<T: Key>(key: T::Ref<'_>, prefix: T::Prefix<'_>, begins: bool) -> Result<(), TestCaseError> {
    let mut low = Vec::new();
    T::encode_prefix(prefix, &mut low);
    let high = above(low.clone());
    for any_length in [false, true] {
        let slot = Slot { bytes: T::WIDTH.map_or(200, |width| width + 3), any_length };
        let fill = |bytes| slot.fill::<T>(bytes).unwrap();
        let key = fill(bytes_of::<T>(key));
        let within = fill(low.clone()) <= key && high.clone().is_none_or(|high| key < fill(high));
        prop_assert_eq!(within, begins);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn numbers_keep_their_order(one: (u64, i64, i16, u8), other: (u64, i64, i16, u8), near: (u64, i64)) {
        check::<u64>(one.0, other.0)?;
        check::<i64>(one.1, other.1)?;
        check::<i16>(one.2, other.2)?;
        check::<u8>(one.3, other.3)?;
        check::<u64>(near.0, near.0.wrapping_add(1))?;
        check::<i64>(near.1, near.1.wrapping_neg())?;
        check::<(i16, u8)>((one.2, one.3), (one.2, other.3))?;
        check::<(u8, i64, bool)>((one.3, one.1, true), (one.3, other.1, false))?;
    }

    #[test]
    fn strings_keep_their_order(one in (bytes(), text(), any::<i8>()), other in (bytes(), text(), any::<i8>())) {
        check::<&[u8]>(&one.0, &other.0)?;
        check::<&str>(&one.1, &other.1)?;
        check::<(&[u8], &str)>((&one.0, &one.1), (&other.0, &other.1))?;
        check::<(&str, &[u8], i8)>((&one.1, &one.0, one.2), (&one.1, &other.0, other.2))?;
        check::<((&[u8], i8), &[u8])>(((&one.0, one.2), &one.0), ((&other.0, one.2), &other.0))?;
        check::<[u8; 4]>(one_of(&one.0), one_of(&other.0))?;
    }

    #[test]
    fn prefixes_bound_what_begins_with_them(key in (bytes(), text()), prefix in (bytes(), text()), number: i8) {
        check_prefix::<&[u8]>(&key.0, &prefix.0, key.0.starts_with(&prefix.0))?;
        check_prefix::<&str>(&key.1, &prefix.1, key.1.starts_with(&prefix.1))?;
        check_prefix::<(&[u8], i8)>((&key.0, number), &prefix.0, key.0 == prefix.0)?;
        check_prefix::<(i8, &str)>((number, &key.1), number, true)?;
        check_prefix::<(i8, i8)>((number, -1), number.wrapping_sub(1), false)?;
        check_prefix::<(&[u8], i8, &str)>((&key.0, number, &key.1), (&prefix.0, None), key.0 == prefix.0)?;
        check_prefix::<(&[u8], i8, &str)>((&key.0, 5, &key.1), (&key.0, Some(number)), number == 5)?;
        check_prefix::<[u8; 4]>(one_of(&key.0), &one_of(&key.0)[..2], true)?;
    }
}

fn one_of(bytes: &[u8]) -> [u8; 4] {
    std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0))
}
