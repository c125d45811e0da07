"""Programs for this repository alone: no package and no image has them."""
