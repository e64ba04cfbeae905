# The first code of an interpreter in the sandbox: reads the compiled runner from the channel.
import marshal, os

def exactly(count):
    parts = []
    while count:
        part = os.read(3, count)
        if not part:
            os._exit(0)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)

def frame():
    head = exactly(20)
    return head[:16], exactly(int.from_bytes(head[16:], "big"))

codes = marshal.loads(frame()[1])
exec(codes["runner"], {"__name__": "runner", "codes": codes, "exactly": exactly})
