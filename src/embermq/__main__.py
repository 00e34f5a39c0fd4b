"""`python -m embermq` is the same command as `embermq`."""

from embermq.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
