"""Views: the domain's objects as JSON values, in lists and pages."""
