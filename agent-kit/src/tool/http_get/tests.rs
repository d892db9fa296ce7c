use super::*;

fn response(content_type: Option<&str>, body: &[u8]) -> Response {
    Response {
        status: 200,
        status_line: "200 OK".to_owned(),
        content_type: content_type.map(str::to_owned),
        content_encoding: None,
        body: body.to_vec(),
        cut: false,
        length_bytes: None,
        url: "https://example.com/a".to_owned(),
    }
}

#[test]
fn a_text_stands_behind_one_line_about_it() {
    let page = response(Some("text/html; charset=iso-8859-1"), b"caf\xe9");
    let text = "200 OK text/html; charset=iso-8859-1, 4 bytes, https://example.com/a\ncaf\u{e9}";
    assert_eq!(present(&page, &Redactor::default()).unwrap(), text);

    let cut = Response { cut: true, length_bytes: Some(12_345), ..response(None, b"{}") };
    let text =
        "200 OK of no named type, 12,345 bytes, https://example.com/a\n{}\n[cut here: the first 2 bytes of the body]";
    assert_eq!(present(&cut, &Redactor::default()).unwrap(), text);
}

#[test]
fn what_is_no_text_is_refused_with_type_and_size() {
    let compressed = Response { content_encoding: Some("gzip".to_owned()), ..response(Some("text/plain"), b"x") };
    for (answer, part) in [
        (response(Some("image/png"), b"\x89PNG"), "is image/png, 4 bytes: it is no text"),
        (response(Some("text/plain"), b"MZ\0\0"), "it holds zero bytes"),
        (response(Some("text/plain; charset=klingon"), b"x"), "its character set is unknown"),
        (compressed, "it is compressed"),
    ] {
        let error = present(&answer, &Redactor::default()).unwrap_err();
        assert_eq!(error.code, Code::HttpNotText);
        assert!(error.message.contains(part), "{}", error.message);
    }
}

#[test]
fn a_status_without_success_is_an_error_with_the_beginning_of_the_body() {
    let status_line = "404 Not Opened".to_owned();
    let missing = Response { status: 404, status_line, ..response(Some("text/plain"), &b"gone ".repeat(5000)) };
    let error = present(&missing, &Redactor::default()).unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (Code::HttpStatus, "https://example.com/a answered 404 Not Opened")
    );
    assert!(error.output.starts_with("gone gone") && error.output.len() <= MAX_ERROR_BYTES, "{}", error.output.len());
}

#[test]
fn a_result_fits_the_store_however_its_characters_grow() {
    let umlauts = response(Some("text/plain; charset=iso-8859-1"), &vec![0xe9; STORED_MAX_BYTES]);
    assert!(present(&umlauts, &Redactor::default()).unwrap().len() <= STORED_MAX_BYTES);
}

#[test]
fn no_half_of_a_key_stands_where_a_body_is_cut() {
    const KEY: &str = "sk-é-0123456789";
    let redactor = Redactor::new([("KEY".to_owned(), KEY.to_owned())]);
    let body = format!("a {KEY}");
    for length in 0..body.len() {
        let page = Response { cut: true, ..response(Some("text/plain"), &body.as_bytes()[..length]) };
        let text = present(&page, &redactor).unwrap();
        assert!(!text.contains("sk") && !text.contains('\u{fffd}'), "{text}");
    }
    let failed = format!("{}{KEY}", "x".repeat(MAX_ERROR_BYTES - 44));
    let failed = Response { status: 500, ..response(Some("text/plain"), failed.as_bytes()) };
    let output = present(&failed, &redactor).unwrap_err().output;
    assert!(!output.contains("sk-"), "{output}");
    let kind = format!("text/plain; x={}{KEY}", "x".repeat(175));
    let shown = present(&response(Some(&kind), b""), &redactor).unwrap();
    assert!(!shown.contains("sk-"), "{shown}");
}
