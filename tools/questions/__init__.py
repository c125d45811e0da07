"""Whether searches find the right pages: three sets of questions on manuals of Debian."""
