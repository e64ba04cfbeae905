//! Ordinary use of Python blocks.

mod support;

use std::time::Duration;

use flowloom_core::chat::Message;
use flowloom_core::effect::{GenerateReply, HttpReply, HttpRequest};
use flowloom_core::{Code, json};
use flowloom_runtime::effects::{CodeRunner as _, EffectFuture, SandboxHost};
use flowloom_sandbox::{PythonLimits, Sandbox, SandboxConfig};
use support::{AnsweringRun, context_of, execute_body, python_request, run_block, test_config};

#[tokio::test]
async fn a_block_returns_a_dict() {
    let sandbox = Sandbox::new(test_config());
    let request = python_request(
        &execute_body("return {'sum': sum(inputs['of']), 'text': inputs['text']}"),
        "{\"of\":[1,2],\"text\":\"é\\u0000\"}",
    );
    let reply = sandbox.run_python(&request, &AnsweringRun::default(), &context_of("local")).await.unwrap();
    assert_eq!(json::write_json(&reply.output), "{\"sum\":3,\"text\":\"é\\u0000\"}");
    assert_eq!(reply.memory, []);
}

#[tokio::test]
async fn every_listed_module_can_be_imported() {
    let python = PythonLimits { warm: 0, ..PythonLimits::default() };
    let sandbox = Sandbox::new(SandboxConfig { python, ..test_config() });
    // The list is in the error for another module. No library can be loaded while a block runs, so all are there before.
    let source = execute_body(
        "try:\n\
         \x20   __import__('nothing')\n\
         except ImportError as error:\n\
         \x20   names = str(error).partition('Available: ')[2].split(', ')\n\
         modules = [__import__(name) for name in names]\n\
         for name in ('shift_jis', 'euc_kr', 'gb18030', 'big5', 'big5hkscs', 'iso2022_jp'):\n\
         \x20   'a'.encode(name)\n\
         import hashlib, zoneinfo\n\
         return {'all': len(modules) > 50, 'hash': hashlib.pbkdf2_hmac('sha256', b'a', b'b', 1).hex()[:4]}",
    );
    // The first block gets the interpreter that is waiting, the second one that starts for it.
    for _ in 0..2 {
        assert_eq!(run_block(&sandbox, &source).await.as_deref(), Ok("{\"all\":true,\"hash\":\"ee21\"}"));
    }
}

#[tokio::test]
async fn ordinary_python_works() {
    let sandbox = Sandbox::new(test_config());
    let source = r#"
from __future__ import annotations
import asyncio, base64, copy, hashlib, heapq, html, operator, string, textwrap, time, urllib.parse, uuid
import collections.abc, os.path
from bisect import bisect
from collections import Counter, OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field, asdict
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Optional, TypedDict

class Kind(Enum):
    A = "a"

@dataclass
class Point:
    x: int
    y: Optional[int] = None
    tags: list[str] = field(default_factory=list)

class Base:
    def name(self): return "base"

class Derived(Base):
    def name(self): return super().name() + "+"

def squares(n):
    for i in range(n):
        yield i * i

def execute(inputs, context):
    try:
        [][1]
    except IndexError as error:
        caught = str(error)
    match inputs:
        case {}: matched = True
    return {
        "list": list(squares(4)), "set": sorted({3, 1}), "comp": {k: v for k, v in zip("ab", (1, 2))},
        "point": asdict(Point(1)), "derived": Derived().name(), "caught": caught, "enum": Kind.A.value,
        "stats": statistics.median([1, 3, 2]), "math": math.floor(2.7), "count": Counter("aab")["a"],
        "acc": list(itertools.accumulate([1, 2, 3])), "re": re.findall(r"\d+", "a1b22"),
        "reduce": functools.reduce(operator.add, [1, 2]), "date": str(datetime.date(2020, 1, 2)),
        "json": json.loads("[1]"), "rnd": 0 <= random.random() < 1, "path": os.path.join("a", "b"),
        "decimal": str(Decimal("1.1") + 1), "fraction": str(Fraction(1, 3)), "hash": hashlib.sha256(b"x").hexdigest()[:8],
        "b64": base64.b64encode(b"hi").decode(), "url": urllib.parse.quote("a b"), "html": html.escape("<"),
        "dedent": textwrap.dedent("  a"), "uuid": len(str(uuid.uuid4())), "bisect": bisect([1, 2], 1),
        "heap": heapq.nlargest(1, [1, 5]), "matched": matched, "tuple": (1, 2), "letters": string.ascii_lowercase[:3],
        "eval": eval("1 + 1"), "zone": datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc).isoformat(),
    }
"#;
    let expected = concat!(
        r#"{"list":[0,1,4,9],"set":[1,3],"comp":{"a":1,"b":2},"point":{"x":1,"y":null,"tags":[]},"derived":"base+","#,
        r#""caught":"list index out of range","enum":"a","stats":2,"math":2,"count":2,"acc":[1,3,6],"re":["1","22"],"#,
        r#""reduce":3,"date":"2020-01-02","json":[1],"rnd":true,"path":"a/b","decimal":"2.1","fraction":"1/3","#,
        r#""hash":"2d711642","b64":"aGk=","url":"a%20b","html":"&lt;","dedent":"a","uuid":36,"bisect":1,"heap":[5],"#,
        r#""matched":true,"tuple":[1,2],"letters":"abc","eval":2,"zone":"2020-01-01T00:00:00+00:00"}"#,
    );
    assert_eq!(run_block(&sandbox, source).await.as_deref(), Ok(expected));
}

#[tokio::test]
async fn the_context_has_the_user_and_the_memory() {
    let sandbox = Sandbox::new(test_config());
    let source = execute_body(
        "memory = context['memory']\nmemory['visits'] += 1\nmemory['new'] = {'a': [1]}\ndel memory['old']\n\
         assert memory['kept'] == [1.5, {'a': None}] and not context.get('supabase')\n\
         return {'user': context['user']['name'], 'id': context.user_id, 'keys': list(context)}",
    );
    let reply =
        sandbox.run_python(&python_request(&source, "{}"), &AnsweringRun::default(), &context_of("ada")).await.unwrap();
    let keys = "[\"user\",\"memory\",\"user_id\",\"supabase\"]";
    assert_eq!(json::write_json(&reply.output), format!("{{\"user\":\"Ada\",\"id\":\"ada\",\"keys\":{keys}}}"));
    let memory: Vec<String> = reply
        .memory
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_ref().map_or("-".into(), json::write_json)))
        .collect();
    assert_eq!(memory, ["new={\"a\":[1]}", "old=-", "visits=2"]);
    let error =
        run_block(&sandbox, &execute_body("context['supabase'].table('x').select('*')\nreturn {}")).await.unwrap_err();
    assert!(error.message.contains("context[\"memory\"]"), "{}", error.message);
}

#[tokio::test]
async fn a_block_asks_its_run() {
    let sandbox = Sandbox::new(test_config());
    let run = AnsweringRun::with_answers(&["Sure: {\"a\": 1} done", "two"]);
    let source = execute_body(
        "first = parse_json_output(await call_llm(system='s', user='u'))\n\
         second = await call_llm_messages([{'role': 'user', 'content': 'm'}])\n\
         got = httpx.get('http://a.test/x', params={'q': 'a b', 'n': [1, True]}, headers={'X-Key': '1'})\n\
         async with httpx.AsyncClient(base_url='http://b.test/v1', headers={'x-c': 'd'}, timeout=5) as client:\n\
         \x20   posted = await client.post('/p', json={'k': 'é'})\n\
         \x20   form = await client.put('p', data={'a': '1&2'}, auth=('u', 'p'))\n\
         posted.raise_for_status()\n\
         try:\n\
         \x20   httpx.get('http://a.test/missing').raise_for_status()\n\
         except httpx.HTTPStatusError as error:\n\
         \x20   missing = f'{error} {error.response.status_code}'\n\
         try:\n\
         \x20   httpx.delete('http://a.test/denied')\n\
         except httpx.RequestError as error:\n\
         \x20   denied = f'{type(error).__name__}: {error}'\n\
         return {'first': first, 'second': second, 'status': got.status_code, 'ok': got.is_success,\n\
         \x20   'type': got.headers['Content-Type'], 'json': got.json(), 'text': posted.text == posted.content.decode(),\n\
         \x20   'missing': missing, 'denied': denied, 'raw': parse_json_output('none {')}",
    );
    let reply = sandbox.run_python(&python_request(&source, "{}"), &run, &context_of("local")).await.unwrap();
    let expected = concat!(
        r#"{"first":{"a":1},"second":"two","status":200,"ok":true,"type":"application/json","#,
        r#""json":{"line":"GET http://a.test/x?q=a+b&n=1&n=true [x-key: 1]"},"text":true,"#,
        r#""missing":"Client error '404 Not Found' for url 'http://a.test/missing' 404","#,
        r#""denied":"ConnectError: the address is not allowed","raw":{"raw":"none {"}}"#
    );
    assert_eq!(json::write_json(&reply.output), expected);
    let asked = run.asked.lock().unwrap().clone();
    assert_eq!(
        asked,
        [
            "System: s",
            "User: u",
            "User: m",
            "GET http://a.test/x?q=a+b&n=1&n=true [x-key: 1]",
            "POST http://b.test/v1/p [x-c: d, content-type: application/json] {\"k\":\"é\"}",
            "PUT http://b.test/v1/p [x-c: d, content-type: application/x-www-form-urlencoded, authorization: Basic dTpw] a=1%262",
            "GET http://a.test/missing []",
            "DELETE http://a.test/denied []",
        ]
    );
}

/// A run that answers no request below `/together/` before the number that the barrier counts are open.
struct GatheringRun {
    barrier: tokio::sync::Barrier,
    answering: AnsweringRun,
}

impl SandboxHost for GatheringRun {
    fn send_http<'a>(&'a self, request: HttpRequest) -> EffectFuture<'a, HttpReply> {
        Box::pin(async move {
            if request.url.to_redacted_text().contains("/together/") {
                let all_open = tokio::time::timeout(Duration::from_secs(60), self.barrier.wait());
                all_open.await.expect("the block opens all requests before it waits for an answer");
            }
            self.answering.send_http(request).await
        })
    }

    fn generate_reply<'a>(&'a self, messages: Vec<Message>) -> EffectFuture<'a, GenerateReply> {
        self.answering.generate_reply(messages)
    }
}

#[tokio::test]
async fn requests_overlap_where_the_block_gathers() {
    let sandbox = Sandbox::new(test_config());
    let run = GatheringRun { barrier: tokio::sync::Barrier::new(20), answering: AnsweringRun::default() };
    let source = execute_body(
        "import asyncio\n\
         async def one(i, folder=''):\n\
         \x20   async with httpx.AsyncClient() as client:\n\
         \x20       return (await client.get(f'http://a.test/{folder}{i}')).status_code + i\n\
         many = await asyncio.gather(*[one(i, 'together/') for i in range(20)])\n\
         task = asyncio.create_task(one(100))\n\
         await asyncio.sleep(0)\n\
         try:\n\
         \x20   await asyncio.wait_for(asyncio.sleep(60), timeout=0.01)\n\
         except asyncio.TimeoutError:\n\
         \x20   late = True\n\
         failed = await asyncio.gather(one('x'), asyncio.sleep(0, 'fine'), return_exceptions=True)\n\
         async with asyncio.Semaphore(2):\n\
         \x20   return {'many': sum(many), 'task': await task, 'late': late, 'failed': [type(failed[0]).__name__, failed[1]]}",
    );
    let reply = sandbox.run_python(&python_request(&source, "{}"), &run, &context_of("local")).await.unwrap();
    assert_eq!(
        json::write_json(&reply.output),
        "{\"many\":4190,\"task\":300,\"late\":true,\"failed\":[\"TypeError\",\"fine\"]}"
    );
}

#[tokio::test]
async fn a_plain_function_may_ask_too() {
    let sandbox = Sandbox::new(test_config());
    let run = AnsweringRun::with_answers(&["{\"x\": 2}", "b"]);
    let source = "import asyncio\ndef execute(inputs, context):\n    text = call_llm('s', 'u')\n    \
                  return {**parse_json_output(text), 'b': asyncio.run(later())}\n\
                  async def later():\n    return await call_llm('s', 'u')\n";
    let reply = sandbox.run_python(&python_request(source, "{}"), &run, &context_of("local")).await.unwrap();
    assert_eq!(json::write_json(&reply.output), "{\"x\":2,\"b\":\"b\"}");
}

#[tokio::test]
async fn errors_name_the_type_and_the_line() {
    let sandbox = Sandbox::new(test_config());
    for (source, code, expected) in [
        (
            execute_body("x = 1\nreturn {'a': x / 0}"),
            Code::BlockFailed,
            "ZeroDivisionError: division by zero (line 3 of the block)",
        ),
        (execute_body("raise KeyError('k')"), Code::BlockFailed, "KeyError: 'k' (line 2 of the block)"),
        (execute_body("return {'a': json.loads('{')}"), Code::BlockFailed, "JSONDecodeError: Expecting property name"),
        ("def execute(:\n".into(), Code::BlockFailed, "SyntaxError: invalid syntax (line 1 of the block)"),
        (
            execute_body("import subprocess\nreturn {}"),
            Code::BlockFailed,
            "ImportError: Module 'subprocess' is not allowed. Available: __future__, abc",
        ),
        (
            "import requests\nasync def execute(i, c):\n    return {}\n".into(),
            Code::BlockFailed,
            "ImportError: Module 'requests' is not allowed.",
        ),
        (
            "x = 1\n".into(),
            Code::BlockResult,
            "the source_code of the block is missing the function execute(inputs, context)",
        ),
        (execute_body("return open('/etc/hosts').read()"), Code::BlockFailed, "NameError: name 'open' is not defined"),
        (execute_body("return {'x': os.system('id')}"), Code::BlockFailed, "AttributeError: os.system is not here"),
        (execute_body("raise RuntimeError"), Code::BlockFailed, "RuntimeError (line 2 of the block)"),
    ] {
        let error = run_block(&sandbox, &source).await.unwrap_err();
        assert_eq!(error.code, code, "{source}: {}", error.message);
        assert!(error.message.starts_with(expected), "{source}: {}", error.message);
    }
}

#[tokio::test]
async fn the_environment_is_what_was_configured() {
    let environment = vec![("SERPER_API_KEY".to_owned(), "key".to_owned())];
    let sandbox = Sandbox::new(SandboxConfig { environment, ..test_config() });
    let source = execute_body(
        "import os\nfrom os import getenv\n\
         return {'all': dict(os.environ), 'one': getenv('SERPER_API_KEY'), 'none': os.getenv('HOME', 'none')}",
    );
    let expected = "{\"all\":{\"SERPER_API_KEY\":\"key\"},\"one\":\"key\",\"none\":\"none\"}";
    assert_eq!(run_block(&sandbox, &source).await.as_deref(), Ok(expected));
}

#[tokio::test]
async fn without_python_blocks_are_refused() {
    let none = Sandbox::new(SandboxConfig { interpreters: Vec::new(), ..test_config() });
    let error = run_block(&none, &execute_body("return {}")).await.unwrap_err();
    assert_eq!(error.code, Code::NoSandbox);
    assert!(error.message.contains("python3 was not found"), "{}", error.message);
    let wrong = Sandbox::new(SandboxConfig { interpreters: vec!["/bin/true".into()], ..test_config() });
    let missing = wrong.check_availability().await.python.unwrap_err();
    assert!(missing.contains("not a usable Python"), "{missing}");
}
