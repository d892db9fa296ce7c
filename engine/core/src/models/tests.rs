use super::*;

const PRICE: Price =
    Price { input: 2.0, cached_input: 0.5, cache_write: 2.5, cache_write_long: 4.0, output: 8.0, long_prompt: None };

#[test]
fn what_is_kept_longer_and_what_is_longer_cost_more() {
    let usage = Usage {
        prompt_tokens: 300_000,
        cache_write_tokens: 200_000,
        cache_write_long_tokens: 100_000,
        output_tokens: 100_000,
        ..Usage::default()
    };
    assert!((PRICE.of(usage) - (0.2 + 0.25 + 0.4 + 0.8)).abs() < 1e-9);
    let long_prompt = Some(LongPrompt { above: 272_000, input_times: 2.0, output_times: 1.5 });
    let price = Price { long_prompt, ..PRICE };
    assert!((price.of(usage) - (0.85 * 2.0 + 0.8 * 1.5)).abs() < 1e-9);
    assert!(
        (price.of(Usage { prompt_tokens: 272_000, ..usage }) - PRICE.of(Usage { prompt_tokens: 272_000, ..usage }))
            .abs()
            < 1e-9
    );
    assert_eq!((PRICE.highest(), price.highest()), ((4.0, 8.0), (8.0, 12.0)));
}

#[test]
fn cached_tokens_are_priced_apart() {
    let usage = Usage { prompt_tokens: 1_000_000, cached_tokens: 400_000, output_tokens: 100_000, ..Usage::default() };
    assert!((PRICE.of(usage) - (1.2 + 0.2 + 0.8)).abs() < 1e-9);
}

#[test]
fn what_a_provider_keeps_for_later_is_priced_apart() {
    let usage = Usage {
        prompt_tokens: 1_000_000,
        cached_tokens: 400_000,
        cache_write_tokens: 200_000,
        output_tokens: 100_000,
        ..Usage::default()
    };
    assert!((PRICE.of(usage) - (0.8 + 0.2 + 0.5 + 0.8)).abs() < 1e-9);
}

#[test]
fn no_token_is_priced_twice_where_the_parts_exceed_the_whole() {
    let usage =
        Usage { prompt_tokens: 1_000_000, cached_tokens: 800_000, cache_write_tokens: 500_000, ..Usage::default() };
    assert!((PRICE.of(usage) - (0.8 * 0.5 + 0.2 * 2.5)).abs() < 1e-9);
    let cached = Usage { cached_tokens: 3_000_000, ..usage };
    assert!((PRICE.of(cached) - 0.5).abs() < 1e-9);
}

#[test]
fn large_counts_are_priced_in_full() {
    let usage = Usage { prompt_tokens: 1 << 40, ..Usage::default() };
    assert!((PRICE.of(usage) - 2.0 * 1_099_511.627_776).abs() < 1e-3);
}
