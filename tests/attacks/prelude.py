sys = json.codecs.sys
load = json.codecs.builtins.__import__
real = sys.modules['os']
def tried(what, *args, **kwargs):
    try:
        return repr(what(*args, **kwargs))[:3000]
    except BaseException as error:
        return type(error).__name__
