//! Splits JSON text into lines and restores it byte for byte: blanks are inserted between tokens and removed again,
//! and nothing else is interpreted.

/// `text` with a line for each member, if [`compact`] restores it exactly.
pub fn pretty(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut scan = Scan::default();
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        if scan.is_in_string(c) {
            out.push(c);
            continue;
        }
        match c {
            '{' | '[' => {
                out.push(c);
                if characters.peek().is_some_and(|next| matches!(next, '}' | ']')) {
                    continue;
                }
                depth += 1;
                line(&mut out, depth);
            }
            '}' | ']' => {
                if !out.ends_with(['{', '[']) {
                    depth = depth.checked_sub(1)?;
                    line(&mut out, depth);
                }
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c => out.push(c),
        }
    }
    (compact(&out) == text).then_some(out)
}

pub fn compact(text: &str) -> String {
    let mut scan = Scan::default();
    text.chars().filter(|c| scan.is_in_string(*c) || !matches!(c, ' ' | '\n' | '\r' | '\t')).collect()
}

fn line(out: &mut String, depth: usize) {
    const DEEPEST: usize = 128;
    out.push('\n');
    (0..depth.min(DEEPEST)).for_each(|_| out.push_str("  "));
}

/// Tracks whether a character belongs to a string, including its quotes.
#[derive(Default)]
struct Scan {
    is_open: bool,
    is_escaped: bool,
}

impl Scan {
    fn is_in_string(&mut self, c: char) -> bool {
        if !self.is_open {
            self.is_open = c == '"';
            return self.is_open;
        }
        match c {
            _ if self.is_escaped => self.is_escaped = false,
            '\\' => self.is_escaped = true,
            '"' => self.is_open = false,
            _ => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_holds_one_member() {
        let text = r#"{"a":[1,{"b ,{":"\" :"}],"c":{},"d":[]}"#;
        let shown = pretty(text).unwrap();
        insta::assert_snapshot!(shown, @r#"
        {
          "a": [
            1,
            {
              "b ,{": "\" :"
            }
          ],
          "c": {},
          "d": []
        }
        "#);
        assert_eq!(compact(&shown), text);
    }

    #[test]
    fn what_has_blanks_of_its_own_stays_as_it_is() {
        for text in ["{ }", "[1, 2]", "{\"a\":1}\n", "]"] {
            assert_eq!(pretty(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in r#"[\[\]{},:"\\ a1\n]{0,40}"#) {
            if let Some(shown) = pretty(&text) {
                prop_assert_eq!(compact(&shown), text);
            }
        }
    }
}
