"""Dead letters: when a message leaves a queue unconsumed, and where it goes."""
