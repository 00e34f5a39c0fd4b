"""The generator behind tools/generate_wire.py, one module per file that it writes."""
