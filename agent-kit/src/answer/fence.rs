//! Removes the code fence that models like to put around a whole answer.

/// Returns `text` without the lines of an opening and a closing code fence around the whole of it. A text without both
/// is returned unchanged.
pub(super) fn strip(text: &str) -> &str {
    inside(text).unwrap_or(text)
}

fn inside(text: &str) -> Option<&str> {
    let start = text.trim_start_matches(['\n', '\r', ' ', '\t']);
    let mark = start.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = start.len() - start.trim_start_matches(mark).len();
    let (opening, inner) = start.split_once('\n')?;
    let language = opening.get(length..)?.trim();
    if length < 3 || language.contains(|c: char| c.is_whitespace() || c == mark) {
        return None;
    }
    let inner = inner.trim_end_matches(['\n', '\r', ' ', '\t']);
    let (inside, closing) = match inner.rfind('\n') {
        Some(newline) => inner.split_at(newline + 1),
        None => ("", inner),
    };
    (closing.len() >= length && closing.chars().all(|c| c == mark)).then_some(inside)
}

#[cfg(test)]
mod tests {
    use super::strip;

    #[test]
    fn only_a_fence_around_the_whole_is_taken_off() {
        assert_eq!(strip("```yaml\n---\na\n```"), "---\na\n");
        assert_eq!(strip("\n~~~~\nx\n~~~~\n\n"), "x\n");
        assert_eq!(strip("````\n```\nx\n```\n````"), "```\nx\n```\n");
        for whole in ["```\n---\n```\nbody", "```\nx", "x\n```", "```", "``\nx\n``", "~~~\nx\n```", "```` \nx\n```", ""]
        {
            assert_eq!(strip(whole), whole);
        }
        assert_eq!(strip("```\n```"), "");
    }
}
