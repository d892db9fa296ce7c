use super::*;

fn content_of(json: &str) -> Content {
    of_call(serde_json::from_str(json).unwrap(), &Redactor::default())
}

fn text_of(json: &str) -> String {
    content_of(json).text
}

#[test]
fn texts_are_joined_and_files_are_kept_or_named() {
    let json = r#"{"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "mimeType": "image/png", "data": "aGVsbG8="},
            {"type": "audio", "mimeType": "audio/wav", "data": "aGVs"},
            {"type": "resource", "resource": {"uri": "a:b", "text": "two"}},
            {"type": "resource", "resource": {"uri": "a:c", "mimeType": "application/zip", "blob": "aGVsbA=="}},
            {"type": "resource", "resource": {"uri": "file:///shots/c.png", "blob": "iVBORw0KGgo="}},
            {"type": "image", "mimeType": "IMAGE/PNG; q=1", "data": "/9j/"},
            {"type": "image", "mimeType": "image/png", "data": "not base64"},
            {"type": "resource_link", "uri": "a:d", "name": "d"}
        ], "structuredContent": {"b": 1}}"#;
    let lines = [
        "one",
        "[image-1.png (image/png), 5 bytes]",
        "[audio-2.wav (audio/wav), 3 bytes]",
        "two",
        "[application/zip, 4 bytes, left out]",
        "[c.png (image/png), 8 bytes]",
        "[image-4.jpeg (image/jpeg), 3 bytes]",
        "[image/png, 6 bytes, left out]",
        "[resource a:d d]",
        r#"{"b":1}"#,
    ];
    let content = content_of(json);
    assert_eq!(content.text, lines.join("\n"));
    let kept: Vec<_> = content.files.iter().map(|file| (&*file.media_type, &*file.bytes)).collect();
    let (png, jpeg) = (b"\x89PNG\r\n\x1a\n".as_slice(), b"\xff\xd8\xff".as_slice());
    let wanted = [("image/png", b"hello".as_slice()), ("audio/wav", b"hel"), ("image/png", png), ("image/jpeg", jpeg)];
    assert_eq!(kept, wanted);
    let failed = content_of(&json.replacen('{', r#"{"isError": true, "#, 1));
    assert!(failed.files.is_empty() && failed.text.contains("[image/png, 5 bytes, left out]"), "{failed:?}");
    let repeated = r#"{"content": [{"type": "text", "text": "one\n2"}], "structuredContent": {"a": "one\n", "b": 2}}"#;
    assert_eq!(text_of(repeated), "one\n2");
    assert_eq!(text_of(r#"{"content": [], "structuredContent": {"b": 1, "a": [2]}}"#), r#"{"a":[2],"b":1}"#);
}

#[test]
fn a_long_answer_is_cut_with_a_mark() {
    let redactor = Redactor::default();
    let mut lines = Lines::new(&redactor);
    for _ in 0..3 {
        lines.add(&"é".repeat(STORED_MAX_BYTES / 4));
    }
    let text = lines.finish();
    assert!(text.len() <= STORED_MAX_BYTES && text.ends_with("é\n[cut here: 1,572,866 bytes in all]"));
}

#[test]
fn no_half_of_a_key_stands_where_an_answer_is_cut() {
    const KEY: &str = "sk-0123456789";
    let redactor = Redactor::new([("KEY".to_owned(), KEY.to_owned())]);
    for before in STORED_MAX_BYTES - 60..STORED_MAX_BYTES {
        let mut lines = Lines::new(&redactor);
        lines.add(&format!("{}{KEY}{}", "x".repeat(before), "x".repeat(200)));
        assert!(!lines.finish().contains("sk-"));
    }
    let link =
        format!(r#"{{"content": [{{"type": "resource_link", "uri": "{}{KEY}", "name": "d"}}]}}"#, "x".repeat(490));
    let text = of_call(serde_json::from_str(&link).unwrap(), &redactor).text;
    assert!(!text.contains("sk-"), "{text}");
}
