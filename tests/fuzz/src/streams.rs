//! The targets that read streams: the events of providers, and the frames of sandbox workers.

use std::io::ErrorKind;

use flowloom_models::{SseEvent, SseParser, Unreadable};
use flowloom_sandbox::frame::{FrameReader, PLAIN_MARK, push_frame, read_frame};
use futures_util::FutureExt as _;

/// Larger frames are refused.
const MAX_FRAME_BYTES: usize = 1 << 16;

/// A stream has the same events however it is cut into pieces, and its events are read again as they were.
pub(crate) fn parse_events(input: &[u8]) {
    let whole = collect_events([input]);
    assert_eq!(collect_events(input.chunks(1)), whole, "the events depend on the pieces");
    assert_eq!(collect_events(input.chunks(7)), whole, "the events depend on the pieces");
    let Ok(events) = whole else { return };
    let written: String = events.iter().map(write_event).collect();
    assert_eq!(collect_events([written.as_bytes()]), Ok(events), "the events change when they are written");
}

fn collect_events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<SseEvent>, Unreadable> {
    let mut parser = SseParser::default();
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(parser.push_bytes(piece)?);
    }
    events.extend(parser.finish_stream());
    Ok(events)
}

fn write_event(event: &SseEvent) -> String {
    let lines: String = event.data.split('\n').map(|line| format!("data: {line}\n")).collect();
    format!("event: {}\n{lines}\n", event.name)
}

/// Both readers find the same frames, and a frame that was written is read as it was.
pub(crate) fn read_frames(input: &[u8]) {
    assert_eq!(collect_frames(input), collect_frames_async(input), "the readers disagree");
    let mut written = Vec::new();
    push_frame(&mut written, &PLAIN_MARK, input);
    push_frame(&mut written, &PLAIN_MARK, b"next");
    let expected = (vec![input.to_vec(), b"next".to_vec()], false);
    assert_eq!(collect_frames(&written), expected, "a frame changes");
}

/// The frames of a stream, and whether something else follows them.
fn collect_frames(mut stream: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut frames = Vec::new();
    loop {
        match read_frame(&mut stream, &PLAIN_MARK, MAX_FRAME_BYTES) {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return (frames, false),
            Err(error) => return (frames, error.kind() != ErrorKind::UnexpectedEof),
        }
    }
}

fn collect_frames_async(stream: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut reader = FrameReader::new(stream, PLAIN_MARK, MAX_FRAME_BYTES);
    let mut frames = Vec::new();
    loop {
        match reader.next_frame().now_or_never() {
            Some(Ok(Some(frame))) => frames.push(frame),
            Some(Ok(None)) => return (frames, false),
            Some(Err(_)) => return (frames, true),
            None => panic!("a reader of bytes in memory waits"),
        }
    }
}
