"""The command line with a broker of its own."""

from tests.support.cli_command import broker as broker
from tests.support.cli_command import run as run
