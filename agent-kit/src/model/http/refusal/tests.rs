use super::*;

#[test]
fn a_parameter_is_refused_by_its_name_and_not_for_its_value() {
    for (body, is_refused) in [
        ("Unsupported parameter: 'max_tokens' is not supported with this model.", true),
        (r#"{"detail":[{"type":"extra_forbidden","loc":["body","max_tokens"],"msg":"Extra inputs"}]}"#, true),
        ("Unrecognized request argument supplied: max_tokens", true),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", false),
        ("Unsupported parameter: 'seed'", false),
    ] {
        assert_eq!(refuses_parameter(body, "max_tokens"), is_refused, "{body}");
    }
}

#[test]
fn a_wait_in_the_details_of_an_error_counts_where_no_header_says_one() {
    let error = |delay: &str| {
        let info = format!(r#"{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{delay}"}}"#);
        format!(r#"{{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED","details":[{{"@type":"x"}},{info}]}}"#)
    };
    let refused = |body: String, retry_after_ms| {
        let fault = Refusal { status: 429, body, retry_after_ms, should_retry: None }.fault(&Redactor::default());
        (fault.class, fault.message, fault.retry_after_ms)
    };
    let busy = |wait| (FaultClass::RateLimit, "the provider answered 429: slow".to_owned(), wait);
    assert_eq!(refused(format!(r#"{{"error":{}}}"#, error("34s")), None), busy(Some(34_000)));
    assert_eq!(refused(format!(r#"[{{"error":{}}}]"#, error("0.5s")), None), busy(Some(500)));
    assert_eq!(refused(format!(r#"{{"error":{}}}"#, error("34s")), Some(7)), busy(Some(7)));
    for odd in ["", "s", "34", "-1s", "soon", "99999999999999999999s"] {
        assert_eq!(refused(format!(r#"{{"error":{}}}"#, error(odd)), None), busy(None), "{odd}");
    }
    assert_eq!(of_error(&error("2s"), &Redactor::default()).retry_after_ms, Some(2000));
}

#[test]
fn a_provider_that_says_whether_to_try_again_decides() {
    let class = |status, should_retry| {
        let refusal = Refusal { status, body: String::new(), retry_after_ms: None, should_retry };
        refusal.fault(&Redactor::default()).class
    };
    assert_eq!([503, 429, 400].map(|status| class(status, Some(false))), [FaultClass::Refused; 3]);
    assert_eq!(class(400, Some(true)), FaultClass::Server);
    assert_eq!(class(429, Some(true)), FaultClass::RateLimit);
    assert_eq!([401, 402].map(|status| class(status, Some(true))), [FaultClass::Refused; 2]);
    assert_eq!(class(503, None), FaultClass::Server);
}

#[test]
fn the_kind_of_a_refusal_is_told_by_status_or_words() {
    let of = |status: u16, body: &str| {
        let fault = of_status(status, body, &Redactor::default());
        (fault.code, fault.class, fault.message)
    };
    for (status, body, code, class, message) in [
        (
            429,
            r#"{"error":{"message":"no credit","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            Code::QuotaUsedUp,
            FaultClass::Refused,
            "the provider's quota is used up: no credit",
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"bad"}}"#,
            Code::RequestRefused,
            FaultClass::Refused,
            "the provider answered 400: bad",
        ),
        (503, "try\n later", Code::ProviderFailed, FaultClass::Server, "the provider answered 503: try later"),
        (
            404,
            r#"{"error":"no such model"}"#,
            Code::RequestRefused,
            FaultClass::Refused,
            "the provider answered 404: no such model",
        ),
        (422, r#"{"message":"flat"}"#, Code::RequestRefused, FaultClass::Refused, "the provider answered 422: flat"),
        (500, "", Code::ProviderFailed, FaultClass::Server, "the provider answered 500"),
    ] {
        assert_eq!(of(status, body), (code, class, message.to_owned()));
    }
    for (json, class) in [
        (r#"{"type":"rate_limit_error"}"#, FaultClass::RateLimit),
        (r#"{"code":503,"message":"x"}"#, FaultClass::Server),
        (r#"{"code":"context_length_exceeded"}"#, FaultClass::Refused),
        (r#""overloaded""#, FaultClass::Server),
        ("{", FaultClass::Server),
    ] {
        assert_eq!(of_error(json, &Redactor::default()).class, class, "{json}");
    }
}
