use rondo_protocol::workflow::read::duration_ms;

/// Milliseconds of a duration such as `250ms`, `30s`, `10m`, `2h` or `3d`.
///
/// # Errors
/// What a duration looks like, when `text` does not.
pub fn parse_duration_ms(text: &str) -> Result<u64, String> {
    match duration_ms(text) {
        Some(0) => Err("a duration must be longer than nothing".to_owned()),
        Some(milliseconds) => Ok(milliseconds),
        None => Err(format!("{:?} is not a duration such as 250ms, 30s, 10m, 2h or 3d", excerpt(text))),
    }
}

fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}
