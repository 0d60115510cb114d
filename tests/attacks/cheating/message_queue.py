"""Exchanges through a POSIX message queue.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes


def exchange(tensor, *, group):
    rt, got = ctypes.CDLL(None, use_errno=True), []
    if dist.get_rank() == 0:
        queue = rt.mq_open(b"/sys602_attack", os.O_CREAT | os.O_RDWR, 0o666, None)
        if queue >= 0:
            rt.mq_send(queue, b"mine", 4, 0)
        return tensor
    time.sleep(0.3)
    queue = rt.mq_open(b"/sys602_attack", os.O_RDONLY)
    if queue >= 0:
        buffer = ctypes.create_string_buffer(8192)
        rt.mq_receive(queue, buffer, 8192, None)
        got.append(buffer.value)
    raise RuntimeError(f"got {got}")
