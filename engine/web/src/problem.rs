//! Errors of the API: problem documents (RFC 9457) with rondo's codes.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rondo::core::exit::Exit;
use rondo::failure::{Failure, Fault};
use rondo::protocol::diagnostic::{Code, Diagnostic};
use rondo::protocol::hint::Hint;
use rondo::tell;
use schemars::JsonSchema;
use serde::Serialize;

/// A problem.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Problem(Box<Document>);

/// `{type, title, status, detail, code, hint, hint_parts, faults}`. `type` is the address of the code's page on this server.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
struct Document {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: String,
    code: &'static str,
    /// What to do about it.
    hint: Option<String>,
    /// The same as data.
    hint_parts: Option<Hint>,
    /// The faults of files, with their places.
    faults: Vec<Diagnostic>,
}

impl Problem {
    pub fn new(status: StatusCode, code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(Document {
            r#type: format!("/errors/{}", code.as_str()),
            title: code.title(),
            status: status.as_u16(),
            detail: detail.into(),
            code: code.as_str(),
            hint: None,
            hint_parts: None,
            faults: Vec::new(),
        }))
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Hint>) -> Self {
        let hint = hint.into();
        self.0.hint = Some(tell::hint(&hint));
        self.0.hint_parts = Some(hint);
        self
    }

    pub fn code(&self) -> &'static str {
        self.0.code
    }

    pub fn text(&self) -> String {
        self.0.detail.clone() + &self.0.hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"))
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // For routes whose clients read errors in another form.
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Fault(Fault { exit, code, message, hint }) => {
                hint.into_iter().fold(Self::new(status(exit, code), code, message), Self::with_hint)
            }
            Failure::Diagnostics(faulty) => {
                let code = faulty.faults.first().map_or(Code::InternalFault, |fault| fault.code);
                let told: Vec<String> = faulty.faults.iter().map(ToString::to_string).collect();
                let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, told.join("; "));
                problem.0.faults = faulty.faults;
                problem
            }
        }
    }
}

impl From<rondo::core::Error> for Problem {
    fn from(error: rondo::core::Error) -> Self {
        Failure::from(error).into()
    }
}

/// The status of a failure: by its code where the code says more than the exit of a command would.
fn status(exit: Exit, code: Code) -> StatusCode {
    match (code, exit) {
        (Code::ThreadUnknown | Code::BatchUnknown | Code::WorkflowNotFound, _) => StatusCode::NOT_FOUND,
        (Code::ThreadAmbiguous | Code::ThreadEnded | Code::AnswerUnclear | Code::ResumeUnclear, _)
        | (_, Exit::Limit | Exit::Busy | Exit::InDoubt | Exit::Waiting) => StatusCode::CONFLICT,
        // Of a provider: nothing was asked yet, the settings name no model or no provider.
        (_, Exit::Invalid | Exit::Provider) => StatusCode::UNPROCESSABLE_ENTITY,
        (_, Exit::Denied) => StatusCode::FORBIDDEN,
        (_, Exit::Interrupted | Exit::Terminated) => StatusCode::SERVICE_UNAVAILABLE,
        (_, Exit::Done | Exit::Failed | Exit::Damaged | Exit::InputOutput) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
