# Runs once, outside the sandbox and without untrusted code: reports the files and folders of an interpreter, and
# compiles the runner for it.
import importlib, json, marshal, os, struct, sys

sources = json.load(sys.stdin)
# Modules with shared libraries of their own that blocks may need; missing ones are ignored. The runner imports them
# before it runs a block, because no library can be loaded after that. `extra` is for tests.
extensions = ("_bisect _blake2 _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw _contextvars _csv "
              "_datetime _decimal _hashlib _heapq _json _md5 _multibytecodec _opcode _pickle _posixsubprocess _queue "
              "_random _sha1 _sha2 _sha256 _sha3 _sha512 _statistics _struct _typing _uuid _zoneinfo array binascii cmath "
              "fcntl grp math select unicodedata zlib").split()
libraries = []
for name in extensions + sources.pop("extra").split():
    try:
        module = importlib.import_module(name)
    except ImportError:
        continue
    if (getattr(module, "__file__", None) or "").endswith(".so"):
        libraries.append(name)

with open("/proc/self/maps") as maps:
    files = {line.split(None, 5)[5].strip() for line in maps if "/" in line and "x" in line.split(None, 2)[1]}

executable = os.path.realpath(sys.executable)
stdlib = os.path.dirname(os.path.realpath(os.__file__))
dynload = {os.path.dirname(os.path.realpath(module.__file__))
           for name, module in list(sys.modules.items())
           if getattr(module, "__file__", None) and module.__file__.endswith(".so")}
folders = [stdlib] + sorted(path for path in dynload if os.path.commonpath([path, stdlib]) != stdlib)

def loader():
    with open(executable, "rb") as file:
        head = file.read(64)
        if head[:5] != b"\x7fELF\x02":
            return None
        start, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        for i in range(count):
            file.seek(start + i * size)
            entry = file.read(size)
            if struct.unpack_from("<I", entry)[0] == 3:
                offset, length = struct.unpack_from("<Q", entry, 8)[0], struct.unpack_from("<Q", entry, 32)[0]
                file.seek(offset)
                return file.read(length).rstrip(b"\0").decode()
    return None

interpreter_loader = loader()
if interpreter_loader:
    files.add(os.path.realpath(interpreter_loader))
files = sorted(path for path in files
               if path != executable and os.path.isfile(path)
               and not any(path.startswith(folder + "/") for folder in folders))
links = []
for folder in {os.path.dirname(path) for path in files}:
    for entry in os.scandir(folder):
        if entry.is_symlink() and os.path.realpath(entry.path) in files:
            links.append([entry.path, os.path.realpath(entry.path)])

zones = "/usr/share/zoneinfo"
if os.path.isdir(zones):
    folders.append(os.path.realpath(zones))
masked = [os.path.join(stdlib, name) for name in ("site-packages", "dist-packages", "test")]
codes = {name: compile(text, "<" + name + ">", "exec", dont_inherit=True) for name, text in sources.items()}
codes["libraries"] = libraries

json.dump({
    "version": sys.version.split()[0],
    "supported": sys.version_info >= (3, 9),
    "codes": marshal.dumps(codes).hex(),
    "view": {
        "interpreter": executable,
        "loader": interpreter_loader,
        "files": files,
        "links": sorted(links),
        "folders": folders,
        "masked": [path for path in masked if os.path.isdir(path)],
    },
}, sys.stdout)
