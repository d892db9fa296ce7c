use super::*;

fn granted(entries: &[&str], url: &str) -> Option<Granted> {
    let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
    let url = Url::parse(url).unwrap();
    Hosts::new(&entries).unwrap().grant(&Host::of(&url).unwrap(), &url)
}

#[test]
fn a_grant_means_a_host_and_its_port() {
    for (entry, url, expected) in [
        ("example.com", "https://example.com/a", Some(Granted::Public)),
        ("example.com", "http://EXAMPLE.com:80/a", Some(Granted::Public)),
        ("example.com", "https://example.com:8443/", None),
        ("example.com", "https://sub.example.com/", None),
        ("example.com", "https://example.com.evil.test/", None),
        ("example.com:8443", "https://example.com:8443/", Some(Granted::Public)),
        ("example.com:8443", "https://example.com/", None),
        ("example.com:443", "https://example.com/", Some(Granted::Public)),
        ("*.example.com", "https://a.b.example.com/", Some(Granted::Public)),
        ("*.example.com", "https://example.com/", None),
        ("*.example.com", "https://evilexample.com/", None),
        ("b\u{fc}cher.example", "https://xn--bcher-kva.example/", Some(Granted::Public)),
        ("127.0.0.1:8080", "http://127.0.0.1:8080/", Some(Granted::Exact)),
        ("127.0.0.1:8080", "http://2130706433:8080/", Some(Granted::Exact)),
        ("127.0.0.1:8080", "http://127.0.0.2:8080/", None),
        ("127.0.0.1:8080", "http://127.0.0.1/", None),
        ("[::1]:8080", "http://[::1]:8080/", Some(Granted::Exact)),
        ("localhost:8080", "http://localhost:8080/", Some(Granted::Loopback)),
        ("localhost:8080", "http://127.0.0.1:8080/", None),
        ("*.localhost:8080", "http://a.localhost:8080/", Some(Granted::Public)),
        ("1.1.1.1", "https://1.1.1.1/", Some(Granted::Public)),
    ] {
        assert_eq!(granted(&[entry], url), expected, "{entry} for {url}");
    }
    assert_eq!(granted(&[], "https://example.com/"), None);
}

#[test]
fn what_is_no_host_is_refused() {
    for entry in [
        "",
        "*",
        "a.*.b",
        "https://example.com",
        "example.com/path",
        "user@example.com",
        "example.com:0",
        "example.com:http",
        "example.com:99999",
        "example.com.",
        "localhost",
        "127.0.0.1",
        "2130706433",
        "[::1]",
        "*.127.0.0.1:80",
        "exa mple.com",
    ] {
        let error = Hosts::new(&[entry.to_owned()]).err();
        assert!(error.is_some(), "{entry}");
    }
}
