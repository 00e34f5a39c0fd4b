"""`embermq serve`: start the broker."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from pathlib import Path

from embermq.cli.command.config import load_config
from embermq.cli.errors import USAGE_ERROR
from embermq.config import Config, ConfigError

FAILURE = 1


def add_serve(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    default = Config()
    serve = commands.add_parser(
        "serve",
        help="start the broker",
        description="Start the broker; SIGTERM or Ctrl-C stops it cleanly.",
        epilog="Every option can also be given as EMBERMQ_… in the environment (EMBERMQ_AMQP_PORT=5673) or "
        "in the configuration file (amqp_port = 5673). Flags win over the environment, that over the file.",
    )
    serve.add_argument("--config", metavar="FILE", type=Path, help="configuration file (TOML)")
    serve.add_argument(
        "--data-dir", metavar="DIR", help=f"where the broker keeps its data ({default.data_dir})"
    )
    serve.add_argument("--bind", metavar="ADDR", help=f"address to listen on ({default.bind})")
    serve.add_argument(
        "--amqp-port", metavar="N", help=f"port for AMQP, 0 picks a free one ({default.amqp_port})"
    )
    serve.add_argument(
        "--http-port", metavar="N", help=f"port for management, 0 picks one ({default.http_port})"
    )
    serve.add_argument(
        "--log-level", metavar="LEVEL", help=f"debug, info, warning or error ({default.log_level})"
    )
    serve.add_argument(
        "--sync",
        metavar="MODE",
        help=f"what a confirm means: always (on disk) or os (with the operating system) ({default.sync})",
    )
    serve.add_argument(
        "--memory-high-watermark",
        metavar="PART",
        help=f"share of the memory beyond which publishers wait ({default.memory_high_watermark})",
    )
    serve.add_argument(
        "--disk-free-limit",
        metavar="N",
        help="free bytes on disk below which publishers wait (a hundredth of the disk, 200 MiB at most)",
    )
    serve.add_argument(
        "--default-delivery-limit",
        metavar="N",
        help="how often a message may come back to a quorum queue, or to a durable one with dead letters; "
        f"0 is for ever ({default.default_delivery_limit})",
    )
    serve.add_argument(
        "--consumer-timeout",
        metavar="MS",
        help=f"milliseconds in which a delivery must be acknowledged, 0 is none ({default.consumer_timeout})",
    )
    serve.add_argument(
        "--heartbeat", metavar="S", help=f"seconds between heartbeats, 0 is none ({default.heartbeat})"
    )
    serve.add_argument("--frame-max", metavar="N", help=f"largest frame in bytes ({default.frame_max})")
    serve.add_argument("--channel-max", metavar="N", help=f"channels per connection ({default.channel_max})")
    serve.add_argument(
        "--max-message-size", metavar="N", help=f"largest message body in bytes ({default.max_message_size})"
    )
    serve.set_defaults(run=run_serve)


def told(error: Exception) -> str:
    """What went wrong and with which file, without the number that the system has for it."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror.lower()}" if error.filename else error.strerror


def run_serve(options: argparse.Namespace) -> int:
    """Signals that come too early wait: SIGHUP would end the broker, and an import may swallow SIGINT."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP, signal.SIGINT))
    try:
        return serve_until_stopped(options)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve_until_stopped(options: argparse.Namespace) -> int:
    from embermq.app import log_setup
    from embermq.app.serve import run
    from embermq.store.errors import StoreFailure

    try:
        config = load_config(options)
        log_setup.set_up(config)
    except ConfigError as error:
        print(f"embermq: {error}", file=sys.stderr)
        return USAGE_ERROR
    try:
        run(config, lambda line: print(line, flush=True), lambda: load_config(options))
    except (OSError, StoreFailure, ConfigError) as error:
        print(f"embermq: {told(error)}", file=sys.stderr)
        return FAILURE
    # Everything is on disk and closed. Python would now take a million messages apart, one by one.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
