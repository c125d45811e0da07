"""Whether documents that others wrote are read whole: files of Debian's and npm's packages."""
