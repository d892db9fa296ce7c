//! The URLs that are allowed at all, whatever is granted.

use reqwest::Url;
use rondo_protocol::diagnostic::Code;

use crate::bound;
use crate::error::Error;

const MAX_URL_BYTES: usize = 8 << 10;

pub fn parse(text: &str) -> Result<Url, Error> {
    let fault =
        |why: &str| Err(Error::new(Code::HttpUrl, format!("{:?} cannot be asked: {why}", bound::line(text, 200))));
    if text.len() > MAX_URL_BYTES {
        return fault("it is too long");
    }
    // A parser drops these; who reads the text sees another URL than the one that is asked.
    if text.chars().any(char::is_control) {
        return fault("it holds control characters");
    }
    match Url::parse(text) {
        Ok(url) => permissible(url),
        Err(error) => fault(&error.to_string()),
    }
}

fn permissible(url: Url) -> Result<Url, Error> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused(&url, "only http and https are"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused(&url, "it holds a user name or a password before its host"));
    }
    if url.host_str().is_some_and(|host| host.ends_with('.')) {
        return Err(refused(&url, "its host ends with a dot; write it without"));
    }
    Ok(url)
}

pub fn refused(url: &Url, why: &str) -> Error {
    let mut shown = url.clone();
    // A password is never shown.
    let _ = shown.set_password(None);
    Error::new(Code::HttpUrl, format!("{} cannot be asked: {why}", bound::line(shown.as_str(), 200)))
}

pub fn of_redirect(from: &Url, location: &str) -> Result<Url, Error> {
    let fault = |why: &str| Error::new(Code::HttpRedirect, format!("a redirect of {from} cannot be followed: {why}"));
    if !location.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
        return Err(fault("its address holds characters that no address has"));
    }
    if location.len() > MAX_URL_BYTES {
        return Err(fault("its address is too long"));
    }
    let next = from.join(location).map_err(|error| fault(&error.to_string()))?;
    if from.scheme() == "https" && next.scheme() == "http" {
        return Err(fault("it leads from https to http"));
    }
    permissible(next).map_err(|error| fault(&error.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_leads_to_https_or_stays_with_http() {
        let from = Url::parse("https://example.com/a/b").unwrap();
        for (location, leads_to) in [
            ("c", "https://example.com/a/c"),
            ("//other.example/", "https://other.example/"),
            ("https://other.example/", "https://other.example/"),
        ] {
            assert_eq!(of_redirect(&from, location).unwrap().as_str(), leads_to);
        }
        for location in ["http://example.com/", "file:///etc/hostname", "https://u:p@example.com/", "a\0b", "https://"]
        {
            assert_eq!(of_redirect(&from, location).unwrap_err().code, Code::HttpRedirect, "{location}");
        }
        let from = Url::parse("http://example.com/").unwrap();
        assert_eq!(of_redirect(&from, "https://example.com/").unwrap().as_str(), "https://example.com/");
    }

    #[test]
    fn a_url_is_shown_without_its_password() {
        let error = parse("https://user:hunter22@example.com/").unwrap_err();
        assert_eq!(error.code, Code::HttpUrl);
        assert!(!error.message.contains("hunter22"), "{}", error.message);
    }
}
