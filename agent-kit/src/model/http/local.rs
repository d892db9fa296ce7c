//! Servers of models on this machine's loopback, at the ports where they usually listen.
//!
//! Laws: no key and no text is sent, only a request for the list of models; nothing but 127.0.0.1 is asked, through no
//! proxy and behind no redirect; whatever answers, the look ends within [`WHOLE_TIMEOUT`] and keeps at most
//! [`MAX_LIST_BYTES`] of a server.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::header::ACCEPT;

use super::model_list;
use crate::web;

const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
const WHOLE_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_LIST_BYTES: usize = 256 << 10;

/// A port, and the program that listens there unless it is told otherwise.
type Place = (&'static str, u16);

/// The usual places, each with its page:
///
/// - Ollama <https://docs.ollama.com/faq>
/// - LM Studio <https://lmstudio.ai/docs/developer/openai-compat>
/// - llama.cpp <https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md>
/// - vLLM <https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html>
const USUAL: [Place; 4] = [("Ollama", 11_434), ("LM Studio", 1_234), ("llama.cpp", 8_080), ("vLLM", 8_000)];

/// A server that lists models. Whether it is the program that usually listens there, nobody says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalServer {
    pub program: &'static str,
    /// Its address as a provider.
    pub base_url: String,
    /// The ids of its models as it wrote them: at least one.
    pub models: Vec<String>,
}

/// The servers that answer now, in the order of the usual places.
pub async fn local_servers() -> Vec<LocalServer> {
    servers_at(&USUAL).await
}

async fn servers_at(places: &[Place]) -> Vec<LocalServer> {
    let client = web::client().no_proxy().connect_timeout(CONNECT_TIMEOUT).timeout(WHOLE_TIMEOUT).build();
    let Ok(client) = client else { return Vec::new() };
    join_all(places.iter().map(|place| server_at(&client, *place))).await.into_iter().flatten().collect()
}

async fn server_at(client: &reqwest::Client, (program, port): Place) -> Option<LocalServer> {
    let base_url = format!("http://127.0.0.1:{port}/v1");
    let request = client.get(format!("{base_url}/models")).header(ACCEPT, "application/json");
    let mut response = request.send().await.ok().filter(|response| response.status().is_success())?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        if body.len() + chunk.len() > MAX_LIST_BYTES {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    Some(LocalServer { program, base_url, models: model_list::ids(&body)? })
}

#[cfg(test)]
mod tests;
