const MARK_MAX_BYTES: usize = 64;

/// Cuts a text to at most `max_bytes`, with a visible mark: keeps three quarters from the beginning and the rest from
/// the end, where programs report their result. A text that was already cut is not cut again.
pub fn cut(text: &mut String, max_bytes: usize) {
    if text.len() <= max_bytes {
        return;
    }
    let stays = max_bytes.saturating_sub(MARK_MAX_BYTES);
    let beginning = text.floor_char_boundary(stays - stays / 4);
    let end = text.ceil_char_boundary(text.len() - stays / 4);
    let left_out = end - beginning;
    text.replace_range(beginning..end, &format!("\n[cut: {left_out} bytes left out]\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_and_what_does_not_is_marked() {
        let mut text = "x".repeat(72);
        cut(&mut text, 72);
        assert_eq!(text, "x".repeat(72));
        let mut text = "0123456789abcdef".repeat(5);
        cut(&mut text, 72);
        assert_eq!(text, "012345\n[cut: 72 bytes left out]\nef");
    }

    #[test]
    fn characters_stay_whole() {
        let mut text = "äöü".repeat(20);
        cut(&mut text, 71);
        assert_eq!(text, "äöü\n[cut: 114 bytes left out]\n");
    }

    #[test]
    fn what_was_cut_is_not_cut_again() {
        for length in [200, 1000, 100_000] {
            let mut text = "é1".repeat(length);
            cut(&mut text, 200);
            assert!(text.len() <= 200);
            let once = text.clone();
            cut(&mut text, 200);
            assert_eq!(text, once);
        }
    }
}
