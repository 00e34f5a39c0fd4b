"""One function for each method of AMQP that a client may send."""
