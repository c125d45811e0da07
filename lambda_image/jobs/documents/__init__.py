"""Documents of many formats to titles, metadata and blocks of text, and those to chunks."""
