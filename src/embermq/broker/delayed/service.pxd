# Compiled as it is: every delayed message passes through here.
