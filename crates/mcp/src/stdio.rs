//! The transport: one message a line, on standard input and output.
//!
//! The SDK's own transport ignores a line that it cannot read. This one answers it with an error, and the conversation goes
//! on. It needs only channels of tokio: a separate thread waits for input, so an idle server never wakes up.
//!
//! What must hold:
//! - A line that is not JSON, not a message, or too long is answered by a JSON-RPC error, with its id if it has one. Only
//!   notifications are not answered, as the protocol demands.
//! - Before the client has introduced itself, messages other than requests are ignored: the SDK would exit.
//! - If the client no longer reads the answers, the conversation ends.

use std::io::{self, BufRead, Read as _, Write as _};
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, GetMeta as _, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};

/// Longest line, in bytes.
const MAX_LINE: usize = 16 << 20;

#[derive(Debug, PartialEq, Eq)]
enum InputLine {
    Whole(Vec<u8>),
    TooLong,
}

#[derive(Debug)]
pub struct Stdio {
    lines: mpsc::Receiver<InputLine>,
    /// Writing failed: the client no longer reads.
    deaf: Arc<Notify>,
    introduced: bool,
}

impl Stdio {
    pub fn open() -> io::Result<Self> {
        // A small buffer: a client that sends more waits, as with any pipe.
        let (sender, lines) = mpsc::channel(8);
        std::thread::Builder::new().name("stdin".into()).spawn(move || {
            read_lines(io::stdin().lock(), MAX_LINE, |line| {
                sender.blocking_send(line).is_ok()
            })
        })?;
        Ok(Self {
            lines,
            deaf: Arc::default(),
            introduced: false,
        })
    }
}

/// Passes each line to `take` until the input ends or `take` returns false. The last line may lack its newline.
fn read_lines(mut input: impl BufRead, most: usize, mut take: impl FnMut(InputLine) -> bool) {
    loop {
        let mut line = Vec::new();
        let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        match input.by_ref().take(limit).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = if line.len() <= most || line.ends_with(b"\n") {
            InputLine::Whole(line)
        } else if input.skip_until(b'\n').is_ok() {
            InputLine::TooLong
        } else {
            return;
        };
        if !take(line) {
            return;
        }
    }
}

/// Parses a line; `None` if there is nothing to answer or to do. The error is the answer to send.
fn understand(line: InputLine) -> Result<Option<ClientJsonRpcMessage>, Box<ServerJsonRpcMessage>> {
    let error =
        |error: ErrorData, id: Option<RequestId>| Err(Box::new(ServerJsonRpcMessage::error(error, id)));
    let line = match line {
        InputLine::Whole(line) => line,
        InputLine::TooLong => {
            let message = format!("the message is longer than {} MiB", MAX_LINE >> 20);
            return error(ErrorData::invalid_request(message, None), None);
        }
    };
    let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line).trim_ascii();
    if text.is_empty() {
        return Ok(None);
    }
    let why = match serde_json::from_slice(text) {
        Ok(message) => return Ok(Some(message)),
        Err(why) => why,
    };
    let value: Value = match serde_json::from_slice(text) {
        Ok(value) => value,
        Err(why) => {
            return error(
                ErrorData::parse_error(format!("this line is not JSON: {why}"), None),
                None,
            );
        }
    };
    let id = value
        .get("id")
        .and_then(|id| serde_json::from_value(id.clone()).ok());
    if value.get("method").is_some() && value.get("id").is_none() {
        return Ok(None);
    }
    let message = match &value {
        Value::Array(_) => "one message a line: batches are not part of the protocol".to_owned(),
        _ => format!("this is not a message of MCP: {why}"),
    };
    error(ErrorData::invalid_request(message, None), id)
}

/// Encodes a message. The SDK leaves out the id of an error that has none; JSON-RPC demands `null`.
fn as_json(message: &ServerJsonRpcMessage) -> serde_json::Result<Vec<u8>> {
    let ServerJsonRpcMessage::Error(error) = message else {
        return serde_json::to_vec(message);
    };
    let mut value = serde_json::to_value(error)?;
    if let Value::Object(fields) = &mut value {
        fields.entry("id").or_insert(Value::Null);
    }
    serde_json::to_vec(&value)
}

fn introduces(message: &ClientJsonRpcMessage) -> bool {
    match message {
        ClientJsonRpcMessage::Request(asked) => {
            matches!(asked.request, ClientRequest::InitializeRequest(_))
                || asked.request.get_meta().protocol_version().is_some()
        }
        _ => false,
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let deaf = self.deaf.clone();
        async move {
            let written = as_json(&message).map_err(io::Error::from).and_then(|mut line| {
                line.push(b'\n');
                let mut out = io::stdout().lock();
                out.write_all(&line)?;
                out.flush()
            });
            if written.is_err() {
                deaf.notify_one();
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let line = tokio::select! {
                line = self.lines.recv() => line?,
                () = self.deaf.notified() => return None,
            };
            match understand(line) {
                Ok(Some(message)) => {
                    self.introduced |= introduces(&message);
                    if self.introduced || matches!(message, ClientJsonRpcMessage::Request(_)) {
                        return Some(message);
                    }
                }
                Ok(None) => {}
                Err(answer) => self.send(*answer).await.ok()?,
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.lines.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8], most: usize) -> Vec<InputLine> {
        let mut all = Vec::new();
        // A small buffer: lines do not come whole.
        read_lines(io::BufReader::with_capacity(3, input), most, |line| {
            all.push(line);
            true
        });
        all
    }

    #[test]
    fn i4_a_line_that_is_too_long_is_passed_over_and_the_next_is_read() {
        let whole = |text: &str| InputLine::Whole(text.as_bytes().to_vec());
        assert_eq!(
            lines(b"12345\n123456789\n123456\nend", 6),
            [
                whole("12345\n"),
                InputLine::TooLong,
                whole("123456\n"),
                whole("end")
            ]
        );
        assert_eq!(lines(b"123456789", 6), [InputLine::TooLong]);
        assert_eq!(lines(b"", 6), []);
    }

    fn answered(line: &str) -> Option<Value> {
        match understand(InputLine::Whole(line.as_bytes().to_vec())) {
            Ok(message) => {
                assert!(message.is_none(), "{line} was understood");
                None
            }
            Err(answer) => {
                let sent = as_json(&answer).expect("JSON");
                Some(serde_json::from_slice(&sent).expect("JSON"))
            }
        }
    }

    #[test]
    fn i4_what_is_no_message_is_answered_with_its_id() {
        for (line, code, id) in [
            ("nonsense", -32700, Value::Null),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,", -32700, Value::Null),
            ("[]", -32600, Value::Null),
            ("3", -32600, Value::Null),
            ("{\"id\":7}", -32600, 7.into()),
            (
                "{\"jsonrpc\":\"1.0\",\"id\":\"a\",\"method\":\"ping\"}",
                -32600,
                "a".into(),
            ),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}",
                -32600,
                Value::Null,
            ),
        ] {
            let answer = answered(line).expect(line);
            assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
            assert_eq!(answer.get("id"), Some(&id), "{line}: {answer}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(answered(&deep).expect("an answer")["error"]["code"], -32700);
    }

    #[test]
    fn i4_blank_lines_and_odd_notifications_are_not_answered() {
        for line in [
            "",
            "  \r\n",
            "{\"jsonrpc\":\"1.0\",\"method\":\"notifications/x\"}",
        ] {
            assert_eq!(answered(line), None, "{line}");
        }
    }
}
