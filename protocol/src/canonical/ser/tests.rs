use std::collections::HashMap;

use proptest::prelude::*;

use super::super::MAX_INTEGER;
use super::*;

/// Members in the given order.
struct Pairs(Vec<(String, u8)>);

impl Serialize for Pairs {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

fn text<T: Serialize + ?Sized>(object: &T) -> Result<String, Error> {
    to_bytes(object).map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn keys_that_are_escaped_sort_by_what_they_say() {
    // A written quote begins with a backslash, which sorts after the letters; the quote itself sorts before them.
    let keys = ["a\"", "a\u{1}", "a", "aa", "a\\", "a\n", ""];
    let pairs = Pairs(keys.iter().map(|key| ((*key).to_owned(), 1)).collect());
    let wanted = r#"{"":1,"a":1,"a\u0001":1,"a\n":1,"a\"":1,"a\\":1,"aa":1}"#;
    assert_eq!(text(&pairs).unwrap(), wanted);
    assert_eq!(text(&vec![HashMap::from([("k", pairs)])]).unwrap(), format!(r#"[{{"k":{wanted}}}]"#));
}

#[test]
fn a_key_that_comes_twice_is_refused_wherever_it_comes() {
    for keys in [["a", "a", "b"], ["a", "b", "a"], ["b", "a\n", "a\n"]] {
        let twice = if keys[2] == "b" { "a" } else { keys[2] };
        let pairs = Pairs(keys.iter().map(|key| ((*key).to_owned(), 1)).collect());
        assert_eq!(text(&pairs), Err(Error::DuplicateKey(twice.to_owned())));
    }
    assert_eq!(text(&HashMap::from([(1, 2)])), Err(Error::KeyNotText));
}

#[test]
fn integers_have_their_digits() {
    for number in [0, 7, -7, 10, -100, i64::MAX, i64::MIN] {
        assert_eq!(text(&number).unwrap(), number.to_string());
    }
    assert_eq!(text(&u64::MAX).unwrap(), u64::MAX.to_string());
    assert_eq!(text(&(-MAX_INTEGER)).unwrap(), (-MAX_INTEGER).to_string());
    assert_eq!(text(&(MAX_INTEGER + 1)), Err(Error::IntegerRange));
}

#[test]
fn members_that_are_not_wanted_are_left_out_of_the_outermost_object() {
    #[derive(serde::Serialize)]
    struct Note {
        zero: u8,
        gone: Option<u8>,
        inner: HashMap<&'static str, Option<u8>>,
        kept: u8,
    }
    let note = Note { zero: 0, gone: None, inner: HashMap::from([("gone", None)]), kept: 1 };
    let keep = |key: &[u8], value: &[u8]| key != b"zero" && value != b"null";
    let bytes = to_bytes_of(&note, &keep).unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), r#"{"inner":{"gone":null},"kept":1}"#);
    assert_eq!(to_bytes_of(&note, &|_, _| false).unwrap(), b"{}");
}

proptest! {
    #[test]
    fn members_are_written_in_one_order_whatever_order_they_come_in(
        members in prop::collection::btree_map(any::<String>(), any::<u8>(), 0..12),
        by in any::<prop::sample::Index>(),
    ) {
        let sorted: Vec<(String, u8)> = members.into_iter().collect();
        let mut turned = sorted.clone();
        if !turned.is_empty() {
            turned.rotate_left(by.index(sorted.len()));
        }
        prop_assert_eq!(to_bytes(&Pairs(turned)).unwrap(), to_bytes(&Pairs(sorted)).unwrap());
    }
}
