use std::fmt::Write;
use std::io;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;
use schemars::JsonSchema;
use serde::Deserialize;

use super::files::{FileCall, Patience, Timed, WALK_MIB, reads_below};
use super::text::{Marks, redacted};
use super::tree::Tree;
use super::{Content, Error};
use crate::redact::Redactor;
use crate::sandbox::files::{Kind, OpenFile, Opened, Workspace};

const MATCHES_MAX: usize = 500;
const SHOWN_MAX_BYTES: usize = 512 << 10;
const LINE_MAX_BYTES: usize = 500;
const CONTEXT_MAX: usize = 20;
/// The longest line that is searched: in a file with a longer one, the search stops there.
const HEAP_MAX_BYTES: usize = 4 << 20;
/// The maximum length of a pattern, and its maximum compiled size.
const PATTERN_MAX_BYTES: usize = 4096;
const COMPILED_MAX_BYTES: usize = 2 << 20;

/// What [`SearchFiles`] takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchFiles {
    /// A regular expression in the syntax of Rust's `regex` (no look-around, no backreferences), matched within a line.
    pattern: String,
    /// The folder or file to search, relative to the workspace's root. The root itself when left out.
    #[serde(default)]
    path: Option<String>,
    /// Only files that this glob matches, relative to `path`: `*.rs` at any depth, `src/**/*.rs`, `!*.md`.
    #[serde(default)]
    glob: Option<String>,
    /// Take the pattern as plain text.
    #[serde(default)]
    literal: bool,
    /// Take upper and lower case as the same.
    #[serde(default)]
    case_insensitive: bool,
    /// How many lines to show before and after each match, at most 20.
    #[serde(default)]
    context: u32,
}

impl FileCall for SearchFiles {
    const NAME: &'static str = "search_files";
    const DESCRIPTION: &'static str = "Searches the files of a folder for a regular expression and shows each matching \
        line as `path:line:text`. What .gitignore and .ignore leave out is not searched, nor are names that begin with a \
        dot, links and binary files, unless `path` names them. At most 500 matches.";
    const ROOM_MIB: u32 = WALK_MIB;
    const ONLY_READS: bool = true;

    fn effect(&self, workspace: &Workspace) -> Effect {
        reads_below(workspace, self.path.as_deref().unwrap_or("."))
    }

    fn run(self, workspace: &Workspace, redactor: Redactor, patience: &Patience) -> Result<Content, Error> {
        let context = usize::try_from(self.context).unwrap_or(CONTEXT_MAX).min(CONTEXT_MAX);
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HEAP_MAX_BYTES))
            .build();
        let hits = Hits { redactor, has_context: context > 0, ..Hits::default() };
        let mut search = Search { matcher: self.compiled()?, searcher, patience, hits, unread: Marks::default() };
        match workspace.find(self.path.as_deref().unwrap_or("."))? {
            Opened::File(file) => search.file(file),
            Opened::Folder(folder) => {
                let mut tree = Tree::new(workspace, &folder, self.glob.as_deref(), None, patience)?;
                let walked = tree.walk(&folder, &mut |folder, entry| {
                    if entry.stamp.kind == Kind::File {
                        match folder.file(&entry.name) {
                            Ok(file) => search.file(file),
                            Err(error) => search.unread.push(error.to_string()),
                        }
                    }
                    Ok(!search.hits.is_cut && !patience.is_over())
                });
                search.unread.append(tree.marks);
                // When time is up, the matches so far are worth more than the error.
                if !patience.is_over() {
                    walked?;
                }
            }
        }
        search.shown().map(Content::from)
    }
}

impl SearchFiles {
    fn compiled(&self) -> Result<RegexMatcher, Error> {
        let fault = |message: String| Error::new(Code::PatternUnusable, message);
        if self.pattern.is_empty() {
            return Err(fault("the pattern is empty, which every line matches".to_owned()));
        }
        if self.pattern.len() > PATTERN_MAX_BYTES {
            return Err(fault(format!("the pattern is longer than {PATTERN_MAX_BYTES} bytes")));
        }
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(self.case_insensitive)
            .fixed_strings(self.literal)
            .line_terminator(Some(b'\n'))
            .size_limit(COMPILED_MAX_BYTES)
            .dfa_size_limit(COMPILED_MAX_BYTES);
        builder.build(&self.pattern).map_err(|error| fault(format!("the pattern cannot be used: {error}")))
    }
}

struct Search<'p> {
    matcher: RegexMatcher,
    searcher: Searcher,
    patience: &'p Patience,
    hits: Hits,
    /// Why files were not searched, or not to their end.
    unread: Marks,
}

impl Search<'_> {
    fn file(&mut self, file: OpenFile) {
        let path = file.path().to_owned();
        self.hits.path.clone_from(&path);
        let reader = Timed { file, patience: self.patience };
        if let Err(error) = self.searcher.search_reader(&self.matcher, reader, &mut self.hits)
            && !self.patience.is_over()
        {
            self.unread.push(format!("{path:?} was not searched to its end: {error}"));
        }
    }

    fn shown(self) -> Result<String, Error> {
        let mut shown = self.hits.shown;
        let ended = self.patience.check();
        if self.hits.matches == 0 {
            ended.clone()?;
            shown.push_str("[no matches]\n");
        }
        self.unread.show(&mut shown);
        // Writing to a string cannot fail.
        if let Err(error) = ended {
            let _ = writeln!(shown, "[not everything was searched: {}]", error.message);
        } else if self.hits.is_cut {
            let matches = self.hits.matches;
            let _ = writeln!(shown, "[cut after {matches} matches; narrow the pattern, `path` or `glob`]");
        }
        Ok(shown)
    }
}

/// The lines found, as they are shown.
#[derive(Default)]
struct Hits {
    /// For lines that are cut.
    redactor: Redactor,
    path: String,
    has_context: bool,
    matches: usize,
    shown: String,
    is_cut: bool,
}

impl Hits {
    /// Shows a line; `mark` separates its parts.
    fn show(&mut self, mark: char, line: Option<u64>, bytes: &[u8]) {
        let end = bytes.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
        let text = redacted(&self.redactor, bytes.get(..end).unwrap_or_default(), LINE_MAX_BYTES);
        // Writing to a string cannot fail.
        let _ = writeln!(self.shown, "{}{mark}{}{mark}{text}", self.path, line.unwrap_or_default());
    }
}

impl Sink for Hits {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.matches == MATCHES_MAX || self.shown.len() >= SHOWN_MAX_BYTES {
            self.is_cut = true;
            return Ok(false);
        }
        self.matches += 1;
        self.show(':', found.line_number(), found.bytes());
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.shown.len() < SHOWN_MAX_BYTES {
            self.show('-', line.line_number(), line.bytes());
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        if self.has_context {
            self.shown.push_str("--\n");
        }
        Ok(true)
    }
}
