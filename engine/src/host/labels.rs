//! The name and the tags that a person gives to a thread.

use rondo_core::local::Labels;
use rondo_protocol::diagnostic::Code;

use crate::failure::Failure;
use crate::tell::one_line;

const MAX_CHARS: usize = 80;

const MAX_TAGS: usize = 20;

/// The checked name and tags of a thread; a tag that is given twice counts once.
pub fn labels(name: Option<&str>, given: &[String]) -> Result<Labels, Failure> {
    if let Some(name) = name {
        check("name", name)?;
        if name == "last" || is_like_an_id(name) {
            return Err(refused("name", name, "it could be mistaken for the id of a thread")
                .with_hint("begin with a letter, or add a `-`"));
        }
    }
    let mut tags = Vec::new();
    for tag in given {
        check("tag", tag)?;
        if tag.contains(' ') {
            return Err(refused("tag", tag, "a tag is one word"));
        }
        if !tags.contains(tag) {
            tags.push(tag.clone());
        }
    }
    if tags.len() > MAX_TAGS {
        return Err(Failure::new(Code::LabelRefused, format!("a thread has at most {MAX_TAGS} tags")));
    }
    Ok(Labels { label: name.map(str::to_owned), tags })
}

fn check(kind: &str, text: &str) -> Result<(), Failure> {
    let what = match text {
        _ if text.trim().is_empty() => "it is empty",
        _ if text.trim() != text => "it begins or ends with a blank",
        _ if text.starts_with('-') => "it begins with `-`, as options do",
        _ if text.chars().count() > MAX_CHARS => "it has more than 80 characters",
        _ if one_line(text) != text => "it holds characters that cannot be seen",
        _ => return Ok(()),
    };
    Err(refused(kind, text, what))
}

fn refused(kind: &str, text: &str, what: &str) -> Failure {
    let shown: String = text.chars().take(40).collect();
    Failure::new(Code::LabelRefused, format!("the {kind} {shown:?}: {what}"))
}

/// Whether a thread's id may begin like this: with a digit up to 7, then the digits and letters of ids.
fn is_like_an_id(text: &str) -> bool {
    text.starts_with(|c| matches!(c, '0'..='7')) && text.chars().all(|c| c.is_ascii_alphanumeric())
}
