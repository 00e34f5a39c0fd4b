package com.rabbitmq.client.test.server;

public class HATests {
    public static boolean HA_TESTS_RUNNING = false;
}
