"""Programs and modules for people who work on EmberMQ; nothing here is installed with the package."""
