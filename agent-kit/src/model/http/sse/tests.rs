use proptest::prelude::*;

use super::*;

fn read(chunks: &[&[u8]]) -> Result<Vec<String>, Fault> {
    let mut reader = Reader::new(1 << 23, 1 << 20);
    let mut events = Vec::new();
    for chunk in chunks {
        reader.push(chunk, &mut events)?;
    }
    Ok(events)
}

#[test]
fn events_are_read_as_the_standard_says() {
    for (text, wanted) in [
        ("data: a\n\ndata:b\n\n", vec!["a", "b"]),
        ("data: a\r\ndata: b\r\n\r\n", vec!["a\nb"]),
        ("data: a\r\rdata: b\r\r", vec!["a", "b"]),
        (": comment\nevent: x\nid: 1\nretry: 5\ndata:  a\n\n", vec![" a"]),
        ("\u{feff}data: a\n\n", vec!["a"]),
        ("data\n\ndata:\n\n", vec!["", ""]),
        ("database: a\n\n\n\n", vec![]),
        ("data: never dispatched\n", vec![]),
        ("data: never dispatched", vec![]),
    ] {
        assert_eq!(read(&[text.as_bytes()]).unwrap(), wanted, "{text:?}");
    }
}

#[test]
fn nothing_may_be_endless() {
    let mut reader = Reader::new(3 << 20, 1 << 20);
    let chunk = vec![b'x'; 1 << 16];
    let mut pushed = 0;
    let error = loop {
        match reader.push(&chunk, &mut Vec::new()) {
            Ok(()) => pushed += chunk.len(),
            Err(error) => break error,
        }
    };
    assert_eq!((error, pushed), (event_too_long(1 << 20), 1 << 20));
    let mut reader = Reader::new(100, 100);
    let error = reader.push(&[b'\n'; 101], &mut Vec::new()).unwrap_err();
    assert_eq!(error.message, "the event stream is longer than 100 bytes");
    assert_eq!(read(&[b"data: \xff\n"]).unwrap_err().message, "a line of the event stream is not UTF-8");
    let line = format!("data: {}\n", "x".repeat(1 << 19));
    assert_eq!(read(&[line.as_bytes(), line.as_bytes()]), Err(event_too_long(1 << 20)));
}

fn stream() -> impl Strategy<Value = String> {
    let line_end = prop::sample::select(vec!["\n", "\r\n", "\r"]);
    let line = prop_oneof!["data: [^\r\n]{0,8}", "data:é😀", ":[a-z]{0,3}", "event: x", "", "", any::<String>()];
    prop::collection::vec((line, line_end), 0..20)
        .prop_map(|lines| lines.into_iter().map(|(line, end)| line + end).collect())
}

proptest! {
    #[test]
    fn events_do_not_depend_on_the_chunks(text in stream(), cuts in prop::collection::vec(0..1000_usize, 0..20)) {
        let bytes = text.as_bytes();
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let chunks: Vec<&[u8]> = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(read(&chunks), read(&[bytes]));
    }
}
