"""EmberMQ measured against RabbitMQ: `python -m bench --list`, `make bench`, docs/performance.md."""
