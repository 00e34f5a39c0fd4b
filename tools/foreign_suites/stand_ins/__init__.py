"""Things that suites expect around a broker: a rabbitmqctl, a Docker, a runner for JUnit's tests."""
