mod layout;
mod reference;

use rondo::protocol::diagnostic::{Code, nearest};

use reference::{PAGES, Row};

use super::{Exit, Failure, Output, Style};

const MAX_SUGGESTED: usize = 5;

/// How many characters two names must begin with for one to suggest the other.
const SAME_CHARS: usize = 4;

/// Print the page of a diagnostic code, or a part of the reference
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// A code such as RN0101, a page such as workflow, settings, lanes or trust, the heading of a part such as `Selectors`, or a key, filter, test or field such as `join`; without
    /// one, the pages and every code with its title
    topic: Vec<String>,
}

pub fn explain(args: &ExplainArgs, output: &mut Output) -> Result<Exit, Failure> {
    let style = Style::stdout();
    let topic = args.topic.join(" ");
    let text = if topic.is_empty() { contents() } else { explained(&topic, style)? };
    output.text(&text).map(|()| Exit::Done)
}

fn contents() -> String {
    let pages = PAGES.iter().map(|page| format!("{}  {}\n", page.name, page.title()));
    pages.chain(Code::ALL.iter().map(|code| format!("{code}  {}\n", code.title()))).collect()
}

fn explained(topic: &str, style: Style) -> Result<String, Failure> {
    let laid_out = |page: &str| if style.is_terminal { layout::laid_out(page, style) } else { page.to_owned() };
    // What keeps answers is a kind of hook.
    let name = if topic == "cache" { "hooks" } else { topic };
    if let Some(page) = PAGES.iter().find(|page| page.name == name) {
        return Ok(laid_out(page.text));
    }
    if let Some(code) = Code::find(topic) {
        return Ok(laid_out(code.page()));
    }
    let rows = reference::rows();
    let width = style.columns();
    let (fields, of_reference): (Vec<&Row>, Vec<&Row>) =
        rows.iter().filter(|row| row.is_named(topic)).partition(|row| row.is_field());
    let mut parts: Vec<String> = of_reference.iter().map(|row| row.told(width)).collect();
    parts.extend(reference::sections(topic).into_iter().map(|part| laid_out(part.trim_end()) + "\n"));
    if !fields.is_empty() {
        parts.push(reference::told_fields(&fields, width));
    }
    if parts.is_empty() { Err(unknown(topic, &rows)) } else { Ok(parts.join("\n")) }
}

fn unknown(topic: &str, rows: &[Row]) -> Failure {
    let shown: String = topic.chars().take(40).collect();
    let failure = Failure::new(Code::UnknownCode, format!("there is no page and no code {shown:?}"));
    let names: Vec<&str> = PAGES
        .iter()
        .map(|page| page.name)
        .chain(Code::ALL.iter().map(|code| code.as_str()))
        .chain(rows.iter().flat_map(|row| row.names.iter().copied()))
        .chain(PAGES.iter().flat_map(reference::Page::headings).map(|heading| heading.title))
        .collect();
    let meant = match suggested(topic, &names).as_slice() {
        [] => String::new(),
        [only] => format!("did you mean {only}? "),
        [others @ .., last] => format!("did you mean {}, or {last}? ", others.join(", ")),
    };
    failure.with_hint(format!("{meant}`rondo explain` lists all pages and codes"))
}

/// The names that begin like the topic or contain it, and the one that is spelt most like it.
fn suggested<'a>(topic: &str, names: &[&'a str]) -> Vec<&'a str> {
    let near = nearest(topic, names.iter().copied());
    let topic = topic.to_lowercase();
    let beginning: String = topic.chars().take(SAME_CHARS).collect();
    let is_like = |name: &&str| {
        let name = name.to_lowercase();
        topic.chars().count() >= SAME_CHARS && (name.contains(&topic) || name.starts_with(&beginning))
    };
    let mut suggested: Vec<&str> = names.iter().copied().filter(is_like).collect();
    suggested.sort_by_key(|name| (name.len(), *name));
    suggested.dedup();
    suggested.truncate(MAX_SUGGESTED);
    suggested.extend(near.filter(|near| !suggested.contains(near)));
    suggested
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_has_a_row() {
        let rows = reference::rows();
        let of_page: Vec<&str> =
            rows.iter().filter(|row| row.page == "exit-codes").flat_map(|row| row.names.iter().copied()).collect();
        let codes: Vec<String> = Exit::ALL.iter().map(|exit| exit.code().to_string()).collect();
        assert_eq!(of_page, codes);
    }

    #[test]
    fn an_unknown_topic_names_what_was_meant() {
        let hint = |topic: &str| {
            let failure = explained(topic, Style::PLAIN).unwrap_err();
            super::super::report::text(&failure, Style::PLAIN)
        };
        let told: String = ["jion", "RN0l01", "retries", "truncated", "zebra"].map(hint).concat();
        insta::assert_snapshot!(told);
    }

    #[test]
    fn a_topic_gives_its_rows_its_part_of_a_page_and_its_fields() {
        let told: String =
            ["join", "people", "cached_tokens"].map(|topic| explained(topic, Style::PLAIN).unwrap()).join("\n---\n");
        insta::assert_snapshot!(told);
    }

    #[test]
    fn a_page_fits_a_terminal() {
        let style = Style { is_terminal: true, has_colour: false, width: 80 };
        for page in PAGES {
            let shown = explained(page.name, style).unwrap();
            let code = |line: &&str| line.starts_with("    ");
            let long: Vec<&str> =
                shown.lines().filter(|line| !code(line) && textwrap::core::display_width(line) > 80).collect();
            assert_eq!(long, Vec::<&str>::new(), "{}", page.name);
        }
        let topics = ["idle_timeout", "Limits", "exit-codes", "call_settled"];
        insta::assert_snapshot!(topics.map(|topic| explained(topic, style).unwrap()).join("\n---\n"));
    }
}
