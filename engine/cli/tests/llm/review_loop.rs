//! The shipped workflow `review-loop` in each protocol: a writer that answers with a front matter, an editor that answers
//! in JSON. What they say is the model's, and so is how many rounds they go; `review.gbnf` holds them to their forms.
//!
//! No schema is sent: within that of the editor a text has no end, and so small a model finds none.

use crate::{PROTOCOLS, WITHOUT_SCHEMA, check, run_at, server, steps};

/// The workflow limits money, so that its models need a price.
const SETTINGS: &str = r#"
[model.default]
model = "smollm2-135m"
price = { input = 0, output = 0 }

[model.careful]
model = "smollm2-135m"
price = { input = 0, output = 0 }
"#;

#[test]
#[ignore = "needs a model server: make test-llm"]
fn the_review_loop_runs_in_each_protocol() {
    for protocol in PROTOCOLS {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let folder = folder.path();
        let settings = folder.join(".config/rondo");
        std::fs::create_dir_all(&settings).expect("the folder can be written");
        std::fs::write(settings.join("config.toml"), SETTINGS).expect("the folder can be written");
        let thread = run_at(&server::review_url(), folder, protocol, "review-loop", &WITHOUT_SCHEMA);
        let steps = steps(folder, &thread);
        assert!(steps.len() >= 4 && steps.len().is_multiple_of(2), "{protocol}: {} steps", steps.len());
        for (number, step) in steps.iter().enumerate() {
            let (role, status) = if number % 2 == 0 { ("writer", "drafted") } else { ("editor", "revise") };
            assert_eq!((&step["role"], &step["status"]), (&role.into(), &status.into()), "{step}");
            assert!(step["output"]["title"].is_string() || step["output"]["comments"].is_array(), "{step}");
        }
        println!("review-loop in {protocol}: {} drafts", steps.len() / 2);
        check(folder, &thread);
    }
}
