"""The end of a producer on an event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.client.producer.record_accumulator import RecordAccumulator
    from barnabas.client.producer.sender import Sender
    from barnabas.client.telemetry.client_telemetry_sender import ClientTelemetrySender
    from barnabas.network.loop_driver import LoopDriver


class ProducerEnding:
    """The end of a producer: what is left is sent, then all is shut down. Keeps no reference to the producer."""

    def __init__(
        self,
        driver: LoopDriver,
        sender: Sender,
        accumulator: RecordAccumulator,
        abort_timeout: float,
        telemetry: ClientTelemetrySender | None = None,
    ) -> None:
        self._driver = driver
        self._sender = sender
        self._accumulator = accumulator
        self._abort_timeout = abort_timeout
        self._telemetry = telemetry
        self._is_forced = False
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            self._accumulator.close()
            self._sender.wakeup()
            await self._driver.until(lambda: self._is_forced or not self._sender.has_work())
            if not self._is_forced and self._sender.is_ending_transaction():
                self._sender.wakeup()
                await self._driver.until(
                    lambda: self._is_forced or not self._sender.is_ending_transaction(), self._abort_timeout
                )
            if self._telemetry is not None:
                await self._push_telemetry(self._telemetry)
        finally:
            self._driver.stop()
            self._sender.shut_down()

    async def _push_telemetry(self, telemetry: ClientTelemetrySender) -> None:
        telemetry.initiate_close(self._driver.now())
        self._sender.wakeup()
        await self._driver.until(lambda: self._is_forced or telemetry.is_done)

    async def wait(self, timeout: float | None) -> None:
        """Wait for the end, and force it after `timeout` seconds. Who is cancelled leaves it going on."""
        done, _ = await asyncio.wait([self.task], timeout=timeout)
        if not done:
            self._is_forced = True
            self._driver.look_again()
            await asyncio.wait([self.task])
