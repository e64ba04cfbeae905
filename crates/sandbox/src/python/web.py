# A replacement of `httpx` for blocks: the run sends the requests, subject to its egress policy. Functions and `Client`
# block, `AsyncClient` is awaited.
import json as _json

from flowloom_aio import ask as _ask, ask_now as _ask_now

__version__ = "0.28"


class HTTPError(Exception):
    def __init__(self, message="", *, request=None):
        super().__init__(message)
        self.request = request


class RequestError(HTTPError):
    pass


class TransportError(RequestError):
    pass


class NetworkError(TransportError):
    pass


class ConnectError(NetworkError):
    pass


class ReadError(NetworkError):
    pass


class TimeoutException(TransportError):
    pass


class ConnectTimeout(TimeoutException):
    pass


class ReadTimeout(TimeoutException):
    pass


class UnsupportedProtocol(TransportError):
    pass


class TooManyRedirects(RequestError):
    pass


class InvalidURL(Exception):
    pass


class HTTPStatusError(HTTPError):
    def __init__(self, message, *, request=None, response=None):
        super().__init__(message, request=request)
        self.response = response


class Headers(dict):
    """Headers with lower-case names; lookups ignore case."""

    def __init__(self, entries=None):
        super().__init__()
        for name, value in _pairs(entries):
            self[name] = value

    def __setitem__(self, name, value):
        super().__setitem__(str(name).lower(), value.decode() if isinstance(value, bytes) else str(value))

    def __getitem__(self, name):
        return super().__getitem__(name.lower())

    def __contains__(self, name):
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name, default=None):
        return super().get(name.lower(), default)

    def update(self, entries=None, **more):
        for name, value in _pairs(entries) + list(more.items()):
            self[name] = value


class Request:
    def __init__(self, method, url, headers=None):
        self.method, self.url, self.headers = method, url, headers


class Response:
    def __init__(self, status_code, headers=None, text="", request=None):
        self.status_code, self.headers, self.text, self.request = status_code, Headers(headers), text, request
        self.url = request.url if request else None
        self.encoding, self.http_version, self.cookies, self.history = "utf-8", "HTTP/1.1", {}, []

    @property
    def content(self):
        return self.text.encode("utf-8", "surrogatepass")

    @property
    def reason_phrase(self):
        from http import HTTPStatus
        try:
            return HTTPStatus(self.status_code).phrase
        except ValueError:
            return ""

    is_informational = property(lambda self: 100 <= self.status_code < 200)
    is_success = property(lambda self: 200 <= self.status_code < 300)
    is_redirect = property(lambda self: 300 <= self.status_code < 400)
    is_client_error = property(lambda self: 400 <= self.status_code < 500)
    is_server_error = property(lambda self: 500 <= self.status_code < 600)
    is_error = property(lambda self: 400 <= self.status_code < 600)

    def json(self, **options):
        return _json.loads(self.text, **options)

    def read(self):
        return self.content

    async def aread(self):
        return self.content

    def iter_lines(self):
        return iter(self.text.splitlines())

    def raise_for_status(self):
        if self.is_success:
            return self
        kind = {1: "Informational response", 3: "Redirect response", 4: "Client error", 5: "Server error"}
        what = kind.get(self.status_code // 100, "Invalid status code")
        message = f"{what} '{self.status_code} {self.reason_phrase}' for url '{self.url}'"
        raise HTTPStatusError(message, request=self.request, response=self)

    def __repr__(self):
        return f"<Response [{self.status_code} {self.reason_phrase}]>"


class Timeout:
    def __init__(self, timeout=None, **parts):
        self.timeout = timeout


class Limits:
    def __init__(self, **parts):
        pass


class BasicAuth:
    def __init__(self, username, password):
        self.pair = (username, password)


def _pairs(entries):
    if not entries:
        return []
    return list(entries.items()) if hasattr(entries, "items") else list(entries)


def _query(entries):
    from urllib.parse import urlencode
    words = {True: "true", False: "false", None: ""}
    plain = []
    for name, value in _pairs(entries):
        for one in value if isinstance(value, (list, tuple)) else [value]:
            plain.append((name, words[one] if one is None or isinstance(one, bool) else one))
    return urlencode(plain)


def _text(value):
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        try:
            return bytes(value).decode("utf-8")
        except UnicodeDecodeError:
            raise RequestError("a body must be UTF-8 text here") from None
    raise TypeError(f"Unexpected type for 'content', {type(value)!r}")


def _request(method, url, base="", defaults=None, query=None, *, params=None, headers=None, content=None, data=None,
             json=None, files=None, auth=None, cookies=None, timeout=None, follow_redirects=None, extensions=None):
    if files:
        raise RequestError("files cannot be sent from a block; send their text as `content`")
    url = str(url)
    if base and "://" not in url:
        url = str(base).rstrip("/") + "/" + url.lstrip("/") if url else str(base)
    for entries in (query, params):
        more = entries.lstrip("?") if isinstance(entries, str) else _query(entries)
        if more:
            address, mark, fragment = url.partition("#")
            url = address + ("&" if "?" in address else "?") + more + mark + fragment
    sent = Headers(defaults)
    sent.update(headers)
    body, kind = None, None
    if content is not None:
        body = _text(content)
    elif json is not None:
        body, kind = _json.dumps(json, ensure_ascii=False, separators=(",", ":"), allow_nan=False), "application/json"
    elif data is not None:
        if isinstance(data, (str, bytes, bytearray)):
            body = _text(data)
        else:
            body, kind = _query(data), "application/x-www-form-urlencoded"
    if kind and "content-type" not in sent:
        sent["content-type"] = kind
    if cookies:
        sent["cookie"] = "; ".join(f"{name}={value}" for name, value in _pairs(cookies))
    if auth is not None:
        from base64 import b64encode
        name, password = auth.pair if isinstance(auth, BasicAuth) else auth
        sent["authorization"] = "Basic " + b64encode(f"{name}:{password}".encode()).decode()
    request = Request(str(method).upper(), url, sent)
    return request, {"http": {"method": request.method, "url": url, "headers": list(sent.items()), "body": body}}


_ERRORS = {"timeout": ReadTimeout, "invalid": UnsupportedProtocol, "denied": ConnectError}


def _response(request, answer):
    if "error" in answer:
        raise _ERRORS.get(answer.get("kind"), ConnectError)(answer["error"], request=request)
    reply = answer["http"]
    return Response(reply["status"], reply["headers"], reply["body"], request)


def request(method, url, **options):
    sent, message = _request(method, url, **options)
    return _response(sent, _ask_now(message))


def _of(method):
    def send(url, **options):
        return request(method, url, **options)
    send.__name__ = method.lower()
    return send


get, options, head, post, put, patch, delete = map(_of, ("GET", "OPTIONS", "HEAD", "POST", "PUT", "PATCH", "DELETE"))


def stream(*args, **kwargs):
    raise RequestError("streams are not available in a block; use get or request")


class _Client:
    def __init__(self, *, base_url="", headers=None, params=None, auth=None, cookies=None, timeout=None, **rest):
        self.base_url, self.headers, self.params = base_url, Headers(headers), params
        self.auth, self.cookies, self.timeout, self.is_closed = auth, dict(cookies or {}), timeout, False

    def _prepare(self, method, url, options):
        if self.is_closed:
            raise RuntimeError("Cannot send a request, as the client has been closed.")
        options.setdefault("auth", self.auth)
        options["cookies"] = {**self.cookies, **dict(_pairs(options.get("cookies")))}
        return _request(method, url, self.base_url, self.headers, self.params, **options)

    stream = staticmethod(stream)


class Client(_Client):
    def request(self, method, url, **options):
        sent, message = self._prepare(method, url, options)
        return _response(sent, _ask_now(message))

    def close(self):
        self.is_closed = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class AsyncClient(_Client):
    async def request(self, method, url, **options):
        sent, message = self._prepare(method, url, options)
        return _response(sent, await _ask(message))

    async def aclose(self):
        self.is_closed = True

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.is_closed = True


def _methods(client):
    for method in ("GET", "OPTIONS", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
        def send(self, url, _method=method, **options):
            return self.request(_method, url, **options)
        send.__name__ = method.lower()
        setattr(client, method.lower(), send)


_methods(Client)
_methods(AsyncClient)
del _methods
