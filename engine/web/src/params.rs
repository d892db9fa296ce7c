//! The parameters of addresses and queries, whose faults are problems.

use std::fmt::Display;

use axum::extract::{FromRequestParts, rejection};
use axum::http::StatusCode;
use axum::http::request::Parts;
use rondo::protocol::diagnostic::Code;
use serde::de::DeserializeOwned;

use super::problem::Problem;

pub struct Query<T>(pub T);

/// The parameters of a path, without percent-encoding.
pub struct Path<T>(pub T);

pub fn invalid(what: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, Code::RequestUnreadable, what)
}

/// How many items of a list a client gets: `usual`, unless it asks for another number up to `most`.
pub fn limit<N: Copy + PartialOrd + From<u8> + Display>(asked: Option<N>, usual: N, most: N) -> Result<N, Problem> {
    let limit = asked.unwrap_or(usual);
    let is_allowed = (N::from(1)..=most).contains(&limit);
    is_allowed.then_some(limit).ok_or_else(|| invalid(format!("limit: a number from 1 to {most}")))
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Query::from_request_parts(parts, state).await;
        read.map(|query| Self(query.0)).map_err(|rejection: rejection::QueryRejection| invalid(rejection.body_text()))
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Path::from_request_parts(parts, state).await;
        read.map(|path| Self(path.0)).map_err(|rejection: rejection::PathRejection| invalid(rejection.body_text()))
    }
}
