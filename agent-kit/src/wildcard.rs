//! Matches wildcards, backtracking only to the last one.

/// Whether a pattern matches a whole text; some of its items match any number of items of the text. Backtracking to the
/// last of these is enough: it can match whatever an earlier one could match in addition.
pub(crate) fn matches<P, T>(
    pattern: &[P],
    text: &[T],
    is_any: impl Fn(&P) -> bool,
    is_match: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut read) = (0, 0);
    // The items after the last wildcard, and how far it extends.
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
