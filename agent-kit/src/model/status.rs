//! Maps an HTTP status to a fault: the same for a provider and for a script that plays one.

use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;

/// The fault for a response with `status` and the text `words`, which contains no key.
pub(super) fn fault(status: u16, words: &str) -> Fault {
    let (code, class) = match status {
        402 => (Code::QuotaUsedUp, FaultClass::Refused),
        401 | 403 => (Code::KeyRefused, FaultClass::Refused),
        408 | 504 => (Code::ProviderSilent, FaultClass::Timeout),
        409 | 425 | 429 => (Code::ProviderBusy, FaultClass::RateLimit),
        500.. => (Code::ProviderFailed, FaultClass::Server),
        _ => (Code::RequestRefused, FaultClass::Refused),
    };
    let colon = if words.is_empty() { "" } else { ": " };
    Fault::new(code, class, format!("the provider answered {status}{colon}{words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_another_attempt_may_cure_is_not_refused() {
        let class = |status| fault(status, "").class;
        for status in [400, 401, 402, 403, 404, 405, 413, 422, 302] {
            assert_eq!(class(status), FaultClass::Refused, "{status}");
        }
        for status in [409, 425, 429] {
            assert_eq!(class(status), FaultClass::RateLimit, "{status}");
        }
        for status in [500, 502, 503, 529, 599] {
            assert_eq!(class(status), FaultClass::Server, "{status}");
        }
        assert_eq!(fault(402, "").code, Code::QuotaUsedUp);
        assert_eq!(class(408), FaultClass::Timeout);
        assert_eq!(class(504), FaultClass::Timeout);
    }
}
