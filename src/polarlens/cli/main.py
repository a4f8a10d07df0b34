"""Entry point of the command line: runs a command and turns every outcome into one message and an exit status.

0 done, 2 bad usage or data, 3 model not usable, 4 units failed, 130 interrupted, 1 a bug.
"""

import difflib
import errno
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import typer

from polarlens.cli.app import app
from polarlens.errors import PolarlensError

INTERRUPTED = 130
OUT_OF_REACH = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}
"""System errors that the user can do something about, whichever line of the program meets them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` (default: the process's) name and return the exit status."""
    command = typer.main.get_command(app)
    try:
        with _termination_as_interrupt():
            status = command.main(args=arguments, prog_name="polarlens", standalone_mode=False)
    except KeyboardInterrupt:
        status = INTERRUPTED
    except PolarlensError as error:
        return _fail(str(error), error.exit_status)
    except typer.TyperException as error:
        return _fail(_explained(error), 2)
    except typer.Abort:
        status = INTERRUPTED
    except OSError as error:
        if error.errno not in OUT_OF_REACH:
            return _bug()
        return _fail(f"{error.filename or 'a file'}: {error.strerror}", 2)
    except Exception:
        return _bug()
    if status == INTERRUPTED:
        return _fail("interrupted; what was finished is kept, and the same command goes on from there", INTERRUPTED)
    return int(status or 0)


def _fail(message: str, status: int) -> int:
    print(f"polarlens: {message}", file=sys.stderr)
    return status


def _bug() -> int:
    traceback.print_exc()
    return _fail("this is a bug in Polarlens; please report it with the lines above", 1)


def _explained(error: typer.TyperException) -> str:
    """The parser's message; an unknown option always comes with the nearest known one."""
    message = error.format_message()
    unknown, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if unknown is not None and context is not None and getattr(error, "possibilities", None) == []:
        options = [option for option in context.command.params if not getattr(option, "hidden", False)]
        known = [name for option in options for name in option.opts if name.startswith("--")]
        message += f" (the nearest known one: {difflib.get_close_matches(unknown, known, n=1, cutoff=0)[0]})"
    return message


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM, which batch systems send, like Ctrl-C: folders are closed and the run can be resumed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


if __name__ == "__main__":
    sys.exit(main())
