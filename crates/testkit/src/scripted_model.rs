//! A scripted model for real agents, over HTTP on loopback.
//!
//! What must hold:
//! - It is stateless: the answer depends on the request alone (the number of model turns in it). So a request may be
//!   repeated, and many agents may share one server.
//! - It records every request, so that a test can check what the agent sent.
//! - A request without tools is a side request of the agent (a title, a summary) and uses no turn of the script.
//!
//! Format: Anthropic's Messages (streamed and whole), OpenAI's Responses (streamed), Google's generateContent (both).
//!
//! Limitations: one answer a connection, no TLS, requests up to 64 MB; tokens are invented.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// One turn of the model.
#[derive(Debug, Clone)]
pub enum ModelTurn {
    Tool { name: String, input: Value },
    Text(String),
}

impl ModelTurn {
    pub fn tool(name: &str, input: Value) -> Self {
        let name = name.to_owned();
        Self::Tool { name, input }
    }

    pub fn bash(command: &str) -> Self {
        let input = json!({ "command": command, "description": "a step of the script" });
        Self::tool("Bash", input)
    }

    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A server that stops when this value is dropped.
#[derive(Debug)]
pub struct ModelApi {
    at: SocketAddr,
    asked: Arc<Mutex<Vec<Value>>>,
    ended: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl ModelApi {
    /// Serves on `listener`, which may belong to another network namespace than the caller. After the last turn of the
    /// script the model says "Done."
    pub fn start(listener: TcpListener, script: Vec<ModelTurn>) -> io::Result<Self> {
        Self::serving(listener, script, None)
    }

    /// Refuses every request with this HTTP status.
    pub fn start_refusing(listener: TcpListener, status: u16) -> io::Result<Self> {
        Self::serving(listener, Vec::new(), Some(status))
    }

    fn serving(listener: TcpListener, script: Vec<ModelTurn>, refuse: Option<u16>) -> io::Result<Self> {
        let at = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let asked = Arc::new(Mutex::new(Vec::new()));
        let ended = Arc::new(AtomicBool::new(false));
        let (kept, end, script) = (asked.clone(), ended.clone(), Arc::new(script));
        let server = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let (kept, script) = (kept.clone(), script.clone());
                        std::thread::spawn(move || {
                            // An agent may hang up: that is no failure of the server.
                            let _ = serve(stream, &script, refuse, &kept);
                        });
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(2)),
                }
            }
        });
        Ok(Self {
            at,
            asked,
            ended,
            server: Some(server),
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.at)
    }

    /// Every conversation that was sent to the model, in order.
    pub fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tool results that were sent to the model: the texts of the longest conversation, in order.
    pub fn told(&self) -> Vec<String> {
        let asked = self.asked();
        let told = asked.iter().map(results);
        told.max_by_key(Vec::len).unwrap_or_default()
    }

    /// Everything that was sent to the model, as one text.
    pub fn read(&self) -> String {
        self.asked().iter().map(|asked| format!("{asked}\n")).collect()
    }
}

impl Drop for ModelApi {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

/// The text of a message, in any of its formats.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(plain).collect::<Vec<_>>().join("\n"),
        Value::Object(part) if part.contains_key("text") => plain(&part["text"]),
        other => other.to_string(),
    }
}

fn results(asked: &Value) -> Vec<String> {
    let messages = list(asked, "messages").flat_map(|message| list(message, "content"));
    let claude = messages.filter(|part| part["type"] == "tool_result");
    let claude = claude.map(|part| plain(&part["content"]));
    let outputs = list(asked, "input").filter(|item| {
        item["type"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("call_output"))
    });
    let codex = outputs.map(|item| plain(&item["output"]));
    let parts = list(asked, "contents").flat_map(|content| list(content, "parts"));
    let gemini = parts
        .filter(|part| part["functionResponse"].is_object())
        .map(|part| part["functionResponse"]["response"].to_string());
    claude.chain(codex).chain(gemini).collect()
}

/// One request of HTTP/1.1.
struct Asked {
    path: String,
    body: Vec<u8>,
}

fn receive(stream: &TcpStream) -> io::Result<Asked> {
    const MOST: u64 = 64 << 20;
    let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut from = BufReader::new(stream.take(MOST));
    let mut line = String::new();
    from.read_line(&mut line)?;
    let path = line
        .split(' ')
        .nth(1)
        .ok_or_else(|| bad("no request"))?
        .to_owned();
    let (mut length, mut chunked, mut patient) = (0, false, false);
    loop {
        line.clear();
        from.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        match (name.to_ascii_lowercase().as_str(), value.trim()) {
            ("content-length", value) => length = value.parse().map_err(|_| bad("no length"))?,
            ("transfer-encoding", value) => chunked = value.contains("chunked"),
            ("expect", _) => patient = true,
            _ => {}
        }
    }
    if patient {
        let mut to = stream;
        to.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let mut body = Vec::new();
    if chunked {
        loop {
            line.clear();
            from.read_line(&mut line)?;
            let size = u64::from_str_radix(line.trim(), 16).map_err(|_| bad("no chunk"))?;
            from.by_ref().take(size).read_to_end(&mut body)?;
            line.clear();
            from.read_line(&mut line)?;
            if size == 0 {
                break;
            }
        }
    } else {
        from.take(length).read_to_end(&mut body)?;
    }
    Ok(Asked { path, body })
}

fn reply(mut stream: &TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}

fn serve(
    stream: TcpStream,
    script: &[ModelTurn],
    refuse: Option<u16>,
    kept: &Mutex<Vec<Value>>,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let Asked { path, body } = receive(&stream)?;
    let path = path.split('?').next().unwrap_or_default();
    let speaks = [
        (
            "/messages",
            messages as fn(&Value, &ModelTurn, usize) -> (bool, String),
        ),
        ("/responses", responses),
        (":streamGenerateContent", generate_streamed),
        (":generateContent", generate),
    ];
    let Some((_, speak)) = speaks.iter().find(|(end, _)| path.ends_with(end)) else {
        return reply(&stream, "404 Not Found", "application/json", "{}");
    };
    let asked: Value = serde_json::from_slice(&body)?;
    if let Some(status) = refuse {
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
        let body = json!({ "type": "error", "error": { "type": "refused", "message": "by the script" } });
        let status = format!("{status} Refused");
        return reply(&stream, &status, "application/json", &body.to_string());
    }
    let spoken = spoken(&asked);
    let done = ModelTurn::text("Done.");
    let step = match list(&asked, "tools").next() {
        Some(_) => script.get(spoken).unwrap_or(&done),
        None => &done,
    };
    let (streamed, body) = speak(&asked, step, spoken);
    kept.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    let kind = match streamed {
        true => "text/event-stream",
        false => "application/json",
    };
    reply(&stream, "200 OK", kind, &body)
}

/// The number of model turns in this conversation.
fn spoken(asked: &Value) -> usize {
    let claude = list(asked, "messages").filter(|message| message["role"] == "assistant");
    let codex = list(asked, "input").filter(|item| {
        let called = item["type"].as_str().is_some_and(|kind| kind.ends_with("_call"));
        called || item["role"] == "assistant"
    });
    let gemini = list(asked, "contents").filter(|content| content["role"] == "model");
    claude.count() + codex.count() + gemini.count()
}

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn messages(asked: &Value, step: &ModelTurn, spoken: usize) -> (bool, String) {
    let (content, stop) = match step {
        ModelTurn::Tool { name, input } => {
            let id = format!("toolu_script_{spoken}");
            let block = json!({ "type": "tool_use", "id": id, "name": name, "input": input });
            (block, "tool_use")
        }
        ModelTurn::Text(text) => (json!({ "type": "text", "text": text }), "end_turn"),
    };
    let mut message = json!({
        "id": format!("msg_script_{spoken}"), "type": "message", "role": "assistant", "model": asked["model"],
        "content": [content], "stop_reason": stop, "stop_sequence": null,
        "usage": { "input_tokens": 100, "output_tokens": 20 },
    });
    if asked["stream"] != true {
        return (false, message.to_string());
    }
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    let (block, delta) = match step {
        ModelTurn::Tool { input, .. } => {
            let mut block = content;
            block["input"] = json!({});
            let part = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
            (block, part)
        }
        ModelTurn::Text(text) => (
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": text }),
        ),
    };
    let ended = json!({ "stop_reason": stop, "stop_sequence": null });
    let events = [
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": ended, "usage": { "output_tokens": 20 } }),
        json!({ "type": "message_stop" }),
    ];
    let named = events
        .iter()
        .map(|data| event(data["type"].as_str().unwrap_or_default(), data));
    (true, named.collect())
}

fn responses(_: &Value, step: &ModelTurn, spoken: usize) -> (bool, String) {
    let item = match step {
        // A tool whose input is text instead of an object is a free-form tool.
        ModelTurn::Tool {
            name,
            input: Value::String(text),
        } => json!({
            "type": "custom_tool_call", "id": format!("ctc_{spoken}"), "call_id": format!("call_{spoken}"),
            "name": name, "input": text, "status": "completed",
        }),
        ModelTurn::Tool { name, input } => json!({
            "type": "function_call", "id": format!("fc_{spoken}"), "call_id": format!("call_{spoken}"),
            "name": name, "arguments": input.to_string(), "status": "completed",
        }),
        ModelTurn::Text(text) => json!({
            "type": "message", "id": format!("msg_{spoken}"), "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }),
    };
    let id = format!("resp_{spoken}");
    let usage = json!({
        "input_tokens": 100, "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": 20, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 120,
    });
    let begun = json!({ "id": id, "object": "response", "status": "in_progress", "output": [] });
    let whole =
        json!({ "id": id, "object": "response", "status": "completed", "output": [item], "usage": usage });
    let events = [
        json!({ "type": "response.created", "response": begun }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": whole }),
    ];
    let named = events
        .iter()
        .map(|data| event(data["type"].as_str().unwrap_or_default(), data));
    (true, named.collect())
}

/// The simplest value of this JSON schema.
fn fitting(schema: &Value) -> Value {
    let first = list(schema, "enum").next();
    match schema["type"].as_str().map(str::to_ascii_lowercase).as_deref() {
        Some("object") => {
            let members = schema["properties"].as_object().into_iter().flatten();
            members.map(|(name, of)| (name.clone(), fitting(of))).collect()
        }
        Some("array") => json!([]),
        Some("number" | "integer") => json!(1),
        Some("boolean") => json!(false),
        _ => first.cloned().unwrap_or_else(|| json!("any")),
    }
}

fn generate(asked: &Value, step: &ModelTurn, _: usize) -> (bool, String) {
    let schema = &asked["generationConfig"]["responseJsonSchema"];
    let part = match step {
        // Gemini asks which model to use, and expects JSON.
        ModelTurn::Text(_) if schema.is_object() => json!({ "text": fitting(schema).to_string() }),
        ModelTurn::Tool { name, input } => json!({ "functionCall": { "name": name, "args": input } }),
        ModelTurn::Text(text) => json!({ "text": text }),
    };
    let answer = json!({
        "candidates": [{ "content": { "role": "model", "parts": [part] }, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": { "promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120 },
        "modelVersion": "script",
    });
    (false, answer.to_string())
}

fn generate_streamed(asked: &Value, step: &ModelTurn, spoken: usize) -> (bool, String) {
    let (_, answer) = generate(asked, step, spoken);
    (true, format!("data: {answer}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(api: &ModelApi, path: &str, body: &Value) -> String {
        let mut stream = TcpStream::connect(api.at).expect("a connection");
        let body = body.to_string();
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    #[test]
    fn f9_the_script_follows_the_conversation_not_the_clock() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let script = vec![ModelTurn::bash("true"), ModelTurn::text("enough")];
        let api = ModelApi::start(listener, script).expect("a server");
        let said = json!({ "role": "assistant", "content": [{ "type": "text", "text": "x" }] });
        let first = json!({ "model": "m", "stream": true, "tools": [{}], "messages": [{ "role": "user" }] });
        let second = json!({ "model": "m", "stream": true, "tools": [{}], "messages": [said] });
        for _ in 0..2 {
            let answer = ask(&api, "/v1/messages?beta=true", &first);
            assert!(
                answer.contains("tool_use") && answer.contains("message_stop"),
                "{answer}"
            );
            assert!(ask(&api, "/v1/messages", &second).contains("enough"));
        }
        let errand = json!({ "model": "m", "messages": [] });
        assert!(ask(&api, "/v1/messages", &errand).contains("Done."));
        assert!(ask(&api, "/v1/else", &errand).starts_with("HTTP/1.1 404"));
        assert_eq!(api.asked().len(), 5);
    }

    #[test]
    fn f9_what_came_of_tools_is_found_in_every_dialect() {
        for asked in [
            json!({ "messages": [{ "role": "user", "content": [
                { "type": "tool_result", "content": [{ "type": "text", "text": "no" }] }] }] }),
            json!({ "input": [{ "type": "function_call_output", "output": "no" }] }),
        ] {
            assert_eq!(results(&asked), ["no"]);
        }
        let gemini =
            json!({ "contents": [{ "parts": [{ "functionResponse": { "response": { "error": "no" } } }] }] });
        assert_eq!(results(&gemini), [r#"{"error":"no"}"#]);
    }
}
