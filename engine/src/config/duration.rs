/// Milliseconds of a duration such as `250ms`, `30s`, `10m`, `2h` or `3d`.
///
/// # Errors
/// What a duration looks like, when `text` does not.
pub fn parse_duration_ms(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).unwrap_or_default();
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(format!("{:?} is not a duration such as 250ms, 30s, 10m, 2h or 3d", excerpt(text))),
    };
    match number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms)) {
        Some(0) => Err("a duration must be longer than nothing".to_owned()),
        Some(milliseconds) => Ok(milliseconds),
        None => Err(format!("{:?} is not a duration such as 250ms, 30s, 10m, 2h or 3d", excerpt(text))),
    }
}

fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}
