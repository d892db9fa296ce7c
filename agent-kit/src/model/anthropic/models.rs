//! What Anthropic's models take, by the beginning of a model's id.
//!
//! Of 26 November 2026: <https://platform.claude.com/docs/en/build-with-claude/extended-thinking>,
//! <https://platform.claude.com/docs/en/build-with-claude/structured-outputs>,
//! <https://platform.claude.com/docs/en/about-claude/models/overview>.

/// How a model is asked to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thinking {
    /// It always does, and takes an effort.
    Always,
    /// It does unless it is asked not to, and takes an effort.
    ByDefault,
    /// It does if it is asked to, and takes an effort.
    OnRequest,
    /// It does if it is given a number of tokens for it.
    WithBudget,
    /// It does not.
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Model {
    beginning: &'static str,
    pub thinking: Thinking,
    /// Whether a signature of its thoughts holds only behind the same system text, tools and messages.
    pub binds_thoughts: bool,
    pub takes_sampling: bool,
    pub takes_schema: bool,
    /// The ceiling on output tokens where the workflow gives none: the protocol requires one.
    pub max_output_tokens: u64,
}

/// The newest models, and those that are not known yet.
const NEWEST: Model = Model {
    beginning: "claude-",
    thinking: Thinking::ByDefault,
    binds_thoughts: true,
    takes_sampling: false,
    takes_schema: true,
    max_output_tokens: 32_000,
};

const OF_VERSION_4: Model =
    Model { thinking: Thinking::WithBudget, binds_thoughts: false, takes_sampling: true, ..NEWEST };

const OF_VERSION_3: Model =
    Model { thinking: Thinking::Never, takes_schema: false, max_output_tokens: 4_096, ..OF_VERSION_4 };

/// The first row whose beginning the id has is its own.
const MODELS: [Model; 20] = [
    Model { beginning: "claude-fable-", thinking: Thinking::Always, ..NEWEST },
    Model { beginning: "claude-mythos-", thinking: Thinking::Always, ..NEWEST },
    Model { beginning: "claude-opus-5-5", thinking: Thinking::Always, ..NEWEST },
    Model { beginning: "claude-opus-5", binds_thoughts: false, ..NEWEST },
    Model { beginning: "claude-sonnet-5", binds_thoughts: false, ..NEWEST },
    Model { beginning: "claude-haiku-5", binds_thoughts: false, ..NEWEST },
    Model { beginning: "claude-opus-4-8", thinking: Thinking::OnRequest, takes_sampling: false, ..OF_VERSION_4 },
    Model { beginning: "claude-opus-4-7", thinking: Thinking::OnRequest, takes_sampling: false, ..OF_VERSION_4 },
    Model { beginning: "claude-opus-4-6", thinking: Thinking::OnRequest, ..OF_VERSION_4 },
    Model { beginning: "claude-sonnet-4-6", thinking: Thinking::OnRequest, ..OF_VERSION_4 },
    Model { beginning: "claude-opus-4-5", ..OF_VERSION_4 },
    Model { beginning: "claude-sonnet-4-5", ..OF_VERSION_4 },
    Model { beginning: "claude-haiku-4-5", ..OF_VERSION_4 },
    Model { beginning: "claude-opus-4-1", ..OF_VERSION_4 },
    Model { beginning: "claude-opus-4", takes_schema: false, ..OF_VERSION_4 },
    Model { beginning: "claude-sonnet-4", takes_schema: false, ..OF_VERSION_4 },
    Model { beginning: "claude-3-7", thinking: Thinking::WithBudget, max_output_tokens: 32_000, ..OF_VERSION_3 },
    Model { beginning: "claude-3-5", max_output_tokens: 8_192, ..OF_VERSION_3 },
    Model { beginning: "claude-3", ..OF_VERSION_3 },
    NEWEST,
];

/// A model of another maker behind this protocol.
const OTHER: Model = Model {
    beginning: "",
    thinking: Thinking::Never,
    binds_thoughts: false,
    takes_sampling: true,
    takes_schema: true,
    max_output_tokens: 8_192,
};

impl Model {
    pub(super) fn of(id: &str) -> Self {
        let id = id.rsplit('/').next().unwrap_or(id).to_ascii_lowercase().replace('.', "-");
        MODELS.iter().find(|model| id.starts_with(model.beginning)).copied().unwrap_or(OTHER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_the_beginning_of_its_id() {
        for (id, thinking) in [
            ("claude-opus-5-5", Thinking::Always),
            ("claude-fable-5-1", Thinking::Always),
            ("claude-opus-5", Thinking::ByDefault),
            ("anthropic/claude-sonnet-5.5", Thinking::ByDefault),
            ("claude-opus-4-6-20260205", Thinking::OnRequest),
            ("claude-haiku-4-5", Thinking::WithBudget),
            ("claude-3-5-sonnet-latest", Thinking::Never),
            ("claude-next", Thinking::ByDefault),
            ("smollm2", Thinking::Never),
        ] {
            assert_eq!(Model::of(id).thinking, thinking, "{id}");
        }
    }

    #[test]
    fn no_row_of_the_table_hides_a_later_one() {
        for (at, row) in MODELS.iter().enumerate() {
            let hidden = MODELS[at + 1..].iter().find(|later| later.beginning.starts_with(row.beginning));
            assert_eq!(hidden, None, "behind {}", row.beginning);
        }
    }
}
