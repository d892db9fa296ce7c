//! Times that a person names: the beginning of a period, given as an age or as a day. Days are those of UTC.

use chrono::{DateTime, NaiveDate, NaiveTime};
use rondo_core::env::{Env as _, SystemEnv};
use rondo_protocol::workflow::read::duration_ms;

/// The beginning of a period that ends now, in Unix milliseconds. Reads `90m`, `7d` or `2026-11-01`.
pub fn since(text: &str) -> Result<u64, String> {
    start_ms(text, SystemEnv::default().now_ms())
}

fn start_ms(text: &str, now_ms: u64) -> Result<u64, String> {
    let day = || {
        let at = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_time(NaiveTime::MIN).and_utc();
        u64::try_from(at.timestamp_millis()).ok()
    };
    let found = duration_ms(text).map(|ago_ms| now_ms.saturating_sub(ago_ms)).or_else(day);
    found.ok_or_else(|| "write digits and a unit, such as 90m or 7d, or a day, such as 2026-11-01".to_owned())
}

/// The day of a time in Unix milliseconds, such as `2026-11-01`.
pub fn day(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(DateTime::from_timestamp_millis).unwrap_or(DateTime::UNIX_EPOCH);
    at.date_naive().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-01T00:00:00Z.
    const NOVEMBER_MS: u64 = 1_793_491_200_000;

    #[test]
    fn a_beginning_is_an_age_or_a_day() {
        assert_eq!(start_ms("90m", NOVEMBER_MS), Ok(NOVEMBER_MS - 5_400_000));
        assert_eq!(start_ms("90m", 30), Ok(0));
        assert_eq!(start_ms("2026-11-01", 30), Ok(NOVEMBER_MS));
        for wrong in ["", "7", "d", "7w", "2026-13-01", "2026-11-1x", "1969-12-31", "yesterday"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_day_begins_at_midnight_in_utc() {
        assert_eq!(day(NOVEMBER_MS), "2026-11-01");
        assert_eq!(day(NOVEMBER_MS - 1), "2026-10-31");
        assert_eq!(day(NOVEMBER_MS + 86_399_999), "2026-11-01");
    }
}
