//! What every HTTP client of this crate has in common.

use std::error::Error;

/// A client that does one request when it is asked for one: nothing is retried, no redirect is followed. TLS is
/// rustls with ring.
pub fn client() -> reqwest::ClientBuilder {
    // A client cannot be built without a crypto provider; one that is installed already stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).retry(reqwest::retry::never())
}

/// The last cause of an error, which says more than the first.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
