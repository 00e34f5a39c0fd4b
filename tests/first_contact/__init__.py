"""The first hour with EmberMQ: what a newcomer installs, types and reads."""
