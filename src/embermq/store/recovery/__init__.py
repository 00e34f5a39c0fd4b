"""Opening a log again after a stop or a crash; checking one without opening it."""
