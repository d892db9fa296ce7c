use proptest::prelude::*;

use super::*;

fn same(text: &str) -> DiffPart {
    DiffPart::Same(text.to_owned())
}

fn changed(removed: &str, added: &str) -> DiffPart {
    DiffPart::Changed { removed: removed.to_owned(), added: added.to_owned() }
}

/// Both texts, from their parts.
fn joined(parts: &[DiffPart]) -> (String, String) {
    let (mut old, mut new) = (String::new(), String::new());
    for part in parts {
        match part {
            DiffPart::Same(text) => {
                old.push_str(text);
                new.push_str(text);
            }
            DiffPart::Changed { removed, added } => {
                old.push_str(removed);
                new.push_str(added);
            }
        }
    }
    (old, new)
}

#[test]
fn words_are_compared_and_not_lines() {
    let old = "The tide leaves\nthe pool twice a day.";
    let new = "The tide fills\nthe pool once a day, slowly.";
    let parts = [
        same("The tide "),
        changed("leaves", "fills"),
        same("\nthe pool "),
        changed("twice", "once"),
        same(" a day"),
        changed("", ", slowly"),
        same("."),
    ];
    assert_eq!(words(old, new), parts);
    assert_eq!(words("a b", "c d"), [changed("a b", "c d")], "blanks alone hold no sentence together");
    assert_eq!(words("潮が引く", "潮が満ちる"), [same("潮が"), changed("引く", "満ちる")]);
    assert_eq!(words("same", "same"), [same("same")]);
    assert_eq!(words("", ""), []);
    assert_eq!(words("", "all"), [changed("", "all")]);
}

#[test]
fn a_word_is_found_in_a_text_that_is_too_long_to_compare_by_words() {
    let line = |at: usize| format!("Line {at} of many that are all different from each other.\n");
    let old: String = (0..1000).map(line).collect();
    let new = old.replace("Line 3 of", "Line three of").replace("Line 900 of", "Line 900 out of");
    let parts = words(&old, &new);
    let changes: Vec<&DiffPart> = parts.iter().filter(|part| matches!(part, DiffPart::Changed { .. })).collect();
    assert_eq!(changes, [&changed("3", "three"), &changed("", " out")]);
    assert_eq!(joined(&parts), (old, new));
}

#[test]
fn texts_with_nothing_in_common_are_one_change() {
    let text = |word: &str| format!("{word} ").repeat(MAX_TOKENS);
    assert_eq!(words(&text("a"), &text("b")).len(), 2, "the last blank is common");
    let lines = |word: &str| (0..=MAX_TOKENS).map(|at| format!("{word}{at}\n")).collect::<Vec<_>>().concat();
    assert_eq!(words(&lines("a"), &lines("b")).len(), 2);
}

proptest! {
    #[test]
    fn the_parts_give_both_texts_again(old in "[ab \n.,é潮]{0,60}", new in "[ab \n.,é潮]{0,60}") {
        let parts = words(&old, &new);
        prop_assert_eq!(joined(&parts), (old, new));
        for pair in parts.windows(2) {
            let kind = |part: &DiffPart| matches!(part, DiffPart::Same(_));
            prop_assert_ne!(kind(&pair[0]), kind(&pair[1]));
        }
    }
}
