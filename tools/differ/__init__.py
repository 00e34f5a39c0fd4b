"""Programs of AMQP and HTTP requests that run against two brokers, whose every answer is compared.

A program is data (`program.py`); `side.py` runs one against one broker and writes down what it saw;
`compare.py` finds the first difference; `shrink.py` makes a short program of a long one that shows it;
`generate.py` and `web.py` throw the dice. `python -m tools.differ --help` is the way in.
"""
