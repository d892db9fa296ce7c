/// Cuts a text down to about `max_bytes` with a visible mark in its place: three quarters of what stays are its
/// beginning, the rest is its end, where programs say how it went.
pub fn cut(text: &mut String, max_bytes: usize) {
    if text.len() <= max_bytes {
        return;
    }
    let beginning = floor(text, max_bytes - max_bytes / 4);
    let end = floor(text, text.len() - max_bytes / 4);
    let left_out = end - beginning;
    text.replace_range(beginning..end, &format!("\n[cut: {left_out} bytes left out]\n"));
}

/// The last character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_and_what_does_not_is_marked() {
        let mut text = "abcdefgh".to_owned();
        cut(&mut text, 8);
        assert_eq!(text, "abcdefgh");
        let mut text = "0123456789abcdef".to_owned();
        cut(&mut text, 8);
        assert_eq!(text, "012345\n[cut: 8 bytes left out]\nef");
    }

    #[test]
    fn characters_stay_whole() {
        let mut text = "äöüäöüäöü".to_owned();
        cut(&mut text, 7);
        assert_eq!(text, "äöü\n[cut: 10 bytes left out]\nü");
    }
}
