"""Other people's tests, run against EmberMQ and RabbitMQ alike: `make foreign-suites`.

The test suites of client libraries know nothing of EmberMQ, so what they find is not what we thought of.
Each suite runs twice, in the same way: against RabbitMQ, which says what the suite is worth here, and
against EmberMQ. A test that does not end alike is a difference, and every difference that is meant has its
reason in the table of suites. The results are in docs/foreign-suites.md.

    python -m tools.foreign_suites                  all suites, both brokers, then the comparison
    python -m tools.foreign_suites pika amqpstorm   only these
    python -m tools.foreign_suites --broker embermq pika
    python -m tools.foreign_suites --compare        nothing is run: what the last results say
    python -m tools.foreign_suites --document       write the table of docs/foreign-suites.md

Suites want a broker at localhost:5672, 5671 and 15672, so each run has a private network (`unshare --net`,
which needs root) in which nothing but the broker and the suite exists.
"""
