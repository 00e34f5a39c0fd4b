"""What tests of several folders share: AMQP clients, disks that fail, domains without sockets."""
