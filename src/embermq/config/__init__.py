"""Settings: a TOML file, the environment, flags; each may override the one before.

    embermq.toml          bind = "127.0.0.1"          [tls] certificate = "server.pem"
    environment           EMBERMQ_BIND=0.0.0.0        EMBERMQ_TLS_CERTIFICATE=server.pem
    command line          --bind 0.0.0.0

Anything unknown or of the wrong kind is refused with a sentence that says where and why. `settings` says what
there is, `rule` what a value must look like, `loading` where values come from, `lines` where they stand.
"""

from embermq.config.loading import OTHER_VARIABLES, load
from embermq.config.rule import ConfigError
from embermq.config.settings import NAMES, SECTIONS, Config

__all__ = ["NAMES", "OTHER_VARIABLES", "SECTIONS", "Config", "ConfigError", "load"]
