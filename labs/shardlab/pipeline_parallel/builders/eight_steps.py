"""DualPipe's eight steps, for one rank of a half pipeline. `dualpipe` and `dualpipe_v` choose the half."""

from shardlab.pipeline_parallel.builders.lane import Lane


def eight_steps(lane: Lane, near: int, far: int, *, to_end: int, length: int, num_microbatches: int) -> None:
    """Append one rank's slots to `lane`.

    Two streams of microbatches meet on each rank: those in stage `near` have just entered the pipeline, and those in
    stage `far` are about to leave it. A forward of one stream is overlapped with a backward of the other.

    to_end: hops from this rank to the end where its `near` stream enters. length: L, ranks from there to the middle.
    num_microbatches: n, the number in each stream, 2L or more.
    Source: DeepSeek-V3, 2024, section 3.2.1, figure 5. The step numbers are those of `step` in deepseek-ai/DualPipe.
    """
    to_middle = length - 1 - to_end

    for _ in range(2 * to_middle):  # 1: F of the near stream
        lane.forward(near)

    for _ in range(to_end + 1):  # 2: F F
        lane.forward(near)
        lane.forward(far)

    for _ in range(to_middle):  # 3: I W F, the first backwards, not overlapped yet
        lane.input_gradient(far)
        lane.weight_gradient()
        lane.forward(far)

    for pair in range(num_microbatches - 2 * length + to_end + 1):  # 4: F&B F&B, the steady state
        if pair == 0 and to_middle == 0:
            lane.forward(near)  # in the middle, the first pair is not overlapped: a rank waits for its F
            lane.backward(far)
        else:
            lane.overlap(near, far)
        lane.overlap(far, near)

    for _ in range(to_middle):  # 5: B F&B
        lane.backward(far)
        lane.overlap(far, near)

    backwards = [stage for _ in range(to_end + 1) for stage in (far, near)]
    for place, stage in enumerate(backwards):  # 6: B B; the second half postpones its W
        if place > to_end:
            lane.input_gradient(stage)
        else:
            lane.backward(stage)

    for _ in range(to_middle):  # 7: W I
        lane.weight_gradient()
        lane.input_gradient(near)

    while lane.weights_left():  # 8: W
        lane.weight_gradient()
