"""What the API shows of things, as JSON values, in lists and pages."""
