"""Pages of docs/ and README.md: examples run, commands print what the page says, links lead somewhere."""
