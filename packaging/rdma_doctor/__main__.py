"""Replaces this process by the program that the wheel installed: python3 -m rdma_doctor ARGUMENT..."""

import importlib.metadata
import os
import pathlib
import signal
import sys

NAME = "rdma-doctor"


def places():
    # The record of what was installed names the script's folder in each of pip's schemes.
    for file in importlib.metadata.files(NAME) or []:
        if file.name == NAME:
            yield pathlib.Path(file.locate())
    # `pip install --target DIR` moves the script to DIR/bin; the record has its former place.
    yield pathlib.Path(__file__).resolve().parent.parent / "bin" / NAME


def main():
    program = next((place for place in places() if place.is_file()), None)
    if program is None:
        print(f"rdma_doctor: the program {NAME} is not installed: install the wheel again", file=sys.stderr)
        return 70
    # Python ignores these signals, and a program that it becomes would inherit that.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
