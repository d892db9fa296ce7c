//! Estimates tokens that were not counted, and shares.

/// The bytes of a request that count as one token, as in the workflow format (`compact`).
const BYTES_PER_TOKEN: u64 = 4;

pub fn tokens(bytes: u64) -> u64 {
    bytes / BYTES_PER_TOKEN
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
