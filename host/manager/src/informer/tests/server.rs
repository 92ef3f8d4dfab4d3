//! An API server that says what a test has it say.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    io,
    sync::Arc,
};

use bytes::Bytes;
use futures::{StreamExt, stream, stream::BoxStream};
use http::{Request, Response, header};
use http_body_util::StreamBody;
use hyper::body::Frame;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::api::ApiClient;

/// What a request is answered with.
pub(super) enum Reply {
    /// A status and a body.
    Json(u16, String),
    /// A watch: what it tells at once, and how it goes on.
    Watch(String, Then),
}

/// How a watch goes on after what it told at once.
pub(super) enum Then {
    /// It ends.
    Close,
    /// Its connection breaks.
    Break,
    /// It tells what it is given here, and ends when the sender is dropped.
    Follow(mpsc::UnboundedReceiver<String>),
    /// It stays silent for ever.
    Hang,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Path and query.
    pub(super) path: String,
    pub(super) accept: String,
}

#[derive(Default)]
struct State {
    scripts: HashMap<String, VecDeque<Reply>>,
    asked: Vec<Asked>,
}

/// The server. Each path has a script of its own; a request beyond its end is
/// never answered.
#[derive(Clone, Default)]
pub(super) struct Server(Arc<Mutex<State>>);

impl Server {
    /// Adds to a path's script.
    pub(super) fn script(&self, path: &str, replies: impl IntoIterator<Item = Reply>) {
        self.0.lock().scripts.entry(path.to_owned()).or_default().extend(replies);
    }

    /// Requests so far whose path begins so.
    pub(super) fn asked(&self, path: &str) -> Vec<Asked> {
        self.0.lock().asked.iter().filter(|asked| asked.path.starts_with(path)).cloned().collect()
    }

    pub(super) fn client(&self) -> ApiClient {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let reply = server.take(&request);
            async move {
                match reply {
                    Some(reply) => Ok::<_, Infallible>(respond(reply)),
                    None => std::future::pending().await,
                }
            }
        });
        ApiClient::new(kube::Client::new(service, "default"), "test")
    }

    fn take(&self, request: &Request<Body>) -> Option<Reply> {
        let accept = request.headers().get(header::ACCEPT).map(|v| v.to_str().unwrap().to_owned());
        let path = request.uri().path_and_query().unwrap().to_string();
        let mut state = self.0.lock();
        state.asked.push(Asked { path, accept: accept.unwrap_or_default() });
        state.scripts.get_mut(request.uri().path())?.pop_front()
    }
}

type Frames = StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>;

fn respond(reply: Reply) -> Response<Frames> {
    let frame = |text: String| io::Result::Ok(Frame::data(Bytes::from(text)));
    let (status, frames) = match reply {
        Reply::Json(status, body) => (status, stream::iter([frame(body)]).boxed()),
        Reply::Watch(text, then) => {
            let rest = match then {
                Then::Close => stream::empty().boxed(),
                Then::Break => stream::iter([Err(io::Error::from(io::ErrorKind::ConnectionReset))]).boxed(),
                Then::Hang => stream::pending().boxed(),
                Then::Follow(lines) => {
                    stream::unfold(lines, |mut lines| async { lines.recv().await.map(|line| (line, lines)) })
                        .map(frame)
                        .boxed()
                }
            };
            (200, stream::iter([frame(text)]).chain(rest).boxed())
        }
    };
    Response::builder().status(status).body(StreamBody::new(frames)).unwrap()
}
