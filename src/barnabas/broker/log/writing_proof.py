"""What a log must be able to do before it is served again, once the disk has failed under it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.log.checkpoint_files import encode_checkpoint
from barnabas.broker.log.disk_steps import carried_out

if TYPE_CHECKING:
    from barnabas.broker.log.disk_steps import Steps
    from barnabas.broker.log.file_records import FileRecords
    from barnabas.broker.log.filesystem import FileSystem


def prove_writing(filesystem: FileSystem, records: FileRecords, epochs_path: str) -> Steps[None]:
    """Open the file of the active segment, write behind its end and take that back; replace the leader epochs and sync.

    That is what an append, one that fails, and a flush do. Both files have what they had before; the byte that a crash
    may leave is one that recovery cuts. Raises `OSError`.
    """
    file = records.file
    size = file.size()
    file.pwrite(b"\0", size)
    file.truncate(size)
    epochs = filesystem.read(epochs_path) if filesystem.exists(epochs_path) else encode_checkpoint([])
    yield from carried_out(partial(filesystem.replace, epochs_path, epochs, sync=True))
