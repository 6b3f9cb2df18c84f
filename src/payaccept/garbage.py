"""How a process that serves many at a time collects its garbage."""

import gc


def spare_the_collector() -> None:
    """Let it look past what lives as long as the process, and less often at the rest.

    Requests and deliveries leave no cycles worth looking for every 700 objects; at a thousand requests in flight the
    full collections were a tenth of the process's time, and its longest pauses: 50 ms in a worker.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
