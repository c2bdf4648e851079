"""When a windowed aggregation emits (KIP-825)."""

from __future__ import annotations

from enum import Enum


class EmitStrategy(Enum):
    """`on_window_update()` emits each update, `on_window_close()` only what a window has when it closes."""

    ON_WINDOW_UPDATE = "on_window_update"
    ON_WINDOW_CLOSE = "on_window_close"

    @staticmethod
    def on_window_update() -> EmitStrategy:
        """Emit each update of a window."""
        return EmitStrategy.ON_WINDOW_UPDATE

    @staticmethod
    def on_window_close() -> EmitStrategy:
        """Emit one result for each window, when it closes."""
        return EmitStrategy.ON_WINDOW_CLOSE
