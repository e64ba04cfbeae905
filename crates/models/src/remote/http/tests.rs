//! Responses split at any position, and exchanges over real sockets with a server that the test controls.

use bytes::BytesMut;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::body::{BodyPart, Framing};
use super::head::{self, ResponseHead};
use super::*;

fn parse_head(bytes: &str) -> Result<Option<ResponseHead>, String> {
    head::take_head(&mut BytesMut::from(bytes)).map_err(|error| error.to_string())
}

/// The framing of a head, and whether the connection can be reused.
fn framing_of(bytes: &str) -> (Framing, bool) {
    let head = parse_head(bytes).unwrap().unwrap();
    (head.framing, head.is_reusable)
}

#[test]
fn a_head_says_how_its_body_ends() {
    let chunked = Framing::new_chunked();
    for (head, expected) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", (Framing::Length(5), true)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\ncontent-length: 5\r\n\r\n", (Framing::Length(5), true)),
        ("HTTP/1.1 200 OK\r\nConnection: Keep-Alive, CLOSE\r\ncontent-length: 0\r\n\r\n", (Framing::Length(0), false)),
        ("HTTP/1.1 200 \r\ntransfer-encoding: gzip, Chunked\r\n\r\n", (chunked, true)),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n\r\n", (Framing::Close, true)),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 9\r\n\r\n", (chunked, false)),
        ("HTTP/1.1 200 OK\r\n\r\n", (Framing::Close, true)),
        ("HTTP/1.1 204 No Content\r\n\r\n", (Framing::Length(0), true)),
        ("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n", (Framing::Length(1), false)),
        ("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\n", (Framing::Length(1), true)),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 204 N\r\n\r\n",
            (Framing::Length(0), true),
        ),
    ] {
        assert_eq!(framing_of(head), expected, "{head}");
    }
}

#[test]
fn what_is_no_head_is_refused() {
    for (bytes, why) in [
        ("SSH-2.0-OpenSSH_9.7\r\n", "invalid HTTP version"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n", "conflicting Content-Length headers"),
        ("HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\n", "invalid Content-Length"),
        ("HTTP/1.1 200 OK\r\ncontent-length: \r\n\r\n", "invalid Content-Length"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n", "invalid Content-Length"),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "the server switched protocols"),
        (&format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(70_000)), "the response head is too long"),
    ] {
        assert_eq!(parse_head(bytes).err().as_deref(), Some(why), "{bytes:.60}");
    }
    assert!(parse_head("HTTP/1.1 200 OK\r\ncontent-le").unwrap().is_none());
}

/// The body that arrives in these pieces, and whether it ended.
fn collect_body(mut framing: Framing, pieces: &[&[u8]]) -> std::io::Result<(Vec<u8>, bool)> {
    let (mut read, mut body) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        read.extend_from_slice(piece);
        loop {
            match framing.take_part(&mut read)? {
                BodyPart::Piece(bytes) => body.extend_from_slice(&bytes),
                BodyPart::NeedMore => break,
                BodyPart::End => return Ok((body, true)),
            }
        }
    }
    Ok((body, false))
}

/// A chunked body with chunks of these sizes.
fn encode_chunks(body: &[u8], sizes: &[usize]) -> Vec<u8> {
    let (mut written, mut left, mut sizes) = (Vec::new(), body, sizes.iter().cycle());
    while !left.is_empty() {
        let (chunk, rest) = left.split_at((*sizes.next().unwrap()).min(left.len()));
        written.extend_from_slice(format!("{:X};name=\"value\"\r\n", chunk.len()).as_bytes());
        written.extend_from_slice(chunk);
        written.extend_from_slice(b"\r\n");
        left = rest;
    }
    written.extend_from_slice(b"0\r\nchecksum: 1\r\n\r\n");
    written
}

/// The status, the body, and whether that has ended, of a response that arrives in pieces; `None` if it is refused.
fn read_response(pieces: &[&[u8]]) -> Option<(u16, Vec<u8>, bool)> {
    let (mut read, mut head, mut body) = (BytesMut::new(), None, Vec::new());
    for piece in pieces {
        read.extend_from_slice(piece);
        if head.is_none() {
            head = head::take_head(&mut read).ok()?;
        }
        let Some(ResponseHead { framing, status, .. }) = &mut head else { continue };
        loop {
            match framing.take_part(&mut read).ok()? {
                BodyPart::Piece(bytes) => body.extend_from_slice(&bytes),
                BodyPart::NeedMore => break,
                BodyPart::End => return Some((*status, body, true)),
            }
        }
    }
    Some((head.map_or(0, |head| head.status), body, false))
}

proptest! {
    #[test]
    fn a_body_is_the_same_however_it_is_cut(
        body in proptest::collection::vec(any::<u8>(), 0..400),
        sizes in proptest::collection::vec(1..90usize, 1..6),
        cut in 1..40usize,
    ) {
        let chunked = encode_chunks(&body, &sizes);
        let pieces: Vec<&[u8]> = chunked.chunks(cut).collect();
        prop_assert_eq!(collect_body(Framing::new_chunked(), &pieces).unwrap(), (body.clone(), true));
        // Without its last byte it never ends.
        let short: Vec<&[u8]> = chunked[..chunked.len() - 1].chunks(cut).collect();
        prop_assert_eq!(collect_body(Framing::new_chunked(), &short).unwrap(), (body.clone(), false));
        let pieces: Vec<&[u8]> = body.chunks(cut).chain([&b""[..]]).collect();
        prop_assert_eq!(collect_body(Framing::Length(body.len() as u64), &pieces).unwrap(), (body.clone(), true));
        prop_assert_eq!(collect_body(Framing::Close, &pieces).unwrap(), (body, false));
    }

    /// Responses with any bytes replaced, so that most of the head or of a chunk is as it should be.
    #[test]
    fn a_damaged_response_means_the_same_however_it_is_cut(
        body in proptest::collection::vec(any::<u8>(), 0..200),
        sizes in proptest::collection::vec(1..90usize, 1..6),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
        head in 0..3usize,
        cut in 1..40usize,
    ) {
        let head = [
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(),
            format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()),
            "HTTP/1.0 429 Slow\r\nretry-after: 1\r\n\r\n".to_owned(),
        ][head].clone();
        let written = if head.contains("chunked") { encode_chunks(&body, &sizes) } else { body };
        let mut response = [head.as_bytes(), &written].concat();
        for (place, byte) in damage {
            let length = response.len();
            response[place.index(length)] = byte;
        }
        let pieces: Vec<&[u8]> = response.chunks(cut).collect();
        prop_assert_eq!(read_response(&pieces), read_response(&[&response]));
    }

    #[test]
    fn noise_is_an_error_or_a_body_but_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = head::take_head(&mut BytesMut::from(&bytes[..]));
        let _ = collect_body(Framing::new_chunked(), &[&bytes]);
    }
}

/// The server of one test.
struct TestServer(TcpListener);

impl TestServer {
    async fn start_server() -> (TestServer, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/chat?x=1", listener.local_addr().unwrap());
        (TestServer(listener), url)
    }

    async fn accept_connection(&self) -> TcpStream {
        self.0.accept().await.unwrap().0
    }
}

/// Reads a request with the body `{}` and answers it.
async fn answer_request(stream: &mut TcpStream, bytes: &str) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n{}") {
        assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "the request broke off");
    }
    stream.write_all(bytes.as_bytes()).await.unwrap();
    String::from_utf8(request).unwrap()
}

async fn post_json(http: &HttpClient, url: &str) -> Result<HttpReply, ProviderError> {
    let headers = HeaderMap::from_iter([(reqwest::header::AUTHORIZATION, secret_header("Bearer k").unwrap())]);
    http.post_json(url, headers, "{}".to_owned())?.await
}

async fn read_text(mut reply: HttpReply) -> Result<String, ProviderError> {
    let mut text = Vec::new();
    while let Some(piece) = reply.next_piece().await? {
        text.extend_from_slice(&piece);
    }
    Ok(String::from_utf8(text).unwrap())
}

const OK_RESPONSE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn a_connection_is_used_again_and_a_request_is_whole() {
    let (server, url) = TestServer::start_server().await;
    let http = HttpClient::new(None);
    let client = async {
        for _ in 0..3 {
            assert_eq!(read_text(post_json(&http, &url).await.unwrap()).await.unwrap(), "ok");
        }
        // Not read to its end, although the end has arrived.
        drop(post_json(&http, &url).await.unwrap());
        assert_eq!(read_text(post_json(&http, &url).await.unwrap()).await.unwrap(), "ok");
    };
    let answered = async {
        let mut stream = server.accept_connection().await;
        for _ in 0..4 {
            answer_request(&mut stream, OK_RESPONSE).await;
        }
        answer_request(&mut stream, OK_RESPONSE).await
    };
    let ((), request) = tokio::join!(client, answered);
    let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let head = format!("POST /v1/chat?x=1 HTTP/1.1\r\nhost: {host}\r\ncontent-length: 2\r\n");
    assert_eq!(request, format!("{head}authorization: Bearer k\r\n\r\n{{}}"));
}

#[tokio::test]
async fn a_connection_that_ended_or_says_more_than_it_should_is_not_used_again() {
    for first in [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let (server, url) = TestServer::start_server().await;
        let http = HttpClient::new(None);
        let client = async {
            assert_eq!(read_text(post_json(&http, &url).await.unwrap()).await.unwrap(), "ok");
            assert_eq!(read_text(post_json(&http, &url).await.unwrap()).await.unwrap(), "ok");
        };
        let answered = async {
            let mut one = server.accept_connection().await;
            answer_request(&mut one, first).await;
            let mut two = server.accept_connection().await;
            answer_request(&mut two, OK_RESPONSE).await;
        };
        tokio::join!(client, answered);
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error() {
    for reply in [
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok",
    ] {
        let (server, url) = TestServer::start_server().await;
        let http = HttpClient::new(None);
        let answered = async {
            let mut stream = server.accept_connection().await;
            answer_request(&mut stream, reply).await;
        };
        let client = async { read_text(post_json(&http, &url).await.unwrap()).await };
        let (result, ()) = tokio::join!(client, answered);
        let error = result.unwrap_err().to_string();
        assert_eq!(error, "the connection was lost in the middle of the answer");
    }
}

#[tokio::test]
async fn a_server_may_refuse_before_it_has_read_everything() {
    let (server, url) = TestServer::start_server().await;
    let http = HttpClient::new(None);
    let refused = async {
        let mut stream = server.accept_connection().await;
        stream.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig").await.unwrap();
        stream
    };
    let huge = "x".repeat(32 << 20);
    let (reply, _stream) = tokio::join!(http.post_json(&url, HeaderMap::new(), huge).unwrap(), refused);
    let reply = reply.unwrap();
    assert_eq!((reply.status, read_text(reply).await.unwrap().as_str()), (413, "big"));
}

#[tokio::test]
async fn no_answer_says_why() {
    let (server, url) = TestServer::start_server().await;
    let http = HttpClient::new(None);
    let hung_up = async { drop(server.accept_connection().await) };
    let (result, ()) = tokio::join!(post_json(&http, &url), hung_up);
    let describe = |error: ProviderError| {
        assert!(error.can_retry());
        error.to_string()
    };
    let ended = describe(result.err().unwrap());
    let reasons = ["the server closed the connection before it answered", "Connection reset by peer (os error 104)"];
    assert!(reasons.iter().any(|why| ended == format!("the provider cannot be reached: {why}")), "{ended}");
    drop(server);
    let refused = describe(post_json(&http, &url).await.err().unwrap());
    assert_eq!(refused, "the provider cannot be reached: tcp connect error: Connection refused (os error 111)");
}
