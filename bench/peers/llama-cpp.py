"""Serves a model file with the server of llama.cpp, until standard input is closed.

    python llama-cpp.py MODEL.gguf THREADS

Prints the address of the server when the model is loaded.
"""

import sys

import xllamacpp


def main() -> None:
    model, threads = sys.argv[1], int(sys.argv[2])
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = 4096
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
