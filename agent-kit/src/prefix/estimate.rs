//! Estimates tokens that were not counted, and the maximum share of a prompt that a provider can serve from its cache.

/// The bytes of a request that count as one token, as in the workflow format (`compact`).
const BYTES_PER_TOKEN: u64 = 4;

pub fn tokens(bytes: u64) -> u64 {
    bytes / BYTES_PER_TOKEN
}

/// The closed form of what a perfect prefix cache serves of a role's prompts, for the actual sizes.
///
/// For V visits of S system, u user and a answer tokens, P = VS + Vu + (u+a)V(V-1)/2 are sent and
/// F = S + u + (V-1)(u+a) of them are new; 1 - F/P can be served. Here `u` and `a` may differ from visit to visit. The
/// caller chooses the unit: tokens or bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClosedForm {
    /// F: what no earlier request contained. It equals the last request, because each begins with the one before it.
    pub fresh: u64,
    /// P: everything that was sent.
    pub sent: u64,
    /// The length of the conversation, including its last answer.
    length: u64,
}

impl ClosedForm {
    /// Starts a role without visits, whose requests each begin with `head`: system text, tools, response format.
    pub fn new(head: u64) -> Self {
        Self { length: head, ..Self::default() }
    }

    /// Adds a visit that was opened with `user` and answered with `answer`.
    #[must_use]
    pub fn visit(self, user: u64, answer: u64) -> Self {
        let request = self.length.saturating_add(user);
        Self { fresh: request, sent: self.sent.saturating_add(request), length: request.saturating_add(answer) }
    }

    /// 1 - F/P, to four decimals; `None` before the first visit.
    pub fn share(self) -> Option<f64> {
        share(self.sent.saturating_sub(self.fresh), self.sent)
    }
}

/// `part` divided by `whole`, 0 to 1, to four decimals; `None` if `whole` is 0.
pub fn share(part: u64, whole: u64) -> Option<f64> {
    let (part, whole) = (u128::from(part), u128::from(whole));
    let parts = (part * 10_000 + whole / 2).checked_div(whole)?;
    u32::try_from(parts).ok().map(|parts| f64::from(parts) / 10_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closed_form_is_that_of_equal_visits() {
        // Ten requests of 540, 640, ... 1440 bytes: 9900 in total, of which only the size of the last is new.
        let form = (0..10).fold(ClosedForm::new(500), |form, _| form.visit(40, 60));
        assert_eq!((form.sent, form.fresh), (9900, 1440));
        assert_eq!(form.share(), Some(0.8545));
        assert_eq!(ClosedForm::new(500).share(), None);
    }

    #[test]
    fn visits_of_other_sizes_are_counted_as_what_is_sent() {
        // The texts of two requests: "sys" + "ab", then "sys" + "ab" + "answer" + "cdef".
        let first = ClosedForm::new(3).visit(2, 6);
        assert_eq!((first.sent, first.fresh, first.share()), (5, 5, Some(0.0)));
        let second = first.visit(4, 1);
        assert_eq!((second.sent, second.fresh, second.share()), (20, 15, Some(0.25)));
        // An answer that no later request contains is never sent.
        assert_eq!(second.sent, first.visit(4, 1_000).sent);
    }

    #[test]
    fn four_bytes_are_a_token() {
        assert_eq!([0, 3, 4, 7, 8].map(tokens), [0, 0, 1, 1, 2]);
    }

    #[test]
    fn a_share_has_four_decimals() {
        assert_eq!(share(1, 3), Some(0.3333));
        assert_eq!(share(2, 3), Some(0.6667));
        assert_eq!(share(u64::MAX, u64::MAX), Some(1.0));
        assert_eq!(share(1, 0), None);
    }
}
