//! Names the slip behind an expression or a statement that cannot be read, in the words of the language.
//!
//! The parser says where it stopped. What stands there tells the operators and words of other languages apart, and the
//! open blocks tell which statement lacks its end.

use std::ops::Range;

use crate::diagnostic::Code;
use crate::source::{SourceError, excerpt};

/// The operators of other languages, longer ones first, with what to write and why.
const OPERATORS: [(&str, &str); 24] = [
    ("!==", "write `!=`"),
    ("===", "write `==`"),
    ("&&", "write `and`"),
    ("||", "write `or`"),
    ("??", "write `| default(...)` after what may be absent"),
    ("?.", "write `.`; where a part may be absent, test first with `if`, or write `| default(...)` after the path"),
    ("=>", "write `>=` for at least"),
    ("=<", "write `<=` for at most"),
    ("<>", "write `!=`"),
    ("++", "write `+ 1`"),
    ("+=", "values do not change; write the expression where it is needed"),
    ("=", "write `==` to compare"),
    ("!", "write `not`"),
    ("&", "write `and`"),
    ("?", "write a choice as `A if CONDITION else B`"),
    ("$", "write names without `$`"),
    ("@", "write names without `@`"),
    (";", "leave it out"),
    ("`", "write texts in straight quotes"),
    ("“", "write texts in straight quotes"),
    ("”", "write texts in straight quotes"),
    ("„", "write texts in straight quotes"),
    ("‘", "write texts in straight quotes"),
    ("’", "write texts in straight quotes"),
];

/// The words of other languages between two values, with what to write.
const WORDS: [(&str, &str); 12] = [
    ("contains", "write `\"word\" in text`"),
    ("eq", "write `==`"),
    ("equals", "write `==`"),
    ("ge", "write `>=`"),
    ("gt", "write `>`"),
    ("includes", "write `\"word\" in text`"),
    ("le", "write `<=`"),
    ("lt", "write `<`"),
    ("matches", "there are no patterns; `in` finds a part of a text"),
    ("ne", "write `!=`"),
    ("of", "write `in`"),
    ("then", "write a choice as `A if CONDITION else B`"),
];

/// What stands at `range` cannot be read there; `detail` is what the parser says of it.
pub(super) fn syntax(source: &str, range: Range<usize>, detail: &str) -> SourceError {
    if let Some((at, operator, hint)) = operator_at(source, range.start) {
        return syntax_fault(at, format!("`{operator}` is not an operator of templates"), hint);
    }
    let found = source.get(range.clone()).unwrap_or_default();
    let before = source.get(..range.start).unwrap_or_default();
    if let Some(fault) = word(found, before, &range) {
        return fault;
    }
    let expected = detail.rsplit_once(", expected ").map_or("", |(_, expected)| expected);
    let closing = match expected {
        "end of variable block" => Some(("{{", "}}")),
        "end of block" => Some(("{%", "%}")),
        _ => None,
    };
    let closes = matches!(found.trim(), "}" | "}}" | "%}" | "-}}" | "-%}");
    if let Some((opening, closing)) = closing
        && closes
    {
        let message = format!("`{}` does not close `{opening}`", found.trim());
        return syntax_fault(range, message, format!("write `{closing}`"));
    }
    if expected == "identifier" && before.trim_end().ends_with('|') {
        let hint =
            "write `or` between two conditions, and `| default(...)` for the value to use in place of an absent one";
        return syntax_fault(range, "the name of a filter is missing after `|`", hint);
    }
    if expected.starts_with("identifier") && before.trim_end().ends_with('.') {
        return syntax_fault(range, "a name is missing after the dot", "write the name of a field");
    }
    if let "`)`" | "`]`" = expected {
        return syntax_fault(
            range,
            format!("{expected} is missing in front of this"),
            "close each bracket that is opened",
        );
    }
    if detail == "unexpected end of string" {
        return syntax_fault(range, "a text in the expression has no closing quote", "close it");
    }
    if matches!(found, "}}" | "%}") && ["{{", "{%"].iter().any(|opening| before.trim_end().ends_with(opening)) {
        return syntax_fault(range, "the braces are empty", "write an expression, or leave them out");
    }
    if let Some((opening, closing)) = closing
        && detail.starts_with("unexpected end of input")
    {
        return syntax_fault(range, format!("`{opening}` is not closed"), format!("write `{closing}`"));
    }
    if detail.starts_with("unexpected end of input") || detail == "unexpected end of variable block" {
        let hint = "write what is missing after its last word or operator";
        return syntax_fault(range, "the expression ends too early", hint);
    }
    let is_value = detail.contains("identifier") || detail.contains("string") || detail.contains("integer");
    if detail == "unexpected input after expression" || (closing.is_some() && is_value) {
        let message = format!("unexpected `{}` after a complete expression", excerpt(found));
        return syntax_fault(range, message, "write an operator in front of it, such as `==`, `and`, `or` or `~`");
    }
    if found == "}" || found == "%}" {
        let message = format!("unexpected `{found}` in an expression");
        return syntax_fault(range, message, "close `{{` with `}}`, and `{%` with `%}`");
    }
    SourceError::new(Code::TemplateSyntax, range, detail.to_owned())
}

/// The operator of another language that `at` is a part of.
fn operator_at(source: &str, at: usize) -> Option<(Range<usize>, &'static str, &'static str)> {
    OPERATORS.iter().find_map(|(operator, hint)| {
        let start = (at.saturating_sub(2)..=at).find(|start| {
            start + operator.len() > at && source.get(*start..).is_some_and(|rest| rest.starts_with(operator))
        })?;
        let end = start + operator.len();
        // `==` and `!=` are operators.
        let next = source.get(end..).and_then(|rest| rest.chars().next());
        let previous = source.get(..start).and_then(|before| before.chars().next_back());
        let is_ours = matches!(*operator, "=" | "!")
            && (next == Some('=') || previous.is_some_and(|previous| "=!<>".contains(previous)));
        (!is_ours).then_some((start..end, *operator, *hint))
    })
}

/// A word of another language, at the range or in front of it.
fn word(found: &str, before: &str, range: &Range<usize>) -> Option<SourceError> {
    let previous = before.trim_end();
    let start = previous.rfind(|c: char| !c.is_alphanumeric()).map_or(0, |at| at + 1);
    let candidates = [(found, range.clone()), (previous.get(start..)?, start..previous.len())];
    candidates.into_iter().find_map(|(word, at)| {
        let lower = word.to_lowercase();
        let hint = match lower.as_str() {
            "and" | "or" | "not" | "in" | "is" if lower != word => format!("write `{lower}`"),
            _ => (*WORDS.iter().find(|(known, _)| *known == lower).map(|(_, hint)| hint)?).to_owned(),
        };
        Some(syntax_fault(at, format!("`{word}` is not an operator of templates"), hint))
    })
}

/// A statement that templates do not have.
pub(super) fn unknown_statement(word: &str, range: Range<usize>) -> SourceError {
    let hint = match word {
        "set" | "with" | "let" => "write the expression where it is needed, or let a `kind: rule` role compute it",
        "include" | "import" | "from" | "extends" => "a prompt may be a file: `prompt: { file: prompts/NAME.md }`",
        "break" | "continue" => "filter the list instead: `| select(...)` or `| selectattr(...)`",
        "elseif" | "elsif" | "elsefor" => "write `elif`",
        "foreach" | "each" | "while" => "write `{% for NAME in LIST %}`",
        "unless" => "write `{% if not ... %}`",
        "end" | "endforeach" | "endeach" => "write `{% endfor %}` or `{% endif %}`",
        "endunless" | "fi" => "write `{% endif %}`",
        _ => "the statements are `if`, `elif`, `else` and `for`",
    };
    SourceError::new(Code::TemplateConstruct, range, format!("templates have no statement `{word}`")).with_hint(hint)
}

/// The `if` and `for` blocks that are open at a place.
#[derive(Default)]
pub(super) struct Blocks(Vec<Block>);

struct Block {
    /// `if` or `for`.
    word: &'static str,
    range: Range<usize>,
    elifs: usize,
}

impl Blocks {
    pub(super) fn depth(&self) -> usize {
        self.0.len()
    }

    /// How many `elif` the open blocks have.
    pub(super) fn elifs(&self) -> usize {
        self.0.iter().map(|block| block.elifs).sum()
    }

    /// Takes the word of a statement, which must fit the open blocks.
    pub(super) fn take(&mut self, word: &str, range: Range<usize>, source: &str) -> Result<(), SourceError> {
        match word {
            "if" => self.0.push(Block { word: "if", range, elifs: 0 }),
            "for" => self.0.push(Block { word: "for", range, elifs: 0 }),
            "endif" => self.end("if", range, source)?,
            "endfor" => self.end("for", range, source)?,
            "elif" | "else" => match self.0.last_mut() {
                None => return Err(stray(word, "if", range)),
                Some(block) if word == "elif" && block.word == "if" => block.elifs += 1,
                Some(block) if word == "elif" => {
                    let message = format!("found `elif` where `{}` needs its `endfor`", tag(source, &block.range));
                    return Err(syntax_fault(range, message, "write `{% endfor %}` in front of it"));
                }
                Some(_) => {}
            },
            other => return Err(unknown_statement(other, range)),
        }
        Ok(())
    }

    fn end(&mut self, word: &'static str, range: Range<usize>, source: &str) -> Result<(), SourceError> {
        match self.0.last() {
            None => Err(stray(&format!("end{word}"), word, range)),
            Some(block) if block.word != word => {
                let opened = &block.range;
                let lines = source.get(opened.end..range.start).unwrap_or_default().matches('\n').count();
                let above = match lines {
                    0 => String::new(),
                    1 => ", 1 line above,".to_owned(),
                    lines => format!(", {lines} lines above,"),
                };
                let wanted = format!("end{}", block.word);
                let message = format!("found `end{word}` where `{}`{above} needs its `{wanted}`", tag(source, opened));
                Err(syntax_fault(range, message, format!("write `{{% {wanted} %}}`")))
            }
            Some(_) => {
                self.0.pop();
                Ok(())
            }
        }
    }

    /// The fault of the innermost block that is still open at the end of the template.
    pub(super) fn unclosed(&self, source: &str) -> Option<SourceError> {
        let Block { word, range, .. } = self.0.last()?;
        let message = format!("`{}` has no `end{word}`", tag(source, range));
        Some(syntax_fault(range.clone(), message, format!("write `{{% end{word} %}}` where it ends")))
    }
}

fn syntax_fault(range: Range<usize>, message: impl Into<String>, hint: impl Into<String>) -> SourceError {
    SourceError::new(Code::TemplateSyntax, range, message).with_hint(hint)
}

fn stray(word: &str, opening: &str, range: Range<usize>) -> SourceError {
    let hint = format!("leave it out, or write `{{% {opening} ... %}}` further up");
    syntax_fault(range, format!("unmatched `{word}`"), hint)
}

/// The statement whose word stands at `word`, as written.
fn tag(source: &str, word: &Range<usize>) -> String {
    let start = source.get(..word.start).and_then(|before| before.rfind("{%")).unwrap_or(word.start);
    let rest = source.get(start..).unwrap_or_default();
    let end = rest.find("%}").map_or(rest.len(), |end| end + 2);
    excerpt(rest.get(..end).unwrap_or_default())
}
