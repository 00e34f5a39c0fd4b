"""Rules of the connection, channel and transport half that have no test, each with the reason.

The report reads `NOT_TESTED` of every module in this folder whose name starts with `not_tested`.
"""

from tests.conformance.rules import NotTested

NOT_TESTED: list[NotTested] = []
