//! What the threads of one server share: the servers of their tools, and keys that commands print.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;

use super::client::{Server, TOKEN};
use crate::binary::Place;
use crate::provider::server::{Act, Server as Provider};

/// A server of tools that notes its start in the file that it is given.
const TOOLS: &str = r#"
printf 'started\n' >> "$1"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"echo","description":"Says it again.","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
  esac
done
"#;

const WORKFLOW: &str = "
rondo: 1
name: ask
roles: { a: { system: You ask., tools: [\"docs.*\"] } }
graph:
  start: { to: a, prompt: go }
  a: { done: { to: end } }
";

fn lines(file: &str) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().lines().count()
}

#[test]
fn requests_at_once_share_one_server_of_tools_and_one_printed_key() {
    let place = Place::new();
    place.file("workflows/ask/workflow.yaml", WORKFLOW);
    let (tools, starts, asked) = (place.file("tools.sh", TOOLS), place.file("starts", ""), place.file("asked", ""));
    let provider = Provider::new(|_| Act::answer("---\nstatus: done\n---\n\nasked", [1, 0, 1]));
    let folder = place.home().join(".config/rondo");
    std::fs::create_dir_all(&folder).unwrap();
    let settings = format!(
        "[provider.openai]\nbase_url = \"{}\"\n\
         key_command = [\"sh\", \"-c\", \"echo asked >> {asked}; sleep 0.2; echo sk-printed-0123456789\"]\n\
         [model.default]\nmodel = \"fake-1\"\n\
         [mcp.docs]\ncommand = \"sh\"\nargs = [\"{tools}\", \"{starts}\"]\n\
         [grant]\ntools = [\"docs.*\"]\n",
        provider.base_url()
    );
    std::fs::write(folder.join("config.toml"), settings).unwrap();
    place.trust(&["ask"]);
    let server = Server::start_with(&place, &[], &[("PATH", "/usr/local/bin:/usr/bin:/bin")]);

    let body = json!({"workflow": "ask"});
    // All are sent before the first is answered.
    let sent: Vec<TcpStream> = (0..4)
        .map(|_| {
            let (mut stream, body, address) = (server.connect(), body.to_string(), server.address);
            let head = "Content-Type: application/json\r\nConnection: close\r\n";
            let to = format!("POST /api/v1/threads HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n");
            write!(stream, "{to}{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
            stream
        })
        .collect();
    for mut stream in sent {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    }
    let listed = server.get("/threads").is(200).json();
    let threads: Vec<&str> =
        listed["threads"].as_array().unwrap().iter().map(|thread| thread["thread"].as_str().unwrap()).collect();
    assert_eq!(threads.len(), 4);
    for thread in threads {
        server.wait(thread, "done");
    }
    // The next one finds them too.
    server.wait(&server.run(&body), "done");
    assert_eq!((lines(&starts), lines(&asked)), (1, 1));
    let requests = provider.requests();
    assert_eq!(requests.len(), 5);
    assert!(requests.iter().all(|request| request.head.contains("bearer sk-printed-0123456789")));
}
