use std::os::unix::fs::PermissionsExt as _;

use super::super::Kind;
use super::*;

fn agreement(digest: &str, own: bool) -> Agreement {
    let asks = vec![Ask::new(Kind::Tool, "shell", "for a")];
    Agreement { digest: Digest::sha256(digest.as_bytes()), own, asks, agreed_at_ms: 1 }
}

#[test]
fn what_was_agreed_to_holds_where_it_lies_and_until_it_changes() {
    let of = |text: &str| Digest::sha256(text.as_bytes());
    let mut book = Records::default();
    book.settings.insert("/a".into(), agreement("asks", false));
    assert!(matches!(book.settings("/a", of("asks")), Consent::Agreed(_)));
    assert!(matches!(book.settings("/a", of("more")), Consent::Changed(_)));
    assert_eq!(book.settings("/copy", of("asks")), Consent::Unknown);

    let asks = lasting(&agreement("first", false).asks).unwrap();
    book.agree_to_workflow("/w".into(), agreement("first", false));
    book.agree_to_workflow("/w".into(), agreement("second", false));
    for definition in ["first", "second"] {
        let standing = book.workflow("/w", of(definition), asks, false);
        assert!(matches!(standing, Consent::Agreed(_)), "{definition}");
    }
    assert!(matches!(book.workflow("/w", of("third"), asks, true), Consent::Changed(_)));
    assert!(matches!(book.workflow("/w", of("first"), of("more"), true), Consent::Changed(_)), "it asks for more");
    assert_eq!(book.workflow("/copy", of("first"), asks, true), Consent::Unknown);

    book.agree_to_workflow("/own".into(), agreement("asks", true));
    assert!(matches!(book.workflow("/own", of("any definition"), of("asks"), true), Consent::Agreed(_)));
    assert!(matches!(book.workflow("/own", of("another one"), of("asks"), false), Consent::Changed(_)));
    assert!(matches!(book.workflow("/own", of("asks"), of("more"), true), Consent::Changed(_)));
    assert!(book.revoke_workflow("/own") && !book.revoke_workflow("/own"));
}

#[test]
fn records_that_others_can_write_are_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rondo/trust.json");
    Records::update(Some(&path), |book| book.settings.insert("/a".into(), agreement("asks", false))).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(Records::read(Some(&path)).unwrap().settings.len(), 1);

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(Records::read(Some(&path)), Err(Error::Unsafe { .. })));
    let real = folder.path().join("real.json");
    std::fs::rename(&path, &real).unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    assert!(matches!(Records::read(Some(&path)), Err(Error::File { .. })));
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&real, "{\"version\":1,\"workflows\":{},\"servers\":{}}").unwrap();
    assert_eq!(
        Records::read(Some(&real)).unwrap(),
        Records::default(),
        "what was agreed to in format 1 is asked again"
    );
}
