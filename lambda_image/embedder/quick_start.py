"""Imported before everything else by Lambda's entry, which turns it back on when it has started.

A start makes objects and drops few. Looking through them for garbage again and again while numpy
and ONNX Runtime are imported is a twelfth of the processor time of all imports.
"""

import gc

__all__: list[str] = []

gc.disable()
