//! Matching with wildcards, in time linear but for going back to the last of them.

/// Whether a pattern matches a whole text, where some of its items stand for any number of the text's. To go back to
/// the last of these is enough: what an earlier one could take besides, that one can take too.
pub(crate) fn matches<P, T>(
    pattern: &[P],
    text: &[T],
    is_any: impl Fn(&P) -> bool,
    is_match: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut read) = (0, 0);
    // What follows the last such item, and how far that reaches.
    let mut last = None;
    while let Some(item) = text.get(read) {
        match pattern.get(at) {
            Some(wanted) if is_any(wanted) => {
                at += 1;
                last = Some((at, read));
            }
            Some(wanted) if is_match(wanted, item) => (at, read) = (at + 1, read + 1),
            _ => {
                let Some((behind, reach)) = last else { return false };
                (at, read) = (behind, reach + 1);
                last = Some((behind, read));
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(is_any)
}
