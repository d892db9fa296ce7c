//! A server's list of models: that of OpenAI (<https://platform.openai.com/docs/api-reference/models/list>), or that of
//! Gemini, which has other names (<https://ai.google.dev/api/models#method:-models.list>).

use serde::Deserialize;

/// The longest id that is taken for one.
const MAX_ID_BYTES: usize = 256;

/// What stands before the ids of Gemini's list.
const OF_GEMINI: &str = "models/";

/// llama.cpp writes both members, of which `models` is Ollama's.
#[derive(Deserialize)]
struct List {
    data: Option<Vec<Id>>,
    models: Option<Vec<Name>>,
}

#[derive(Deserialize)]
struct Id {
    id: String,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

/// The ids in a body, in its order; `None` if it is no list of models, or one without any.
pub(super) fn ids(body: &[u8]) -> Option<Vec<String>> {
    let ids: Vec<String> = match serde_json::from_slice(body).ok()? {
        List { data: Some(data), .. } => data.into_iter().map(|Id { id }| id).collect(),
        List { models, data: None } => {
            let bare = |Name { name }: Name| name.strip_prefix(OF_GEMINI).map(str::to_owned).unwrap_or(name);
            models?.into_iter().map(bare).collect()
        }
    };
    let ids: Vec<String> = ids.into_iter().filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES).collect();
    (!ids.is_empty()).then_some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_models_is_told_from_other_answers() {
        let of = |body: &str| ids(body.as_bytes()).map(|ids| ids.join(" "));
        for list in [
            r#"{"object":"list","data":[{"id":"a","object":"model","name":"A"},{"id":"b/c:1"}]}"#,
            r#"{"models":[{"name":"models/a"},{"name":"b/c:1","version":"1"}]}"#,
            r#"{"models":[{"name":"x","model":"x"}],"object":"list","data":[{"id":"a"},{"id":"b/c:1"}]}"#,
        ] {
            assert_eq!(of(list).as_deref(), Some("a b/c:1"), "{list}");
        }
        for other in [
            "",
            "<html>",
            "[]",
            "{}",
            r#"{"data":[]}"#,
            r#"{"data":null}"#,
            r#"{"data":{"id":"a"}}"#,
            r#"{"data":["a"]}"#,
            r#"{"data":[{"id":1}]}"#,
            r#"{"data":[{"id":""}]}"#,
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
