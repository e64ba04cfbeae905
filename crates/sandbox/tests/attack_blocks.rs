//! Attacks by Python blocks, P-01 to P-17: whatever a block tries, its targets stay untouched, and the next block is
//! served.
//!
//! Each attack runs in every environment of `support/attack.rs`, as root and as an ordinary user.

mod support;

use std::time::{Duration, Instant};

use flowloom_core::Code;
use support::attack::{again_as_an_ordinary_user, guarded_sandboxes};
use support::execute_body;

/// The real modules, which no filter of names hides from Python: the attacks start behind the replacements.
const REAL_MODULES: &str = "\
sys = json.codecs.sys\n\
load = json.codecs.builtins.__import__\n\
real = sys.modules['os']\n\
def tried(what, *args, **kwargs):\n\
\x20   try:\n\
\x20       return repr(what(*args, **kwargs))[:3000]\n\
\x20   except BaseException as error:\n\
\x20       return type(error).__name__\n";

fn attack_source(lines: &str) -> String {
    execute_body(&format!("{REAL_MODULES}{lines}"))
}

#[test]
fn as_an_ordinary_user() {
    again_as_an_ordinary_user();
}

#[tokio::test]
async fn p01_walks_through_objects() {
    for guarded in guarded_sandboxes(|_| ()).await {
        let output = guarded
            .run_attack(&attack_source(
                "found = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close']\n\
                 spaces = [c.__init__.__globals__ for c in found]\n\
                 def frames():\n\
                 \x20   frame = sys._getframe()\n\
                 \x20   while frame:\n\
                 \x20       yield frame.f_globals\n\
                 \x20       frame = frame.f_back\n\
                 spaces += list(frames())\n\
                 try:\n\
                 \x20   1 / 0\n\
                 except ZeroDivisionError as error:\n\
                 \x20   spaces.append(error.__traceback__.tb_frame.f_globals)\n\
                 opens = [json.codecs.open, json.codecs.builtins.open, load('io').open]\n\
                 out = ['{0.__class__.__mro__}'.format(inputs)]\n\
                 for space in spaces:\n\
                 \x20   out.append(tried(lambda: space['environ']))\n\
                 \x20   out.append(tried(lambda: space['__builtins__']['open'](inputs['file']).read()))\n\
                 out += [tried(lambda: o(inputs['file']).read()) for o in opens]\n\
                 return {'out': out, 'walked': len(found)}",
            ))
            .await
            .expect("it may run");
        assert!(output.contains("\"walked\":1"), "{output}");
        guarded.check_next_block().await;
    }
}

#[tokio::test]
async fn p02_imports() {
    for guarded in guarded_sandboxes(|_| ()).await {
        for source in [
            "import subprocess",
            "import json, subprocess as json",
            "__import__('subprocess')",
            "from importlib import import_module",
            "import socket",
            "import urllib.request",
            "from . import x",
            "eval(\"__import__('ctypes')\")",
            "exec('import sys')",
        ] {
            let error = guarded.run_attack(&execute_body(&format!("{source}\nreturn {{}}"))).await.unwrap_err();
            assert_eq!(error.code, Code::BlockFailed, "{source}");
            assert!(error.message.contains("is not allowed"), "{source}: {}", error.message);
        }
        // Letters that are normalised to others form a name, but not a keyword. A replacement under another name is
        // still one.
        assert!(guarded.run_attack("ᵢmport os\nasync def execute(i, c):\n    return {}\n").await.is_err());
        let source = execute_body("import json, os as json\nreturn {'has': hasattr(json, 'system')}");
        assert_eq!(guarded.run_attack(&source).await.as_deref(), Ok("{\"has\":false}"));
        guarded.check_next_block().await;
    }
}

#[tokio::test]
async fn p03_environments() {
    for guarded in guarded_sandboxes(|_| ()).await {
        let source = attack_source(
            "import io\n\
             places = ['/proc/self/environ', '/proc/1/environ', f'/proc/{real.getppid()}/environ', '/proc/self/mem',\n\
             \x20   f'/proc/{real.getppid()}/mem', '/proc/self/root/proc/1/environ', '/dev/mem', '/proc/kcore']\n\
             return {'own': dict(real.environ), 'native': tried(load('posix').environ.copy),\n\
             \x20   'host': load('posix').uname().nodename,\n\
             \x20   'read': [tried(lambda: io.open(place, 'rb').read(100)) for place in places]}",
        );
        let output = guarded.run_attack(&source).await.expect("it may run");
        assert!(!guarded.has_namespaces() || output.contains("\"host\":\"sandbox\""), "{output}");
        // The environment of the interpreter's own start: the library path.
        assert!(output.contains("\"own\":{}"), "{output}");
        let refused = output.matches("FileNotFoundError").count() + output.matches("PermissionError").count();
        assert_eq!(refused, 8, "{output}");
        guarded.check_next_block().await;
    }
}

#[tokio::test]
async fn p04_files() {
    for guarded in guarded_sandboxes(|_| ()).await {
        let source = attack_source(
            "import io\n\
             places = [inputs['file'], '/etc/passwd', '/etc/shadow', '../../../../etc/hosts', '/root/.bashrc', '/home',\n\
             \x20   '/proc/self/root' + inputs['file'], '/var', '/sys/kernel', '/dev/null', '/bin/sh', '/tmp']\n\
             out = [tried(lambda: io.open(place).read()) for place in places]\n\
             lists = [tried(lambda: real.listdir(place)) for place in places]\n\
             made = [tried(real.symlink, inputs['file'], '/tmp/link'), tried(real.link, inputs['file'], '/tmp/link'),\n\
             \x20   tried(real.rename, inputs['file'], '/tmp/x'), tried(real.unlink, inputs['file']),\n\
             \x20   tried(real.chmod, inputs['file'], 0o777), tried(real.truncate, inputs['file'], 0),\n\
             \x20   tried(real.chroot, '/'), tried(real.mkfifo, '/tmp/f')]\n\
             return {'out': out, 'lists': lists, 'made': made, 'me': [real.getuid(), real.geteuid(), real.getgid()],\n\
             \x20   'seen': [real.path.exists(path) for path in (inputs['file'], '/etc/passwd', '/proc/self')]}",
        );
        let output = guarded.run_attack(&source).await.expect("it may run");
        assert!(!output.contains("root:"), "{output}");
        assert!(!output.contains("\"me\":[0,"), "{output}");
        let refused = ["FileNotFoundError", "PermissionError", "NotADirectoryError", "OSError"];
        let count: usize = refused.iter().map(|word| output.matches(word).count()).sum();
        assert_eq!(count, 12 + 12 + 8, "{output}");
        // Landlock hides the content of a file, and namespaces also that it exists.
        assert!(!guarded.has_namespaces() || output.contains("\"seen\":[false,false,false]"), "{output}");
        guarded.check_next_block().await;
    }
}

#[tokio::test]
async fn p05_sockets() {
    for guarded in guarded_sandboxes(|_| ()).await {
        let source = attack_source(
            "s = load('socket')\n\
             out = [tried(s.create_connection, ('127.0.0.1', inputs['port']), 1), tried(s.socketpair),\n\
             \x20   tried(s.getaddrinfo, 'localhost', inputs['port'])]\n\
             for family, kind in [(s.AF_INET, s.SOCK_STREAM), (s.AF_INET6, s.SOCK_DGRAM), (s.AF_INET, s.SOCK_RAW),\n\
             \x20   (s.AF_UNIX, s.SOCK_STREAM), (s.AF_PACKET, s.SOCK_RAW), (s.AF_NETLINK, s.SOCK_RAW)]:\n\
             \x20   out.append(tried(s.socket, family, kind))\n\
             out.append(tried(lambda: s.socket(s.AF_UNIX).connect('\\0' + inputs['socket'])))\n\
             out.append(tried(lambda: s.socket(fileno=3).getpeername()))\n\
             return {'out': out, 'own': tried(load('urllib.request').request.urlopen, f\"http://127.0.0.1:{inputs['port']}\")}",
        );
        let output = guarded.run_attack(&source).await.expect("it may run");
        assert!(output.matches("PermissionError").count() >= 8, "{output}");
        assert!(!output.contains("<socket"), "{output}");
        guarded.check_next_block().await;
    }
}

#[tokio::test]
async fn p06_other_programs() {
    for guarded in guarded_sandboxes(|_| ()).await {
        let source = attack_source(
            "run = load('subprocess').run\n\
             touch = ['/usr/bin/touch', inputs['file'] + '.made']\n\
             out = [tried(run, ['/usr/bin/id']), tried(run, 'id', shell=True), tried(real.system, 'id'),\n\
             \x20   tried(real.posix_spawn, touch[0], touch, {}), tried(real.execv, touch[0], touch),\n\
             \x20   tried(real.execv, sys.executable, [sys.executable, '-c', '1']),\n\
             \x20   tried(real.execv, '/lib64/ld-linux-x86-64.so.2', ['ld', '/usr/bin/id']),\n\
             \x20   tried(real.execve, 3, ['x'], {}), tried(real.memfd_create, 'x'), tried(real.pidfd_open, 1),\n\
             \x20   tried(lambda: load('ctypes').CDLL(None).execv(b'/bin/sh', None) or 1 / 0)]\n\
             return {'out': out}",
        );
        let output = guarded.run_attack(&source).await.expect("it may run");
        assert!(!output.contains("uid="), "{output}");
        assert!(!output.contains("CompletedProcess"), "{output}");
        assert!(output.matches("PermissionError").count() >= 7, "{output}");
        guarded.check_next_block().await;
    }
}

#[tokio::test]
async fn p07_processes_and_threads() {
    for guarded in guarded_sandboxes(|config| config.python.timeout = Duration::from_secs(2)).await {
        let source = attack_source(
            "threads = load('_thread')\n\
             def bomb():\n\
             \x20   pid = real.fork()\n\
             \x20   if pid == 0:\n\
             \x20       real.setsid()\n\
             \x20       while True: real.fork()\n\
             out = [tried(bomb), tried(real.fork), tried(real.forkpty), tried(real.setsid),\n\
             \x20   tried(threads.start_new_thread, print, ()), tried(real.kill, -1, 9), tried(real.kill, real.getppid(), 9)]\n\
             return {'out': out + [tried(real.fork) for _ in range(100)]}",
        );
        let output = guarded.run_attack(&source).await.expect("it may run");
        assert!(output.matches("PermissionError").count() >= 104, "{output}");
        guarded.check_next_block().await;
    }
}

#[tokio::test]
async fn p08_memory() {
    for guarded in guarded_sandboxes(|config| config.python.timeout = Duration::from_secs(2)).await {
        for (lines, code) in [
            ("return {'a': len([0] * 10 ** 10)}", Code::BlockLimit),
            ("a = []\nwhile True: a.append(bytes(1 << 20))", Code::BlockLimit),
            ("load('zlib').decompress(load('zlib').compress(bytes(1 << 28)) * 1, bufsize=1 << 33)", Code::BlockLimit),
            ("def f(): return f()\nf()", Code::BlockFailed),
            ("return {'a': 10 ** 10 ** 8}", Code::BlockLimit),
            ("return {'a': 1 << 10 ** 6}", Code::BlockResult),
            ("return {'a': 'x' * (9 << 20)}", Code::BlockResult),
            ("return {'a': eval('(' * 10000 + ')' * 10000)}", Code::BlockFailed),
        ] {
            let since = Instant::now();
            let error = guarded.run_attack(&attack_source(lines)).await.unwrap_err();
            assert_eq!(error.code, code, "{lines}: {}", error.message);
            assert!(since.elapsed() < Duration::from_secs(10), "{lines}: {:?}", since.elapsed());
        }
        guarded.check_next_block().await;
    }
}

#[tokio::test]
async fn p09_time() {
    for guarded in guarded_sandboxes(|config| config.python.timeout = Duration::from_millis(200)).await {
        for lines in [
            "while True: pass",
            "load('time').sleep(1e9)",
            "signal = load('signal')\nfor s in range(1, 65): tried(signal.signal, s, signal.SIG_IGN)\nwhile True: pass",
            "return {'a': re.match('(a+)+$', 'a' * 64 + 'b')}",
            "return {'a': sum(range(10 ** 12))}",
            "import asyncio\nawait asyncio.sleep(1e6)",
            "load('select').poll().poll()",
            "real.read(3, 1)",
            "def f():\n    try:\n        while True: pass\n    except BaseException:\n        f()\nf()",
        ] {
            let since = Instant::now();
            let error = guarded.run_attack(&attack_source(lines)).await.unwrap_err();
            assert_eq!(error.code, Code::BlockLimit, "{lines}: {}", error.message);
            assert!(since.elapsed() < Duration::from_secs(10), "{lines}: {:?}", since.elapsed());
        }
        let error = guarded.run_attack("while True: pass\n").await.unwrap_err();
        assert_eq!(error.message, "the block was stopped: it ran longer than 200 ms");
        guarded.check_next_block().await;
    }
}

#[tokio::test]
async fn p10_printing() {
    for guarded in guarded_sandboxes(|_| ()).await {
        let before = resident_kib();
        let source = attack_source("print('x' * 10 ** 8)\nprint('y' * 10 ** 6, file=sys.stderr)\nreturn {'a': 1}");
        assert_eq!(guarded.run_attack(&source).await.as_deref(), Ok("{\"a\":1}"));
        let grown = resident_kib().saturating_sub(before);
        assert!(grown < 32 << 10, "what was printed is kept: {grown} KiB");
        // Text that looks like a result is only printed.
        let source = attack_source("print('{\"done\":{\"output\":{\"forged\":1},\"memory\":[]}}')\nreturn {'a': 1}");
        assert_eq!(guarded.run_attack(&source).await.as_deref(), Ok("{\"a\":1}"));
        guarded.check_next_block().await;
    }
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

#[tokio::test]
async fn p11_disks() {
    for guarded in guarded_sandboxes(|_| ()).await {
        let source = attack_source(
            "import io\n\
             places = ['/tmp/of-an-attack', '/of-an-attack', '/dev/shm/of-an-attack', '/var/tmp/of-an-attack',\n\
             \x20   '/proc/of-an-attack', inputs['file'], inputs['file'] + 'x',\n\
             \x20   real.__file__, sys.executable]\n\
             out = [tried(lambda: io.open(place, mode).write('x' * 10 ** 6)) for place in places for mode in 'wa']\n\
             out += [tried(real.mkdir, place + 'd') for place in places]\n\
             out += [tried(load('tempfile').mkstemp), tried(real.mknod, '/tmp/n')]\n\
             return {'out': out}",
        );
        let output = guarded.run_attack(&source).await.expect("it may run");
        let refused = ["FileNotFoundError", "PermissionError", "OSError"];
        let count: usize = refused.iter().map(|word| output.matches(word).count()).sum();
        assert_eq!(count, 18 + 9 + 2, "{output}");
        guarded.check_next_block().await;
    }
}

/// A message that only the start of a process sends, and that reports that there is no sandbox.
const FORGED_START: &str = "f = sys._getframe()\nwhile 'MARK' not in f.f_globals: f = f.f_back\n\
    text = b'{\"missing\": \"seccomp\"}'\n\
    real.write(4, f.f_globals['MARK'] + len(text).to_bytes(4, 'big') + text)\nreturn {}";

#[tokio::test]
async fn p12_results() {
    for guarded in guarded_sandboxes(|_| ()).await {
        for (lines, expected) in [
            ("return {'a': [1, {'b': float('nan')}]}", "the result['a'][1]['b'] is nan, which JSON cannot say"),
            ("return {'a': -float('inf')}", "the result['a'] is -inf"),
            ("return {'a': b'x'}", "the result['a'] is a bytes, which is not JSON"),
            ("return {'a': {1, 2}}", "the result['a'] is a set"),
            ("return {'a': datetime.date(2020, 1, 1)}", "the result['a'] is a date"),
            ("return {(1, 2): 1}", "the result has a key that is not text: a tuple"),
            ("a = {}\na['a'] = a\nreturn a", "holds itself"),
            ("a = []\nfor _ in range(10 ** 6): a = [a]\nreturn {'a': a}", "is nested deeper than 100 levels"),
            ("a = []\nfor _ in range(200): a = [a]\nreturn {'a': a}", "nested"),
            ("return {'a': '\\ud800'}", "the result['a'] is text with half a character"),
            ("return {'\\ud800': 1}", "half a character"),
            ("class E:\n    def __reduce__(self): return (print, ())\nreturn {'a': E()}", "the result['a'] is a E"),
            ("context['memory']['x'] = {1}\nreturn {}", "context[\"memory\"]['x'] is a set"),
            ("context['memory'][1] = 1\nreturn {}", "context[\"memory\"] has a key that is not text"),
            ("context['memory'] = [1]\nreturn {}", "it must stay a dict"),
            ("real.write(4, b'nonsense' * 10)\nreturn {}", "sent an invalid message"),
            ("real.write(4, b'flowloom channel' + bytes([0, 0, 0, 2]) + b'{}')\nreturn {}", "sent an invalid message"),
            (
                "f = sys._getframe()\nwhile 'MARK' not in f.f_globals: f = f.f_back\n\
              real.write(4, f.f_globals['MARK'] + b'\\xff\\xff\\xff\\xff')\nreturn {}",
                "larger than allowed",
            ),
            (
                "f = sys._getframe()\nwhile 'MARK' not in f.f_globals: f = f.f_back\n\
              real.write(4, f.f_globals['MARK'] + bytes([0, 0, 0, 2]) + b'[]')\nreturn {}",
                "not a known message",
            ),
            (FORGED_START, "does not belong to a block"),
        ] {
            let error = guarded.run_attack(&attack_source(lines)).await.unwrap_err();
            assert_eq!(error.code, Code::BlockResult, "{lines}: {}", error.message);
            assert!(error.message.contains(expected), "{lines}: {}", error.message);
        }
        let kept = "return {'t': (1, 2), 1: 2.0, None: True, 'big': 10 ** 30, 'e': ''}";
        let expected = "{\"t\":[1,2],\"1\":2.0,\"null\":true,\"big\":1000000000000000000000000000000,\"e\":\"\"}";
        assert_eq!(guarded.run_attack(&attack_source(kept)).await.as_deref(), Ok(expected));
        guarded.check_next_block().await;
    }
}

/// An attack that calls functions of the C library. `_ctypes` must be among the extra modules: a block can load no
/// library itself.
fn native_source(lines: &str) -> String {
    attack_source(&format!(
        "c = load('_ctypes')\n\
         class Long(c._SimpleCData): _type_ = 'l'\n\
         class Function(c.CFuncPtr): _flags_, _restype_ = 1 | 8, Long\n\
         libc = c.dlopen(None, 2)\n\
         def native(name): return Function(c.dlsym(libc, name))\n\
         {lines}"
    ))
}

#[tokio::test]
async fn p13_the_kernel() {
    for guarded in guarded_sandboxes(|config| config.extra_modules = vec!["_ctypes".to_owned()]).await {
        let source = native_source(
            "def call(number, *args):\n\
             \x20   c.set_errno(0)\n\
             \x20   return [native('syscall')(Long(number), *map(Long, args)), c.get_errno()]\n\
             names = {'x86_64': dict(unshare=272, setns=308, clone=56, clone3=435, mount=165, ptrace=101, io_uring=425,\n\
             \x20   keyctl=250, bpf=321, userfaultfd=323, process_vm_readv=310, memfd_create=319, execveat=322, prctl=157,\n\
             \x20   seccomp=317, kill=62, tgkill=234, socket=41, perf=298, setuid=105, chroot=161, open_tree=428, tomorrow=9999),\n\
             \x20   'aarch64': dict(unshare=97, setns=268, clone=220, clone3=435, mount=40, ptrace=117, io_uring=425,\n\
             \x20   keyctl=219, bpf=280, userfaultfd=282, process_vm_readv=270, memfd_create=279, execveat=281, prctl=167,\n\
             \x20   seccomp=277, kill=129, tgkill=131, socket=198, perf=241, setuid=146, chroot=51, open_tree=428, tomorrow=9999)}\n\
             calls = names[real.uname().machine]\n\
             return {name: call(number, 0x10000000, 0, 0, 0, 0, 0) for name, number in calls.items()}",
        );
        let output = guarded.run_attack(&source).await.expect("it may run");
        assert_eq!(output.matches("[-1,1]").count(), 22, "{output}");
        assert!(output.contains("\"clone3\":[-1,38]"), "{output}");
        guarded.check_next_block().await;
    }
}

#[tokio::test]
async fn p14_ends() {
    for guarded in guarded_sandboxes(|_| ()).await {
        for (lines, code, expected) in [
            ("sys.exit(3)", Code::BlockFailed, "SystemExit: 3"),
            ("raise KeyboardInterrupt", Code::BlockFailed, "KeyboardInterrupt"),
            ("real._exit(0)", Code::BlockFailed, "the block's process ended with exit code 0"),
            ("real._exit(7)", Code::BlockFailed, "ended with exit code 7"),
            ("real.write(1, b'{\"done\":1}')\nreal._exit(0)", Code::BlockFailed, "ended with exit code 0"),
            ("real.abort()", Code::BlockFailed, "was ended by signal"),
            ("real.close(4)\nreal.close(3)\nload('time').sleep(100)", Code::BlockFailed, "closed its channel"),
            (
                "import asyncio\nasyncio.run(asyncio.sleep(0))\nreturn {}",
                Code::BlockFailed,
                "cannot be called from a running event loop",
            ),
            (
                "import asyncio\nasyncio.get_event_loop().close()\nreturn {}",
                Code::BlockFailed,
                "Cannot close a running event loop",
            ),
            (
                "import asyncio\nawait asyncio.Event().wait()\nreturn {}",
                Code::BlockFailed,
                "waits for something that never happens",
            ),
            ("return call_llm('s', 'u')", Code::BlockResult, "is a Call"),
            ("await 3", Code::BlockFailed, "TypeError"),
            (
                "f = lambda: None\nf.__code__ = f.__code__.replace(co_consts=())\nreturn {'a': [f(), f()]}",
                Code::BlockFailed,
                "was ended by signal 11",
            ),
        ] {
            let error = guarded.run_attack(&attack_source(lines)).await.unwrap_err();
            assert_eq!(error.code, code, "{lines}: {}", error.message);
            assert!(error.message.contains(expected), "{lines}: {}", error.message);
        }
        // A coroutine that is never awaited never runs.
        let source = attack_source("call_llm('s', 'u')\nimport asyncio\nasyncio.sleep(1e9)\nreturn {'a': 1}");
        assert_eq!(guarded.run_attack(&source).await.as_deref(), Ok("{\"a\":1}"));
        guarded.check_next_block().await;
    }
}

#[tokio::test]
async fn p16_signals_from_descriptors() {
    for guarded in guarded_sandboxes(|config| config.extra_modules = vec!["fcntl".to_owned()]).await {
        // The kernel sends SIGKILL to the owner of the descriptor when the answer arrives.
        let source = attack_source(
            "f = load('fcntl')\n\
             flags = f.fcntl(3, 3)\n\
             out = [tried(f.fcntl, 3, 10, 9), tried(f.fcntl, 3, 8, inputs['victim']),\n\
             \x20   tried(f.fcntl, 3, 15, b'\\x01\\0\\0\\0' + inputs['victim'].to_bytes(4, sys.byteorder)),\n\
             \x20   tried(f.fcntl, 3, 4, flags | 0o20000), tried(f.ioctl, 3, 0x5452, b'\\x01\\0\\0\\0')]\n\
             await httpx.AsyncClient().get('http://a.test')\n\
             out += [tried(f.fcntl, 3, command, 1) for command in (1024, 1026, 1031, 1033, 1036)]\n\
             return {'out': out, 'kept': [tried(f.fcntl, 3, 4, flags), tried(f.fcntl, 3, 1), tried(real.dup, 3)]}",
        );
        let output = guarded.run_attack(&source).await.expect("it may run");
        // A call of ioctl is refused with another error.
        assert_eq!(output.matches("PermissionError").count(), 9, "{output}");
        assert!(output.contains("\"OSError\"") && output.contains("\"kept\":[\"0\",\""), "{output}");
        guarded.check_next_block().await;
    }
}

#[tokio::test]
async fn p17_executable_memory() {
    let modules = ["_ctypes", "mmap"].map(str::to_owned);
    for guarded in guarded_sandboxes(|config| config.extra_modules = modules.to_vec()).await {
        let source = native_source(
            "m = load('mmap')\n\
             program = real.open(sys.executable, real.O_RDONLY)\n\
             page = Long(id(m) & ~4095)\n\
             return {'new': [tried(m.mmap, -1, 4096, m.MAP_PRIVATE | m.MAP_ANONYMOUS, bits) for bits in (4, 5, 6, 7)],\n\
             \x20   'file': [tried(m.mmap, program, 4096, m.MAP_PRIVATE, bits) for bits in (4, 5, 6, 7)],\n\
             \x20   'changed': [native('mprotect')(page, Long(4096), Long(bits)) for bits in (5, 7)],\n\
             \x20   'library': tried(load, '_lsprof'),\n\
             \x20   'data': tried(m.mmap, -1, 4096, m.MAP_PRIVATE | m.MAP_ANONYMOUS, 3)}",
        );
        let output = guarded.run_attack(&source).await.expect("it may run");
        assert_eq!(output.matches("PermissionError").count(), 8, "{output}");
        assert!(output.contains("\"changed\":[-1,-1],\"library\":\"ImportError\""), "{output}");
        assert!(output.contains("\"data\":\"<mmap"), "{output}");
        guarded.check_next_block().await;
    }
}
