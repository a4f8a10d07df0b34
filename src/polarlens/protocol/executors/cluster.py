"""The connection to Ray: a cluster by address, or a Ray of this machine's own; and how many workers each node holds."""

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Many
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from polarlens.errors import UsageError

PATIENCE = 3.0  # seconds, for an address to answer
OVERHEAD = 2**30  # bytes of a worker beside two copies of the weights


def require_ray() -> None:
    """Raise UsageError naming the extra where Ray is not installed."""
    try:
        found = find_spec("ray") is not None
    except ValueError:  # a module that is set to None
        found = False
    if not found:
        fix = "Install it: pip install 'polarlens[ray]'."
        raise UsageError("the package ray is not installed", where="--executor ray", fix=fix)


@contextmanager
def connection(address: str | None) -> Iterator[None]:
    """Connected to Ray; what was started or connected here is ended on exit.

    address: `auto`, or HOST:PORT of a cluster that this machine is part of; None starts a Ray on this machine. A Ray
    that this process is connected to already is used as it is. Raises UsageError where the address is not answered.
    """
    hook, handler = sys.excepthook, signal.getsignal(signal.SIGTERM)
    import ray

    if ray.is_initialized():
        sys.excepthook = hook
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    if address is not None:
        _check(address)
    own: dict[str, Any] = {} if address else {"num_cpus": _cores(), "include_dashboard": False}
    try:
        ray.init(
            address or "local", log_to_driver=False, logging_level=logging.ERROR, configure_logging=True,
            namespace="polarlens", **own,
        )  # fmt: skip
    except (ConnectionError, ValueError, RuntimeError) as error:
        what = f"Ray cannot be reached: {str(error).strip().splitlines()[0].rstrip('.')}"
        fix = "Check the address, and that this machine runs a node of the cluster (ray start --address=...)."
        raise UsageError(what, where=f"--ray-address {address}" if address else "--executor ray", fix=fix) from None
    finally:  # Ray sets its own, which would end a run with another exit status
        sys.excepthook = hook
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        ray.shutdown()


def _check(address: str) -> None:
    """Raise UsageError unless something listens there; Ray itself would try for minutes."""
    where, fix = f"--ray-address {address}", "Give HOST:PORT of the head node (port 6379 by default), or auto."
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", "auto")
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit() or int(port) > 65535:
        raise UsageError("this is no address of a Ray cluster", where=where, fix=fix)
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"nothing answers at this address ({why})", where=where, fix=fix) from None


def _cores() -> int | None:
    """Cores this process may use where those are fewer than the machine's; None leaves the count to Ray."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = len(os.sched_getaffinity(0))
    return allowed if allowed < (os.cpu_count() or allowed) else None


def places(nodes: Many[Mapping[str, Any]], *, device: str, threads: int, weights: int) -> dict[str, tuple[int, float]]:
    """Node id -> (workers it holds, cores of each), for the nodes of `ray.nodes()` that hold any.

    With cuda one worker per GPU; with mps one per node; else one per `threads` cores, as far as the node's memory holds
    two copies of the weights (bytes) for each and OVERHEAD. A node that has a core at all holds one.
    """
    found = {}
    for node in nodes:
        offered = node["Resources"]
        cores, gpus = offered.get("CPU", 0.0), int(offered.get("GPU", 0))
        if not node["Alive"]:
            continue
        if device == "cuda":
            if gpus:
                found[node["NodeID"]] = (gpus, min(1.0, cores / gpus))
        elif cores >= 1:
            fitting = int(min(cores // threads, offered.get("memory", float("inf")) // (2 * weights + OVERHEAD)))
            count = 1 if device == "mps" else max(1, fitting)
            found[node["NodeID"]] = (count, min(float(threads), cores))
    return found
