"""`embermq`: what a person or a script types."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from embermq import __version__
from embermq.cli.api import USAGE_ERROR, CommandFailed
from embermq.cli.completion import add_completion
from embermq.cli.configuration import add_config, load_config
from embermq.cli.doctor import add_doctor
from embermq.cli.messages import add_consume, add_publish
from embermq.cli.overview import add_connection, add_definitions, add_status
from embermq.cli.people import add_permission, add_policy, add_user
from embermq.cli.perf import add_perf
from embermq.cli.pipelines import add_pipeline, add_sql
from embermq.cli.queues import add_queue
from embermq.cli.store import add_store
from embermq.cli.top import add_top
from embermq.cli.topology import add_binding, add_exchange, add_vhost
from embermq.config import Config, ConfigError

FAILURE = 1
INTERRUPTED = 130  # as shells have it: 128 + SIGINT


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="embermq",
        description="EmberMQ, a message broker that speaks AMQP 0-9-1.",
        epilog="Run 'embermq serve' and connect any AMQP 0-9-1 client to amqp://guest:guest@localhost/.",
    )
    top.add_argument("--version", action="version", version=f"EmberMQ {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    add_serve(commands)
    for add in (
        add_status,
        add_top,
        add_publish,
        add_consume,
        add_perf,
        add_queue,
        add_exchange,
        add_binding,
        add_vhost,
        add_user,
        add_permission,
        add_policy,
        add_connection,
        add_definitions,
        add_pipeline,
        add_sql,
        add_config,
        add_doctor,
        add_store,
        add_completion,
    ):
        add(commands)
    return top


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


def run_serve(options: argparse.Namespace) -> int:
    from embermq.app import logs, run
    from embermq.store.failure import StoreFailure

    try:
        config = load_config(options)
    except ConfigError as error:
        print(f"embermq: {error}", file=sys.stderr)
        return USAGE_ERROR
    logs.set_up(config)
    try:
        run(config, lambda line: print(line, flush=True), lambda: load_config(options))
    except (OSError, StoreFailure, ConfigError) as error:
        print(f"embermq: {error}", file=sys.stderr)
        return FAILURE
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except CommandFailed as failure:
        print(f"embermq: {failure}", file=sys.stderr)
        return failure.code
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
