//! Thoughts that stand in the text in front of the answer, between tags, as servers without a reader for a model's tags
//! send them. A template may hold the opening tag, so that only the closing one arrives.

/// The tags of models that think: Qwen, DeepSeek, GLM and others; older ones; Magistral.
const TAGS: [(&str, &str); 4] =
    [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<thought>", "</thought>"), ("[THINK]", "[/THINK]")];

/// What an answer begins with. Tags behind it are part of the answer.
const ANSWERS: [&str; 3] = ["---", "{", "```"];

/// The thoughts and the answer behind them; `None` if there are no thoughts in front.
pub(super) fn split(text: &str) -> Option<(&str, &str)> {
    let begin = text.trim_start();
    for (open, close) in TAGS {
        if let Some(rest) = begin.strip_prefix(open) {
            let (thoughts, answer) = rest.split_once(close)?;
            return Some((thoughts.trim(), answer.trim_start()));
        }
    }
    if ANSWERS.iter().any(|answer| begin.starts_with(answer)) {
        return None;
    }
    TAGS.iter().find_map(|(open, close)| {
        let (thoughts, rest) = begin.split_once(close).filter(|(thoughts, _)| !thoughts.contains(open))?;
        let answer = rest.trim_start();
        let is_line = (thoughts.is_empty() || thoughts.ends_with('\n')) && (rest.is_empty() || rest.starts_with('\n'));
        let is_answer = ANSWERS.iter().any(|begin| answer.starts_with(begin));
        (is_line || is_answer).then(|| (thoughts.trim(), answer))
    })
}

/// Leaves thoughts out of a text while it grows. A closing tag alone is seen only in the whole text.
#[derive(Debug)]
pub(super) enum Shown {
    /// Until now only blanks, of which the first bytes need not be read again, or what a tag may begin with.
    Undecided {
        blank: usize,
    },
    /// Thoughts, until this tag.
    Thoughts(&'static str),
    Answer,
}

impl Default for Shown {
    fn default() -> Self {
        Self::Undecided { blank: 0 }
    }
}

impl Shown {
    /// What is new to show of a text that had `before` bytes until now.
    pub(super) fn added<'t>(&mut self, text: &'t str, before: usize) -> &'t str {
        if let Self::Undecided { blank } = self {
            let begin = text.get(*blank..).unwrap_or_default().trim_start();
            *blank = text.len() - begin.len();
            if begin.is_empty() {
                return "";
            }
            match TAGS.iter().find(|(open, _)| begin.starts_with(open)) {
                Some((_, close)) => *self = Self::Thoughts(close),
                None if TAGS.iter().any(|(open, _)| open.starts_with(begin)) => return "",
                None => {
                    *self = Self::Answer;
                    return text;
                }
            }
        }
        match self {
            Self::Thoughts(close) => {
                // The tag may have begun before.
                let mut from = before.saturating_sub(close.len());
                while !text.is_char_boundary(from) {
                    from -= 1;
                }
                let rest = text.get(from..).and_then(|new| new.split_once(&**close)).map(|(_, rest)| rest);
                if rest.is_some() {
                    *self = Self::Answer;
                }
                rest.unwrap_or_default().trim_start()
            }
            _ => text.get(before..).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_in_front_of_an_answer_is_thought() {
        for (text, wanted) in [
            (
                "<think>\nLet me see.\n</think>\n\n---\nstatus: done\n---\n",
                Some(("Let me see.", "---\nstatus: done\n---\n")),
            ),
            ("\n<think>\n\n</think>\n\nyes", Some(("", "yes"))),
            ("Okay.\n</think>\n\n---\nstatus: done\n---\n", Some(("Okay.", "---\nstatus: done\n---\n"))),
            ("Okay.</think>{\"status\":\"done\"}", Some(("Okay.", "{\"status\":\"done\"}"))),
            ("[THINK]Hm.[/THINK]yes", Some(("Hm.", "yes"))),
            ("<thinking>a</thinking>b", Some(("a", "b"))),
            ("<think>never closed", None),
            ("---\nstatus: done\n---\n\nWrite </think>\nbehind it.", None),
            ("{\"body\":\"</think>\\n\"}", None),
            ("Models write <think> and </think>\nin front.", None),
            ("It ends with </think> here.", None),
            ("", None),
        ] {
            assert_eq!(split(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_shown_while_it_grows_is_the_answer_however_it_is_cut() {
        for (text, wanted) in [
            (" <think>\nécoute </think>\n\nOui. </think>", "Oui. </think>"),
            ("<thin ice>", "<thin ice>"),
            ("[THINK]a[/THINK]b", "b"),
            ("<think>a", ""),
            ("plain", "plain"),
        ] {
            for size in 1..=text.chars().count() {
                let (mut shown, mut so_far, mut told) = (Shown::default(), String::new(), String::new());
                let letters: Vec<char> = text.chars().collect();
                for piece in letters.chunks(size) {
                    let before = so_far.len();
                    so_far.extend(piece);
                    told.push_str(shown.added(&so_far, before));
                }
                assert_eq!(told.trim_start(), wanted, "{text} by {size}");
            }
        }
    }
}
