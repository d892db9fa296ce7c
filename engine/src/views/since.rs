//! Times that a person names: the beginning of a period, given as an age or as a day. Days are those of UTC.

use chrono::{DateTime, NaiveDate, NaiveTime};
use rondo_protocol::workflow::read::duration_ms;

/// The beginning of a period that ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// A time ago, in milliseconds.
    Ago(u64),
    /// The beginning of a day, in Unix milliseconds.
    Day(u64),
}

impl Since {
    /// The beginning in Unix milliseconds.
    pub fn start_ms(self, now_ms: u64) -> u64 {
        match self {
            Self::Ago(ago_ms) => now_ms.saturating_sub(ago_ms),
            Self::Day(at_ms) => at_ms,
        }
    }
}

/// Reads `90m`, `7d` or `2026-11-01`.
pub fn since(text: &str) -> Result<Since, String> {
    let day = || {
        let at = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_time(NaiveTime::MIN).and_utc();
        u64::try_from(at.timestamp_millis()).ok()
    };
    let found = duration_ms(text).map(Since::Ago).or_else(|| day().map(Since::Day));
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
        assert_eq!(since("90m"), Ok(Since::Ago(5_400_000)));
        assert_eq!(since("2026-11-01"), Ok(Since::Day(NOVEMBER_MS)));
        for wrong in ["", "7", "d", "7w", "2026-13-01", "2026-11-1x", "1969-12-31", "yesterday"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Since::Ago(5).start_ms(3), 0);
        assert_eq!(Since::Ago(5).start_ms(30), 25);
        assert_eq!(Since::Day(NOVEMBER_MS).start_ms(30), NOVEMBER_MS);
    }

    #[test]
    fn a_day_begins_at_midnight_in_utc() {
        assert_eq!(day(NOVEMBER_MS), "2026-11-01");
        assert_eq!(day(NOVEMBER_MS - 1), "2026-10-31");
        assert_eq!(day(NOVEMBER_MS + 86_399_999), "2026-11-01");
    }
}
