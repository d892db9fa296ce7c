use std::collections::BTreeMap;

use super::{Graph, SentText, answering_roles};

/// The roles whose text is streamed in a workflow of a writer and an editor, with these lines at its end.
fn answering(outputs: &str, graph: &str, answer: Option<&str>) -> Vec<String> {
    let text = format!(
        "rondo: 1\nname: t\nroles:\n  writer: {{ system: W. }}\n  editor: {{ system: E., {outputs} }}\n\
             graph:\n  start: {{ to: writer, prompt: Go. }}\n  writer: {{ done: {{ to: editor, prompt: Go on. }} }}\n{graph}\n"
    );
    let checked = rondo::protocol::workflow::read("workflow.yaml", &text, &BTreeMap::new()).unwrap();
    let graph = Graph::new(&checked.workflow, &checked.policy, Vec::new()).unwrap();
    let roles = answering_roles(&graph, answer);
    roles.iter().map(|(role, (part, _))| format!("{role} {part:?}")).collect()
}

#[test]
fn a_role_is_streamed_if_the_run_can_only_end_after_it_with_just_its_text() {
    let one = "output: { done: {} }";
    let end = "  editor: { done: { to: end } }";
    let body = "editor Body";
    assert_eq!(answering(one, &format!("{end}\nresult: '{{{{ steps.editor.body }}}}'"), None), [body]);
    assert_eq!(answering(one, &format!("{end}\nresult: {{ a: '{{{{ body }}}}', b: x }}"), Some("a")), [body]);
    // The result of an edge stands before that of the workflow.
    let of_edge = "  editor: { done: { to: end, result: '{{ body }}' } }\nresult: x";
    assert_eq!(answering(one, of_edge, None), [body]);
    let field = "output: { done: { text: string }, again: {} }, format: json";
    let failing = "  editor: { done: { to: end, result: '{{ output.text }}' }, again: { to: fail, reason: no } }";
    assert_eq!(answering(field, failing, None), [r#"editor Field("text")"#]);

    let silent = |outputs, graph: &str, answer| assert_eq!(answering(outputs, graph, answer), [""; 0], "{graph}");
    // The result is JSON, has words of its own, or the text of another.
    silent(one, end, None);
    silent(one, &format!("{end}\nresult: {{ a: '{{{{ body }}}}' }}"), None);
    silent(one, &format!("{end}\nresult: 'So: {{{{ body }}}}'"), None);
    silent(one, &format!("{end}\nresult: '{{{{ steps.writer.body }}}}'"), None);
    // The run may go on, or end with another part.
    let two = "output: { done: {}, again: {} }";
    let on = "  editor: { done: { to: end }, again: { to: writer, prompt: Again., max: 2, on_max: { to: end } } }";
    silent(two, &format!("{on}\nresult: '{{{{ steps.editor.body }}}}'"), None);
    let other = "  editor: { done: { to: end, result: '{{ body }}' }, again: { to: end, result: no } }";
    silent(two, other, None);
}

#[test]
fn a_repeated_answer_is_sent_once_and_a_different_one_whole() {
    let mut sent = SentText::default();
    assert_eq!([sent.add("One "), sent.add("two")], ["One ", "two"]);
    // The same again, in other pieces, and on.
    sent.begin();
    assert_eq!([sent.add("O"), sent.add("ne two thr"), sent.add("ee")], ["", " thr", "ee"]);
    assert_eq!(sent.end("One two three."), ".");
    // Other words.
    sent.begin();
    assert_eq!([sent.add("One "), sent.add("four")], ["", "\n\nOne four"]);
    assert_eq!(sent.end("One"), "\n\nOne");
    assert_eq!(sent.end("One"), "");
}
