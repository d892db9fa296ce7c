use proptest::prelude::*;

use super::*;

fn canonical(text: &str) -> String {
    parse(text.as_bytes()).unwrap().to_text()
}

#[test]
fn numbers_with_an_integral_value_are_written_as_integers() {
    for (text, wanted) in [
        ("1.0", "1"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("1e3", "1000"),
        ("18446744073709551615", "18446744073709551615"),
        ("-18446744073709551615", "-18446744073709551615"),
        ("9007199254740993", "9007199254740993"),
        ("1e19", "10000000000000000000"),
        ("1e20", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("0.1", "0.1"),
        ("1.5e-7", "1.5e-7"),
        ("0.000001", "0.000001"),
        ("5e-324", "5e-324"),
    ] {
        assert_eq!(canonical(text), wanted, "{text}");
    }
}

#[test]
fn what_has_no_canonical_form_is_refused() {
    for (text, wanted) in [
        ("18446744073709551616", Error::IntegerRange),
        ("-18446744073709551616", Error::IntegerRange),
        ("100000000000000000000", Error::IntegerRange),
        ("1e400", Error::NotFinite),
        (r#"{"a":1,"a":2}"#, Error::DuplicateKey("a".to_owned())),
        (r#""\ud800""#, Error::Syntax { at: 7, what: "a lone surrogate" }),
        ("[1,]", Error::Syntax { at: 3, what: "expected a value" }),
        ("01", Error::Syntax { at: 1, what: "a number does not start with 0" }),
        ("1 2", Error::Syntax { at: 2, what: "something follows the value" }),
        ("\"a\nb\"", Error::Syntax { at: 2, what: "an unescaped control character in a text" }),
    ] {
        assert_eq!(parse(text.as_bytes()), Err(wanted), "{text}");
    }
    assert_eq!(parse("[".repeat(200).as_bytes()), Err(Error::ValueTooDeep));
    assert_eq!(parse_canonical("[".repeat(200).as_bytes()), Err(Error::TooDeep));
    assert_eq!(to_bytes(&f64::NAN), Err(Error::NotFinite));
}

#[test]
fn keys_are_sorted_by_their_utf8_bytes_and_only_what_must_be_is_escaped() {
    assert_eq!(canonical("{\"\u{ff5e}\":1,\"😀\":2,\"b\":3,\"B\":4}"), "{\"B\":4,\"b\":3,\"\u{ff5e}\":1,\"😀\":2}");
    assert_eq!(canonical(r#""\u00e9\/\u0007\n\u007f\u2028""#), "\"é/\\u0007\\n\u{7f}\u{2028}\"");
}

#[test]
fn a_struct_is_sorted_whatever_the_order_of_its_fields() {
    #[derive(serde::Serialize)]
    struct Unsorted {
        zebra: u8,
        apple: Option<u8>,
        mango: (u8, &'static str),
    }
    let bytes = to_bytes(&Unsorted { zebra: 1, apple: None, mango: (2, "x") }).unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), r#"{"apple":null,"mango":[2,"x"],"zebra":1}"#);
}

/// A value with that many levels.
fn nested(levels: usize) -> Value {
    (0..levels).fold(Value::from("x"), |value, level| match level % 2 {
        0 => Value::List(vec![value]),
        _ => Value::from_iter([("k", value)]),
    })
}

#[test]
fn a_value_that_may_enter_a_thread_can_be_written_and_read_with_much_around_it() {
    let deepest = nested(MAX_VALUE_DEPTH);
    assert_eq!(deepest.check_depth(), Ok(()));
    assert_eq!(parse(deepest.to_text().as_bytes()), Ok(deepest.clone()));
    assert_eq!(nested(MAX_VALUE_DEPTH + 1).check_depth(), Err(Error::ValueTooDeep));
    assert_eq!(parse(nested(MAX_VALUE_DEPTH + 1).to_text().as_bytes()), Err(Error::ValueTooDeep));
    let wrapped = (MAX_VALUE_DEPTH..MAX_DEPTH - 1).fold(deepest, |value, _| Value::List(vec![value]));
    let bytes = to_bytes(&wrapped).unwrap();
    assert_eq!(parse_canonical(&bytes), Ok(wrapped.clone()));
    // Every other reader of rows, events and recordings accepts it too.
    assert!(serde_json::from_slice::<serde_json::Value>(&bytes).is_ok());
    assert_eq!(from_slice::<Value>(&bytes), Ok(wrapped));
    assert_eq!(to_bytes(&nested(MAX_DEPTH + 1)), Err(Error::TooDeep));
}

#[test]
fn a_text_of_a_value_is_never_empty() {
    let deep = nested(MAX_DEPTH + 10);
    let text = deep.to_text();
    assert!(text.starts_with("{\"k\":[") && text.ends_with("]}"), "{text}");
    assert_eq!(text.matches('[').count(), 69);
    assert_eq!(Value::List(vec![Value::Float(f64::NAN), Value::Int(1)]).to_text(), "[null,1]");
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-MAX_INTEGER..=MAX_INTEGER).prop_map(Value::Int),
        any::<f64>().prop_filter_map("finite", |number| Value::number(number).ok()),
        any::<String>().prop_map(Value::Str),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::List),
            prop::collection::btree_map(any::<String>(), inner, 0..8).prop_map(Value::Object),
        ]
    })
}

proptest! {
    /// Law `format`: canonical bytes survive a round trip, and so does the value.
    #[test]
    fn format_canonical_bytes_survive_a_round_trip(value in any_value()) {
        let bytes = to_bytes(&value).unwrap();
        let read = parse_canonical(&bytes).unwrap();
        prop_assert_eq!(&read, &value);
        prop_assert_eq!(to_bytes(&read).unwrap(), bytes.clone());
        prop_assert_eq!(from_slice::<Value>(&bytes).unwrap(), value);
    }

    /// Another JSON reader sees the same document.
    #[test]
    fn canonical_bytes_are_json(value in any_value()) {
        let bytes = to_bytes(&value).unwrap();
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&bytes).is_ok());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }
}
