//! Reads whether and how long a provider asks to wait: `Retry-After` in seconds or as an HTTP date (RFC 9110, 10.2.3), or
//! the `retry-after-ms` and `x-should-retry` of OpenAI and Anthropic.

use std::time::Duration;

use chrono::{DateTime, NaiveDateTime};
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// Milliseconds, not clamped; `None` if the header is missing or unreadable. A date is relative to the response's own
/// date if it has one, else to `now_s`, Unix seconds.
pub(super) fn retry_after_ms(headers: &HeaderMap, now_s: u64) -> Option<u64> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(whole_ms) {
        return Some(ms);
    }
    let after = text(RETRY_AFTER.as_str())?;
    seconds_ms(after).or_else(|| {
        let until = http_date(after)?;
        let now = text(DATE.as_str()).and_then(http_date).unwrap_or(now_s);
        until.saturating_sub(now).checked_mul(1000)
    })
}

/// Whether a provider says that another attempt may succeed, or that none will.
pub(super) fn should_retry(headers: &HeaderMap) -> Option<bool> {
    headers.get("x-should-retry")?.to_str().ok()?.trim().parse().ok()
}

/// Whole milliseconds of a number of them, such as `120` or `120.5`.
fn whole_ms(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| seconds_ms_of(text.parse::<f64>().ok()? / 1000.0))
}

/// Milliseconds of a number of seconds, such as `1` or `1.5`.
pub(super) fn seconds_ms(text: &str) -> Option<u64> {
    seconds_ms_of(text.parse().ok()?)
}

fn seconds_ms_of(seconds: f64) -> Option<u64> {
    u64::try_from(Duration::try_from_secs_f64(seconds).ok()?.as_millis()).ok()
}

/// Unix seconds of `Sun, 06 Nov 1994 08:49:37 GMT`, or of the two obsolete forms, `Sunday, 06-Nov-94 08:49:37 GMT` and
/// `Sun Nov  6 08:49:37 1994` (RFC 9110, 5.6.7).
fn http_date(text: &str) -> Option<u64> {
    const OBSOLETE: [&str; 2] = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let obsolete = |form| NaiveDateTime::parse_from_str(text, form).ok().map(|date| date.and_utc().timestamp());
    let seconds = match DateTime::parse_from_rfc2822(text) {
        Ok(date) => date.timestamp(),
        Err(_) => OBSOLETE.into_iter().find_map(obsolete)?,
    };
    u64::try_from(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_dates_and_milliseconds_are_read_and_nonsense_is_not() {
        let of = |pairs: &[(&'static str, &str)]| {
            let headers = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            retry_after_ms(&headers, 784_111_777)
        };
        assert_eq!(of(&[("retry-after", "7")]), Some(7000));
        assert_eq!(of(&[("retry-after", "0.25")]), Some(250));
        assert_eq!(of(&[("retry-after", "7"), ("retry-after-ms", "120")]), Some(120));
        assert_eq!(of(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]), Some(0));
        assert_eq!(of(&[("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT")]), Some(60_000));
        assert_eq!(of(&[("retry-after-ms", "120.5")]), Some(120));
        assert_eq!(of(&[("retry-after", "Sunday, 06-Nov-94 08:50:37 GMT")]), Some(60_000));
        assert_eq!(of(&[("retry-after", "Sun Nov  6 08:50:37 1994")]), Some(60_000));
        assert_eq!(of(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(0));
        let dated = [("retry-after", "Thu, 29 Feb 2024 12:00:05 GMT"), ("date", "Thu, 29 Feb 2024 12:00:00 GMT")];
        assert_eq!(of(&dated), Some(5000));
        for nonsense in [
            "",
            "soon",
            "Sunday, 06-Nov-94",
            "Mon Nov  6 08:50:37 1994",
            "-1",
            "99999999999999999999",
            "18446744073709551615",
            "Sun, 99 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(of(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
        assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(http_date("Fri, 01 Mar 2024 00:00:00 GMT"), Some(1_709_251_200));
    }
}
