//! The common base of the HTTP clients of this crate.

use std::error::Error;

/// A client that makes exactly one request per call: it retries nothing and follows no redirect. TLS is rustls with
/// ring.
pub fn client() -> reqwest::ClientBuilder {
    // Building a client requires a crypto provider; an installed one stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).retry(reqwest::retry::never())
}

/// The innermost cause of an error, which is the most specific one.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| (**error).source()).last().unwrap_or(error).to_string()
}
