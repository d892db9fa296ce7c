//! Finds texts that two roles have in common but that no provider can serve to both from its cache.
//!
//! Two requests share a prefix as far as they are equal, and tools and response format come before the system text.
//! Two roles of one model with a long common text could share it as one prefix if the common part came first, each
//! role's own part last, and nothing before it differed. A common part shorter than the provider's minimum loses
//! nothing and is not reported.

use rondo_agent_kit::bound::grouped;
use rondo_agent_kit::model::minimum::Minimum;
use rondo_agent_kit::prefix;
use rondo_protocol::diagnostic::{Code, Diagnostic};
use rondo_protocol::object::Head;
use rondo_protocol::workflow::{AnswerFormat, SourceMap};

use super::LintedRole;

/// The fewest tokens after a difference that are reported.
const SHORTEST_TOKENS: u64 = 128;

const MAX_ROLES: usize = 200;

pub(super) fn lint(parts: &[LintedRole<'_>], places: &SourceMap) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (at, later) in parts.iter().enumerate().take(MAX_ROLES) {
        let earlier = parts.iter().take(at).filter(|earlier| earlier.model == later.model);
        // One other role is enough to explain the remedy.
        let best = earlier.filter_map(|earlier| Lost::of(earlier, later)).max_by_key(|lost| lost.bytes);
        found.extend(best.map(|lost| lost.diagnostic(later, places)));
    }
    found
}

/// Text that is sent for two roles and could be one shared prefix.
struct Lost<'p> {
    other: &'p str,
    bytes: usize,
    why: Why,
}

enum Why {
    /// The texts differ before it: the first differing byte, and how many bytes differ.
    Texts(usize, usize),
    /// The tools, which come before the text, differ.
    Tools,
    /// A response format comes before the text, and the formats differ.
    Formats,
}

impl<'p> Lost<'p> {
    fn of(earlier: &'p LintedRole<'_>, later: &LintedRole<'_>) -> Option<Self> {
        let (a, b) = (earlier.role.system.trim_end(), later.role.system.trim_end());
        let (first, last) = prefix::common_ends(a, b);
        let tools_differ = earlier.head.tools != later.head.tools;
        let formats_differ = earlier.head.response_format != later.head.response_format;
        let kept_from = Minimum::of(later.model.as_deref().unwrap_or_default()).tokens;
        // The head before the system text is cached together with it.
        let before = Head { system: String::new(), ..later.head.clone() };
        let before = if tools_differ || formats_differ { 0 } else { prefix::bytes_of_head(&before) };
        let is_kept = |bytes: usize| prefix::tokens(before.saturating_add(count(bytes))) >= kept_from;
        let other = earlier.name.as_str();
        if tools_differ || formats_differ {
            let why = if tools_differ { Why::Tools } else { Why::Formats };
            return is_kept(first).then_some(Self { other, bytes: first, why });
        }
        let own = b.len().saturating_sub(first).saturating_sub(last);
        // The loss must be worth reporting, and be larger than the difference.
        let is_much = last > own && prefix::tokens(count(last)) >= SHORTEST_TOKENS;
        (is_much && is_kept(first.saturating_add(last))).then_some(Self {
            other,
            bytes: last,
            why: Why::Texts(first, own),
        })
    }

    fn diagnostic(&self, later: &LintedRole<'_>, places: &SourceMap) -> Diagnostic {
        let Self { other, bytes, why } = self;
        let (name, path) = (later.name, later.system());
        let many = grouped(prefix::tokens(count(*bytes)));
        let fault = |message: String| places.key_fault(Code::UnsharedText, &path, message);
        match why {
            Why::Texts(first, own) => {
                let message = format!(
                    "the system texts of `{other}` and `{name}` differ here and continue alike for about {many} tokens, \
                     which no provider serves to both"
                );
                let place = later_place(later, places, *first, *own);
                let at =
                    place.map(|(path, range)| places.fault(Code::UnsharedText, &path, Some(range), message.clone()));
                at.unwrap_or_else(|| fault(message))
                    .with_hint("put what both have in common first and each role's own part last")
            }
            Why::Tools => fault(format!(
                "the system texts of `{other}` and `{name}` begin with about {many} tokens in common, but tools stand \
                 before them, and theirs differ"
            ))
            .with_hint("give both roles the same tools, and say in the texts who uses which, if they are to share it"),
            Why::Formats => fault(format!(
                "the system texts of `{other}` and `{name}` begin with about {many} tokens in common, but a response \
                 format stands before them, and theirs differ"
            ))
            .with_hint(match later.role.format {
                AnswerFormat::Json => "with `format: frontmatter` the contract of the answer follows the text",
                AnswerFormat::Frontmatter => {
                    "with `format: frontmatter` in both, the contract of the answer follows the text"
                }
            }),
        }
    }
}

/// A number of bytes as requests count them.
fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The place of the bytes from `first` of a system text, if it is a single text. A list is joined, and places in it
/// are unknown.
fn later_place(
    part: &LintedRole<'_>,
    places: &SourceMap,
    first: usize,
    own: usize,
) -> Option<(String, std::ops::Range<usize>)> {
    let texts = places.texts(&part.system());
    let [(path, text)] = texts.as_slice() else { return None };
    let end = first.saturating_add(own).min(text.len());
    text.starts_with(part.role.system.trim_end()).then(|| (path.clone(), first..end))
}
